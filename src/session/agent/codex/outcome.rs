//! Classifies the end of a session.
//!
//! `turn.completed` with exit code 0 is not sufficient for success: a refusal has no message, and
//! an answer of any shape passes. A failed turn has one sentence and no status, so the cause is
//! parsed from the sentence.

use super::super::outcome::{Dialect, REFUSED_COMMAND_LINE};
use crate::model::Outcome;

/// How this CLI reports its ends.
pub struct CodexDialect;

impl Dialect for CodexDialect {
    /// Invalid settings and flags are reported on standard error, before the first line.
    fn complaint(&self, stderr: &str) -> Option<Outcome> {
        const COMPLAINTS: [&str; 7] = [
            "error: unexpected argument",
            "error: invalid value",
            "error: the following required arguments",
            "Error loading config",
            "Unknown feature",
            "unknown configuration field",
            "Output schema file",
        ];
        let refused = COMPLAINTS.iter().any(|complaint| stderr.contains(complaint));
        refused.then_some(REFUSED_COMMAND_LINE)
    }
}
