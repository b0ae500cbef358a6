//! The fields of a finding, their order and their words, defined once. Every output is made from
//! these parts: terminal, Markdown, the comment, the HTML report, the dashboard and messages.
//!
//! A new field of `prompts/deep.schema.json` gets its place in [`parts`]; a test fails until every
//! output shows it.

use serde::Serialize;

use crate::model::{FileReference, FileRole, Finding};

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
    /// Short remarks, such as "not read".
    pub notes: Vec<&'static str>,
    pub text: String,
    /// Words of the file.
    pub quote: Option<String>,
    /// Where a browser shows it; set by those who know the repository's address.
    pub address: Option<String>,
}

impl Place {
    /// `src/total.rs` or `src/total.rs:12`
    pub fn name(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}", self.path),
            None => self.path.clone(),
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
        part(&["risk", "effort", "confidence"], "Assessment", Body::Grades(grades(finding).into())),
        part(&["likely_causes"], "Likely causes", Body::Ranked(finding.likely_causes.clone())),
        part(&["files"], "Where to look", Body::Places(finding.files.iter().map(file).collect())),
        part(
            &["suggested_change"],
            "Suggested change",
            Body::Text(finding.suggested_change.clone()),
        ),
        part(&["tests"], "Tests", list(&finding.tests)),
        part(&["pitfalls"], "Pitfalls", list(&finding.pitfalls)),
        part(&["not_checked"], "Not checked", list(&finding.not_checked)),
        part(&["open_questions"], "Open questions", list(&finding.open_questions)),
    ];
    all.into_iter().filter(|part| !part.body.is_empty()).collect()
}

/// Also the columns of a list of findings.
pub fn grades(finding: &Finding) -> [Grade; 3] {
    let risk = finding.risk.into_str();
    let tone = match risk {
        "high" => "bad",
        "medium" => "warn",
        _ => "good",
    };
    [
        Grade { name: "risk", value: risk, tone },
        Grade { name: "effort", value: finding.effort.into_str(), tone: "" },
        Grade { name: "confidence", value: finding.confidence.into_str(), tone: "" },
    ]
}

/// `high risk, small effort, medium confidence`
pub fn grades_line(finding: &Finding) -> String {
    grades(finding).map(|grade| format!("{} {}", grade.value, grade.name)).join(", ")
}

fn file(file: &FileReference) -> Place {
    let role = match file.role {
        Some(FileRole::Change) => Some("change"),
        Some(FileRole::Test) => Some("test"),
        Some(FileRole::Understand) | None => None,
    };
    let unread = (file.read == Some(false)).then_some("not read");
    let missing = (file.exists == Some(false)).then_some(NOT_THERE);
    Place {
        path: file.path.clone(),
        notes: [role, unread, missing].into_iter().flatten().collect(),
        text: file.reason.clone(),
        ..Place::default()
    }
}
