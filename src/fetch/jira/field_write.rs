//! Writes values to fields: labels and the component. There are no revisions to test, so the issue is
//! read directly before.

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::http::Call;
use super::{Inner, JiraSource};
use crate::fetch::FetchError;
use crate::fetch::failure::Failure;
use crate::fetch::field_write::{FieldChange, FieldWrite, not_writable};
use crate::fetch::write_back::Written;
use crate::model::{FailureClass, Field, ItemFields, WorkItem};

impl JiraSource {
    /// Writes the values in one request, if no person has set the fields meanwhile.
    pub async fn set_fields(&self, write: &FieldWrite) -> Result<Written, FetchError> {
        let inner = &self.0;
        let now = inner.transport.http.now();
        let or_error = |failure: Failure| failure.into_error(now);
        let item = inner.current(write).await.map_err(or_error)?;
        let refused =
            write.changes.iter().find(|change| !matches!(change.field, Field::Tags | Field::Area));
        if let Some(change) = refused {
            let why = "Jira identifies people and priorities by ids that heartbeat does not read";
            return Err(not_writable(write.id, change.field, why));
        }
        let open = write.to_do(&ItemFields::of(&item))?;
        if open.is_empty() {
            return Ok(Written { rev: item.rev, repeated: true });
        }
        inner.put(write, &open).await.map_err(or_error)?;
        let after = inner.current(write).await.map_err(or_error)?;
        Ok(Written { rev: after.rev, repeated: false })
    }
}

impl Inner {
    async fn current(&self, write: &FieldWrite) -> Result<WorkItem, Failure> {
        let issues = self.issues(&[write.id], &self.decoder.fields()).await?;
        let decoded = self.decode(issues, self.transport.http.now()).await?;
        let gone = || Failure::new(FailureClass::Gone, format!("item {} was deleted", write.id));
        Ok(decoded.into_iter().next().ok_or_else(gone)?.item)
    }

    async fn put(&self, write: &FieldWrite, changes: &[&FieldChange]) -> Result<(), Failure> {
        let number = write.id.to_string();
        let what = format!("a write to item {number}");
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
        let path = ["issue", number.as_str()];
        let call = Call { method: Method::PUT, writes: true, ..Call::ask(&path, &what, body) };
        self.transport.send(call).await.map(drop)
    }
}
