//! The repository's history: which files changed for which words, and which changed together.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::git::{self, Bounds};
use crate::text::bytes::{Malformed, seal, unseal};
use crate::text::term::{self, Term};

const MAGIC: &[u8; 8] = b"hbctx\0h4";
/// Most commits read.
const MAX_COMMITS: usize = 3000;
/// A commit that changes more files says nothing about any of them.
const MAX_FILES: usize = 30;
const MAX_MESSAGE: usize = 1500;
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(60), output: 64 << 20 };

/// One commit, newest first in [`History::commits`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Commit {
    pub id: CommitId,
    /// Seconds since the epoch.
    pub time: u64,
    /// The first line of its message.
    pub subject: String,
    /// The words of its message.
    pub terms: Vec<Term>,
    /// Indices into [`History::paths`]; empty if it changed too many files.
    pub files: Vec<u32>,
}

impl Commit {
    /// Its id as git writes it.
    pub(crate) fn hex(&self) -> String {
        hex(&self.id)
    }
}

fn hex(id: &CommitId) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The history of a repository, as far back as it is useful.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    /// The commit at which it was read; empty without git.
    pub head: String,
    /// Newest first.
    pub commits: Vec<Commit>,
    /// Every path named by a commit.
    pub paths: Vec<String>,
}

impl History {
    /// The history of a repository, reusing what is already known. It depends only on the
    /// checked-out commit, not on earlier reads.
    pub(crate) fn read(repository: &Path, known: Option<Self>) -> Self {
        let Some(head) = head(repository) else { return Self::default() };
        let known = match known {
            Some(known) if known.head == head => return known,
            known => known.unwrap_or_default(),
        };
        // After a failure nothing is stored, so that the next read tries again.
        let Ok(ids) = list(repository, &head) else { return Self::default() };
        Self::at(repository, head, &ids, known)
    }

    /// The history of these commits, reusing what is known of them.
    fn at(repository: &Path, head: String, ids: &[CommitId], known: Self) -> Self {
        let mut commits: HashMap<CommitId, (Commit, Vec<String>)> = HashMap::new();
        for commit in known.commits {
            let files = commit.files.iter().filter_map(|file| known.paths.get(*file as usize));
            let files = files.cloned().collect();
            commits.insert(commit.id, (commit, files));
        }
        let missing: Vec<CommitId> =
            ids.iter().filter(|id| !commits.contains_key(*id)).copied().collect();
        let Ok(new) = describe(repository, &missing) else { return Self::default() };
        commits.extend(new.into_iter().map(|(commit, files)| (commit.id, (commit, files))));
        Self::of(head, ids.iter().filter_map(|id| commits.remove(id)))
    }

    fn of(head: String, commits: impl Iterator<Item = (Commit, Vec<String>)>) -> Self {
        let mut numbers = PathNumbers::default();
        let commits = commits
            .map(|(commit, files)| {
                let files = files.iter().map(|path| numbers.of_path(path)).collect();
                Commit { files, ..commit }
            })
            .collect();
        Self { head, commits, paths: numbers.paths }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        seal(MAGIC, self)
    }

    pub(crate) fn from_bytes(file: &[u8]) -> Result<Self, Malformed> {
        unseal(MAGIC, file)
    }
}

/// The checked-out commit, if this is a repository.
fn head(repository: &Path) -> Option<String> {
    // Without starting git: the folders already tell.
    if !repository.ancestors().any(|folder| folder.join(".git").exists()) {
        return None;
    }
    let bounds = Bounds { time: Duration::from_secs(10), output: 4096 };
    let output =
        git::output(repository, &["rev-parse", "--verify", "--quiet", "HEAD"], bounds).ok()?;
    let text = String::from_utf8(output).ok()?.trim().to_owned();
    (text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(text)
}

/// The newest commits without merges, newest first.
fn list(repository: &Path, head: &str) -> Result<Vec<CommitId>, git::GitError> {
    let count = format!("--max-count={MAX_COMMITS}");
    let output = git::output(repository, &["rev-list", &count, "--no-merges", head], BOUNDS)?;
    let text = String::from_utf8_lossy(&output);
    Ok(text.lines().filter_map(|line| id_of(line.as_bytes())).collect())
}

/// Messages and changed files of these commits.
fn describe(
    repository: &Path,
    ids: &[CommitId],
) -> Result<Vec<(Commit, Vec<String>)>, git::GitError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let arguments = [
        "log",
        "-z",
        "--stdin",
        "--no-walk=unsorted",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-mailmap",
        "--no-show-signature",
        "--name-only",
        "--relative",
        "--format=%x01%H%x02%ct%x02%s%x02%b%x02",
    ];
    let input: String = ids.iter().map(|id| hex(id) + "\n").collect();
    Ok(parse(&git::output_for(repository, &arguments, input, BOUNDS)?))
}

