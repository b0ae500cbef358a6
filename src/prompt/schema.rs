//! Validates an answer against its schema.
//!
//! Supports the part of JSON Schema that the schemas in `prompts/` use; a test fails if a schema
//! uses a keyword that is not checked here.

use serde_json::{Map, Value, json};

/// The supported keywords.
pub const KNOWN_WORDS: [&str; 10] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "enum",
    "minLength",
    "maxLength",
];

/// Everything in `value` that violates `schema`, as `path: what`. Empty if valid.
pub fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, value, "", &mut found);
    found
}

/// The schema of triage or locate. It does not say how many entries there must be: a CLI that enforces
/// it would reject all of them for one that is missing. Each id is checked when the answer is read.
pub fn for_batch(schema: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(schema)
}

/// Removes a property of a verdict that a batch has no use for.
pub fn without(schema: &mut Value, property: &str) {
    let Some(verdict) = schema.pointer_mut("/properties/verdicts/items") else { return };
    if let Some(properties) = verdict.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove(property);
    }
    if let Some(required) = verdict.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != property);
    }
}

/// The schema in the form that strict providers require: closed objects, every property required,
/// no bounds. Answers are still validated against the original schema.
pub fn strict(schema: &Value) -> Value {
    const BOUNDS: [&str; 4] = ["minItems", "maxItems", "minLength", "maxLength"];
    let Value::Object(object) = schema else { return schema.clone() };
    let mut view = Map::new();
    for (word, value) in object.iter().filter(|(word, _)| !BOUNDS.contains(&word.as_str())) {
        let inner = match (word.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.iter().map(|(name, inner)| (name.clone(), strict(inner))).collect()
            }
            ("items", items) => strict(items),
            _ => value.clone(),
        };
        view.insert(word.clone(), inner);
    }
    if let Some(properties) = object.get("properties").and_then(Value::as_object) {
        let listed = object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let unlisted = |name: &&String| !listed.iter().any(|known| known == name.as_str());
        let rest: Vec<Value> = properties.keys().filter(unlisted).map(|name| json!(name)).collect();
        view.insert("required".into(), Value::Array([listed.clone(), rest].concat()));
        view.insert("additionalProperties".into(), json!(false));
    }
    if let (false, Some(choice)) = (view.contains_key("type"), object.get("enum")) {
        let texts = choice.as_array().is_some_and(|choice| choice.iter().all(Value::is_string));
        view.extend(texts.then(|| ("type".to_owned(), json!("string"))));
    }
    Value::Object(view)
}

/// Like `violations`, but the `optional` properties may be missing: earlier versions did not ask
/// for them.
pub fn violations_but(schema: &Value, value: &Value, optional: &[&str]) -> Vec<String> {
    let mut found = violations(schema, value);
    found.retain(|violation| {
        let missing =
            violation.strip_suffix(": missing").and_then(|place| place.rsplit('/').next());
        missing.is_none_or(|name| !optional.contains(&name))
    });
    found
}

/// The schema as text, properties in the order of `required`. A model answers in this order, and a
/// reason is better written before the verdict.
pub fn in_order(schema: &Value) -> String {
    let Value::Object(object) = schema else { return schema.to_string() };
    let mut parts = Vec::new();
    for (word, value) in object {
        let written = match (word.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let required = object.get("required").and_then(Value::as_array);
                let first = required.into_iter().flatten().filter_map(Value::as_str);
                let mut names: Vec<&str> = first.collect();
                names.retain(|name| properties.contains_key(*name));
                let rest = properties.keys().map(String::as_str);
                let rest: Vec<&str> = rest.filter(|name| !names.contains(name)).collect();
                names.extend(rest);
                let one = |name: &&str| format!("{}:{}", json!(name), in_order(&properties[*name]));
                format!("{{{}}}", names.iter().map(one).collect::<Vec<_>>().join(","))
            }
            ("items", value) => in_order(value),
            (_, value) => value.to_string(),
        };
        parts.push(format!("{}:{written}", json!(word)));
    }
    format!("{{{}}}", parts.join(","))
}

fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let Some(schema) = schema.as_object() else { return };
    let place = if path.is_empty() { "/" } else { path };
    if let Some(kind) = schema.get("type").and_then(Value::as_str)
        && !has_type(value, kind)
    {
        found.push(format!("{place}: must be {kind}"));
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        found.push(format!("{place}: must be one of {}", Value::Array(allowed.clone())));
    }
    match value {
        Value::String(text) => {
            check_length(schema, "Length", text.chars().count(), place, found);
        }
        Value::Array(items) => {
            check_length(schema, "Items", items.len(), place, found);
            if let Some(item_schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    check(item_schema, item, &format!("{path}/{index}"), found);
                }
            }
        }
        Value::Object(object) => check_object(schema, object, path, found),
        _ => {}
    }
}

