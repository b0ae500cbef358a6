//! Writes values to fields: labels and the component. There are no revisions to test, so the issue is
//! read directly before.

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::JiraSource;
use crate::fetch::FetchError;
use crate::fetch::field_write::FieldChange;
use crate::fetch::http::Request;
use crate::fetch::write_back::gone;
use crate::model::{Field, ItemId, WorkItem};

impl JiraSource {
    /// Why a field cannot be written.
    pub fn cannot_write(field: Field) -> Option<&'static str> {
        let can = matches!(field, Field::Tags | Field::Area);
        let why = "Jira identifies people and priorities by ids that heartbeat does not read";
        (!can).then_some(why)
    }

    pub async fn current(&self, id: ItemId) -> Result<WorkItem, FetchError> {
        let issues = self.issues(&[id], &self.decoder.fields()).await?;
        let decoded = self.decode(issues, self.http.now()).await?;
        Ok(decoded.into_iter().next().ok_or_else(|| gone(id))?.item)
    }

    /// Writes the values in one request; returns the revision after it.
    pub async fn write_fields(
        &self,
        item: &WorkItem,
        changes: &[&FieldChange],
    ) -> Result<i64, FetchError> {
        let mut labels: Vec<Value> = Vec::new();
        let mut fields = Map::new();
        for change in changes {
            match (change.field, change.remove) {
                (Field::Tags, false) => labels.push(json!({ "add": change.value })),
                (Field::Tags, true) => labels.push(json!({ "remove": change.value })),
                // `SHOP/Cart`: the project alone has no component.
                _ => {
                    let component = change.value.split_once('/').map(|(_, name)| name);
                    let names: Vec<Value> =
                        component.into_iter().map(|name| json!({ "name": name })).collect();
                    fields.insert("components".to_owned(), names.into());
                }
            }
        }
        let body = json!({ "update": { "labels": labels }, "fields": fields });
        let url = self.url(&["issue", &item.id.to_string()], &[]).await?;
        let what = format!("a write to item {}", item.id);
        self.http.send(&Request::write(Method::PUT, url, what, &body)).await?;
        Ok(self.current(item.id).await?.rev)
    }
}
