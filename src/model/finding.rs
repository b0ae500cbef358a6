//! The result of a deep analysis.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::proof::{Evidence, Proof, Rung};

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
    /// Whether the supervisor saw the agent read the file; `None` if that is not known.
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
    /// The code it rests on; other fields refer to entry 1 as `[1]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
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
    /// The change and its test as a unified diff against the analysed commit; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub patch: String,
    /// The name of the test in the patch that fails without the change; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub patch_test: String,
    /// What was checked of it; `None` in findings of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

impl Finding {
    /// `None` if it was never checked.
    pub fn rung(&self) -> Option<Rung> {
        self.proof.as_ref().map(Proof::rung)
    }

    /// Whether it was checked and nothing of its evidence was found.
    pub fn is_unproven(&self) -> bool {
        self.rung() == Some(Rung::Unproven)
    }

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
            .chain([&mut self.patch, &mut self.patch_test])
            .chain(
                self.evidence
                    .iter_mut()
                    .flat_map(|entry| [&mut entry.path, &mut entry.quote, &mut entry.shows]),
            )
            .chain(self.proof.iter_mut().flat_map(|proof| {
                let notes = proof.steps.iter_mut().map(|step| &mut step.note);
                notes.chain(proof.doubts.iter_mut().map(|doubt| &mut doubt.claim))
            }))
    }
}
