//! Items as a tracker's export writes them: one JSON object per line, or an array of them.
//!
//! An object is either a whole work item of Azure DevOps (it has `fields`), or the short form below,
//! which is also what `gh issue list --json number,title,body,labels,state,createdAt,updatedAt,url`
//! prints.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fetch::ado::saved_item;
use crate::model::{Format, TextField, WorkItem};

/// The short form of an item.
#[derive(Clone, Deserialize)]
pub struct PlainItem {
    #[serde(alias = "number", deserialize_with = "number_or_text")]
    pub id: i64,
    /// Such as SHOP-12, if commits name it so.
    #[serde(default)]
    pub key: Option<String>,
    pub title: String,
    #[serde(default, alias = "body", alias = "description")]
    pub text: String,
    /// `plain` (as if not set), `markdown` or `html`.
    #[serde(default)]
    pub format: Option<TextFormat>,
    #[serde(default)]
    pub area: String,
    #[serde(default, rename = "type")]
    pub item_type: String,
    #[serde(default)]
    pub state: String,
    /// 1 is the most urgent.
    #[serde(default)]
    pub priority: Option<i64>,
    #[serde(default)]
    pub severity: Option<String>,
    #[serde(default, alias = "labels")]
    pub tags: Vec<Tag>,
    #[serde(default, alias = "assignedTo", alias = "assignee")]
    pub assigned_to: Option<String>,
    #[serde(default, alias = "createdAt")]
    pub created: Option<Timestamp>,
    #[serde(default, alias = "updated", alias = "updatedAt", alias = "changedAt")]
    pub changed: Option<Timestamp>,
    /// Address of its page.
    #[serde(default)]
    pub url: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextFormat {
    Plain,
    Markdown,
    Html,
}

/// A name, or an object with one, as `gh` prints labels.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub enum Tag {
    Name(String),
    Label { name: String },
}

/// `12` or `"12"`.
fn number_or_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Number(i64),
        Text(String),
    }
    match Id::deserialize(deserializer)? {
        Id::Number(number) => Ok(number),
        Id::Text(text) => text.trim().parse().map_err(serde::de::Error::custom),
    }
}

/// The objects with their lines; in an array, with their places.
pub fn values(text: &str) -> Vec<(usize, Result<Value, serde_json::Error>)> {
    if text.trim_start().starts_with('[') {
        return match serde_json::from_str::<Vec<Value>>(text) {
            Ok(all) => (1..).zip(all.into_iter().map(Ok)).collect(),
            Err(error) => vec![(error.line(), Err(error))],
        };
    }
    // A file of one object in several lines is what most tools write for a single item.
    if let Ok(one @ Value::Object(_)) = serde_json::from_str(text) {
        return vec![(1, Ok(one))];
    }
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(number, line)| (number, serde_json::from_str(line))).collect()
}

/// Whether this is a whole work item of Azure DevOps.
pub fn is_whole(value: &Value) -> bool {
    value.get("fields").is_some()
}

/// An object of either form as a work item. Its source's name and its last change, if the export
/// does not tell it, are the caller's.
pub fn item(value: Value, text_fields: &[String]) -> Result<WorkItem, serde_json::Error> {
    if is_whole(&value) {
        return saved_item(&value.to_string(), text_fields);
    }
    serde_json::from_value::<PlainItem>(value)?.into_item()
}

impl PlainItem {
    pub fn into_item(self) -> Result<WorkItem, serde_json::Error> {
        let state = if self.state.is_empty() { "Active" } else { &self.state };
        let fields = json!({
            "System.Title": self.title, "System.AreaPath": self.area,
            "System.WorkItemType": self.item_type, "System.State": state,
        });
        let mut item =
            saved_item(&json!({ "id": self.id, "rev": 1, "fields": fields }).to_string(), &[])?;
        let format = match self.format {
            None | Some(TextFormat::Plain) => Format::Plain,
            Some(TextFormat::Markdown) => Format::Markdown,
            Some(TextFormat::Html) => Format::Html,
        };
        let name = "System.Description".to_owned();
        item.texts = vec![TextField { name, format, raw: self.text }];
        item.texts.retain(|text| !text.raw.trim().is_empty());
        item.handle = self.key;
        item.priority = self.priority;
        item.severity = self.severity;
        item.assigned_to = self.assigned_to;
        item.created_at = self.created;
        item.url = self.url;
        item.tags = self
            .tags
            .into_iter()
            .map(|tag| match tag {
                Tag::Name(name) | Tag::Label { name } => name,
            })
            .collect();
        if let Some(changed) = self.changed {
            (item.changed_at, item.rev) = (changed, changed.as_millisecond());
        }
        // Trackers agree on these words only; other states are for `dedupe.terminal_states`.
        item.finished = item.state.eq_ignore_ascii_case("closed").then_some(true);
        Ok(item)
    }
}
