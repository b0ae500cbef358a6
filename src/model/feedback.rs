//! A person's opinion of a finding.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// In characters.
pub const MAX_NOTE_LEN: usize = 2_000;

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::Display,
    clap::ValueEnum,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Opinion {
    /// It helped
    Useful,
    /// It names the wrong cause or the wrong place
    Wrong,
    /// The item is done; nothing is left to do
    Done,
}

/// The newest opinion on a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Feedback {
    pub opinion: Opinion,
    /// May be empty.
    pub note: String,
    pub given_at: Timestamp,
}

impl std::fmt::Display for Feedback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let colon = if self.note.is_empty() { "" } else { ": " };
        write!(f, "feedback: {}{colon}{}", self.opinion, self.note)
    }
}
