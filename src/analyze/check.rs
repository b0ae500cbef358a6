//! Checks whether an answer is a usable finding. Whether it is true is checked in `evidence`.

use serde_json::Value;

use crate::model::Finding;
use crate::prompt::{DEEP_SCHEMA, schema};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    #[error("the finding does not fit its schema: {}", violations.join("; "))]
    Shape { violations: Vec<String> },
    /// It matches the schema, but has no content.
    #[error("the finding has no content: {field} is a placeholder")]
    Placeholder { field: &'static str },
}

/// Texts without content.
const PLACEHOLDERS: [&str; 10] =
    ["...", "\u{2026}", "n/a", "none", "todo", "tbd", "string", "summary", "text", "placeholder"];

/// Properties that earlier versions did not ask for; a finding without them is valid.
const OPTIONAL: [&str; 7] =
    ["tests", "pitfalls", "not_checked", "role", "evidence", "patch", "patch_test"];

/// Limits of what is stored. The prompt states them in words; the schema does not, because not
/// every provider supports lengths.
const MAX_SUMMARY_LEN: usize = 2_000;
const MAX_CHANGE_LEN: usize = 6_000;
const MAX_ENTRY_LEN: usize = 1_000;
const MAX_PATH_LEN: usize = 400;
const MAX_FILES: usize = 20;
const MAX_ENTRIES: usize = 10;
const MAX_EVIDENCE: usize = 12;
const MAX_QUOTE_LEN: usize = 1_200;
/// In bytes. A part of a patch is none, so a longer one is dropped.
const MAX_PATCH_LEN: usize = 64 << 10;
const MAX_NAME_LEN: usize = 300;

pub fn check(output: &Value) -> Result<Finding, CheckError> {
    let shape = |violations| CheckError::Shape { violations };
    let schema: Value =
        serde_json::from_str(DEEP_SCHEMA).map_err(|error| shape(vec![error.to_string()]))?;
    let output = &without_read(output);
    let violations = schema::violations_but(&schema, output, &OPTIONAL);
    if !violations.is_empty() {
        return Err(shape(violations));
    }
    let mut finding: Finding =
        serde_json::from_value(output.clone()).map_err(|error| shape(vec![error.to_string()]))?;
    for (field, text) in
        [("summary", &finding.summary), ("suggested_change", &finding.suggested_change)]
    {
        let bare = text.trim().trim_matches(|c: char| "<>[]\"'".contains(c)).to_lowercase();
        if bare.is_empty() || PLACEHOLDERS.contains(&bare.as_str()) {
            return Err(CheckError::Placeholder { field });
        }
    }
    tidy(&mut finding);
    Ok(finding)
}

/// What an agent says it has read is not asked for and not believed.
fn without_read(output: &Value) -> Value {
    let mut output = output.clone();
    let files = output.get_mut("files").and_then(Value::as_array_mut);
    for file in files.into_iter().flatten().filter_map(Value::as_object_mut) {
        file.remove("read");
    }
    output
}

