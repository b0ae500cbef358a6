//! Prepared answers for the demo's work items and its sample code base, so that a demo shows
//! realistic findings. Each answer matches the code in `simulate/sample` line by line.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::prompt::PromptItem;

static ANSWERS: &str = include_str!("parcel.json");

/// How the first attempt at an item fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScriptedFailure {
    /// Ends without the structured answer.
    AnswersInProse,
    /// Writes nothing more and never ends.
    Hangs,
}

#[derive(Debug, Deserialize)]
struct ParcelAnswers {
    first_attempt: BTreeMap<String, ScriptedFailure>,
    verdicts: Vec<ParcelAnswer>,
    findings: Vec<ParcelAnswer>,
}

#[derive(Debug, Deserialize)]
struct ParcelAnswer {
    title: String,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// All answers, by the titles of the items.
pub(super) struct Script {
    first_attempt: BTreeMap<String, ScriptedFailure>,
    verdicts: HashMap<String, Map<String, Value>>,
    findings: HashMap<String, Map<String, Value>>,
}

impl Script {
    /// `None` if the embedded data cannot be parsed.
    pub fn load() -> Option<Self> {
        let answers: ParcelAnswers = serde_json::from_str(ANSWERS).ok()?;
        let by_title = |answers: Vec<ParcelAnswer>| {
            answers.into_iter().map(|answer| (answer.title, answer.fields)).collect()
        };
        Some(Self {
            first_attempt: answers.first_attempt,
            verdicts: by_title(answers.verdicts),
            findings: by_title(answers.findings),
        })
    }

    /// The verdict on one of the requested items, adapted to `schema`.
    pub fn verdict(&self, item: &PromptItem, all: &[PromptItem], schema: &Value) -> Option<Value> {
        let mut verdict = self.verdicts.get(&item.title)?.clone();
        verdict.insert("id".into(), json!(item.id));
        for name in ["related", "duplicates"] {
            let titles = verdict[name].as_array().into_iter().flatten();
            let ids: Vec<i64> = titles
                .filter_map(|title| all.iter().find(|other| *title == *other.title))
                .map(|other| other.id)
                .collect();
            let why = "It has the same cause.";
            let named = match name {
                "duplicates" => ids.iter().map(|id| json!({ "id": id, "why": why })).collect(),
                _ => json!(ids),
            };
            verdict.insert(name.into(), named);
        }
        Some(fit(Value::Object(verdict), schema))
    }

    /// The finding for an item, adapted to `schema`.
    pub fn finding(&self, title: &str, schema: &Value) -> Option<Value> {
        Some(fit(Value::Object(self.findings.get(title)?.clone()), schema))
    }

    /// How the first attempt fails, if it does.
    pub fn scripted_failure(&self, title: &str) -> Option<ScriptedFailure> {
        self.first_attempt.get(title).copied()
    }
}

/// Removes unknown properties and adds required ones, so that prompts can change without the
/// script.
fn fit(value: Value, schema: &Value) -> Value {
    match (value, schema.get("properties"), schema.get("items")) {
        (Value::Object(mut fields), Some(Value::Object(known)), _) => {
            for (name, schema) in known {
                if let Some(field) = fields.remove(name) {
                    fields.insert(name.clone(), fit(field, schema));
                }
            }
            fields.retain(|name, _| known.contains_key(name));
            for name in
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
            {
                if !fields.contains_key(name) {
                    fields.insert(name.to_owned(), empty(&known[name]));
                }
            }
            Value::Object(fields)
        }
        (Value::Array(values), _, Some(schema)) => {
            values.into_iter().map(|value| fit(value, schema)).collect()
        }
        (value, ..) => value,
    }
}

fn empty(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("array") => json!([]),
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(0),
        Some("object") => fit(json!({}), schema),
        _ => json!(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::sample;

    fn schema(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    fn titles() -> Vec<String> {
        let answers: ParcelAnswers = serde_json::from_str(ANSWERS).unwrap();
        answers.findings.into_iter().map(|answer| answer.title).collect()
    }

    #[test]
    fn every_finding_names_files_of_the_sample_and_lines_that_exist() {
        let script = Script::load().unwrap();
        let lines: HashMap<&str, usize> =
            sample::FILES.iter().map(|(path, text)| (*path, text.lines().count())).collect();
        for title in titles() {
            let finding = &script.findings[&title];
            for file in finding["files"].as_array().unwrap() {
                let path = file["path"].as_str().unwrap();
                assert!(lines.contains_key(path), "{title} names {path}");
            }
            let text = Value::Object(finding.clone()).to_string();
            for (path, count) in &lines {
                for after in text.split(&format!("{path}:")).skip(1) {
                    let digits = |c: char| !c.is_ascii_digit();
                    for line in after.split([' ', ')', ',', '"']).next().unwrap().split(digits) {
                        let line: usize = line.parse().unwrap_or(1);
                        assert!((1..=*count).contains(&line), "{title}: {path}:{line}");
                    }
                }
            }
        }
    }

    #[test]
    fn answers_have_the_shape_of_the_schemas() {
        let script = Script::load().unwrap();
        let deep = schema(include_str!("../../../prompts/deep.schema.json"));
        for title in titles() {
            let finding = script.finding(&title, &deep).unwrap();
            crate::analyze::check(&finding).unwrap();
            assert_eq!(script.verdicts[&title]["needs_deep_analysis"], json!(true), "{title}");
        }
        assert!(titles().len() >= 12);
    }

    #[test]
    fn fitting_drops_what_is_unknown_and_adds_what_is_required() {
        let schema = json!({
            "properties": {
                "a": { "type": "string" }, "b": { "enum": ["x", "y"] },
                "c": { "type": "array", "items": { "properties": { "d": {} }, "required": ["d"] } },
            },
            "required": ["a", "b"],
        });
        let fitted = fit(json!({ "z": 1, "c": [{ "e": 2 }] }), &schema);
        assert_eq!(fitted, json!({ "a": "", "b": "x", "c": [{ "d": "" }] }));
    }
}
