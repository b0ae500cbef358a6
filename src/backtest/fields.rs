//! Finished items with the history of their fields, to measure what triage suggests.
//!
//! From a tracker: an item as it was created and as it is now; what happened in between counts as
//! happening at its last change, so that nothing is known too early. From a file: the changes that
//! an export has, in the form of the tracker that it comes from.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::BacktestError;
use super::tracker::{cleaned, finished_items};
use crate::dedupe::ItemWords;
use crate::fetch::ado::saved_item;
use crate::fetch::{AsOf, Source};
use crate::model::{Field, ItemFields, ItemId, WorkItem};
use crate::settings::Config;
use crate::suggest::{PastFields, PastItem, words_kept};

/// The newest finished items that are read: each costs a request for its past.
const MAX: usize = 2_000;
/// Items read at once as they are now.
const AT_ONCE: usize = 200;
/// An item's first values are often set by a second request of the same form, in seconds.
const CREATION: i64 = 5;

/// The finished items of a source with the history of their fields.
pub async fn past_fields(
    (name, source): (&str, &dyn Source),
    config: &Config,
    since: Timestamp,
    now: Timestamp,
    mut progress: impl FnMut(usize, usize),
) -> Result<Vec<PastItem>, BacktestError> {
    let (mut found, _) = finished_items((name, source), config, since).await?;
    found.retain(|item| item.created_at.is_some());
    found.sort_by_key(|item| std::cmp::Reverse(item.created_at));
    found.truncate(MAX);
    let all = found.len();
    let mut last: HashMap<i64, WorkItem> = HashMap::new();
    for part in found.chunks(AT_ONCE) {
        let ids = part.iter().map(|item| ItemId(item.id)).collect();
        let items = source.as_of(ids, now).await?.ok_or(BacktestError::NoLookBack)?;
        last.extend(items.into_iter().map(|AsOf { item, .. }| (item.id.0, item)));
    }
    let mut items = Vec::with_capacity(all);
    for (read, item) in found.into_iter().enumerate() {
        progress(read, all);
        let Some(created_at) = item.created_at else { continue };
        let Ok(moment) = Timestamp::from_second(created_at + CREATION) else { continue };
        let then = source.as_of(vec![ItemId(item.id)], moment).await?;
        let then = then.ok_or(BacktestError::NoLookBack)?.into_iter().next();
        let (Some(AsOf { item: then, .. }), Some(now)) = (then, last.remove(&item.id)) else {
            continue;
        };
        let fields = between(&then, &now);
        let words = ItemWords::of(&cleaned(config, then));
        let words = words_kept(&words.title, &words.text);
        items.push(PastItem { id: item.id, created_at, words, fields, people: Vec::new() });
    }
    Ok(items)
}

fn between(then: &WorkItem, now: &WorkItem) -> PastFields {
    let (at_creation, last) = (ItemFields::of(then), ItemFields::of(now));
    let changed =
        Field::ALL.into_iter().filter(|field| at_creation.values(*field) != last.values(*field));
    let at = now.changed_at.as_second();
    let changes = changed.map(|field| (at, field, last.values(field).to_vec())).collect();
    PastFields { at_creation, changes }
}

/// One item of an export: the short form, a work item of Azure DevOps with its `updates`, an issue
/// of Jira with its `changelog`, or an issue of GitHub with its `events`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Exported {
    #[serde(alias = "number")]
    id: Value,
    title: String,
    #[serde(alias = "body")]
    text: Option<String>,
    #[serde(alias = "createdAt", alias = "created_at")]
    created: Option<Timestamp>,
    area: Option<String>,
    #[serde(rename = "type")]
    item_type: Option<String>,
    priority: Option<String>,
    severity: Option<String>,
    tags: Vec<String>,
    labels: Vec<Value>,
    owner: Option<String>,
    assignees: Vec<Value>,
    reporter: Option<String>,
    #[serde(alias = "user")]
    author: Value,
    history: Vec<PastChange>,
    events: Vec<Value>,
}

