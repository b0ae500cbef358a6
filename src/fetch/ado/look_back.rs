//! Finished items, their earlier texts, and the commits they are linked to.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::query::{MAX_ROWS, Window, literal, query};
use super::read::MAX_BATCH;
use super::{AdoSource, wire};
use crate::fetch::http::Repeat;
use crate::fetch::pages::Parts;
use crate::fetch::{
    AsOf, DevelopmentLink, FetchError, FinishedItem, FinishedRequest, LinkedItem, PastText,
};
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

impl AdoSource {
    /// Items in a finished state that changed since a time, ordered by number.
    pub async fn finished(
        &self,
        request: &FinishedRequest,
    ) -> Result<Vec<FinishedItem>, FetchError> {
        let ids = self.finished_ids(request).await?;
        let names = LIGHT.map(String::from);
        let (decoder, mut found) = (self.fields.decoder(), Vec::with_capacity(ids.len()));
        for part in ids.chunks(MAX_BATCH) {
            for wire in self.read_fields(part, &names).await? {
                let item = decoder.item(wire, request.since).item;
                let (name, links) = (ItemName::Number(item.id.0), item.links.development);
                found.push(FinishedItem::new(item, name, links));
            }
        }
        Ok(found)
    }

    /// Ordered by id, so that a truncated page is followed by the next one.
    async fn finished_ids(&self, request: &FinishedRequest) -> Result<Vec<ItemId>, FetchError> {
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
                    let Some((early, late)) = by_date.halves(self.http.now()) else {
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
    pub async fn as_of(&self, ids: &[ItemId], at: Timestamp) -> Result<Vec<AsOf>, FetchError> {
        self.load_custom_fields().await?;
        let (names, decoder) = (self.fields.names(), self.fields.decoder());
        let moment = at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
        let more = json!({ "fields": *names, "asOf": moment });
        let mut found = Vec::with_capacity(ids.len());
        for wire in self.in_parts::<wire::AdoItem>(ids, more).await? {
            let mut item = self.with_comments(decoder.item(wire, at)).await?;
            // Comments have no history; later ones are dropped by their date.
            item.comments.retain(|comment| comment.at.is_some_and(|written| written <= at));
            found.push(AsOf { item, text: PastText::OfThatTime });
        }
        Ok(found)
    }

    /// The code changes these items are linked to.
    pub async fn development_links(&self, ids: &[ItemId]) -> Result<Vec<LinkedItem>, FetchError> {
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
    ) -> Result<Vec<wire::WithRelations>, FetchError> {
        self.in_parts(ids, json!({ "$expand": "relations" })).await
    }

    /// Items in batches; one that the tracker cannot return is omitted.
    async fn in_parts<T: DeserializeOwned>(
        &self,
        ids: &[ItemId],
        mut body: Value,
    ) -> Result<Vec<T>, FetchError> {
        let (mut found, mut parts) = (Vec::new(), Parts::of(ids, MAX_BATCH));
        body["errorPolicy"] = json!("omit");
        while let Some(part) = parts.next() {
            body["ids"] = json!(part);
            let read = self.batch(&body).await;
            found.extend(parts.take(part, read)?.into_iter().flatten());
        }
        parts.finish()?;
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
