//! Checks whether a finding is usable and whether its files exist.

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
const OPTIONAL: [&str; 5] = ["tests", "pitfalls", "not_checked", "role", "read"];

/// Limits of what is stored. The prompt states them in words; the schema does not, because not
/// every provider supports lengths.
const LONGEST_SUMMARY: usize = 2_000;
const LONGEST_CHANGE: usize = 6_000;
const LONGEST_ENTRY: usize = 1_000;
const LONGEST_PATH: usize = 400;
const MOST_FILES: usize = 20;
const MOST_ENTRIES: usize = 10;

pub fn check(output: &Value) -> Result<Finding, CheckError> {
    let shape = |violations| CheckError::Shape { violations };
    let schema: Value =
        serde_json::from_str(DEEP_SCHEMA).map_err(|error| shape(vec![error.to_string()]))?;
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

/// Removes control characters and normalises paths.
fn tidy(finding: &mut Finding) {
    for text in finding.texts_mut() {
        text.retain(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    }
    for file in &mut finding.files {
        file.path = tidy_path(&file.path);
    }
    let mut seen = std::collections::BTreeSet::new();
    finding.files.retain(|file| !file.path.is_empty() && seen.insert(file.path.clone()));
    clip_all(finding);
}

fn clip_all(finding: &mut Finding) {
    clip(&mut finding.summary, LONGEST_SUMMARY);
    clip(&mut finding.suggested_change, LONGEST_CHANGE);
    finding.files.truncate(MOST_FILES);
    for file in &mut finding.files {
        clip(&mut file.path, LONGEST_PATH);
        clip(&mut file.reason, LONGEST_ENTRY);
    }
    for entries in [
        &mut finding.likely_causes,
        &mut finding.open_questions,
        &mut finding.tests,
        &mut finding.pitfalls,
        &mut finding.not_checked,
    ] {
        entries.retain(|entry| !entry.trim().is_empty());
        entries.truncate(MOST_ENTRIES);
        entries.iter_mut().for_each(|entry| clip(entry, LONGEST_ENTRY));
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

/// Records for every file whether it exists. `exists` is called only with plain relative paths: a
/// path that leaves the repository is never checked and counts as missing.
pub fn mark_missing_files(finding: &mut Finding, exists: impl Fn(&str) -> bool) {
    for file in &mut finding.files {
        file.exists = Some(stays_inside(&file.path) && exists(&file.path));
    }
}

fn stays_inside(path: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    !path.is_empty()
        && !path.starts_with(['/', '\\', '~'])
        && !path.contains(['\\', ':', '\n', '\0'])
        && path.split('/').all(plain)
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
        assert_eq!(finding.likely_causes.len(), MOST_ENTRIES);
        assert!(finding.likely_causes[0].chars().count() <= LONGEST_ENTRY + 1);
    }

    #[test]
    fn the_agent_cannot_claim_that_a_file_exists() {
        let mut output = output();
        output["files"][0]["exists"] = json!(true);
        let Err(CheckError::Shape { violations }) = check(&output) else { panic!("was taken") };
        assert_eq!(violations, ["/files/0/exists: not allowed"]);
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

    #[test]
    fn paths_that_leave_the_repository_are_never_looked_at() {
        let mut finding = check(&output()).unwrap();
        let outside =
            ["/etc/passwd", "../x", "a/../../x", "~/x", "a//b", "./../x", "C:\\x", "a\\b", "", "."];
        let template = finding.files[0].clone();
        finding.files = outside
            .iter()
            .map(|path| crate::model::FileReference {
                path: (*path).to_owned(),
                ..template.clone()
            })
            .collect();
        mark_missing_files(&mut finding, |path| panic!("asked about {path}"));
        assert!(finding.files.iter().all(|file| file.exists == Some(false)));
    }

    #[test]
    fn files_are_marked_by_what_the_repository_says() {
        let mut finding = check(&output()).unwrap();
        mark_missing_files(&mut finding, |path| path == "src/line.rs");
        let marks: Vec<_> = finding.files.iter().map(|file| file.exists).collect();
        assert_eq!(marks, [Some(false), Some(true)]);
    }
}
