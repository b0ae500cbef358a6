//! The fields of a finding, their order and their words, defined once. Every output is made from
//! these parts: terminal, Markdown, the comment, the HTML report, the dashboard and messages.
//!
//! A new field of `prompts/deep.schema.json` gets its place in [`parts`]; a test fails until every
//! output shows it.

use serde::Serialize;

use crate::model::text::clip;
use crate::model::{
    AnalysedCode, Doubt, Evidence, FileReference, FileRole, Finding, Rung, Standing, Step,
};

/// One or more fields that are shown together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Names in the schema.
    pub fields: &'static [&'static str],
    /// Empty for the summary, which needs none.
    pub title: &'static str,
    /// Whether it is also in lists and messages, which have room for a few words only.
    pub brief: bool,
    #[serde(flatten)]
    pub body: Body,
}

/// The dashboard, the HTML template and Markdown each show these shapes in their own way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "shape", content = "body", rename_all = "snake_case")]
pub enum Body {
    Text(String),
    List(Vec<String>),
    /// Most important first.
    Ranked(Vec<String>),
    Places(Vec<Place>),
    Grades(Vec<Grade>),
    /// Shown as it is, such as a patch.
    Code(String),
}

impl Body {
    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) | Self::Code(text) => text.is_empty(),
            Self::List(entries) | Self::Ranked(entries) => entries.is_empty(),
            Self::Places(places) => places.is_empty(),
            Self::Grades(grades) => grades.is_empty(),
        }
    }
}

/// A file, or lines of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Place {
    pub path: String,
    /// The first line, if lines are meant.
    pub line: Option<u32>,
    /// The last one, if there are several.
    pub last_line: Option<u32>,
    /// Short remarks, such as "not read".
    pub notes: Vec<&'static str>,
    pub text: String,
    /// Words of the file.
    pub quote: Option<String>,
    /// Where a browser shows it; set by those who know the repository's address.
    pub address: Option<String>,
}