/// A change of one field: an older value and a newer one, each a text or a list.
#[derive(Debug, Clone, Deserialize)]
struct PastChange {
    at: Timestamp,
    field: Field,
    #[serde(default)]
    from: Value,
    #[serde(default)]
    to: Value,
}

/// A finished item of an export; `None` without a number, a title or a date.
pub fn exported_item(value: &Value, config: &Config) -> Option<PastItem> {
    match (value.get("fields"), value.get("changelog")) {
        (Some(fields), Some(changelog)) => of_jira(value, fields, changelog),
        (Some(_), None) => of_azure_devops(value, config),
        _ => of_short_form(value),
    }
}

fn of_short_form(value: &Value) -> Option<PastItem> {
    let item: Exported = serde_json::from_value(value.clone()).ok()?;
    let id = item.id.as_i64().or_else(|| item.id.as_str()?.trim().parse().ok())?;
    let named = |value: &Value| text_at(value, &["name", "login"]);
    let mut tags = item.tags;
    tags.extend(item.labels.iter().filter_map(named));
    let last = ItemFields {
        area: item.area,
        item_type: item.item_type,
        priority: item.priority,
        severity: item.severity,
        tags,
        owner: item.owner.or_else(|| item.assignees.first().and_then(named)),
        reporter: item.reporter.or_else(|| named(&item.author)),
    };
    let mut changes = item.history;
    changes.extend(of_events(&item.events));
    let created = item.created?.as_second();
    past_item((id, created), (&item.title, item.text.as_deref().unwrap_or_default()), last, changes)
}

/// Labels and assignees over time, from GitHub's events.
fn of_events(events: &[Value]) -> Vec<PastChange> {
    let (mut tags, mut owner, mut changes) = (Vec::<String>::new(), None::<String>, Vec::new());
    for event in events {
        let at = event["created_at"].as_str().and_then(|at| at.parse().ok());
        let (Some(at), Some(kind)) = (at, event["event"].as_str()) else { continue };
        let (was_tags, was_owner) = (tags.clone(), owner.clone());
        let label = text_at(&event["label"], &["name"]);
        let person = text_at(&event["assignee"], &["login"]);
        match (kind, label, person) {
            ("labeled", Some(label), _) if !tags.contains(&label) => tags.push(label),
            ("unlabeled", Some(label), _) => tags.retain(|tag| *tag != label),
            ("assigned", _, Some(person)) => owner = Some(person),
            ("unassigned", _, Some(person)) if owner == Some(person.clone()) => owner = None,
            _ => {}
        }
        if tags != was_tags {
            let (from, to) = (was_tags.into(), tags.clone().into());
            changes.push(PastChange { at, field: Field::Tags, from, to });
        }
        if owner != was_owner {
            let (from, to) = (was_owner.into(), owner.clone().into());
            changes.push(PastChange { at, field: Field::Owner, from, to });
        }
    }
    changes
}

fn of_azure_devops(value: &Value, config: &Config) -> Option<PastItem> {
    let raw = saved_item(&value.to_string(), &config.source.text_fields).ok()?;
    let last = ItemFields::of(&raw);
    let fields = [
        (Field::Area, "System.AreaPath"),
        (Field::Type, "System.WorkItemType"),
        (Field::Priority, "Microsoft.VSTS.Common.Priority"),
        (Field::Severity, "Microsoft.VSTS.Common.Severity"),
        (Field::Tags, "System.Tags"),
        (Field::Owner, "System.AssignedTo"),
    ];
    let mut changes = Vec::new();
    // The first update is the creation.
    for update in value["updates"].as_array().into_iter().flatten().skip(1) {
        let dated = [&update["fields"]["System.ChangedDate"]["newValue"], &update["revisedDate"]];
        let at = dated.iter().find_map(|at| at.as_str()?.parse::<Timestamp>().ok());
        for (field, name) in fields {
            let (Some(at), Some(change)) = (at, update["fields"].get(name)) else { continue };
            let value = |which: &str| match field {
                Field::Tags => {
                    let joined = change[which].as_str().unwrap_or_default().split(';');
                    joined.map(str::trim).filter(|tag| !tag.is_empty()).collect::<Vec<_>>().into()
                }
                _ => change[which].clone(),
            };
            changes.push(PastChange { at, field, from: value("oldValue"), to: value("newValue") });
        }
    }
    let (id, created) = (raw.id.0, raw.created_at?.as_second());
    let clean = cleaned(config, raw);
    let words = ItemWords::of(&clean);
    let mut item = past_item((id, created), ("", ""), last, changes)?;
    item.words = words_kept(&words.title, &words.text);
    Some(item)
}

