//! Changes in a code base since a time, from its history.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::LaterCommit;
use code_context::git::{self, Bounds, GitError};

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(60), output: 32 << 20 };
/// Most commits read, newest first.
const MAX_COMMITS: &str = "--max-count=5000";

/// The commits since then, newest first, each with the files it changed.
pub fn changes_since(
    repository: &Path,
    since: Timestamp,
) -> Result<Vec<(LaterCommit, Vec<String>)>, GitError> {
    let since = format!("--since=@{}", since.as_second());
    // A merge is represented by its commits.
    let arguments = [
        "log",
        MAX_COMMITS,
        &since,
        "--no-merges",
        "--no-renames",
        "--name-only",
        "-z",
        "--format=%x01%H%x02%ct%x02%s%x03",
        "HEAD",
        "--",
    ];
    let output = git::output(repository, &arguments, BOUNDS)?;
    Ok(String::from_utf8_lossy(&output).split('\u{1}').filter_map(commit).collect())
}

fn commit(text: &str) -> Option<(LaterCommit, Vec<String>)> {
    let (head, files) = text.split_once('\u{3}')?;
    let mut head = head.split('\u{2}');
    let (id, at, subject) = (head.next()?, head.next()?, head.next()?);
    let at = Timestamp::from_second(at.parse().ok()?).ok()?;
    let files = files.split(['\0', '\n']).filter(|file| !file.is_empty()).map(str::to_owned);
    let commit = LaterCommit { id: id.to_owned(), subject: subject.to_owned(), at };
    Some((commit, files.collect()))
}