impl Place {
    /// `src/total.rs`, `src/total.rs:12` or `src/total.rs:12-14`
    pub fn name(&self) -> String {
        match (self.line, self.last_line) {
            (Some(line), Some(last)) => format!("{}:{line}-{last}", self.path),
            (Some(line), None) => format!("{}:{line}", self.path),
            (None, _) => self.path.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Grade {
    pub name: &'static str,
    pub value: &'static str,
    /// Colour of the value: `good`, `warn`, `bad` or none.
    pub tone: &'static str,
}

/// Remark on a file that the repository does not have.
pub const NOT_THERE: &str = "not in the repository";

/// In the order in which a person reads them; parts without content are left out.
pub fn parts(finding: &Finding) -> Vec<Part> {
    let part = |field: &'static [&'static str], title, body| Part {
        fields: field,
        title,
        brief: matches!(field, ["summary"] | ["risk", ..]),
        body,
    };
    let list = |entries: &[String]| Body::List(entries.to_vec());
    let all = [
        part(&["summary"], "", Body::Text(finding.summary.clone())),
        part(&["risk", "effort", "confidence"], "Assessment", Body::Grades(grades(finding))),
        part(&["likely_causes"], "Likely causes", Body::Ranked(finding.likely_causes.clone())),
        part(&["evidence"], "Evidence", Body::Places(evidence(finding))),
        part(&["files"], "Where to look", Body::Places(finding.files.iter().map(file).collect())),
        part(
            &["suggested_change"],
            "Suggested change",
            Body::Text(finding.suggested_change.clone()),
        ),
        part(&["tests"], "Tests", list(&finding.tests)),
        part(&["pitfalls"], "Pitfalls", list(&finding.pitfalls)),
        part(&["patch"], "Patch", Body::Code(patch(finding))),
        part(&["patch_test"], "Test in the patch", Body::Text(finding.patch_test.clone())),
        part(&[], "Proof", Body::List(steps(finding))),
        part(&[], "Analysed code", Body::List(code_bases(finding))),
        part(&[], "Could not be confirmed", Body::List(doubts(finding))),
        part(&["not_checked"], "Not checked", list(&finding.not_checked)),
        part(&["open_questions"], "Open questions", list(&finding.open_questions)),
    ];
    all.into_iter().filter(|part| !part.body.is_empty()).collect()
}

/// The code that was found, with its numbers; what was not is among the doubts.
fn evidence(finding: &Finding) -> Vec<Place> {
    let shown = |(at, entry): (usize, &Evidence)| {
        let note = match &entry.standing {
            None => "not checked",
            Some(Standing::Confirmed) => "confirmed",
            Some(Standing::Moved { .. }) => "confirmed, line corrected",
            Some(Standing::InAnotherFile { .. }) => "confirmed, file corrected",
            Some(Standing::NotFound { .. }) => return None,
        };
        Some(Place {
            path: entry.path.clone(),
            line: Some(entry.line),
            last_line: Some(entry.last_line).filter(|last| *last != entry.line),
            notes: vec![note],
            text: format!("[{}] {}", at + 1, entry.shows),
            quote: Some(without_common_indent(&entry.quote)),
            address: None,
        })
    };
    finding.evidence.iter().enumerate().filter_map(shown).collect()
}

/// Code from the middle of a function begins at the margin; what is deeper in it stays deeper.
fn without_common_indent(code: &str) -> String {
    let lines = || code.lines().filter(|line| !line.trim().is_empty());
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let Some(first) = lines().next() else { return code.to_owned() };
    let common = lines().map(indent).min().unwrap_or_default();
    // Tabs beside spaces have no common width.
    let margin = &first[..common];
    if !lines().all(|line| line.starts_with(margin)) {
        return code.to_owned();
    }
    let cut = |line| str::strip_prefix(line, margin).unwrap_or_default();
    code.lines().map(cut).collect::<Vec<_>>().join("\n")
}

/// A patch that does not apply is no help.
fn patch(finding: &Finding) -> String {
    let step = finding.proof.as_ref().and_then(|proof| proof.step(Rung::Applies));
    match step.is_none_or(|step| step.reached) {
        true => finding.patch.trim_end().to_owned(),
        false => String::new(),
    }
}

/// `cited (2026-11-18, commit 0123456789): what it quotes is in the code`
fn steps(finding: &Finding) -> Vec<String> {
    let one = |step: &Step| {
        let (day, _) = step.at.to_string().split_once('T').map_or_else(
            || (step.at.to_string(), String::new()),
            |(day, time)| (day.to_owned(), time.to_owned()),
        );
        let commit = step.commit.as_deref().map(|commit| format!(", commit {}", clip(commit, 10)));
        let not = if step.reached { "" } else { "not " };
        let note = match (step.note.as_str(), step.reached, step.rung) {
            ("", true, Rung::Cited) => "what it quotes is in the code",
            ("", true, Rung::Applies) => "the patch applies to this code",
            ("", true, Rung::Builds) => "the code builds with the patch",
            (note, ..) => note,
        };
        let note = if note.is_empty() { String::new() } else { format!(": {note}") };
        format!("{not}{} ({day}{}){note}", step.rung, commit.unwrap_or_default())
    };
    finding.proof.iter().flat_map(|proof| &proof.steps).map(one).collect()
}

/// `web at commit 0123456789`, if there are several.
fn code_bases(finding: &Finding) -> Vec<String> {
    let one = |code: &AnalysedCode| match &code.commit {
        Some(commit) => format!("{} at commit {}", code.name, clip(commit, 10)),
        None => format!("{} as it was, without a git history", code.name),
    };
    finding.proof.iter().flat_map(|proof| &proof.code_bases).map(one).collect()
}

fn doubts(finding: &Finding) -> Vec<String> {
    let one = |doubt: &Doubt| format!("{}: {} ({})", doubt.place, doubt.claim, doubt.why);
    finding.proof.iter().flat_map(|proof| &proof.doubts).map(one).collect()
}

/// Also the columns of a list of findings.
pub fn grades(finding: &Finding) -> Vec<Grade> {
    let risk = finding.risk.into_str();
    let tone = match risk {
        "high" => "bad",
        "medium" => "warn",
        _ => "good",
    };
    let said = finding.proof.as_ref().map(|proof| proof.said);
    let said = said.filter(|said| *said != finding.confidence).map(|said| Grade {
        name: "confidence of the agent",
        value: said.into_str(),
        tone: "",
    });
    let proof = match finding.rung() {
        None => Grade { name: "proof", value: "not checked", tone: "" },
        Some(Rung::Unproven) => Grade { name: "proof", value: "unproven", tone: "bad" },
        Some(rung) => Grade { name: "proof", value: rung.into_str(), tone: "good" },
    };
    let own = [
        Grade { name: "risk", value: risk, tone },
        Grade { name: "effort", value: finding.effort.into_str(), tone: "" },
        Grade { name: "confidence", value: finding.confidence.into_str(), tone: "" },
    ];
    own.into_iter().chain(said).chain([proof]).collect()
}

/// How far it is proven, in a word.
pub fn proof_word(finding: &Finding) -> &'static str {
    finding.rung().map_or("not checked", |rung| rung.into_str())
}

/// `high risk, small effort, medium confidence, cited`
pub fn grades_line(finding: &Finding) -> String {
    let one = |grade: &Grade| match grade.name {
        "proof" => grade.value.to_owned(),
        name => format!("{} {name}", grade.value),
    };
    grades(finding).iter().map(one).collect::<Vec<_>>().join(", ")
}

fn file(file: &FileReference) -> Place {
    let role = match file.role {
        Some(FileRole::Change) => Some("change"),
        Some(FileRole::Test) => Some("test"),
        Some(FileRole::Understand) | None => None,
    };
    let unread = (file.read == Some(false)).then_some("not read");
    // Invented paths are struck; of those that are left, one that is not there is to be created.
    let missing = (file.exists == Some(false)).then_some(NOT_THERE);
    Place {
        path: file.path.clone(),
        notes: [role, unread, missing].into_iter().flatten().collect(),
        text: file.reason.clone(),
        ..Place::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_begins_at_the_margin_and_keeps_its_shape() {
        for (code, shown) in [
            ("        if a {\n            b();\n        }", "if a {\n    b();\n}"),
            ("\tif a {\n\n\t\tb();", "if a {\n\n\tb();"),
            ("\ta\n    b", "\ta\n    b"),
            ("  a\n    b\n c", " a\n   b\nc"),
            ("a", "a"),
            ("  \n", "  \n"),
        ] {
            assert_eq!(without_common_indent(code), shown, "{code:?}");
        }
    }
}
