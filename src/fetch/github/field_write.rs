//! Writes values to fields: labels and the assignee. There are no revisions to test, so the issue is
//! read directly before.

use reqwest::Method;
use serde_json::{Value, json};

use super::read::{Place, by_position, find};
use super::{GithubSource, Inner};
use crate::fetch::FetchError;
use crate::fetch::failure::Failure;
use crate::fetch::field_write::{FieldChange, FieldWrite, not_writable};
use crate::fetch::http::{Repeat, Request};
use crate::fetch::write_back::Written;
use crate::model::{FailureClass, Field, ItemFields, WorkItem};

impl GithubSource {
    /// Writes the values, if no person has set the fields meanwhile.
    pub async fn set_fields(&self, write: &FieldWrite) -> Result<Written, FetchError> {
        let inner = &self.0;
        let now = inner.transport.http.now();
        let or_error = |failure: Failure| failure.into_error(now);
        let repositories = inner.known_repositories().await.map_err(or_error)?;
        let known = by_position(&repositories);
        let gone = || {
            let message = format!("item {}: deleted, transferred, or no longer visible", write.id);
            FetchError::new(FailureClass::Gone, message)
        };
        let place = find(&known, write.id).ok_or_else(gone)?;
        let item = inner.current(&place).await.map_err(or_error)?.ok_or_else(gone)?;
        let open = write.to_do(&ItemFields::of(&item))?;
        if open.is_empty() {
            return Ok(Written { rev: item.rev, repeated: true });
        }
        let refused =
            open.iter().find(|change| !matches!(change.field, Field::Tags | Field::Owner));
        if let Some(change) = refused {
            let why = "GitHub has only labels and assignees";
            return Err(not_writable(write.id, change.field, why));
        }
        for change in open {
            inner.write_field(&place, change).await.map_err(or_error)?;
        }
        let after = inner.current(&place).await.map_err(or_error)?;
        Ok(Written { rev: after.map_or(item.rev, |item| item.rev), repeated: false })
    }
}

impl Inner {
    async fn current(&self, place: &Place<'_>) -> Result<Option<WorkItem>, Failure> {
        let now = self.transport.http.now();
        let issue = self.read_issue(place).await?;
        Ok(issue.map(|issue| self.decoder.item(issue, place.repository, now)))
    }

    async fn write_field(&self, place: &Place<'_>, change: &FieldChange) -> Result<(), Failure> {
        let what = format!("a write to {}#{}", place.repository.name, place.number);
        let number = place.number.to_string();
        let mut path = vec!["repos", &place.repository.name, "issues", &number];
        let (method, body) = match (change.field, change.remove) {
            (Field::Tags, false) => {
                path.push("labels");
                (Method::POST, Some(json!({ "labels": [change.value] })))
            }
            (Field::Tags, true) => {
                path.extend(["labels", change.value.as_str()]);
                (Method::DELETE, None)
            }
            _ => {
                let people: Vec<&str> = Some(change.value.as_str())
                    .filter(|login| !login.is_empty())
                    .into_iter()
                    .collect();
                (Method::PATCH, Some(json!({ "assignees": people })))
            }
        };
        let body = body
            .map(|body: Value| ("application/json; charset=utf-8", body.to_string().into_bytes()));
        let url = self.transport.url(&path, &[]);
        let request = Request {
            method,
            body,
            repeat: Repeat::Never,
            writes: true,
            ..Request::get(url, &what)
        };
        self.transport.send(request).await.map(drop)
    }
}
