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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stale {
    /// Only the newest commits, newest first.
    pub commits: Vec<LaterCommit>,
    /// Number of such commits, including those not in `commits`.
    pub total: u32,
    /// The changed files among those that the finding names.
    pub files: Vec<String>,
}

impl Stale {
    /// Adds what changed in another code base; at most `most` commits are kept.
    pub fn add(&mut self, other: Self, most: usize) {
        self.commits.extend(other.commits);
        self.commits.sort_by_key(|commit| std::cmp::Reverse(commit.at));
        self.commits.truncate(most);
        self.total = self.total.saturating_add(other.total);
        self.files.extend(other.files);
        self.files.sort_unstable();
    }
}