/// Removes control characters and normalises paths.
fn tidy(finding: &mut Finding) {
    for text in finding.texts_mut() {
        text.retain(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    }
    for file in &mut finding.files {
        file.path = tidy_path(&file.path);
    }
    for entry in &mut finding.evidence {
        entry.path = tidy_path(&entry.path);
        entry.last_line = entry.last_line.max(entry.line);
    }
    let mut seen = std::collections::BTreeSet::new();
    finding.files.retain(|file| !file.path.is_empty() && seen.insert(file.path.clone()));
    clip_all(finding);
}

fn clip_all(finding: &mut Finding) {
    clip(&mut finding.summary, MAX_SUMMARY_LEN);
    clip(&mut finding.suggested_change, MAX_CHANGE_LEN);
    finding.evidence.truncate(MAX_EVIDENCE);
    for entry in &mut finding.evidence {
        clip(&mut entry.path, MAX_PATH_LEN);
        clip(&mut entry.shows, MAX_ENTRY_LEN);
        // Without a mark: what is left is still verbatim.
        if let Some((end, _)) = entry.quote.char_indices().nth(MAX_QUOTE_LEN) {
            entry.quote.truncate(end);
        }
    }
    if finding.patch.trim().is_empty() || finding.patch.len() > MAX_PATCH_LEN {
        finding.patch.clear();
    }
    clip(&mut finding.patch_test, MAX_NAME_LEN);
    finding.files.truncate(MAX_FILES);
    for file in &mut finding.files {
        clip(&mut file.path, MAX_PATH_LEN);
        clip(&mut file.reason, MAX_ENTRY_LEN);
    }
    for entries in [
        &mut finding.likely_causes,
        &mut finding.open_questions,
        &mut finding.tests,
        &mut finding.pitfalls,
        &mut finding.not_checked,
    ] {
        entries.retain(|entry| !entry.trim().is_empty());
        entries.truncate(MAX_ENTRIES);
        entries.iter_mut().for_each(|entry| clip(entry, MAX_ENTRY_LEN));
    }
}

fn clip(text: &mut String, longest: usize) {
    if let Some((end, _)) = text.char_indices().nth(longest) {
        text.truncate(end);
        text.push('\u{2026}');
    }
}

/// `./src/a.rs:12-30` becomes `src/a.rs`.
fn tidy_path(path: &str) -> String {
    let path = path.trim().trim_matches('`').trim();
    let path = path.strip_prefix("./").unwrap_or(path);
    match path.rsplit_once(':') {
        Some((file, lines)) if is_line_range(lines) && !file.is_empty() => file.to_owned(),
        _ => path.to_owned(),
    }
}

fn is_line_range(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || "-,L".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output() -> Value {
        json!({
            "summary": "The total is rounded twice.",
            "likely_causes": ["Rounding in the line and in the sum."],
            "files": [
                {"path": "./src/total.rs:12-30", "reason": "sums up"},
                {"path": "src/total.rs", "reason": "again"},
                {"path": "`src/line.rs`", "reason": "rounds"},
            ],
            "suggested_change": "Round once, in `total`.",
            "risk": "low", "effort": "small", "confidence": "high",
            "open_questions": [],
        })
    }

    #[test]
    fn a_good_finding_is_taken_and_its_paths_are_tidied() {
        let finding = check(&output()).unwrap();
        let paths: Vec<&str> = finding.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["src/total.rs", "src/line.rs"]);
        assert!(finding.files.iter().all(|file| file.exists.is_none()));
    }

    #[test]
    fn what_earlier_versions_did_not_ask_for_may_be_missing_and_long_texts_are_clipped() {
        let mut output = output();
        output["tests"] = json!(["run total_test", " "]);
        output["files"][0]["role"] = json!("change");
        output["likely_causes"] = json!(vec!["x".repeat(5_000); 30]);
        let finding = check(&output).unwrap();
        assert_eq!(finding.tests, ["run total_test"]);
        assert_eq!(finding.files[0].role, Some(crate::model::FileRole::Change));
        assert_eq!(finding.files[1].role, None);
        assert_eq!(finding.likely_causes.len(), MAX_ENTRIES);
        assert!(finding.likely_causes[0].chars().count() <= MAX_ENTRY_LEN + 1);
    }

    #[test]
    fn the_agent_cannot_claim_what_only_heartbeat_knows() {
        for (field, value) in [("proof", json!({})), ("files/0/exists", json!(true))] {
            let mut output = output();
            match field {
                "proof" => output["proof"] = value,
                _ => output["files"][0]["exists"] = value,
            }
            let Err(CheckError::Shape { violations }) = check(&output) else { panic!("was taken") };
            assert_eq!(violations, [format!("/{field}: not allowed")]);
        }
        let mut output = output();
        output["files"][0]["read"] = json!(true);
        assert_eq!(check(&output).unwrap().files[0].read, None);
    }

    #[test]
    fn evidence_and_patch_have_limits_and_lines_of_any_number_are_taken() {
        let mut output = output();
        let entry = json!({"path": "./a.rs:3", "line": -7, "last_line": 99_999_999_999_i64,
            "quote": "x".repeat(9_000), "shows": ""});
        output["evidence"] = json!(vec![entry; 40]);
        output["patch"] = json!("x".repeat(1 << 20));
        let finding = check(&output).unwrap();
        assert_eq!(finding.evidence.len(), MAX_EVIDENCE);
        let first = &finding.evidence[0];
        assert_eq!((first.path.as_str(), first.line, first.last_line), ("a.rs", 0, u32::MAX));
        assert_eq!(first.quote.len(), MAX_QUOTE_LEN);
        assert_eq!(finding.patch, "");
    }

    #[test]
    fn placeholders_and_wrong_shapes_are_refused() {
        let mut empty = output();
        empty["summary"] = json!(" ... ");
        assert_eq!(check(&empty), Err(CheckError::Placeholder { field: "summary" }));
        let mut graded = output();
        graded["risk"] = json!("no risk");
        assert!(matches!(check(&graded), Err(CheckError::Shape { .. })));
        assert!(matches!(check(&json!(null)), Err(CheckError::Shape { .. })));
    }
}
