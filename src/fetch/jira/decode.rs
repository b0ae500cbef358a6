//! Converts Jira's JSON to the program's types (pure).

use jiff::Timestamp;

use super::priority::Priorities;
use super::wire::{self, JiraComment, JiraNamed, JiraStatus, User};
use crate::clean;
use crate::fetch::text::{encode_segment, instant, without_controls};
use crate::fetch::write_back::is_ours;
use crate::model::{Comment, Format, ItemId, ItemKey, Links, TextField, WorkItem};
use crate::settings;

/// Long texts that every issue may have.
const TEXTS: [&str; 2] = ["description", "environment"];

/// Fields read of every issue, in addition to its texts.
const BASIC: [&str; 17] = [
    "summary",
    "status",
    "resolution",
    "issuetype",
    "priority",
    "updated",
    "created",
    "project",
    "components",
    "labels",
    "fixVersions",
    "assignee",
    "reporter",
    "parent",
    "issuelinks",
    "subtasks",
    "attachment",
];

/// Context of decoding.
#[derive(Debug)]
pub struct JiraDecoder {
    source: String,
    /// The label set by write-back, which does not count as a change.
    own_label: String,
    text_fields: Vec<String>,
    with_comments: bool,
}

/// An item with what is needed for further requests about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedIssue {
    pub item: WorkItem,
    /// Key and name of its project.
    pub project: Option<(String, String)>,
    /// The newest comments in the response, ours included.
    pub comments: Vec<Comment>,
    pub comment_count: u64,
}

/// Properties of a server: web address, text format, meaning of priorities.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    pub site: &'a str,
    pub format: Format,
    pub priorities: &'a Priorities,
}

/// A label has no spaces.
pub fn label(tag: &str) -> String {
    tag.split_whitespace().collect::<Vec<_>>().join("-")
}

impl JiraDecoder {
    pub fn new(config: &settings::Source) -> Self {
        // Names with dots are defaults of another tracker.
        let own = |name: &&String| !name.contains('.') && !name.trim().is_empty();
        let mut text_fields: Vec<String> = config.text_fields.iter().filter(own).cloned().collect();
        if text_fields.is_empty() {
            text_fields = TEXTS.map(str::to_owned).to_vec();
        }
        Self {
            source: config.name.clone(),
            own_label: label(&config.write_back_tag),
            text_fields,
            with_comments: config.comments > 0,
        }
    }

    /// The fields to request.
    pub fn fields(&self) -> Vec<String> {
        let mut names: Vec<String> = BASIC.iter().map(|&name| name.to_owned()).collect();
        names.extend(self.text_fields.iter().cloned());
        if self.with_comments {
            names.push("comment".to_owned());
        }
        names
    }

