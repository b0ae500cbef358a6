//! Writes a finding to its item: one patch, tested against the revision that was analysed.

use reqwest::Method;
use serde_json::{Value, json};

use super::{AdoSource, wire};
use crate::fetch::FetchError;
use crate::fetch::http::Request;
use crate::fetch::write_back::{WriteBack, Written};
use crate::model::{FailureClass, Format, ItemId};

/// How many of the newest comments are searched for our mark.
const COMMENTS_SEARCHED: usize = 200;

impl AdoSource {
    /// Writes a comment and a tag in one revision.
    ///
    /// It never overwrites: if the item has changed, it returns [`FailureClass::Conflict`], and the
    /// caller reads the item again and decides again. It never writes twice: an existing comment is
    /// recognised by its mark.
    pub async fn write(&self, write: &WriteBack<'_>) -> Result<Written, FetchError> {
        // The tested revision makes ours the next one, whatever came later.
        let there = Written { rev: write.rev + 1, repeated: true };
        if write.may_be_there && self.has_mark(write).await? {
            return Ok(there);
        }
        match self.patch(write.id, write.rev, operations(write), &[]).await {
            Ok(rev) => Ok(Written { rev, repeated: false }),
            Err(error) if error.class == FailureClass::Conflict => {
                match self.has_mark(write).await? {
                    true => Ok(there),
                    false => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Asks the tracker whether it would accept the write; nothing is changed.
    pub async fn validate(&self, write: &WriteBack<'_>) -> Result<(), FetchError> {
        let only = [("validateOnly", "true".to_owned())];
        self.patch(write.id, write.rev, operations(write), &only).await.map(|_| ())
    }

    /// Changes an item if it still has this revision; returns the new one.
    pub async fn patch(
        &self,
        id: ItemId,
        rev: i64,
        operations: Vec<Value>,
        query: &[(&str, String)],
    ) -> Result<i64, FetchError> {
        let url = self.http.url(&["_apis", "wit", "workitems", &id.to_string()], query);
        let test = json!({ "op": "test", "path": "/rev", "value": rev });
        let body: Value = [vec![test], operations].concat().into();
        let what = format!("a write to item {id}");
        let request = Request {
            body: Some(("application/json-patch+json", body.to_string().into_bytes())),
            ..Request::write(Method::PATCH, url, what, &body)
        };
        let item: wire::AdoItem = self.json("workItems", request).await?;
        Ok(item.rev.unwrap_or(rev + 1))
    }

    async fn has_mark(&self, write: &WriteBack<'_>) -> Result<bool, FetchError> {
        let project = &self.config.project;
        let comments = self.read_comments(project, write.id, COMMENTS_SEARCHED).await?;
        let mark = write.mark();
        Ok(comments.iter().any(|comment| comment.raw.contains(&mark)))
    }
}

fn operations(write: &WriteBack<'_>) -> Vec<Value> {
    let mark = write.mark();
    let comment = match write.format {
        Format::Markdown => json!({
            "format": "Markdown",
            "text": format!("{}\n\n_{mark}_", write.comment),
        }),
        _ => json!(format!("{}<div><small>{mark}</small></div>", write.comment)),
    };
    let mut operations = Vec::new();
    if !write.tag.is_empty() {
        // `add` merges into the set of tags.
        operations.push(json!({ "op": "add", "path": "/fields/System.Tags", "value": write.tag }));
    }
    operations.push(json!({ "op": "add", "path": "/fields/System.History", "value": comment }));
    operations
}