/// Twenty bytes of a commit's hash: all of a SHA-1, enough of a SHA-256.
pub type CommitId = [u8; 20];

fn id_of(hex: &[u8]) -> Option<CommitId> {
    let text = std::str::from_utf8(hex.get(..40)?).ok()?;
    let mut id = [0; 20];
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(id)
}

/// Assigns an index to every path.
#[derive(Default)]
struct PathNumbers {
    paths: Vec<String>,
    known: HashMap<String, u32>,
}

impl PathNumbers {
    fn of_path(&mut self, path: &str) -> u32 {
        if let Some(number) = self.known.get(path) {
            return *number;
        }
        let number = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
        self.paths.push(path.to_owned());
        self.known.insert(path.to_owned(), number);
        number
    }
}

fn parse(output: &[u8]) -> Vec<(Commit, Vec<String>)> {
    let mut commits = Vec::new();
    for record in output.split(|byte| *byte == 1).skip(1) {
        let mut parts = record.splitn(5, |byte| *byte == 2);
        let (Some(id), Some(time), Some(subject), Some(body), Some(files)) =
            (parts.next().and_then(id_of), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let time = std::str::from_utf8(time).ok().and_then(|time| time.parse().ok()).unwrap_or(0);
        let names: Vec<String> = files
            .split(|byte| *byte == 0)
            .map(<[u8]>::trim_ascii)
            .filter(|name| !name.is_empty())
            .filter_map(|name| std::str::from_utf8(name).ok().map(str::to_owned))
            .collect();
        if names.is_empty() || names.len() > MAX_FILES {
            // Stored as read, without content.
            let commit = Commit { id, time, ..Commit::default() };
            commits.push((commit, Vec::new()));
            continue;
        }
        let mut terms = Vec::new();
        for text in [subject, &body[..body.len().min(MAX_MESSAGE)]] {
            for (_, word) in term::identifiers(text) {
                term::terms_of(word, |term| terms.push(term));
            }
        }
        terms.sort_unstable();
        terms.dedup();
        let subject = String::from_utf8_lossy(&subject[..subject.len().min(120)]).into_owned();
        commits.push((Commit { id, time, subject, terms, files: Vec::new() }, names));
    }
    commits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> History {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let log = format!(
            "\u{1}{a}\u{2}50\u{2}Fix the basket\u{2}Totals were wrong.\u{2}\0\nsrc/a.rs\0src/b.rs\0\u{1}{b}\u{2}40\u{2}First\u{2}\u{2}\0\nsrc/a.rs\0"
        );
        History::of("h".to_owned(), parse(log.as_bytes()).into_iter())
    }

    #[test]
    fn the_log_is_read_as_git_writes_it() {
        let history = sample();
        assert_eq!(history.paths, ["src/a.rs", "src/b.rs"]);
        assert_eq!(history.commits[0].files, [0, 1]);
        assert_eq!(history.commits[1].files, [0]);
        assert_eq!(history.commits[0].subject, "Fix the basket");
        assert!(
            history.commits[0]
                .terms
                .contains(&term::hash(term::Space::Word, term::stem(b"totals")))
        );
    }

    #[test]
    fn history_survives_storage_and_damage_is_seen() {
        let history = sample();
        let mut bytes = history.to_bytes();
        assert_eq!(History::from_bytes(&bytes), Ok(history));
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(History::from_bytes(&bytes), Err(Malformed));
    }

    #[test]
    fn a_commit_about_too_much_is_known_and_says_nothing() {
        let files: String = (0..=MAX_FILES).map(|n| format!("f{n}\0")).collect();
        let log = format!("\u{1}{}\u{2}9\u{2}Everything\u{2}\u{2}\0\n{files}", "c".repeat(40));
        let commits = parse(log.as_bytes());
        assert_eq!((commits.len(), commits[0].0.terms.len(), commits[0].1.len()), (1, 0, 0));
    }
}
