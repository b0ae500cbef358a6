//! Converts the tracker's JSON to the program's types (pure).

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::fields::{
    ATTACHED_FILES, COMMENT_COUNT, LINKED_DEVELOPMENT, LINKED_ITEMS, LINKED_PAGES, TEST_STEPS,
};
use super::wire::{self, AdoFields};
use crate::fetch::text::{encode_segment, instant, without_controls};
use crate::model::{Comment, Format, ItemId, ItemKey, Links, TextField, WorkItem};

/// Context of decoding.
#[derive(Debug)]
pub struct AdoDecoder {
    pub source: String,
    /// The address up to the project.
    pub base_url: String,
    /// Names of the long texts, in the order in which they are delivered.
    pub text_fields: Vec<String>,
    /// Long texts that the collection keeps as plain text.
    pub plain_fields: Vec<String>,
    /// The tag set by write-back, which does not count as a change.
    pub own_tag: String,
}

/// An item with what is needed for further requests about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdoDecoded {
    pub item: WorkItem,
    /// Its current project, which may differ from the configured one.
    pub project: Option<String>,
    pub comment_count: i64,
}

impl AdoDecoder {
    /// Decodes one item. Only the number is required: missing fields are left empty, and a missing
    /// change date becomes `unknown_change`.
    pub fn item(&self, wire: wire::AdoItem, unknown_change: Timestamp) -> AdoDecoded {
        let mut fields = wire.fields.unwrap_or_default();
        let formats = wire.multiline_fields_format.unwrap_or_default();
        let id = ItemId(wire.id);
        let project = text(&mut fields, "System.TeamProject");
        let created_at = date(&fields, "System.CreatedDate");
        let rev = wire.rev.or_else(|| number(&fields, "System.Rev")).unwrap_or(0);
        let comment_count = number(&fields, COMMENT_COUNT).unwrap_or(0);
        let parent = number(&fields, "System.Parent").map(ItemId);
        let line = |value: Option<String>| value.map(without_controls);
        let item = WorkItem {
            key: ItemKey::new(&self.source, id),
            id,
            rev,
            item_type: line(text(&mut fields, "System.WorkItemType")).unwrap_or_default(),
            title: line(text(&mut fields, "System.Title")).unwrap_or_default(),
            state: line(text(&mut fields, "System.State")).unwrap_or_default(),
            changed_at: date(&fields, "System.ChangedDate")
                .or(created_at)
                .unwrap_or(unknown_change),
            created_at,
            priority: number(&fields, "Microsoft.VSTS.Common.Priority"),
            severity: line(text(&mut fields, "Microsoft.VSTS.Common.Severity")),
            area_path: line(text(&mut fields, "System.AreaPath")),
            more_areas: Vec::new(),
            handle: None,
            finished: None,
            iteration_path: line(text(&mut fields, "System.IterationPath")),
            assigned_to: fields.remove("System.AssignedTo").and_then(identity),
            reporter: fields.remove("System.CreatedBy").and_then(identity),
            tags: self.tags(&text(&mut fields, "System.Tags").unwrap_or_default()),
            parent,
            links: links(&fields, parent),
            url: self.page_for_people(project.as_deref(), id),
            texts: self.texts(&mut fields, &formats),
            comments: Vec::new(),
        };
        AdoDecoded { item, project, comment_count }
    }

    fn tags(&self, joined: &str) -> Vec<String> {
        let tags = joined.split(';').map(|tag| without_controls(tag.trim().to_owned()));
        tags.filter(|tag| !tag.is_empty() && !tag.eq_ignore_ascii_case(&self.own_tag)).collect()
    }

    fn page_for_people(&self, project: Option<&str>, id: ItemId) -> String {
        match project {
            Some(project) => {
                format!("{}/{}/_workitems/edit/{id}", self.base_url, encode_segment(project))
            }
            None => format!("{}/_workitems/edit/{id}", self.base_url),
        }
    }

