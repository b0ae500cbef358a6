//! What a text is written in, and what cleaning made of it.

use serde::{Deserialize, Serialize};

/// Markup of a text field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// The tracker's default.
    Html,
    /// Markdown with `<`, `>` and `"` entity-encoded, as Azure DevOps returns it.
    Markdown,
    /// Markdown as written, as GitHub returns it.
    RawMarkdown,
    /// Plain text, not converted.
    Plain,
    /// The XML of a test case's steps, with HTML escaped inside.
    TestSteps,
    /// Atlassian Document Format (JSON), as Jira Cloud returns it.
    Adf,
    /// Jira wiki markup, as Data Center returns it.
    Wiki,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TextStats {
    pub raw_bytes: usize,
    pub clean_bytes: usize,
    /// Bytes cut by a budget or an input limit.
    pub cut_bytes: usize,
    /// Bytes cut by triage's smaller budget.
    #[serde(default)]
    pub tight_cut_bytes: usize,
}

impl TextStats {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            raw_bytes: self.raw_bytes + other.raw_bytes,
            clean_bytes: self.clean_bytes + other.clean_bytes,
            cut_bytes: self.cut_bytes + other.cut_bytes,
            tight_cut_bytes: self.tight_cut_bytes + other.tight_cut_bytes,
        }
    }
}
