//! Writes values to fields: labels and the assignee. There are no revisions to test, so the issue is
//! read directly before.

use reqwest::Method;
use serde_json::json;

use super::GithubSource;
use super::read::{by_position, find};
use crate::fetch::FetchError;
use crate::fetch::field_write::FieldChange;
use crate::fetch::http::Request;
use crate::fetch::write_back::gone;
use crate::model::{Field, ItemId, WorkItem};

impl GithubSource {
    /// Why a field cannot be written.
    pub fn cannot_write(field: Field) -> Option<&'static str> {
        let can = matches!(field, Field::Tags | Field::Owner);
        (!can).then_some("GitHub has only labels and assignees")
    }

    pub async fn current(&self, id: ItemId) -> Result<WorkItem, FetchError> {
        let repositories = self.known_repositories().await?;
        let known = by_position(&repositories);
        let place = find(&known, id).ok_or_else(|| gone(id))?;
        let issue = self.read_issue(&place).await?.ok_or_else(|| gone(id))?;
        Ok(self.decoder.item(issue, place.repository, self.http.now()))
    }

    /// Writes the values; returns the revision after it.
    pub async fn write_fields(
        &self,
        item: &WorkItem,
        changes: &[&FieldChange],
    ) -> Result<i64, FetchError> {
        let name = item.handle.as_deref().unwrap_or_default();
        let (repository, number) = name.rsplit_once('#').ok_or_else(|| gone(item.id))?;
        let what = format!("a write to {name}");
        for change in changes {
            let value = change.value.as_str();
            let people: Vec<&str> =
                Some(value).filter(|login| !login.is_empty()).into_iter().collect();
            let (method, below, body) = match (change.field, change.remove) {
                (Field::Tags, false) => {
                    (Method::POST, vec!["labels"], json!({ "labels": [value] }))
                }
                (Field::Tags, true) => (Method::DELETE, vec!["labels", value], json!({})),
                _ => (Method::PATCH, vec![], json!({ "assignees": people })),
            };
            let path = [vec!["repos", repository, "issues", number], below].concat();
            let url = self.http.url(&path, &[]);
            self.send(Request::write(method, url, what.as_str(), &body).once()).await?;
        }
        Ok(self.current(item.id).await.map_or(item.rev, |item| item.rev))
    }
}
