//! Writes a finding to its issue: a comment with a mark, and a label.
//!
//! There are no revisions to test, so the mark is searched for before a comment that may already
//! exist is written again, and a second read shows what else changed in between.

use reqwest::Method;
use serde_json::json;

use super::compose::{adf, wiki};
use super::decode::{comment, instant, label, words_of};
use super::http::Call;
use super::{Inner, JiraSource, wire};
use crate::fetch::FetchError;
use crate::fetch::failure::Failure;
use crate::fetch::http::Repeat;
use crate::fetch::write_back::{WriteBack, Written, ensure_writable};
use crate::model::{FailureClass, Format, WorkItem};

/// How many of the newest comments are searched for our mark.
const COMMENTS_SEARCHED: u64 = 100;
/// In characters.
const MAX_COMMENT_LEN: usize = 32_000;

impl JiraSource {
    /// Writes a comment and sets a label, once.
    pub async fn write_back(&self, write: &WriteBack<'_>) -> Result<Written, FetchError> {
        let inner = &self.0;
        ensure_writable(&inner.transport.http, &inner.notebook, write).await?;
        inner.write(write).await.map_err(|failure| failure.into_error(inner.transport.http.now()))
    }

    /// Checks whether the issue would accept the write; nothing is changed.
    pub async fn validate_write_back(&self, write: &WriteBack<'_>) -> Result<(), FetchError> {
        let inner = &self.0;
        ensure_writable(&inner.transport.http, &inner.notebook, write).await?;
        let checked = inner.ensure_permitted(write).await;
        checked.map_err(|failure| failure.into_error(inner.transport.http.now()))
    }
}

impl Inner {
    async fn write(&self, write: &WriteBack<'_>) -> Result<Written, Failure> {
        let (before, labels) = self.item_to_write(write).await?;
        if write.may_be_there
            && let Some(rev) = self.rev_of_our_comment(write).await?
        {
            self.set_label(write, &labels).await;
            return Ok(Written { rev, repeated: true });
        }
        if before.rev != write.rev {
            let message = format!("{}: changed in the meantime", name_of(&before));
            return Err(Failure::new(FailureClass::Conflict, message));
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
    ) -> Result<(WorkItem, Vec<String>), Failure> {
        let number = write.id.to_string();
        let what = format!("item {number}");
        let query = [("fields", self.decoder.fields().join(","))];
        let path = ["issue", number.as_str()];
        let call = Call { query: &query, ..Call::get(&path, &what) };
        let issue: wire::Issue = match self.transport.json(call).await {
            Ok(issue) => issue,
            Err(failure) if failure.has_code("404") => {
                self.transport.ensure_signed_in().await?;
                return Err(gone(write));
            }
            Err(failure) => return Err(failure),
        };
        let labels = issue.fields.as_ref().and_then(|fields| fields.get("labels"));
        let labels: Vec<String> = labels.unwrap_or_default();
        let decoded = self.decode(vec![issue], self.transport.http.now()).await?;
        let item = decoded.into_iter().next().ok_or_else(|| gone(write))?.item;
        Ok((item, labels))
    }

    /// The revision of our comment, if it exists.
    async fn rev_of_our_comment(&self, write: &WriteBack<'_>) -> Result<Option<i64>, Failure> {
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

    async fn post_comment(&self, write: &WriteBack<'_>, item: &WorkItem) -> Result<(), Failure> {
        let mark = write.mark();
        let is_cloud = self.server().await?.format == Format::Adf;
        let body = match is_cloud {
            true => adf(write.comment, &mark, MAX_COMMENT_LEN),
            false => json!(wiki(write.comment, &mark, MAX_COMMENT_LEN)),
        };
        let number = write.id.to_string();
        let what = format!("a comment on {}", name_of(item));
        let path = ["issue", number.as_str(), "comment"];
        // Sent once: a repeated one could not be recognised.
        let call = Call {
            repeat: Repeat::Never,
            writes: true,
            ..Call::ask(&path, &what, json!({ "body": body }))
        };
        self.transport.send(call).await.map(|_| ())
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
        let path = ["issue", number.as_str()];
        let call = Call { method: Method::PUT, writes: true, ..Call::ask(&path, &what, body) };
        if let Err(failure) = self.transport.send(call).await {
            tracing::warn!(label = tag, error = failure.message, "could not set the label");
        }
    }

    async fn ensure_permitted(&self, write: &WriteBack<'_>) -> Result<(), Failure> {
        let (item, _) = self.item_to_write(write).await?;
        if item.rev != write.rev {
            let message = format!("{}: changed in the meantime", name_of(&item));
            return Err(Failure::new(FailureClass::Conflict, message));
        }
        let query = [
            ("permissions", "ADD_COMMENTS,EDIT_ISSUES".to_owned()),
            ("issueId", write.id.to_string()),
        ];
        let call = Call { query: &query, ..Call::get(&["mypermissions"], "the permissions") };
        let granted: wire::Permissions = self.transport.json(call).await?;
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
        Err(Failure::new(FailureClass::Denied, message))
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

fn gone(write: &WriteBack<'_>) -> Failure {
    let message = format!("item {}: deleted, or no longer visible", write.id);
    Failure::new(FailureClass::Gone, message)
}
