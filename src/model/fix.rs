//! The fix that was committed after a finding.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{FileRole, Finding};

/// A commit of a fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixCommit {
    pub id: String,
    /// How the commit refers to the item, as text.
    pub why: String,
}

/// What fixed an item that has a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// Time of its first commit.
    pub fixed_at: Timestamp,
    pub commits: Vec<FixCommit>,
    /// Files it changed, by their names before the change.
    pub changed: Vec<String>,
    /// Number of files that the finding would change.
    pub named: u32,
    /// How many of these the fix changed.
    pub hits: u32,
}

/// A finding compared with the fix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FixScore {
    /// Files that the finding names and the fix changed.
    pub hits: u32,
    /// Files that the finding would change.
    pub named: u32,
    pub changed: u32,
    /// Whether the finding came before the fix.
    pub in_time: bool,
    /// From the finding to the fix; negative if the fix came first.
    pub seconds_to_fix: i64,
}

impl FixScore {
    /// Share of the named files that the fix changed; 0 if none is named.
    pub fn precision(&self) -> f64 {
        f64::from(self.hits) / f64::from(self.named.max(1))
    }

    /// Share of the changed files that the finding names.
    pub fn recall(&self) -> f64 {
        f64::from(self.hits) / f64::from(self.changed.max(1))
    }

    /// Whether the finding came first and names a file that the fix changed.
    pub const fn confirmed(&self) -> bool {
        self.in_time && self.hits > 0
    }
}

impl Fix {
    pub fn new(
        fixed_at: Timestamp,
        commits: Vec<FixCommit>,
        changed: Vec<String>,
        finding: &Finding,
    ) -> Self {
        // Tests and files that only explain are not expected in a fix. Earlier versions did not
        // record the role.
        let to_change = |role: Option<FileRole>| role.is_none_or(|role| role == FileRole::Change);
        let files = finding.files.iter().filter(|file| to_change(file.role));
        let mut named: Vec<&str> =
            files.map(|file| file.path.strip_prefix("./").unwrap_or(&file.path)).collect();
        named.sort_unstable();
        named.dedup();
        let hits = named.iter().filter(|path| changed.iter().any(|one| one == *path)).count();
        Self { fixed_at, commits, named: count(named.len()), hits: count(hits), changed }
    }

    /// How well the finding, made at `found_at`, predicted this fix.
    pub fn score(&self, found_at: Timestamp) -> FixScore {
        FixScore {
            hits: self.hits,
            named: self.named,
            changed: count(self.changed.len()),
            // Commit times have whole seconds only.
            in_time: found_at.as_second() <= self.fixed_at.as_second(),
            seconds_to_fix: self.fixed_at.as_second() - found_at.as_second(),
        }
    }
}

fn count(files: usize) -> u32 {
    u32::try_from(files).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Confidence, Effort, FileReference, Risk};

    fn finding(files: &[(&str, Option<FileRole>)]) -> Finding {
        let file = |(path, role): &(&str, Option<FileRole>)| FileReference {
            path: (*path).to_owned(),
            role: *role,
            read: None,
            reason: String::new(),
            exists: None,
        };
        Finding {
            summary: String::new(),
            likely_causes: Vec::new(),
            files: files.iter().map(file).collect(),
            suggested_change: String::new(),
            risk: Risk::Low,
            effort: Effort::Small,
            confidence: Confidence::Low,
            open_questions: Vec::new(),
            tests: Vec::new(),
            pitfalls: Vec::new(),
            not_checked: Vec::new(),
            evidence: Vec::new(),
            patch: String::new(),
            patch_test: String::new(),
            proof: None,
        }
    }

    #[test]
    fn files_to_change_are_compared_once_each() {
        let finding = finding(&[
            ("./src/a.rs", Some(FileRole::Change)),
            ("src/a.rs", None),
            (".github/b.rs", Some(FileRole::Change)),
            ("src/c.rs", Some(FileRole::Understand)),
            ("tests/a.rs", Some(FileRole::Test)),
        ]);
        let changed = ["src/a.rs", "src/c.rs"].map(str::to_owned).to_vec();
        let at = Timestamp::UNIX_EPOCH;
        let fix = Fix::new(at, Vec::new(), changed, &finding);
        assert_eq!((fix.named, fix.hits), (2, 1));
        let before = at - jiff::SignedDuration::from_secs(60);
        let score = fix.score(before);
        assert_eq!((score.precision(), score.recall(), score.seconds_to_fix), (0.5, 0.5, 60));
        let (same_second, later) =
            (at + jiff::SignedDuration::from_millis(900), at + jiff::SignedDuration::from_secs(1));
        assert!(score.confirmed() && fix.score(same_second).confirmed());
        assert!(!fix.score(later).confirmed(), "it must come first");
    }
}