    fn texts(&self, fields: &mut AdoFields, formats: &HashMap<String, String>) -> Vec<TextField> {
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

/// A work item from a saved response, such as the output of `az boards work-item show`; its
/// discussion, if any, is under `comments`.
pub fn saved_item(json: &str, text_fields: &[String]) -> Result<WorkItem, serde_json::Error> {
    let value: Value = serde_json::from_str(json)?;
    let discussion = value.get("comments").cloned().unwrap_or_default();
    let decoder = AdoDecoder {
        source: String::new(),
        base_url: String::new(),
        text_fields: text_fields.to_vec(),
        plain_fields: Vec::new(),
        own_tag: String::new(),
    };
    let mut item = decoder.item(serde_json::from_value(value)?, Timestamp::UNIX_EPOCH).item;
    if discussion.is_array() {
        let entries: Vec<wire::AdoComment> = serde_json::from_value(discussion)?;
        item.comments = entries.into_iter().filter_map(comment).collect();
    }
    Ok(item)
}

/// Decodes one comment; `None` if it is deleted or empty.
pub fn comment(wire: wire::AdoComment) -> Option<Comment> {
    if wire.is_deleted || wire.text.trim().is_empty() {
        return None;
    }
    let markdown = wire.format.as_deref().is_some_and(|f| f.eq_ignore_ascii_case("markdown"));
    Some(Comment {
        author: wire.created_by.and_then(identity).unwrap_or_default(),
        at: wire.created_date.as_deref().and_then(instant),
        format: if markdown { Format::Markdown } else { Format::Html },
        raw: wire.text,
        // Whoever may comment on a work item may edit it.
        may_write: true,
    })
}

/// A value as text; also numbers and booleans, since custom fields may have any type.
fn text(fields: &mut AdoFields, name: &str) -> Option<String> {
    match fields.remove(name)? {
        Value::String(text) => Some(text),
        // A Markdown value may come with its format.
        Value::Object(mut object) => text_of(&mut object, "text"),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        Value::Null | Value::Array(_) => None,
    }
}

fn text_of(object: &mut Map<String, Value>, key: &str) -> Option<String> {
    match object.remove(key)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn date(fields: &AdoFields, name: &str) -> Option<Timestamp> {
    fields.get(name)?.as_str().and_then(instant)
}

#[expect(clippy::cast_possible_truncation, reason = "counters and ids; the float form is exact")]
fn number(fields: &AdoFields, name: &str) -> Option<i64> {
    match fields.get(name)? {
        Value::Number(number) => number.as_i64().or_else(|| Some(number.as_f64()? as i64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Links are counted, not followed: the tracker returns their targets only with every field of the
/// item, in a second response.
fn links(fields: &AdoFields, parent: Option<ItemId>) -> Links {
    let count = |name| number(fields, name).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    Links {
        items: count(LINKED_ITEMS).saturating_sub(u64::from(parent.is_some())),
        development: count(LINKED_DEVELOPMENT),
        pages: count(LINKED_PAGES),
        files: count(ATTACHED_FILES),
    }
}

/// The display name of an identity, which is an object or `Name <mail>`.
pub fn identity(value: Value) -> Option<String> {
    let name = match value {
        Value::String(text) => match text.rsplit_once('<') {
            Some((name, _)) if !name.trim().is_empty() => name.trim().to_owned(),
            _ => text.trim().to_owned(),
        },
        Value::Object(mut object) => {
            text_of(&mut object, "displayName").or_else(|| text_of(&mut object, "uniqueName"))?
        }
        _ => return None,
    };
    Some(without_controls(name)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::fields::BASIC;
    use super::*;

    fn decoder() -> AdoDecoder {
        AdoDecoder {
            source: "ado".into(),
            base_url: "https://dev.azure.com/contoso".into(),
            text_fields: ["System.Description", "Custom.Note", TEST_STEPS].map(Into::into).to_vec(),
            plain_fields: vec!["Custom.Note".into()],
            own_tag: "heartbeat".into(),
        }
    }

    fn decode(value: Value) -> AdoDecoded {
        let unknown = "2026-01-01T00:00:00Z".parse().unwrap();
        decoder().item(serde_json::from_value(value).unwrap(), unknown)
    }

    #[test]
    fn an_item_with_nothing_but_its_number_is_an_item() {
        let AdoDecoded { item, project, comment_count } = decode(json!({ "id": 7 }));
        assert_eq!((item.id, item.rev, item.title.as_str()), (ItemId(7), 0, ""));
        assert_eq!(item.changed_at.to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(item.url, "https://dev.azure.com/contoso/_workitems/edit/7");
        assert_eq!((project, comment_count), (None, 0));
    }

    #[test]
    fn identities_are_objects_or_strings() {
        let name = identity;
        assert_eq!(name(json!("Ann Lee <ann@contoso.com>")).unwrap(), "Ann Lee");
        assert_eq!(name(json!("CONTOSO\\ann")).unwrap(), "CONTOSO\\ann");
        assert_eq!(name(json!("<ann@contoso.com>")).unwrap(), "<ann@contoso.com>");
        assert_eq!(name(json!({ "displayName": "Ann", "uniqueName": "a@b" })).unwrap(), "Ann");
        assert_eq!(name(json!({ "uniqueName": "CONTOSO\\ann" })).unwrap(), "CONTOSO\\ann");
        assert_eq!(name(json!(null)), None);
    }

    #[test]
    fn formats_follow_the_answer_and_the_kind_of_field() {
        let decoded = decode(json!({
            "id": 1,
            "fields": {
                "System.Description": "&gt; quoted", "Custom.Note": "plain",
                "Microsoft.VSTS.TCM.Steps": "<steps/>", "Other": "not asked for",
            },
            "multilineFieldsFormat": { "system.description": "Markdown" },
        }));
        let formats: Vec<Format> = decoded.item.texts.iter().map(|text| text.format).collect();
        assert_eq!(formats, [Format::Markdown, Format::Plain, Format::TestSteps]);
        let html = decode(json!({
            "id": 1, "fields": { "System.Description": "<p>x" }, "multilineFieldsFormat": {},
        }));
        assert_eq!(html.item.texts[0].format, Format::Html);
    }

    #[test]
    fn odd_values_do_no_harm() {
        let title: String = "🎁".repeat(255);
        let item = decode(json!({
            "id": 1, "rev": 4,
            "fields": {
                "System.Title": title, "System.State": "New\u{0000}\n",
                "System.Tags": " a ;; b; Heartbeat; ", "Microsoft.VSTS.Common.Priority": 2.0,
                "System.Parent": "12", "System.Description": "  ", "System.AreaPath": 5,
                "System.TeamProject": "Größe & Co",
            },
        }))
        .item;
        assert_eq!(item.title, title);
        assert_eq!(item.state, "New\u{FFFD}\u{FFFD}");
        assert_eq!(item.tags, ["a", "b"]);
        assert_eq!((item.priority, item.parent), (Some(2), Some(ItemId(12))));
        assert!(item.texts.is_empty(), "blank texts are left out");
        assert_eq!(item.area_path.as_deref(), Some("5"));
        assert!(
            item.url.ends_with("/Gr%C3%B6%C3%9Fe%20%26%20Co/_workitems/edit/1"),
            "{}",
            item.url
        );
    }

    #[test]
    fn links_are_counted_and_the_parent_is_none_of_them() {
        let fields = json!({
            "System.Parent": 12, LINKED_ITEMS: 3, LINKED_DEVELOPMENT: 1, LINKED_PAGES: 0,
            ATTACHED_FILES: -1,
        });
        let links = decode(json!({ "id": 1, "fields": fields })).item.links;
        assert_eq!(links, Links { items: 2, development: 1, pages: 0, files: 0 });
        let orphan = decode(json!({ "id": 1, "fields": { "System.Parent": 12 } })).item.links;
        assert_eq!(orphan, Links::default());
    }

    /// Any JSON, two levels deep.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            Just(json!("2026-03-31T18:36:26.2345678Z")),
        ];
        leaf.prop_recursive(2, 8, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("displayName|text|uniqueName|[a-z]{3}", inner, 0..4)
                    .prop_map(Value::from_iter),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_the_fields_hold_an_item_comes_out(
            values in prop::collection::vec(any_json(), BASIC.len() + 3),
            rev in prop::option::of(any::<i64>()),
        ) {
            let names = BASIC.into_iter().chain(["System.Description", TEST_STEPS, COMMENT_COUNT]);
            let fields: HashMap<String, Value> =
                names.map(str::to_owned).zip(values).collect();
            let wire = json!({ "id": 7, "rev": rev, "fields": fields });
            let wire = serde_json::from_value(wire).unwrap();
            let item = decoder().item(wire, Timestamp::UNIX_EPOCH).item;
            prop_assert_eq!(item.id, ItemId(7));
            prop_assert!(!item.title.chars().any(char::is_control));
            prop_assert!(item.texts.iter().all(|text| !text.raw.trim().is_empty()));
        }
    }

    #[test]
    fn comments_of_both_generations_are_read_and_deleted_ones_left_out() {
        let body = br#"{"comments":[{"id":1,"text":"new","format":"markdown","createdBy":
            {"displayName":"Ann"},"createdDate":"2026-01-01T00:00:00Z"},
            {"commentId":2,"text":"gone","isDeleted":true}]}"#;
        let new: wire::AdoComments = crate::fetch::json::from_json(body).unwrap();
        let new: Vec<_> = new.comments.into_iter().filter_map(comment).collect();
        assert_eq!(new.len(), 1);
        assert_eq!((new[0].author.as_str(), new[0].format), ("Ann", Format::Markdown));
        let body = br#"{"value":[{"revision":2,"text":"old","revisedBy":"Bob <b@c>",
            "revisedDate":"2014-12-29T20:49:24.67Z"}]}"#;
        let old: wire::AdoComments = crate::fetch::json::from_json(body).unwrap();
        let old = comment(old.comments.into_iter().next().unwrap()).unwrap();
        assert_eq!((old.author.as_str(), old.format), ("Bob", Format::Html));
        assert!(old.at.is_some());
    }
}
