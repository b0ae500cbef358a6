//! A finding whose files changed after it was made.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A commit that changed a file which a finding names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaterCommit {
    pub id: String,
    /// First line of its message.
    pub subject: String,
    pub at: Timestamp,
}

/// What makes a finding stale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stale {
    /// The newest of them, newest first.
    pub commits: Vec<LaterCommit>,
    /// How many there are.
    pub total: u32,
    /// Of the files that the finding names, those that changed.
    pub files: Vec<String>,
}
