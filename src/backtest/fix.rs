//! The fix of an item, from the commits that name it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::history::Artifacts;
use super::names::Names;
use super::{BacktestError, PastCommit, SkipReason, history};
use crate::fixes::{Change, ItemName, Reason, unusable};
use crate::settings::Fixes;

/// The commits of a fix, oldest first, and what they changed in the code.
pub(super) struct FoundFix<'a> {
    pub commits: Vec<&'a PastCommit>,
    pub changes: Vec<Change>,
}

/// The commits that did the item's work, of those that name it: merely related ones only if there
/// are no others, none that came before the item. True: it follows the one that resolved the item.
pub(super) fn of_item(commits: &[PastCommit], since: Option<i64>) -> Vec<(&PastCommit, bool)> {
    let is_named = |commit: &PastCommit| !matches!(commit.reason, Reason::Test | Reason::Related);
    let named = commits.iter().any(is_named);
    let settled = commits.iter().filter(|c| c.reason.is_strong()).map(|c| c.order).max();
    let counts = |commit: &&PastCommit| {
        let is_weaker = named && commit.reason == Reason::Related;
        let is_older = since.is_some_and(|since| commit.time < since);
        !(is_weaker || is_older)
    };
    let follows = |commit: &PastCommit| settled.is_some_and(|last| commit.order > last);
    commits.iter().filter(counts).map(|commit| (commit, follows(commit))).collect()
}

/// Combines the commits that tell where a fix belongs. `changes`: what each changed in the code.
pub(super) fn of_commits<'a>(
    commits: &'a [PastCommit],
    since: Option<i64>,
    changes: &HashMap<String, Vec<Change>>,
) -> Result<FoundFix<'a>, SkipReason> {
    if commits.is_empty() {
        return Err(SkipReason::NoCommit);
    }
    let mut why = SkipReason::FixedBefore;
    let mut usable: Vec<&PastCommit> = Vec::new();
    let mut changed: BTreeMap<String, Change> = BTreeMap::new();
    for (commit, follows_up) in of_item(commits, since) {
        // Where the item was fixed, the earlier ones tell.
        if follows_up {
            continue;
        }
        // May be missing in a shallow or partial clone.
        let Some(changes) = changes.get(&commit.id) else {
            why = SkipReason::NoParent;
            continue;
        };
        if let Some(reason) = unusable(&commit.subject, changes) {
            why = SkipReason::Fix(reason);
            continue;
        }
        for change in changes {
            changed.entry(change.path.clone()).or_insert_with(|| change.clone());
        }
        usable.push(commit);
    }
    if usable.is_empty() {
        return Err(why);
    }
    Ok(FoundFix { commits: usable, changes: changed.into_values().collect() })
}

/// A fix in the repository's own history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaterFix {
    /// Oldest first; at least one.
    pub commits: Vec<PastCommit>,
    /// Changed code files, by their names before the fix.
    pub files: Vec<String>,
}

/// An item whose fix is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// What commits call it.
    pub name: ItemName,
    /// Seconds since the epoch; commits before it are not about the item.
    pub since: i64,
}

/// The fixes of these items. The repository is only read.
pub fn fixes_of(
    repository: &Path,
    fixes: &Fixes,
    items: &BTreeMap<i64, Awaited>,
) -> Result<BTreeMap<i64, LaterFix>, BacktestError> {
    let names = Names::of(items.iter().map(|(item, awaited)| (*item, &awaited.name)));
    let rules = names.complete(history::rules_of(repository, fixes));
    let since = items.values().map(|awaited| awaited.since).min();
    let linked = history::linked(repository, &rules, &Artifacts::default(), since, &names)?.commits;
    let changes = history::changes_of(repository, linked.values().flatten());
    let mut found = BTreeMap::new();
    for (item, awaited) in items {
        let commits = linked.get(item).map(Vec::as_slice).unwrap_or_default();
        let Ok(fix) = of_commits(commits, Some(awaited.since), &changes) else { continue };
        let commits = fix.commits.into_iter().cloned().collect();
        let files = fix.changes.into_iter().map(|change| change.path).collect();
        found.insert(*item, LaterFix { commits, files });
    }
    Ok(found)
}
