//! Writes a finding to its issue: a comment with a mark, and a label.
//!
//! There are no revisions to test, so the mark is searched for before a comment that may already
//! exist is written again, and a second read shows what else changed in between.

use reqwest::Method;
use serde_json::json;

use super::compose::{adf, wiki};
use super::decode::{comment, label, words_of};
use super::{JiraSource, wire};
use crate::fetch::FetchError;
use crate::fetch::http::Request;
use crate::fetch::text::instant;
use crate::fetch::write_back::{WriteBack, Written, gone};
use crate::model::{FailureClass, Format, WorkItem};

/// How many of the newest comments are searched for our mark.
const COMMENTS_SEARCHED: u64 = 100;
/// In characters.
const MAX_COMMENT_LEN: usize = 32_000;

impl JiraSource {
    /// Writes a comment and sets a label, once.
    pub async fn write(&self, write: &WriteBack<'_>) -> Result<Written, FetchError> {
        let (before, labels) = self.item_to_write(write).await?;
        if write.may_be_there
            && let Some(rev) = self.rev_of_our_comment(write).await?
        {
            self.set_label(write, &labels).await;
            return Ok(Written { rev, repeated: true });
        }
        if before.rev != write.rev {
            let message = format!("{}: changed in the meantime", name_of(&before));
            return Err(FetchError::new(FailureClass::Conflict, message));
        }
        self.post_comment(write, &before).await?;
        self.set_label(write, &labels).await;
        // Other changes than our own write still have to be read.
        let (after, _) = self.item_to_write(write).await?;
        let rev = if is_same(&before, &after) { after.rev } else { before.rev };
        Ok(Written { rev, repeated: false })
    }

    /// The issue in its current state, and all its labels.
    async fn item_to_write(
        &self,
        write: &WriteBack<'_>,
    ) -> Result<(WorkItem, Vec<String>), FetchError> {
        let number = write.id.to_string();
        let what = format!("item {number}");
        let query = [("fields", self.decoder.fields().join(","))];
        let path = ["issue", number.as_str()];
        let issue: wire::JiraIssue = match self.get(&path, &query, &what).await {
            Err(error) if error.has_code("404") => {
                self.ensure_signed_in().await?;
                return Err(gone(write.id));
            }
            read => read?,
        };
        let labels = issue.fields.as_ref().and_then(|fields| fields.get("labels"));
        let labels: Vec<String> = labels.unwrap_or_default();
        let decoded = self.decode(vec![issue], self.http.now()).await?;
        let item = decoded.into_iter().next().ok_or_else(|| gone(write.id))?.item;
        Ok((item, labels))
    }

    /// The revision of our comment, if it exists.
    async fn rev_of_our_comment(&self, write: &WriteBack<'_>) -> Result<Option<i64>, FetchError> {
        let mark = write.mark();
        let format = self.server().await?.format;
        for entry in self.newest_comments(write.id, COMMENTS_SEARCHED).await? {
            let at = entry.updated.as_deref().or(entry.created.as_deref()).and_then(instant);
            let is_marked = |comment| words_of(&comment).contains(&mark);
            if comment(entry, format).is_some_and(is_marked) {
                return Ok(Some(at.map_or(write.rev, jiff::Timestamp::as_millisecond)));
            }
        }
        Ok(None)
    }

    async fn post_comment(&self, write: &WriteBack<'_>, item: &WorkItem) -> Result<(), FetchError> {
        let mark = write.mark();
        let is_cloud = self.server().await?.format == Format::Adf;
        let body = match is_cloud {
            true => adf(write.comment, &mark, MAX_COMMENT_LEN),
            false => json!(wiki(write.comment, &mark, MAX_COMMENT_LEN)),
        };
        let number = write.id.to_string();
        let what = format!("a comment on {}", name_of(item));
        let url = self.url(&["issue", &number, "comment"], &[]).await?;
        // Sent once: a repeated one could not be recognised.
        let request = Request::write(Method::POST, url, what, &json!({ "body": body })).once();
        self.http.send(&request).await.map(|_| ())
    }

    /// The comment counts with or without the label: a refused label is logged, not a failure.
    async fn set_label(&self, write: &WriteBack<'_>, labels: &[String]) {
        let tag = label(write.tag);
        if tag.is_empty() || labels.iter().any(|known| known.eq_ignore_ascii_case(&tag)) {
            return;
        }
        let number = write.id.to_string();
        let what = format!("a label on item {number}");
        let body = json!({ "update": { "labels": [{ "add": tag }] } });
        let set = async {
            let url = self.url(&["issue", &number], &[]).await?;
            self.http.send(&Request::write(Method::PUT, url, what, &body)).await
        };
        if let Err(error) = set.await {
            tracing::warn!(label = tag, error = error.message, "could not set the label");
        }
    }

    /// Checks whether the issue would accept the write; nothing is changed.
    pub async fn validate(&self, write: &WriteBack<'_>) -> Result<(), FetchError> {
        let (item, _) = self.item_to_write(write).await?;
        if item.rev != write.rev {
            let message = format!("{}: changed in the meantime", name_of(&item));
            return Err(FetchError::new(FailureClass::Conflict, message));
        }
        let query = [
            ("permissions", "ADD_COMMENTS,EDIT_ISSUES".to_owned()),
            ("issueId", write.id.to_string()),
        ];
        let granted: wire::Permissions =
            self.get(&["mypermissions"], &query, "the permissions").await?;
        let lacks =
            |name: &str| granted.permissions.get(name).is_some_and(|one| !one.have_permission);
        let needed = [("ADD_COMMENTS", true), ("EDIT_ISSUES", !write.tag.is_empty())];
        let missing: Vec<&str> = needed
            .into_iter()
            .filter(|(name, needed)| *needed && lacks(name))
            .map(|(name, _)| name)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the account may not write to {}: it lacks the permission {} in this project; or switch \
             write-back off with [source] write_back",
            name_of(&item),
            missing.join(" and ")
        );
        Err(FetchError::new(FailureClass::Denied, message))
    }
}

/// Whether two reads of an item show the same, except for the time of the change.
fn is_same(before: &WorkItem, after: &WorkItem) -> bool {
    let timeless = |item: &WorkItem| WorkItem {
        rev: 0,
        changed_at: jiff::Timestamp::UNIX_EPOCH,
        comments: Vec::new(),
        ..item.clone()
    };
    timeless(before) == timeless(after)
}

fn name_of(item: &WorkItem) -> String {
    item.handle.clone().unwrap_or_else(|| format!("item {}", item.id))
}
