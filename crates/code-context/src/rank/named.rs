//! Commits and pull requests that the item names: the files they changed, and how.

use std::time::Duration;

use crate::git::history::Commit;
use crate::git::{self, Bounds};
use crate::index::open::Index;
use crate::parts::Part;
use crate::rank::order::RankedFile;
use crate::rank::query::Query;
use crate::rank::signals::Signals;
use crate::text::kind::Kind;

/// Most commits whose changes are shown.
const MAX_SHOWN: usize = 2;
/// Most names looked up with git.
const MAX_ASKED: usize = 4;
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(10), output: 256 << 10 };

/// Adds the signals of named commits: a file that one of them changed counts as mentioned, less so
/// the more files it changed.
pub(crate) fn add(index: &Index, query: &Query, all: &mut [Signals]) {
    let history = index.history();
    for commit in history.commits.iter().filter(|commit| is_named(commit, query)) {
        let worth = 1.0 / (commit.files.len() as f64).sqrt();
        for path in commit.files.iter().filter_map(|file| history.paths.get(*file as usize)) {
            if let Some(file) = index.find(path) {
                all[file as usize].mention += worth;
            }
        }
    }
}

fn is_named(commit: &Commit, query: &Query) -> bool {
    query.commits.iter().any(|name| commit.hex().starts_with(name.as_str()))
        || query.pulls.iter().any(|number| is_pull(&commit.subject, number))
}

/// `Merged PR 17: …` and `… (#17)`.
fn is_pull(subject: &str, number: &str) -> bool {
    let merged = subject.strip_prefix("Merged PR ").and_then(|rest| rest.strip_prefix(number));
    merged.is_some_and(|rest| rest.starts_with(':')) || subject.contains(&format!("(#{number})"))
}

/// The changes of the named commits in at most `room` bytes; those of the ranked files first.
pub(crate) fn changes(
    part: &Part<'_>,
    query: &Query,
    ranked: &[RankedFile],
    room: usize,
) -> String {
    let index = part.index;
    let history = index.history();
    if history.head.is_empty() {
        return String::new();
    }
    let pulled = history
        .commits
        .iter()
        .filter(|commit| query.pulls.iter().any(|number| is_pull(&commit.subject, number)));
    let names = query.commits.iter().cloned().chain(pulled.map(Commit::hex));
    let diffs = names.take(MAX_ASKED).filter_map(|name| read(index, &name)).take(MAX_SHOWN);
    let mut out = String::new();
    for diff in diffs {
        let files = relevant(part, &diff, ranked);
        let Some(subject) = diff.lines().next().filter(|_| !files.is_empty()) else { continue };
        let title = format!("\n## Commit {subject}\n");
        if out.len() + title.len() < room {
            out.push_str(&title);
        }
        for line in files.iter().flat_map(|file| file.lines()) {
            if out.len() + line.len() + 1 > room {
                return out;
            }
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Git's output for a commit; `None` if it is not part of the indexed code: a commit of another
/// branch, or a later one, changed other code.
fn read(index: &Index, name: &str) -> Option<String> {
    let before = ["merge-base", "--is-ancestor", name, &index.history().head];
    git::output(index.root(), &before, BOUNDS).ok()?;
    let arguments = [
        "log",
        "-1",
        "-p",
        "-m",
        "--first-parent",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-mailmap",
        "--no-show-signature",
        "--relative",
        "--format=%h %cs %s",
        name,
        "--",
    ];
    let output = git::output(index.root(), &arguments, BOUNDS).ok()?;
    Some(String::from_utf8_lossy(&output).into_owned()).filter(|text| !text.is_empty())
}

/// The changes of each file that the index knows as code, ranked ones first.
fn relevant(part: &Part<'_>, diff: &str, ranked: &[RankedFile]) -> Vec<String> {
    let (index, own) = (part.index, part);
    let mut files: Vec<((usize, bool), String)> = Vec::new();
    for part in diff.split("\ndiff --git ").skip(1) {
        let named = |mark: &str| part.lines().find_map(|line| line.strip_prefix(mark));
        let Some(path) = named("+++ b/") else { continue };
        let Some(entry) = index.find(path).map(|file| &index.files()[file as usize]) else {
            continue;
        };
        let hunks = part.find("\n@@").map(|at| &part[at + 1..]);
        let written = !matches!(entry.kind, Kind::Generated | Kind::Vendored);
        if let Some(hunks) = hunks.filter(|_| entry.language.is_code() && written) {
            let place = ranked.iter().position(|file| file.path == path).unwrap_or(usize::MAX);
            let last = entry.kind != Kind::Source;
            files.push(((place, last), format!("{}:\n{hunks}\n", own.full(path))));
        }
    }
    files.sort_by_key(|(order, _)| *order);
    files.into_iter().map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_requests_are_known_by_the_subject_of_their_commit() {
        assert!(is_pull("Merged PR 17: Fix the basket", "17"));
        assert!(is_pull("Fix the basket (#17)", "17"));
        assert!(!is_pull("Merged PR 170: Fix the basket", "17"));
        assert!(!is_pull("Fix the basket (#170)", "17"));
    }
}
