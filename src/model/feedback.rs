//! What a person thought of a finding.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Longest note, in characters.
pub const LONGEST_NOTE: usize = 2_000;

/// In one word.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Opinion {
    /// It helped.
    Useful,
    /// It names the wrong cause or the wrong place.
    Wrong,
    /// The item is settled; nothing is left to do.
    Done,
}

/// The last word on a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Feedback {
    /// In one word.
    pub opinion: Opinion,
    /// May be empty.
    pub note: String,
    /// When it was given.
    pub given_at: Timestamp,
}

impl std::fmt::Display for Feedback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let colon = if self.note.is_empty() { "" } else { ": " };
        write!(f, "feedback: {}{colon}{}", self.opinion, self.note)
    }
}