fn of_jira(value: &Value, fields: &Value, changelog: &Value) -> Option<PastItem> {
    let id = value["id"].as_i64().or_else(|| value["id"].as_str()?.parse().ok())?;
    let name = |value: &Value| text_at(value, &["displayName", "name", "value"]);
    let names = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(name).collect()
    };
    let last = ItemFields {
        area: names(&fields["components"]).into_iter().next(),
        item_type: name(&fields["issuetype"]),
        priority: name(&fields["priority"]),
        severity: None,
        tags: names(&fields["labels"]),
        owner: name(&fields["assignee"]),
        reporter: name(&fields["reporter"]),
    };
    let mut changes = Vec::new();
    for entry in changelog["histories"].as_array().into_iter().flatten() {
        let Some(at) = entry["created"].as_str().and_then(jira_time) else { continue };
        for item in entry["items"].as_array().into_iter().flatten() {
            let field = match item["field"].as_str().unwrap_or_default() {
                "Component" | "components" => Field::Area,
                "issuetype" => Field::Type,
                "priority" => Field::Priority,
                "labels" => Field::Tags,
                "assignee" => Field::Owner,
                _ => continue,
            };
            let side = |name: &str| match (field, item[name].as_str()) {
                (Field::Tags, Some(text)) => text.split_whitespace().collect::<Vec<_>>().into(),
                _ => item[name].clone(),
            };
            changes.push(PastChange { at, field, from: side("fromString"), to: side("toString") });
        }
    }
    let created = fields["created"].as_str().and_then(jira_time)?.as_second();
    let title = fields["summary"].as_str()?;
    let text = fields["description"].as_str().unwrap_or_default();
    past_item((id, created), (title, text), last, changes)
}

/// `2026-03-31T18:36:26.000+0000`
fn jira_time(text: &str) -> Option<Timestamp> {
    let parsed = text.parse().ok();
    parsed.or_else(|| Timestamp::strptime("%Y-%m-%dT%H:%M:%S%.f%z", text).ok())
}

fn text_at(value: &Value, names: &[&str]) -> Option<String> {
    let text = value.as_str().or_else(|| names.iter().find_map(|name| value.get(name)?.as_str()));
    text.map(str::to_owned).filter(|text| !text.is_empty())
}

/// The item before its first change, and the changes in order. A change within seconds of the
/// creation is part of it.
fn past_item(
    (id, created_at): (i64, i64),
    (title, text): (&str, &str),
    last: ItemFields,
    mut changes: Vec<PastChange>,
) -> Option<PastItem> {
    changes.sort_by_key(|change| change.at);
    let (early, later): (Vec<PastChange>, Vec<PastChange>) =
        changes.into_iter().partition(|change| change.at.as_second() <= created_at + CREATION);
    let mut at_creation = last;
    for field in Field::ALL {
        let before = later.iter().find(|change| change.field == field);
        let newest = early.iter().rev().find(|change| change.field == field);
        match (newest, before) {
            (Some(change), _) => at_creation.set(field, values(&change.to)),
            (None, Some(change)) => at_creation.set(field, values(&change.from)),
            (None, None) => {}
        }
    }
    let changes =
        later.iter().map(|change| (change.at.as_second(), change.field, values(&change.to)));
    let words = ItemWords::of_text(&format!("{title}\n{text}"));
    let words = words_kept(&words.title, &words.text);
    let fields = PastFields { at_creation, changes: changes.collect() };
    Some(PastItem { id, created_at, words, fields, people: Vec::new() })
}

