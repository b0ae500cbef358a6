//! Finished items, their earlier texts, and the commits they are linked to.

use jiff::Timestamp;
use serde_json::json;

use super::fields::WELL_KNOWN_TEXTS;
use super::query::{MAX_ROWS, Window, literal, query};
use super::read::MAX_BATCH;
use super::{Inner, Repeat, wire};
use crate::fetch::failure::{BODY_TOO_LONG, Failure};
use crate::fetch::{AsOf, DevelopmentLink, FinishedItem, FinishedRequest, LinkedItem, PastText};
use crate::fixes::ItemName;
use crate::model::{FailureClass, ItemId};

/// Fields without texts; the texts are read as of an earlier time.
const LIGHT: [&str; 6] = [
    "System.Title",
    "System.WorkItemType",
    "System.AreaPath",
    "System.CreatedDate",
    "System.ChangedDate",
    super::fields::LINKED_DEVELOPMENT,
];

impl Inner {
    /// Items in a finished state that changed since a time, ordered by number.
    pub async fn finished(&self, request: FinishedRequest) -> Result<Vec<FinishedItem>, Failure> {
        let ids = self.finished_ids(&request).await?;
        let names = LIGHT.map(String::from);
        let (decoder, mut found) = (self.fields.decoder(), Vec::with_capacity(ids.len()));
        for part in ids.chunks(MAX_BATCH) {
            for wire in self.read_fields(part, &names).await? {
                let item = decoder.item(wire, request.since).item;
                found.push(FinishedItem {
                    id: item.id,
                    name: ItemName::Number(item.id.0),
                    title: item.title,
                    area: item.area_path.unwrap_or_default(),
                    item_type: item.item_type,
                    created_at: item.created_at,
                    development_links: item.links.development,
                });
            }
        }
        Ok(found)
    }

