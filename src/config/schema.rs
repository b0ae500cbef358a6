//! The JSON Schema of `heartbeat.toml`, for editors. Made from the same values as validation: types
//! and defaults from `default.toml`, descriptions from its comments, choices from the deserialiser.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use toml::Value;

use super::keys::{Entry, Keys};
use super::{DEFAULT_TOML, Origin, list};

/// No choice has this name.
const NO_CHOICE: &str = "no such choice";

/// The whole document.
pub fn schema() -> Json {
    let (keys, comments) = (Keys::new(), comments(DEFAULT_TOML));
    let mut sections = Map::new();
    for (section, values) in &keys.defaults() {
        let Some(values) = values.as_table() else { continue };
        let properties = properties(&keys, &comments, section, values);
        let mut one = object(properties);
        if let Some(about) = comments.get(section) {
            one["description"] = json!(about);
        }
        sections.insert(section.clone(), one);
    }
    for (name, section) in list::all() {
        let values = keys.section(section);
        let properties = properties(&keys, &comments, section, &values);
        let entries = json!({ "type": "array", "items": object(properties) });
        sections.insert(name.to_owned(), entries);
    }
    let mut document = object(sections);
    document["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    document["title"] = json!("heartbeat.toml");
    document
}

fn object(properties: Map<String, Json>) -> Json {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn properties(
    keys: &Keys,
    comments: &BTreeMap<String, String>,
    section: &str,
    values: &toml::Table,
) -> Map<String, Json> {
    let one = |(key, value): (&String, &Value)| {
        let name = format!("{section}.{key}");
        let mut one = kind(keys, &name, value);
        if keys.default_of(&name).is_some() {
            one["default"] = serde_json::to_value(value).unwrap_or_default();
        }
        if let Some(about) = comments.get(&name) {
            one["description"] = json!(about);
        }
        (key.clone(), one)
    };
    values.iter().map(one).collect()
}

fn kind(keys: &Keys, name: &str, value: &Value) -> Json {
    match value {
        Value::String(_) => {
            let choices = choices(keys, name, NO_CHOICE.into());
            let mut one = json!({ "type": "string" });
            if !choices.is_empty() {
                // What is written may also be empty, if that is the default.
                let empty = value.as_str().filter(|text| text.is_empty());
                one["enum"] =
                    json!(choices.iter().map(String::as_str).chain(empty).collect::<Vec<_>>());
            }
            one
        }
        Value::Integer(_) => json!({ "type": "integer" }),
        Value::Float(_) => json!({ "type": "number" }),
        Value::Boolean(_) => json!({ "type": "boolean" }),
        Value::Array(_)
            if [".routes", ".mirrors", ".code_bases"].iter().any(|end| name.ends_with(end)) =>
        {
            json!({ "type": "array", "items": { "type": "object" } })
        }
        Value::Array(entries) if entries.first().is_some_and(Value::is_integer) => {
            json!({ "type": "array", "items": { "type": "integer" } })
        }
        Value::Array(_) => {
            let choices = choices(keys, name, Value::Array(vec![NO_CHOICE.into()]));
            let mut items = json!({ "type": "string" });
            if !choices.is_empty() {
                items["enum"] = json!(choices);
            }
            json!({ "type": "array", "items": items })
        }
        _ => json!({ "type": "object" }),
    }
}

/// What validation says may be written instead of a value that is certainly wrong.
fn choices(keys: &Keys, name: &str, wrong: Value) -> Vec<String> {
    let entry = Entry { key: name.to_owned(), value: wrong, origin: Origin::Default };
    let Some(super::error::Problem::WrongValue { allowed, .. }) = keys.refuse(&entry) else {
        return Vec::new();
    };
    let Some(listed) = allowed.strip_prefix("write \"") else { return Vec::new() };
    let listed = listed.split("; ").next().unwrap_or(listed);
    format!("\"{listed}").split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The comment above each section and key of the file, as one line, by `section` and `section.key`.
fn comments(text: &str) -> BTreeMap<String, String> {
    let (mut found, mut section, mut above) = (BTreeMap::new(), String::new(), Vec::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix('#') {
            above.push(comment.trim().to_owned());
            continue;
        }
        let key = line.split_once(" = ").map(|(key, _)| key).filter(|key| !key.starts_with(' '));
        let name = match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) => {
                name.clone_into(&mut section);
                Some(name.to_owned())
            }
            None => key.map(|key| format!("{section}.{key}")),
        };
        let comment = std::mem::take(&mut above).join(" ");
        if let Some(name) = name.filter(|_| !comment.is_empty()) {
            found.insert(name, comment);
        }
    }
    found
}
