//! Writes values to fields: one patch, tested against the revision whose fields were compared.

use serde_json::{Value, json};

use super::AdoSource;
use super::fields::BASIC;
use crate::fetch::FetchError;
use crate::fetch::field_write::FieldChange;
use crate::fetch::write_back::gone;
use crate::model::{Field, ItemId, WorkItem};

impl AdoSource {
    pub async fn current(&self, id: ItemId) -> Result<WorkItem, FetchError> {
        let items = self.read_fields(&[id], &BASIC.map(str::to_owned)).await?;
        let wire = items.into_iter().next().ok_or_else(|| gone(id))?;
        Ok(self.fields.decoder().item(wire, self.http.now()).item)
    }

    /// Writes the values in one revision; returns it.
    pub async fn write_fields(
        &self,
        item: &WorkItem,
        changes: &[&FieldChange],
    ) -> Result<i64, FetchError> {
        let changes = changes.iter().map(|change| operation(item, change)).collect();
        self.patch(item.id, item.rev, changes, &[]).await
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