/// A text, a number, a person or a list, as a list.
fn values(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().flat_map(values).collect(),
        Value::Number(number) => vec![number.to_string()],
        other => text_at(other, &["displayName", "name", "login"]).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config() -> Config {
        toml::from_str(crate::config::DEFAULT_TOML).unwrap()
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "three exports side by side")]
    fn each_trackers_export_is_rewound_to_its_creation() {
        let short = json!({
            "id": "7", "title": "Total wrong", "created": "2026-01-01T00:00:00Z", "area": "Cart",
            "history": [{ "at": "2026-01-02T00:00:00Z", "field": "area", "from": "", "to": "Cart" }],
        });
        let ado = json!({
            "id": 7, "rev": 2,
            "fields": {
                "System.Title": "Total wrong", "System.AreaPath": "Shop\\Cart", "System.Tags": "a; b",
                "System.CreatedDate": "2026-01-01T00:00:00Z",
                "System.AssignedTo": { "displayName": "Ann Lee" },
            },
            "updates": [
                { "rev": 1, "fields": {} },
                { "rev": 2, "fields": {
                    "System.ChangedDate": { "newValue": "2026-01-02T00:00:00Z" },
                    "System.AreaPath": { "oldValue": "Shop", "newValue": "Shop\\Cart" },
                    "System.Tags": { "newValue": "a; b" },
                    "System.AssignedTo": { "newValue": { "displayName": "Ann Lee" } },
                } },
            ],
        });
        let jira = json!({
            "id": "7", "key": "SHOP-7",
            "fields": {
                "summary": "Total wrong", "created": "2026-01-01T00:00:00.000+0000",
                "components": [{ "name": "Cart" }], "labels": ["a", "b"],
                "assignee": { "displayName": "Ann Lee" },
            },
            "changelog": { "histories": [{
                "created": "2026-01-02T00:00:00.000+0000",
                "items": [
                    { "field": "Component", "fromString": null, "toString": "Cart" },
                    { "field": "labels", "fromString": "", "toString": "a b" },
                    { "field": "assignee", "fromString": null, "toString": "Ann Lee" },
                ],
            }] },
        });
        let github = json!({
            "number": 7, "title": "Total wrong", "created_at": "2026-01-01T00:00:00Z",
            "labels": [{ "name": "a" }, { "name": "b" }], "assignees": [{ "login": "Ann Lee" }],
            "user": { "login": "bob" },
            "events": [
                { "event": "labeled", "label": { "name": "a" }, "created_at": "2026-01-01T00:00:01Z" },
                { "event": "labeled", "label": { "name": "b" }, "created_at": "2026-01-02T00:00:00Z" },
                { "event": "assigned", "assignee": { "login": "Ann Lee" },
                  "created_at": "2026-01-02T00:00:00Z" },
            ],
        });
        let [short, ado, jira, github] =
            [short, ado, jira, github].map(|value| exported_item(&value, &config()).unwrap());
        assert_eq!(short.fields.at_creation.area, None);
        assert_eq!(short.fields.last().area.as_deref(), Some("Cart"));
        assert_eq!(ado.fields.at_creation.area.as_deref(), Some("Shop"));
        assert_eq!(jira.fields.at_creation.area, None);
        for item in [&ado, &jira] {
            assert!(
                item.fields.at_creation.tags.is_empty() && item.fields.at_creation.owner.is_none()
            );
        }
        assert_eq!(github.fields.at_creation.tags, ["a"], "set with the same form");
        assert_eq!(github.fields.at_creation.reporter.as_deref(), Some("bob"));
        for item in [&ado, &jira, &github] {
            assert_eq!((item.id, item.created_at), (7, 1_767_225_600));
            assert_eq!(item.fields.last().tags, ["a", "b"]);
            assert_eq!(item.fields.last().owner.as_deref(), Some("Ann Lee"));
            assert!(item.words.title.contains("total"), "{:?}", item.words);
        }
    }

    #[test]
    fn what_is_no_item_is_passed_over() {
        for value in [json!(7), json!({}), json!({ "id": 7 }), json!({ "id": 7, "title": "x" })] {
            assert_eq!(exported_item(&value, &config()), None, "{value}");
        }
    }
}