    /// Decodes one issue; `None` if it has no number. Missing fields are left empty, and a missing
    /// change date becomes `unknown_change`.
    pub fn item(
        &self,
        wire: wire::JiraIssue,
        server: Server<'_>,
        unknown_change: Timestamp,
    ) -> Option<DecodedIssue> {
        let id = ItemId(wire.number()?);
        let key = wire.key.map(without_controls).unwrap_or_else(|| id.to_string());
        let fields = wire.fields.unwrap_or_default();
        let date = |name: &str| fields.get::<String>(name).as_deref().and_then(instant);
        let created_at = date("created");
        let changed_at = date("updated").or(created_at).unwrap_or(unknown_change);
        let named = |name: &str| fields.get::<JiraNamed>(name).and_then(|named| named.name);
        let line =
            |text: Option<String>| text.map(without_controls).filter(|text| !text.is_empty());
        let status: JiraStatus = fields.get("status").unwrap_or_default();
        let project: Option<JiraNamed> = fields.get("project");
        let components: Vec<JiraNamed> = fields.get("components").unwrap_or_default();
        let mut areas = areas(project.as_ref(), components, &key);
        let parent = fields.get::<JiraNamed>("parent").and_then(|parent| parent.number());
        let versions: Vec<JiraNamed> = fields.get("fixVersions").unwrap_or_default();
        let (comments, comment_count) = comments(&fields, server.format);
        let item = WorkItem {
            key: ItemKey::new(&self.source, id),
            id,
            rev: changed_at.as_millisecond(),
            item_type: line(named("issuetype")).unwrap_or_default(),
            title: line(fields.get("summary")).unwrap_or_default(),
            finished: finished(&status, fields.raw("resolution").is_some()),
            state: line(status.name).unwrap_or_default(),
            changed_at,
            created_at,
            priority: named("priority").and_then(|name| server.priorities.rank(&name)),
            severity: None,
            area_path: Some(areas.remove(0)),
            more_areas: areas,
            iteration_path: line(versions.into_iter().find_map(|version| version.name)),
            assigned_to: fields.get::<User>("assignee").and_then(person),
            reporter: fields.get::<User>("reporter").and_then(person),
            tags: self.tags(fields.get("labels").unwrap_or_default()),
            parent: parent.map(ItemId),
            links: Links {
                items: fields.count("issuelinks") + fields.count("subtasks"),
                files: fields.count("attachment"),
                ..Links::default()
            },
            url: format!("{}/browse/{}", server.site, encode_segment(&key)),
            handle: Some(key),
            texts: self.texts(&fields, server.format),
            comments: Vec::new(),
        };
        let both = |named: JiraNamed| Some((named.key?, named.name.unwrap_or_default()));
        Some(DecodedIssue { item, project: project.and_then(both), comments, comment_count })
    }

    fn tags(&self, labels: Vec<String>) -> Vec<String> {
        let mut tags: Vec<String> = labels.into_iter().map(without_controls).collect();
        tags.retain(|tag| !tag.is_empty() && !tag.eq_ignore_ascii_case(&self.own_label));
        tags
    }

    fn texts(&self, fields: &wire::JiraFields, format: Format) -> Vec<TextField> {
        let text = |name: &String| {
            let raw = fields.raw(name)?;
            let (format, raw) = body(raw, format)?;
            Some(TextField { name: name.clone(), format, raw })
        };
        self.text_fields.iter().filter_map(text).collect()
    }
}

/// A long text: a JSON document, or a string in the server's markup.
fn body(raw: &str, format: Format) -> Option<(Format, String)> {
    if raw.starts_with('{') {
        return Some((Format::Adf, raw.to_owned()));
    }
    let text: String = crate::fetch::json::from_json(raw.as_bytes()).ok()?;
    let format = if format == Format::Adf { Format::Plain } else { format };
    (!text.trim().is_empty()).then_some((format, text))
}

/// The project and, below it, each component; if there are components, the project alone comes
/// last.
fn areas(project: Option<&JiraNamed>, components: Vec<JiraNamed>, key: &str) -> Vec<String> {
    let of_key = || key.split('-').next().unwrap_or_default().to_owned();
    let project = project.and_then(|project| project.key.clone()).unwrap_or_else(of_key);
    let project = without_controls(project);
    let name = |component: JiraNamed| component.name.filter(|name| !name.trim().is_empty());
    let mut areas: Vec<String> = components
        .into_iter()
        .filter_map(name)
        .map(|name| format!("{project}/{}", without_controls(name).replace(['/', '\\'], "-")))
        .collect();
    areas.push(project);
    areas
}

/// By the state's category, whose key is the same in every language and workflow.
fn finished(status: &JiraStatus, resolved: bool) -> Option<bool> {
    match status.status_category.as_ref().and_then(|category| category.key.as_deref()) {
        Some("done") => Some(true),
        Some(_) => Some(false),
        None if resolved => Some(true),
        None => None,
    }
}

fn comments(fields: &wire::JiraFields, format: Format) -> (Vec<Comment>, u64) {
    let wire: wire::JiraComments = fields.get("comment").unwrap_or_default();
    let held = wire.comments.len() as u64;
    let total = wire.total.unwrap_or(held);
    (wire.comments.into_iter().filter_map(|entry| comment(entry, format)).collect(), total)
}

