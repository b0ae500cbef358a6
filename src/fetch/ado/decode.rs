//! From the tracker's JSON to the words of the program (pure).

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use super::wire;
use crate::model::{Comment, Format, ItemId, ItemKey, TextField, WorkItem};

/// Fields read of every item, beside the configured long texts.
pub const BASIC_FIELDS: [&str; 14] = [
    "System.Id",
    "System.Title",
    "System.WorkItemType",
    "System.State",
    "System.ChangedDate",
    "System.CreatedDate",
    "System.TeamProject",
    "System.AreaPath",
    "System.IterationPath",
    "System.AssignedTo",
    "System.Tags",
    "System.Parent",
    "Microsoft.VSTS.Common.Priority",
    "Microsoft.VSTS.Common.Severity",
];

/// How many comments an item has; asked for when comments are read.
pub const COMMENT_COUNT: &str = "System.CommentCount";

/// The field of test cases that is XML.
const TEST_STEPS: &str = "Microsoft.VSTS.TCM.Steps";

/// What decoding needs to know beside the JSON.
#[derive(Debug)]
pub struct Decoder {
    /// The source's configured name.
    pub source: String,
    /// The address before the project.
    pub base_url: String,
    /// Names of the long texts, in the order in which they are delivered.
    pub text_fields: Vec<String>,
    /// Long texts that the collection keeps as plain text.
    pub plain_fields: Vec<String>,
}

/// An item with what is needed for further calls about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The item.
    pub item: WorkItem,
    /// The project it is in now, which may not be ours any more.
    pub project: Option<String>,
    /// Comments it has.
    pub comment_count: i64,
}

impl Decoder {
    /// Decodes one item. Nothing but its number is required: what is missing is left empty, and a
    /// missing change date becomes `unknown_change`.
    pub fn item(&self, wire: wire::Item, unknown_change: Timestamp) -> Decoded {
        let mut fields = wire.fields.unwrap_or_default();
        let formats = wire.multiline_fields_format.unwrap_or_default();
        let id = ItemId(wire.id);
        let project = text(&mut fields, "System.TeamProject");
        let created_at = instant(&mut fields, "System.CreatedDate");
        let rev = wire.rev.or_else(|| number(&fields, "System.Rev")).unwrap_or(0);
        let comment_count = number(&fields, COMMENT_COUNT).unwrap_or(0);
        let line = |value: Option<String>| value.map(|v| without_controls(&v));
        let item = WorkItem {
            key: ItemKey::new(&self.source, id),
            id,
            rev,
            item_type: line(text(&mut fields, "System.WorkItemType")).unwrap_or_default(),
            title: line(text(&mut fields, "System.Title")).unwrap_or_default(),
            state: line(text(&mut fields, "System.State")).unwrap_or_default(),
            changed_at: instant(&mut fields, "System.ChangedDate")
                .or(created_at)
                .unwrap_or(unknown_change),
            created_at,
            priority: number(&fields, "Microsoft.VSTS.Common.Priority"),
            severity: line(text(&mut fields, "Microsoft.VSTS.Common.Severity")),
            area_path: line(text(&mut fields, "System.AreaPath")),
            iteration_path: line(text(&mut fields, "System.IterationPath")),
            assigned_to: fields.remove("System.AssignedTo").as_ref().and_then(identity),
            tags: text(&mut fields, "System.Tags").map(|t| tags(&t)).unwrap_or_default(),
            parent: number(&fields, "System.Parent").map(ItemId),
            url: self.page_for_people(project.as_deref(), id),
            texts: self.texts(&mut fields, &formats),
            comments: Vec::new(),
        };
        Decoded { item, project, comment_count }
    }

    fn page_for_people(&self, project: Option<&str>, id: ItemId) -> String {
        match project {
            Some(project) => {
                format!("{}/{}/_workitems/edit/{id}", self.base_url, encode_segment(project))
            }
            None => format!("{}/_workitems/edit/{id}", self.base_url),
        }
    }

    fn texts(
        &self,
        fields: &mut HashMap<String, Value>,
        formats: &HashMap<String, String>,
    ) -> Vec<TextField> {
        let mut texts = Vec::new();
        for name in &self.text_fields {
            let Some(raw) = text(fields, name).filter(|raw| !raw.trim().is_empty()) else {
                continue;
            };
            let declared = formats.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            let format = match declared {
                Some((_, format)) if format.eq_ignore_ascii_case("markdown") => Format::Markdown,
                _ if name == TEST_STEPS => Format::TestSteps,
                _ if self.plain_fields.contains(name) => Format::Plain,
                _ => Format::Html,
            };
            texts.push(TextField { name: name.clone(), format, raw });
        }
        texts
    }
}

/// Decodes one comment; none if it is deleted or empty.
pub fn comment(wire: wire::CommentEntry) -> Option<Comment> {
    if wire.is_deleted || wire.text.trim().is_empty() {
        return None;
    }
    let markdown = wire.format.as_deref().is_some_and(|f| f.eq_ignore_ascii_case("markdown"));
    Some(Comment {
        author: wire.created_by.as_ref().and_then(identity).unwrap_or_default(),
        at: wire.created_date.as_deref().and_then(parse_instant),
        format: if markdown { Format::Markdown } else { Format::Html },
        raw: wire.text,
    })
}

/// A value as text; numbers and booleans too, since custom fields may be anything.
fn text(fields: &mut HashMap<String, Value>, name: &str) -> Option<String> {
    match fields.remove(name)? {
        Value::String(text) => Some(text),
        Value::Null => None,
        Value::Object(object) => {
            // A Markdown value may come with its format beside it.
            object.get("text").and_then(Value::as_str).map(str::to_owned)
        }
        other => Some(other.to_string()),
    }
}

fn instant(fields: &mut HashMap<String, Value>, name: &str) -> Option<Timestamp> {
    fields.remove(name)?.as_str().and_then(parse_instant)
}

#[expect(clippy::cast_possible_truncation, reason = "counters and ids; the float form is exact")]
fn number(fields: &HashMap<String, Value>, name: &str) -> Option<i64> {
    let value = fields.get(name)?;
    value
        .as_i64()
        .or_else(|| value.as_f64().map(|float| float as i64))
        .or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()))
}

/// An instant with none to nine digits of a second; without a zone it is UTC.
pub fn parse_instant(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    text.parse().ok().or_else(|| format!("{text}Z").parse().ok())
}

/// The display name of an identity, be it an object or `Name <mail>`.
pub fn identity(value: &Value) -> Option<String> {
    let name = match value {
        Value::String(text) => match text.rsplit_once('<') {
            Some((name, _)) if !name.trim().is_empty() => name.trim().to_owned(),
            _ => text.trim().to_owned(),
        },
        Value::Object(object) => ["displayName", "uniqueName"]
            .iter()
            .find_map(|key| object.get(*key).and_then(Value::as_str))?
            .to_owned(),
        _ => return None,
    };
    Some(without_controls(&name)).filter(|name| !name.is_empty())
}

fn tags(joined: &str) -> Vec<String> {
    let tags = joined.split(';').map(|tag| without_controls(tag.trim()));
    tags.filter(|tag| !tag.is_empty()).collect()
}

/// One-line values: control characters would garble a terminal and hide text.
fn without_controls(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

/// A path segment, percent-encoded.
pub fn encode_segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
