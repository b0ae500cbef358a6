//! The JSON Schemas of every `--json` output, in `docs/schemas`. They are made from what the commands
//! print in the states below, and every output of these must fit them: a field that is new, gone or
//! of another type shows here before it shows in somebody's script.
//!
//! `HEARTBEAT_TEST_SCHEMAS=write` writes them anew: read the difference before you commit it.
//!
//! While the folder `target/json-outputs` exists, every test keeps there what `--json` printed. Make
//! it, run the suite, then these tests: all that was kept is compared, and written schemas fit it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::world::World;
use crate::backtest::Past;

/// Objects whose keys are data: every value has the same form.
const MAPS: [&str; 11] = [
    "/sources",
    "/removed_sources",
    "/opinions",
    "/suggestions",
    "accuracy/groups",
    "backtest/groups",
    "backtest/groups/*",
    "try/groups",
    "try/groups/*",
    "backtest/left",
    "try/left",
];

/// Every command, by the name of its schema.
fn commands(item: &str, past: &str) -> Vec<(&'static str, Vec<String>)> {
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
        ("brief", of_item("brief")),
        ("clean", words("clean page.html")),
        ("config", words("config")),
        ("kill", words("kill --all --yes")),
        ("selftest", words("selftest --only well-behaved")),
        (
            "backtest",
            words(&format!("backtest --items {past}/items.json --repo {past}/code --jobs 1")),
        ),
        ("try", words(&format!("try --items {past}/items.json --repo {past}/code --out try.html"))),
    ]
}

fn folder() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas").into()
}

/// What the suite printed, by command, if somebody made the folder for it.
fn kept() -> BTreeMap<String, Vec<Value>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/target/json-outputs");
    let files = std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path());
    let name = |file: &std::path::Path| file.file_stem().unwrap().to_str().unwrap().to_owned();
    files.map(|file| (name(&file), super::world::lines(&file))).collect()
}

fn schema(name: &str) -> Value {
    let path = folder().join(format!("{name}.schema.json"));
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{name}: {e}"));
    serde_json::from_str(&text).unwrap()
}

fn is_to_be_written() -> bool {
    #[expect(clippy::disallowed_methods, reason = "whoever runs the test says so")]
    std::env::var("HEARTBEAT_TEST_SCHEMAS").is_ok_and(|value| value == "write")
}

fn assert_none(mut violations: Vec<String>) {
    violations.sort();
    violations.dedup();
    assert!(
        violations.is_empty(),
        "HEARTBEAT_TEST_SCHEMAS=write writes the schemas anew, if this is meant:\n{}",
        violations.join("\n")
    );
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
    std::fs::write(world.path("page.html"), "<p>It <b>fails</b>.</p>").unwrap();
    let history = Past::new();
    history.write("src/total.rs", "pub fn total() -> u32 {\n    1\n}\n");
    history.commit("Start");
    history.write("src/total.rs", "pub fn total() -> u32 {\n    2\n}\n");
    history.commit("Fixes #11: the total is wrong");
    let items = json!([{ "number": 11, "title": "The total is wrong", "body": "By one.", "createdAt": "2020-01-01T00:00:00Z" }]);
    std::fs::write(history.folder.path().join("items.json"), items.to_string()).unwrap();
    let past = history.folder.path().display().to_string();
    let mut seen: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let item = "4106";
    // Before anything ran, after a run, after a person's rating, and when there is nothing new.
    for _ in 0..3 {
        for (name, args) in commands(item, &past) {
            let args: Vec<&str> = args.iter().map(String::as_str).chain(["--json"]).collect();
            let said = world.run(&args).await;
            if let Ok(output) = serde_json::from_str(&said.stdout) {
                seen.entry(name).or_default().push(output);
            }
        }
    }
    let silent: Vec<&str> = commands(item, &past)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !seen.contains_key(name))
        .collect();
    assert!(silent.is_empty(), "{silent:?} printed no JSON");
    let mut found = Vec::new();
    let mut all: BTreeMap<String, Vec<Value>> =
        seen.into_iter().map(|(name, outputs)| (name.to_owned(), outputs)).collect();
    if is_to_be_written() {
        for (name, outputs) in kept() {
            all.entry(name).or_default().extend(outputs);
        }
    }
    for (name, outputs) in &all {
        if is_to_be_written() {
            let path = folder().join(format!("{name}.schema.json"));
            let mut schema = infer(&outputs.iter().collect::<Vec<_>>(), name);
            schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
            schema["title"] = format!("heartbeat {name} --json").into();
            std::fs::create_dir_all(folder()).unwrap();
            let text = serde_json::to_string_pretty(&schema).unwrap();
            std::fs::write(&path, format!("{text}\n")).unwrap();
            continue;
        }
        for output in outputs {
            violations(&schema(name), output, name, &mut found);
        }
    }
    assert_none(found);
}

/// Of the tests that ran while the folder existed.
#[test]
fn every_kept_output_of_the_suite_fits_its_schema() {
    let mut found = Vec::new();
    for (name, outputs) in kept() {
        let schema = schema(&name);
        for output in &outputs {
            violations(&schema, output, &name, &mut found);
        }
        println!("{} outputs of {name}", outputs.len());
    }
    assert_none(found);
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