/// Decodes one comment; `None` if it is empty.
pub fn comment(wire: JiraComment, format: Format) -> Option<Comment> {
    let raw = wire.body?;
    let (format, raw) = body(raw.get(), format)?;
    // A licensed account; nobody, a portal's customer or an app may not command.
    let may_write = wire.author.as_ref().is_some_and(|author| {
        let is_person = author.account_type.as_deref().is_none_or(|kind| kind == "atlassian");
        is_person && author.active != Some(false)
    });
    Some(Comment {
        author: wire.author.and_then(person).unwrap_or_default(),
        at: wire.created.as_deref().and_then(instant),
        format,
        raw,
        may_write,
    })
}

/// Whether we wrote a comment: its text ends with the mark.
pub fn is_our_comment(comment: &Comment) -> bool {
    is_ours(&words_of(comment))
}

/// The text of a comment in any format.
pub fn words_of(comment: &Comment) -> String {
    clean::clean_text(&comment.raw, comment.format, &clean::Options::default()).text
}

fn person(user: User) -> Option<String> {
    user.display_name.or(user.name).map(without_controls).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn decoder() -> JiraDecoder {
        JiraDecoder {
            source: "jira".into(),
            own_label: "heartbeat".into(),
            text_fields: vec!["description".into(), "customfield_10010".into()],
            with_comments: true,
        }
    }

    fn decode_as(value: Value, format: Format) -> Option<DecodedIssue> {
        let unknown = "2026-01-01T00:00:00Z".parse().unwrap();
        let priorities = Priorities::default();
        let server =
            Server { site: "https://contoso.atlassian.net", format, priorities: &priorities };
        let text = value.to_string();
        decoder().item(crate::fetch::json::from_json(text.as_bytes()).ok()?, server, unknown)
    }

    fn decode(value: Value) -> DecodedIssue {
        decode_as(value, Format::Adf).unwrap()
    }

    #[test]
    fn an_item_with_nothing_but_its_number_is_an_item() {
        let DecodedIssue { item, project, .. } = decode(json!({ "id": "10007", "key": "SHOP-7" }));
        assert_eq!((item.id, item.title.as_str(), item.state.as_str()), (ItemId(10007), "", ""));
        assert_eq!(item.handle.as_deref(), Some("SHOP-7"));
        assert_eq!(item.url, "https://contoso.atlassian.net/browse/SHOP-7");
        assert_eq!(item.changed_at.to_string(), "2026-01-01T00:00:00Z");
        assert_eq!((item.area_path.as_deref(), item.finished, project), (Some("SHOP"), None, None));
        assert!(decode_as(json!({ "id": "abc" }), Format::Adf).is_none());
        assert!(decode_as(json!({ "id": 12 }), Format::Adf).is_some());
    }

    #[test]
    fn components_priorities_and_the_category_of_the_state_are_read() {
        let item = decode(json!({ "id": "1", "key": "SHOP-1", "fields": {
            "summary": "Crash", "status": { "name": "Erledigt", "statusCategory": { "id": 3, "key": "done" } },
            "priority": { "id": "2", "name": "High" }, "project": { "key": "SHOP", "name": "Shop" },
            "components": [{ "name": "Web/UI" }, { "name": "Cart" }],
            "labels": ["customer", "Heartbeat"], "fixVersions": [{ "name": "2.1" }],
            "parent": { "id": "77", "key": "SHOP-9" }, "issuelinks": [{}, {}], "subtasks": [{}],
            "attachment": [{ "deep": [[1]] }], "assignee": { "displayName": "Ann\u{0} Lee" },
            "updated": "2026-11-16T12:00:00.123+0000",
        } })).item;
        assert_eq!((item.finished, item.priority), (Some(true), Some(2)));
        assert_eq!(item.areas().collect::<Vec<_>>(), ["SHOP/Web-UI", "SHOP/Cart", "SHOP"]);
        assert_eq!(item.tags, ["customer"], "ours is no news");
        assert_eq!((item.links.items, item.links.files, item.parent), (3, 1, Some(ItemId(77))));
        assert_eq!(item.iteration_path.as_deref(), Some("2.1"));
        assert_eq!(item.assigned_to.as_deref(), Some("Ann\u{FFFD} Lee"));
        assert_eq!(item.rev, item.changed_at.as_millisecond());
        let open = |category: Value| {
            let status = json!({ "name": "x", "statusCategory": category });
            let fields = json!({ "status": status, "resolution": { "name": "Done" } });
            decode(json!({ "id": "1", "fields": fields })).item.finished
        };
        assert_eq!(open(json!({ "key": "indeterminate" })), Some(false));
        assert_eq!(open(json!(null)), Some(true), "without a category, the resolution");
    }

    #[test]
    fn texts_are_documents_markup_or_plain() {
        let document = json!({ "type": "doc", "version": 1, "content": [] });
        let fields = json!({ "description": document, "customfield_10010": "*raw*" });
        let texts = decode(json!({ "id": "1", "fields": fields })).item.texts;
        let formats: Vec<Format> = texts.iter().map(|text| text.format).collect();
        assert_eq!(formats, [Format::Adf, Format::Plain]);
        let fields = json!({ "description": "h1. x\r\n", "customfield_10010": "" });
        let texts =
            decode_as(json!({ "id": "1", "fields": fields }), Format::Wiki).unwrap().item.texts;
        assert_eq!((texts.len(), texts[0].format), (1, Format::Wiki));
    }

    #[test]
    fn comments_that_came_with_an_issue_are_counted_and_ours_are_known() {
        let text = |words: &str| {
            json!({ "type": "doc", "version": 1, "content": [
            { "type": "paragraph", "content": [{ "type": "text", "text": "Likely cause: x" }] },
            { "type": "paragraph", "content": [{ "type": "text", "text": words,
                "marks": [{ "type": "em" }] }] }] })
        };
        let entry = |words: &str| {
            json!({ "body": text(words), "author": { "displayName": "A" },
            "created": "2026-11-16T12:00:00.000+0000" })
        };
        let fields = json!({ "comment": { "total": 31, "comments": [
            entry("heartbeat ref 0123456789ab"), entry("thanks"), { "body": null }] } });
        let decoded = decode(json!({ "id": "1", "fields": fields }));
        assert_eq!((decoded.comments.len(), decoded.comment_count), (2, 31));
        assert!(is_our_comment(&decoded.comments[0]) && !is_our_comment(&decoded.comments[1]));
    }

    #[test]
    fn a_megabyte_of_nesting_in_one_field_costs_only_that_field() {
        let deep = format!("{}{}", "{\"content\":[".repeat(80_000), "]}".repeat(80_000));
        let body = format!(
            r#"{{"issues":[{{"id":"1","fields":{{"summary":"a","description":{deep}}}}},
                {{"id":"2","fields":{{"summary":"b"}}}}]}}"#
        );
        let search: wire::JiraSearch = crate::fetch::json::from_json(body.as_bytes()).unwrap();
        let priorities = Priorities::default();
        let server = Server { site: "", format: Format::Adf, priorities: &priorities };
        let items: Vec<WorkItem> = search
            .issues
            .unwrap()
            .into_iter()
            .map(|issue| decoder().item(issue, server, Timestamp::UNIX_EPOCH).unwrap().item)
            .collect();
        assert_eq!((items[0].title.as_str(), items[1].title.as_str()), ("a", "b"));
        assert_eq!(items[0].texts[0].raw, deep);
    }

    /// Any JSON, a few levels deep.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            Just(json!("2026-03-31T18:36:26.234+0000")),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("name|key|id|content|text|[a-z]{3}", inner, 0..4)
                    .prop_map(Value::from_iter),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_the_fields_hold_an_item_comes_out(
            values in prop::collection::vec(any_json(), BASIC.len() + 3),
            wiki in any::<bool>(),
        ) {
            let names = BASIC.iter().copied().chain(["description", "customfield_10010", "comment"]);
            let fields = Value::from_iter(names.map(str::to_owned).zip(values));
            let format = if wiki { Format::Wiki } else { Format::Adf };
            let decoded = decode_as(json!({ "id": "5", "fields": fields }), format).unwrap();
            prop_assert_eq!(decoded.item.id, ItemId(5));
        }
    }
}
