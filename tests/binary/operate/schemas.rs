//! The JSON Schemas of every `--json` output, in `docs/schemas`. They are made from what the commands
//! print in the states below, and every output of these must fit them: a field that is new, gone or
//! of another type shows here before it shows in somebody's script.
//!
//! `HEARTBEAT_TEST_SCHEMAS=write` writes them anew: read the difference before you commit it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::world::World;

/// Objects whose keys are data: every value has the same form.
const MAPS: [&str; 3] = ["/sources", "/removed_sources", "/opinions"];

/// Every command, by the name of its schema.
fn commands(item: &str) -> Vec<(&'static str, Vec<String>)> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let of_item = |command: &str| [command.to_owned(), item.to_owned()].to_vec();
    vec![
        ("status", words("status")),
        ("runs", words("runs")),
        ("sessions", words("sessions")),
        ("items", words("items")),
        ("show", of_item("show")),
        ("why", of_item("why")),
        ("report", words("report --since 7d")),
        ("doctor", words("doctor")),
        ("schedule", words("schedule")),
        ("accuracy", words("accuracy")),
        ("context", words("context --repo code --query-file code/total.rs")),
        ("dry-run", words("--dry-run")),
        ("once", words("--once")),
        ("pause", words("pause --note why")),
        ("resume", words("resume")),
        ("retry", of_item("retry")),
        ("feedback", [of_item("feedback"), words("useful")].concat()),
        ("share", [of_item("share"), words("--out shared.html")].concat()),
    ]
}

fn folder() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas").into()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_map(path: &str) -> bool {
    MAPS.iter().any(|map| path.ends_with(map))
}

/// The schema that these values fit, and no narrower one.
fn infer(values: &[&Value], path: &str) -> Value {
    let mut kinds: Vec<&str> = values.iter().map(|value| kind(value)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut schema = Map::new();
    match kinds.as_slice() {
        // Never seen with a value: anything.
        [] | ["null"] => return json!({}),
        [one] => schema.insert("type".into(), json!(one)),
        several => schema.insert("type".into(), json!(several)),
    };
    let objects: Vec<&Map<String, Value>> =
        values.iter().filter_map(|value| value.as_object()).collect();
    if !objects.is_empty() {
        let mut fields: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for (name, value) in objects.iter().flat_map(|object| object.iter()) {
            fields.entry(name).or_default().push(value);
        }
        if is_map(path) {
            let all: Vec<&Value> = fields.into_values().flatten().collect();
            schema.insert("additionalProperties".into(), infer(&all, &format!("{path}/*")));
        } else {
            let required: Vec<&str> = fields
                .iter()
                .filter(|(_, values)| values.len() == objects.len())
                .map(|(name, _)| *name)
                .collect();
            schema.insert("required".into(), json!(required));
            let properties: Map<String, Value> = fields
                .iter()
                .map(|(name, values)| {
                    ((*name).to_owned(), infer(values, &format!("{path}/{name}")))
                })
                .collect();
            schema.insert("properties".into(), properties.into());
        }
    }
    let entries: Vec<&Value> =
        values.iter().filter_map(|value| value.as_array()).flatten().collect();
    if values.iter().any(|value| value.is_array()) {
        schema.insert("items".into(), infer(&entries, &format!("{path}/*")));
    }
    schema.into()
}

/// Everything in `value` that the schema does not say.
fn violations(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let Some(types) = schema.get("type") else { return };
    let is_one = |name: &Value| name == kind(value);
    let fits = types.as_array().map_or_else(|| is_one(types), |types| types.iter().any(is_one));
    if !fits {
        found.push(format!("{path} is {}, and the schema says {types}", kind(value)));
        return;
    }
    match value {
        Value::Array(entries) => {
            let items = &schema["items"];
            for entry in entries.iter().filter(|_| items.is_object()) {
                violations(items, entry, &format!("{path}/*"), found);
            }
        }
        Value::Object(fields) => {
            let required = schema["required"].as_array().into_iter().flatten();
            for name in
                required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name))
            {
                found.push(format!("{path}/{name} is missing"));
            }
            for (name, value) in fields {
                let inner = schema["properties"].get(name);
                match inner.or_else(|| schema.get("additionalProperties")) {
                    Some(inner) => violations(inner, value, &format!("{path}/{name}"), found),
                    None => found.push(format!("{path}/{name} is not in the schema")),
                }
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn every_json_output_fits_its_schema() {
    let world = World::new().await;
    let mut seen: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let item = "4106";
    // Before anything ran, after a run, after a person's rating, and when there is nothing new.
    for _ in 0..3 {
        for (name, args) in commands(item) {
            let args: Vec<&str> = args.iter().map(String::as_str).chain(["--json"]).collect();
            let said = world.run(&args).await;
            if let Ok(output) = serde_json::from_str(&said.stdout) {
                seen.entry(name).or_default().push(output);
            }
        }
    }
    #[expect(clippy::disallowed_methods, reason = "whoever runs the test says so")]
    let write = std::env::var("HEARTBEAT_TEST_SCHEMAS").is_ok_and(|value| value == "write");
    let mut found = Vec::new();
    for (name, _) in commands(item) {
        let outputs = seen.remove(name).unwrap_or_default();
        assert!(!outputs.is_empty(), "{name} printed no JSON");
        let path = folder().join(format!("{name}.schema.json"));
        if write {
            let mut schema = infer(&outputs.iter().collect::<Vec<_>>(), "");
            schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
            schema["title"] = format!("heartbeat {name} --json").into();
            std::fs::create_dir_all(folder()).unwrap();
            let text = serde_json::to_string_pretty(&schema).unwrap();
            std::fs::write(&path, format!("{text}\n")).unwrap();
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let schema: Value = serde_json::from_str(&text).unwrap();
        for output in &outputs {
            violations(&schema, output, name, &mut found);
        }
    }
    found.sort();
    found.dedup();
    assert!(
        found.is_empty(),
        "HEARTBEAT_TEST_SCHEMAS=write writes the schemas anew, if this is meant:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_field_that_is_new_gone_or_another_is_found() {
    let sample = json!({ "a": 1, "list": [{ "b": "x" }, { "b": null, "c": true }] });
    let schema = infer(&[&sample], "");
    let wrong = |value: &Value| {
        let mut found = Vec::new();
        violations(&schema, value, "", &mut found);
        found
    };
    assert_eq!(wrong(&sample), Vec::<String>::new());
    assert_eq!(wrong(&json!({ "a": 1, "list": [] })), Vec::<String>::new());
    assert_eq!(wrong(&json!({ "list": [] })), ["/a is missing"]);
    assert_eq!(wrong(&json!({ "a": "1", "list": [] })).len(), 1);
    assert_eq!(
        wrong(&json!({ "a": 1, "list": [{ "b": "x", "d": 1 }] })),
        ["/list/*/d is not in the schema"]
    );
}