fn check_length(
    schema: &Map<String, Value>,
    word: &str,
    length: usize,
    place: &str,
    found: &mut Vec<String>,
) {
    let bound = |name: String| schema.get(&name).and_then(Value::as_u64);
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    if let Some(minimum) = bound(format!("min{word}")).filter(|minimum| length < *minimum) {
        found.push(format!("{place}: shorter than {minimum} (is {length})"));
    }
    if let Some(maximum) = bound(format!("max{word}")).filter(|maximum| length > *maximum) {
        found.push(format!("{place}: longer than {maximum} (is {length})"));
    }
}

fn check_object(
    schema: &Map<String, Value>,
    object: &Map<String, Value>,
    path: &str,
    found: &mut Vec<String>,
) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            found.push(format!("{path}/{name}: missing"));
        }
    }
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (name, value) in object {
        match properties.and_then(|properties| properties.get(name)) {
            Some(schema) => check(schema, value, &format!("{path}/{name}"), found),
            None if closed => found.push(format!("{path}/{name}: not allowed")),
            None => {}
        }
    }
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::{DEEP_SCHEMA, LOCATE_SCHEMA, TRIAGE_SCHEMA};

    fn words(schema: &Value, found: &mut Vec<String>) {
        for (word, value) in schema.as_object().into_iter().flatten() {
            found.push(word.clone());
            match word.as_str() {
                "properties" => value.as_object().unwrap().values().for_each(|s| words(s, found)),
                "items" => words(value, found),
                _ => {}
            }
        }
    }

    #[test]
    fn every_word_of_our_schemas_is_checked() {
        for schema in [TRIAGE_SCHEMA, LOCATE_SCHEMA, DEEP_SCHEMA] {
            let mut found = Vec::new();
            words(&serde_json::from_str(schema).unwrap(), &mut found);
            assert!(found.iter().all(|word| KNOWN_WORDS.contains(&word.as_str())), "{found:?}");
        }
    }

    fn objects(schema: &Value, found: &mut Vec<Value>) {
        if schema["type"] == "object" {
            found.push(schema.clone());
        }
        for part in schema["properties"].as_object().into_iter().flatten() {
            objects(part.1, found);
        }
        if schema["items"].is_object() {
            objects(&schema["items"], found);
        }
    }

    #[test]
    fn our_schemas_are_closed_and_strict() {
        for schema in [TRIAGE_SCHEMA, LOCATE_SCHEMA, DEEP_SCHEMA] {
            let mut found = Vec::new();
            objects(&serde_json::from_str(schema).unwrap(), &mut found);
            for object in found {
                assert_eq!(object["additionalProperties"], json!(false), "{object}");
                let mut required: Vec<_> = object["required"].as_array().unwrap().clone();
                required.sort_by_key(ToString::to_string);
                let names: Vec<_> =
                    object["properties"].as_object().unwrap().keys().map(|k| json!(k)).collect();
                assert_eq!(required, names);
                for (name, property) in object["properties"].as_object().unwrap() {
                    assert!(property["type"].is_string(), "{name} has no type");
                }
            }
        }
    }

    #[test]
    fn the_reason_is_asked_for_before_the_verdict() {
        for schema in [TRIAGE_SCHEMA, DEEP_SCHEMA] {
            let schema: Value = serde_json::from_str(schema).unwrap();
            let text = in_order(&schema);
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), schema);
        }
        let text = in_order(&for_batch(TRIAGE_SCHEMA).unwrap());
        let place = |name: &str| text.find(name).unwrap();
        assert!(place("\"reason\":") < place("\"needs_deep_analysis\":"));
        assert!(place("\"needs_deep_analysis\":") < place("\"complexity\":"));
    }

    #[test]
    fn each_kind_of_violation_is_named_with_its_place() {
        let schema = for_batch(TRIAGE_SCHEMA).unwrap();
        let output =
            json!({"verdicts": [{"id": "7", "complexity": "huge", "modules": [1], "x": 1}]});
        let optional = ["reason", "doubt", "confidence", "terms", "related", "duplicates"];
        assert_eq!(
            violations_but(&schema, &output, &optional),
            [
                "/verdicts/0/needs_deep_analysis: missing",
                "/verdicts/0/ask: missing",
                "/verdicts/0/code_bases: missing",
                "/verdicts/0/set: missing",
                "/verdicts/0/complexity: must be one of [\"trivial\",\"simple\",\"moderate\",\"complex\"]",
                "/verdicts/0/id: must be integer",
                "/verdicts/0/modules/0: must be string",
                "/verdicts/0/x: not allowed",
            ]
        );
        let deep: Value = serde_json::from_str(DEEP_SCHEMA).unwrap();
        let found = violations(&deep, &json!({ "summary": "x", "more": 1 }));
        assert!(found.contains(&"/more: not allowed".to_owned()), "{found:?}");
        assert!(found.contains(&"/files: missing".to_owned()), "{found:?}");
        assert_eq!(violations(&schema, &json!([])), ["/: must be object"]);
        assert_eq!(violations(&schema, &json!({})), ["/verdicts: missing"]);
    }
}
