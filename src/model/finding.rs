//! The result of a deep analysis.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// Risk of the suggested change.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Risk {
    /// Local and easy to undo.
    Low,
    /// Touches shared code.
    Medium,
    /// Touches data, money, security or a public contract.
    High,
}

/// Estimated time for a person to make the change.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Effort {
    /// Hours.
    Small,
    /// Days.
    Medium,
    /// Weeks.
    Large,
}

/// The agent's confidence in its own analysis.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Confidence {
    /// A guess.
    Low,
    /// Likely.
    Medium,
    /// Confirmed by reading the code.
    High,
}

/// Why a finding names a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRole {
    /// It has to change.
    Change,
    /// It tests what changes.
    Test,
    /// It explains what happens.
    Understand,
}

/// A file the analysis points to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReference {
    /// Relative to the repository root.
    pub path: String,
    /// `None` in findings of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<FileRole>,
    /// Whether the agent claims to have read the file; `None` in findings of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<bool>,
    pub reason: String,
    /// Whether the path existed when the finding was stored. Set by us, never by the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MadeWith {
    /// The model's configured name.
    pub model: String,
    /// The version of the prompts.
    pub prompt: String,
}

/// The structured result of one deep analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Two or three sentences.
    pub summary: String,
    /// Most likely first.
    pub likely_causes: Vec<String>,
    pub files: Vec<FileReference>,
    pub suggested_change: String,
    pub risk: Risk,
    pub effort: Effort,
    pub confidence: Confidence,
    /// Questions that a person has to answer.
    #[serde(default)]
    pub open_questions: Vec<String>,
    /// Tests to run, extend or write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
    /// What the change could break, and obvious fixes that are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pitfalls: Vec<String>,
    /// Assumptions that the agent did not verify.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<String>,
}

impl Finding {
    /// Every text that the agent wrote.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        [&mut self.summary, &mut self.suggested_change]
            .into_iter()
            .chain(&mut self.likely_causes)
            .chain(&mut self.open_questions)
            .chain(&mut self.tests)
            .chain(&mut self.pitfalls)
            .chain(&mut self.not_checked)
            .chain(self.files.iter_mut().flat_map(|file| [&mut file.path, &mut file.reason]))
    }
}