    /// Ordered by id, so that a truncated page is followed by the next one.
    async fn finished_ids(&self, request: &FinishedRequest) -> Result<Vec<ItemId>, Failure> {
        let condition = condition(request, &self.config.where_clause);
        let mut windows = vec![Window::since(request.since).by_id()];
        let (mut ids, mut top, mut slow_left) = (Vec::new(), MAX_ROWS, 6_u32);
        while let Some(window) = windows.pop() {
            match self.ask_text(&query(window, &condition), Some(top), Repeat::Safe).await {
                Ok(rows) => {
                    let last = rows.ids.last().copied().filter(|_| rows.ids.len() >= top);
                    ids.extend(rows.ids.into_iter().map(ItemId));
                    windows.extend(last.map(|last| Window { after_id: Some(last), ..window }));
                }
                Err(failure) if failure.class == FailureClass::TooMany && top > 1 => {
                    top /= 2;
                    windows.push(window);
                }
                Err(failure) if failure.class == FailureClass::TooSlow && slow_left > 0 => {
                    slow_left -= 1;
                    let by_date = Window { after_id: None, ..window };
                    let Some((early, late)) = by_date.halves(self.transport.now()) else {
                        return Err(failure);
                    };
                    // Rows of the slow query are requested again and counted once.
                    windows.extend([late.by_id(), early.by_id()]);
                }
                Err(failure) => return Err(failure),
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Items with their texts and comments as of `at`.
    pub async fn items_as_of(&self, ids: &[ItemId], at: Timestamp) -> Result<Vec<AsOf>, Failure> {
        if self.config.text_fields.iter().any(|name| !WELL_KNOWN_TEXTS.contains(&name.as_str())) {
            self.load_known_fields().await?;
        }
        let (names, decoder) = (self.fields.names(), self.fields.decoder());
        let mut found = Vec::with_capacity(ids.len());
        let mut todo: Vec<&[ItemId]> = ids.chunks(MAX_BATCH).rev().collect();
        while let Some(part) = todo.pop() {
            let moment = at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
            let body =
                json!({ "ids": part, "fields": *names, "asOf": moment, "errorPolicy": "omit" });
            let answer = match self.send_batch(&body).await {
                Ok(answer) => answer,
                Err(failure) if failure.has_code(BODY_TOO_LONG) && part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    todo.extend([second, first]);
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            for wire in self.items_of(&answer)? {
                let mut item = self.with_comments(decoder.item(wire, at)).await?;
                // Comments have no history; later ones are dropped by their date.
                item.comments.retain(|comment| comment.at.is_some_and(|written| written <= at));
                found.push(AsOf { item, text: PastText::OfThatTime });
            }
        }
        Ok(found)
    }

    /// The code changes these items are linked to.
    pub async fn development_links(&self, ids: &[ItemId]) -> Result<Vec<LinkedItem>, Failure> {
        let mut found = Vec::new();
        for item in self.with_relations(ids).await? {
            let artifacts = item.relations.iter().flatten().filter(|one| one.rel == "ArtifactLink");
            let links = artifacts.filter_map(|artifact| development_link(&artifact.url));
            found.extend(links.map(|link| (ItemId(item.id), link)));
        }
        Ok(found)
    }

    /// These items with their links.
    pub async fn with_relations(
        &self,
        ids: &[ItemId],
    ) -> Result<Vec<wire::WithRelations>, Failure> {
        let mut found = Vec::new();
        let mut todo: Vec<&[ItemId]> = ids.chunks(MAX_BATCH).rev().collect();
        while let Some(part) = todo.pop() {
            let body = json!({ "ids": part, "$expand": "relations", "errorPolicy": "omit" });
            let answer = match self.send_batch(&body).await {
                Ok(answer) => answer,
                // All fields of all items may exceed the size limit.
                Err(failure) if failure.has_code(BODY_TOO_LONG) && part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    todo.extend([second, first]);
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            let list: wire::Listing<wire::WithRelations> =
                self.transport.decode(&answer, "the links of work items")?;
            found.extend(list.value.into_iter().flatten());
        }
        Ok(found)
    }
}

fn condition(request: &FinishedRequest, watched: &str) -> String {
    let states: Vec<String> = request.states.iter().map(|state| literal(state)).collect();
    let finished = format!("[System.State] IN ({})", states.join(", "));
    match watched.trim() {
        watched if request.watched_only && !watched.is_empty() => {
            format!("{finished} AND ({watched})")
        }
        _ => finished,
    }
}

/// `vstfs:///Git/Commit/{project}%2F{repository}%2F{commit}`, `…/Git/PullRequestId/…`, and those of
/// GitHub. Branches, builds and TFVC changesets are ignored.
pub(super) fn development_link(url: &str) -> Option<DevelopmentLink> {
    let (kind, rest) =
        url.strip_prefix("vstfs:///")?.split_once('/').and_then(|(tool, rest)| {
            let (kind, rest) = rest.split_once('/')?;
            Some((format!("{tool}/{kind}").to_ascii_lowercase(), rest))
        })?;
    let decoded = percent_encoding::percent_decode_str(rest).decode_utf8_lossy();
    let last = decoded.rsplit('/').next()?;
    match kind.as_str() {
        "git/commit" | "github/commit" => {
            let is_id = last.len() >= 40 && last.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_id.then(|| DevelopmentLink::Commit(last.to_ascii_lowercase()))
        }
        "git/pullrequestid" | "github/pullrequest" => {
            last.parse().ok().map(DevelopmentLink::PullRequest)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_commits_and_pull_requests_are_read_and_others_are_not() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let found = |url: &str| development_link(url);
        let id = Some(DevelopmentLink::Commit(commit.to_owned()));
        assert_eq!(found(&format!("vstfs:///Git/Commit/p%2Fr%2F{commit}")), id);
        assert_eq!(found(&format!("vstfs:///Git/Commit/p%2fr%2f{}", commit.to_uppercase())), id);
        assert_eq!(found(&format!("vstfs:///GitHub/Commit/connection%2F{commit}")), id);
        let request = Some(DevelopmentLink::PullRequest(21));
        assert_eq!(found("vstfs:///Git/PullRequestId/p%2fr%2f21"), request);
        assert_eq!(found("vstfs:///GitHub/PullRequest/connection%2f21"), request);
        for other in [
            "vstfs:///Git/Ref/p%2Fr%2FGBmain",
            "vstfs:///Git/Commit/p%2Fr%2Fmain",
            "vstfs:///VersionControl/Changeset/12",
            "vstfs:///Build/Build/12",
            "https://example.invalid/12",
            "vstfs:///",
            "",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn the_watched_condition_is_kept_together() {
        let request = |watched_only| FinishedRequest {
            since: Timestamp::UNIX_EPOCH,
            states: vec!["Closed".into(), "Won't fix".into()],
            watched_only,
        };
        let finished = "[System.State] IN ('Closed', 'Won''t fix')";
        assert_eq!(condition(&request(false), "a OR b"), finished);
        assert_eq!(condition(&request(true), "a OR b"), format!("{finished} AND (a OR b)"));
        assert_eq!(condition(&request(true), " "), finished);
    }
}
