//! Finished issues and their earlier texts, for the backtest. Jira stores the old value of a field
//! with each change, so the texts are those of that time.

use jiff::Timestamp;

use super::decode::DecodedIssue;
use super::jql::Dates;
use super::read::MAX_PAGE;
use super::{JiraSource, wire};
use crate::fetch::http::Repeat;
use crate::fetch::text::{instant, without_controls};
use crate::fetch::{AsOf, FetchError, FinishedItem, FinishedRequest, PastText};
use crate::fixes::ItemName;
use crate::model::{FailureClass, Format, ItemId, TextField, WorkItem};

/// Fields to request; texts are read later, as of the time before the fix.
const LIGHT: [&str; 8] =
    ["summary", "status", "resolution", "issuetype", "updated", "created", "project", "components"];
/// Maximum pages read of one issue's changelog.
const MAX_PAGES: usize = 20;

impl JiraSource {
    /// Finished issues that changed since the requested time, ordered by number.
    pub async fn finished(
        &self,
        request: &FinishedRequest,
    ) -> Result<Vec<FinishedItem>, FetchError> {
        let query =
            |dates: &Dates| self.scope.finished_since(request.since, dates, request.watched_only);
        let (mut found, mut place) = (Vec::new(), None);
        loop {
            let size = (self.page_size(), Repeat::Safe);
            let page =
                self.dated_search(&query, &LIGHT.map(str::to_owned), place.as_ref(), size).await?;
            let decoded = self.decode(page.issues, request.since).await?;
            let items = decoded.into_iter().map(|one| one.item);
            found.extend(items.filter(|item| item.finished == Some(true)).map(finished_item));
            if page.next.is_some() && page.next == place {
                let message = "the tracker returns the same page for every request";
                return Err(FetchError::new(FailureClass::Transient, message));
            }
            place = page.next;
            if place.is_none() {
                break;
            }
        }
        if found.is_empty() {
            // For an anonymous user, a project without visible issues looks the same.
            self.ensure_signed_in().await?;
        }
        found.sort_by_key(|item| item.id);
        found.dedup_by_key(|item| item.id);
        Ok(found)
    }

    /// These issues as of a time; one that did not exist yet is omitted.
    pub async fn as_of(&self, ids: &[ItemId], at: Timestamp) -> Result<Vec<AsOf>, FetchError> {
        let mut items = Vec::with_capacity(ids.len());
        for part in ids.chunks(MAX_PAGE) {
            let issues = self.issues(part, &self.decoder.fields()).await?;
            for decoded in self.decode(issues, at).await? {
                items.extend(self.rewound(decoded, at).await?);
            }
        }
        Ok(items)
    }

    async fn rewound(
        &self,
        decoded: DecodedIssue,
        at: Timestamp,
    ) -> Result<Option<AsOf>, FetchError> {
        if decoded.item.created_at.is_some_and(|created| created > at) {
            return Ok(None);
        }
        let changed_since = decoded.item.changed_at > at;
        let mut item = self.with_comments(decoded).await?;
        item.comments.retain(|comment| comment.at.is_some_and(|written| written <= at));
        item.finished = Some(false);
        let mut text = PastText::OfThatTime;
        if changed_since {
            let changes = self.changes_after(item.id, at).await?;
            text = rewind(&mut item, &changes);
        }
        Ok(Some(AsOf { item, text }))
    }

    /// What changed after an instant, oldest first.
    async fn changes_after(
        &self,
        id: ItemId,
        at: Timestamp,
    ) -> Result<Vec<wire::JiraFieldChange>, FetchError> {
        let mut entries = self.changes(id).await?;
        let when = |entry: &wire::ChangeEntry| entry.created.as_deref().and_then(instant);
        entries.retain(|entry| when(entry).is_some_and(|when| when > at));
        entries.sort_by_key(when);
        Ok(entries.into_iter().flat_map(|entry| entry.items).collect())
    }

    async fn changes(&self, id: ItemId) -> Result<Vec<wire::ChangeEntry>, FetchError> {
        let (number, what) = (id.to_string(), format!("the changes of item {id}"));
        if !self.is_cloud().await? {
            let path = ["issue", number.as_str()];
            let query = [("fields", "summary".to_owned()), ("expand", "changelog".to_owned())];
            let issue: wire::WithChanges = self.get(&path, &query, &what).await?;
            return Ok(issue.changelog.histories);
        }
        let path = ["issue", number.as_str(), "changelog"];
        let mut entries: Vec<wire::ChangeEntry> = Vec::new();
        for _ in 0..MAX_PAGES {
            let query =
                [("startAt", entries.len().to_string()), ("maxResults", MAX_PAGE.to_string())];
            let page: wire::JiraChanges = self.get(&path, &query, &what).await?;
            let ended = page.is_last.unwrap_or(page.values.is_empty()) || page.values.is_empty();
            entries.extend(page.values);
            if ended {
                break;
            }
        }
        Ok(entries)
    }
}

fn finished_item(mut item: WorkItem) -> FinishedItem {
    let name = item.handle.take().map_or(ItemName::Number(item.id.0), ItemName::Key);
    // The development panel has only a private API.
    FinishedItem::new(item, name, 0)
}

/// Restores the values of an item's fields from before these changes, which are oldest first.
fn rewind(item: &mut WorkItem, changes: &[wire::JiraFieldChange]) -> PastText {
    let mut text = PastText::OfThatTime;
    // Newest first: of several changes to a field, the oldest has the value to restore.
    for change in changes.iter().rev() {
        let from = change.from_string.clone().unwrap_or_default();
        match change.id() {
            "summary" => item.title = without_controls(from),
            "status" => item.state = without_controls(from),
            "labels" => {
                item.tags =
                    from.split_whitespace().map(|tag| without_controls(tag.to_owned())).collect();
            }
            "assignee" => {
                item.assigned_to = Some(without_controls(from)).filter(|name| !name.is_empty());
            }
            "issuetype" => item.item_type = without_controls(from),
            // Its rank is not known, only its name.
            "priority" => item.priority = None,
            name => {
                let own = item.texts.iter_mut().find(|text| text.name.eq_ignore_ascii_case(name));
                // Old values are wiki markup, even if the field is a document now.
                let before = |name| TextField { name, format: Format::Wiki, raw: from };
                match own {
                    Some(own) => *own = before(std::mem::take(&mut own.name)),
                    None if is_text(name) => item.texts.push(before(name.to_owned())),
                    // Without an id, a custom field may be any of the configured text fields.
                    None if change.field_id.is_none() && change.is_custom() => {
                        text = PastText::Unknown;
                    }
                    None => {}
                }
            }
        }
    }
    item.texts.retain(|text| !text.raw.trim().is_empty());
    text
}

fn is_text(name: &str) -> bool {
    ["description", "environment"].iter().any(|text| text.eq_ignore_ascii_case(name))
}
