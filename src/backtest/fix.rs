//! What fixed an item, of the commits that name it.

use std::collections::BTreeMap;
use std::path::Path;

use super::{BacktestError, Left, PastCommit, history};
use crate::context::{Kind, Language};
use crate::fixes::{Change, Numbers, unusable};

/// The commits of a fix, oldest first, and what they changed of the code.
pub(super) struct FoundFix<'a> {
    pub commits: Vec<&'a PastCommit>,
    pub changes: Vec<Change>,
}

/// Puts the commits together that say where a fix belongs. `changes` tells what a commit changed
/// since its parent.
pub(super) fn of_commits<'a>(
    commits: &'a [PastCommit],
    since: Option<i64>,
    changes: impl Fn(&str, &str) -> Result<Vec<Change>, BacktestError>,
) -> Result<Result<FoundFix<'a>, Left>, BacktestError> {
    if commits.is_empty() {
        return Ok(Err(Left::NoCommit));
    }
    let mut why = Left::FixedBefore;
    let mut usable: Vec<&PastCommit> = Vec::new();
    let mut changed: BTreeMap<String, Change> = BTreeMap::new();
    for commit in commits {
        if since.is_some_and(|since| commit.time < since) {
            continue;
        }
        let Some(parent) = &commit.parent else {
            why = Left::NoParent;
            continue;
        };
        let mut changes = changes(parent, &commit.id)?;
        changes.retain(|change| is_code(&change.path));
        if let Some(reason) = unusable(&commit.subject, &changes) {
            why = Left::Fix(reason);
            continue;
        }
        for change in changes {
            changed.entry(change.path.clone()).or_insert(change);
        }
        usable.push(commit);
    }
    if usable.is_empty() {
        return Ok(Err(why));
    }
    Ok(Ok(FoundFix { commits: usable, changes: changed.into_values().collect() }))
}

/// Tests and documents follow a fix; they do not say where it belongs.
fn is_code(path: &str) -> bool {
    Kind::of_path(path, Language::of_path(path).is_code()) == Kind::Source
}

/// A fix in the repository's own history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaterFix {
    /// Oldest first; at least one.
    pub commits: Vec<PastCommit>,
    /// Files of the code it changed, by the names they had before.
    pub files: Vec<String>,
}

/// The fixes of these items, each known since a time in seconds. The repository is only read.
pub fn fixes_of(
    repository: &Path,
    numbers: Option<Numbers>,
    items: &BTreeMap<i64, i64>,
) -> Result<BTreeMap<i64, LaterFix>, BacktestError> {
    let numbers = match numbers {
        Some(numbers) => numbers,
        None => history::numbers_of(repository)?,
    };
    let linked = history::linked(repository, numbers, items.values().min().copied())?;
    let changes = |parent: &str, commit: &str| history::changes(repository, parent, commit);
    let mut found = BTreeMap::new();
    for (item, since) in items {
        let commits = linked.get(item).map(Vec::as_slice).unwrap_or_default();
        let Ok(fix) = of_commits(commits, Some(*since), changes)? else { continue };
        let commits = fix.commits.into_iter().cloned().collect();
        let files = fix.changes.into_iter().map(|change| change.path).collect();
        found.insert(*item, LaterFix { commits, files });
    }
    Ok(found)
}
