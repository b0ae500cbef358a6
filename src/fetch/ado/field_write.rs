//! Writes values to fields: one patch, tested against the revision whose fields were compared.

use reqwest::Method;
use serde_json::{Value, json};

use super::fields::BASIC;
use super::{AdoSource, Call, Inner, wire};
use crate::fetch::FetchError;
use crate::fetch::failure::Failure;
use crate::fetch::field_write::{FieldChange, FieldWrite};
use crate::fetch::write_back::Written;
use crate::model::{FailureClass, Field, ItemFields, WorkItem};

/// Attempts if somebody else changes the item at the same time.
const TRIES: usize = 3;

impl AdoSource {
    /// Writes the values in one revision, if no person has set the fields meanwhile.
    pub async fn set_fields(&self, write: &FieldWrite) -> Result<Written, FetchError> {
        let now = self.0.transport.now();
        for _ in 1..TRIES {
            match self.0.try_fields(write).await? {
                Err(failure) if failure.class == FailureClass::Conflict => {}
                other => return other.map_err(|failure| failure.into_error(now)),
            }
        }
        self.0.try_fields(write).await?.map_err(|failure| failure.into_error(now))
    }
}

impl Inner {
    /// The outer error is final, the inner one may be another's change.
    async fn try_fields(&self, write: &FieldWrite) -> Result<Result<Written, Failure>, FetchError> {
        let now = self.transport.now();
        let item = self.current_item(write).await.map_err(|failure| failure.into_error(now))?;
        let open = write.to_do(&ItemFields::of(&item))?;
        if open.is_empty() {
            return Ok(Ok(Written { rev: item.rev, repeated: true }));
        }
        Ok(self.patch_fields(&item, &open).await)
    }

    async fn current_item(&self, write: &FieldWrite) -> Result<WorkItem, Failure> {
        let names = BASIC.map(str::to_owned);
        let items = self.read_fields(&[write.id], &names).await?;
        let gone = || Failure::new(FailureClass::Gone, format!("item {} was deleted", write.id));
        let wire = items.into_iter().next().ok_or_else(gone)?;
        Ok(self.fields.decoder().item(wire, self.transport.now()).item)
    }

    async fn patch_fields(
        &self,
        item: &WorkItem,
        changes: &[&FieldChange],
    ) -> Result<Written, Failure> {
        let number = item.id.to_string();
        let path = vec!["_apis", "wit", "workitems", &number];
        let what = format!("a write to item {number}");
        let mut call = Call::get(path, "workItems", what.as_str());
        call.method = Method::PATCH;
        let mut operations = vec![json!({ "op": "test", "path": "/rev", "value": item.rev })];
        operations.extend(changes.iter().map(|change| operation(item, change)));
        let body = Value::from(operations).to_string().into_bytes();
        call.body = Some(("application/json-patch+json", body));
        let answer = self.transport.send(&call).await?;
        let written: wire::Item = self.transport.decode(&answer, "the item that was written")?;
        Ok(Written { rev: written.rev.unwrap_or(item.rev + 1), repeated: false })
    }
}

fn operation(item: &WorkItem, change: &FieldChange) -> Value {
    let name = match change.field {
        Field::Area => "System.AreaPath",
        Field::Type => "System.WorkItemType",
        Field::Priority => "Microsoft.VSTS.Common.Priority",
        Field::Severity => "Microsoft.VSTS.Common.Severity",
        Field::Tags => "System.Tags",
        Field::Owner => "System.AssignedTo",
    };
    let path = format!("/fields/{name}");
    if change.field == Field::Tags {
        // Under the tested revision the whole set is known.
        let mut tags: Vec<&str> = item.tags.iter().map(String::as_str).collect();
        tags.retain(|tag| !tag.eq_ignore_ascii_case(&change.value));
        if !change.remove {
            tags.push(&change.value);
        }
        return json!({ "op": "replace", "path": path, "value": tags.join("; ") });
    }
    match (change.value.as_str(), change.value.parse::<i64>()) {
        ("", _) => json!({ "op": "remove", "path": path }),
        (_, Ok(number)) if change.field == Field::Priority => {
            json!({ "op": "add", "path": path, "value": number })
        }
        (text, _) => json!({ "op": "add", "path": path, "value": text }),
    }
}
