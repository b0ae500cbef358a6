//! Matches fixes with items, and finds the code before each fix.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::history::{self, Artifacts, Linked};
use super::names::Names;
use super::{
    BacktestError, ItemLinks, Outcome, PastItem, PastTree, Request, Scored, SkipReason, fix, past,
};
use crate::context::Subject;
use crate::fixes::{Change, Reason};
use crate::model::WorkItem;

/// A fix to predict.
#[derive(Debug, Clone)]
pub struct Task {
    pub item: PastItem,
    /// The commit before the fix.
    pub base: String,
    /// Seconds since the epoch: the item's text of that time precedes the fix.
    pub before: i64,
    /// Changes of the fix, by path within the code base.
    pub gold: Vec<Change>,
    /// The commits of the fix and how they name the item.
    pub commits: Vec<(String, Reason)>,
    /// Position of the base in the history, so that the index moves forward.
    pub(super) order: usize,
}

#[derive(Debug, Default)]
pub struct Plan {
    /// By code base, in the order of the fixes.
    pub tasks: BTreeMap<PathBuf, Vec<Task>>,
    /// Items that cannot be used.
    pub left: Vec<Outcome>,
    /// The commits of every item, used or not.
    pub links: Vec<ItemLinks>,
    pub notes: Vec<String>,
}

impl Plan {
    /// Reads the histories once for all items. The repositories are only read.
    pub fn find(
        request: &Request,
        items: Vec<PastItem>,
        artifacts: &Artifacts,
    ) -> Result<Self, BacktestError> {
        let since = items.iter().map(|item| item.created_at).min().flatten();
        let mut roots: BTreeSet<PathBuf> = items.iter().map(|i| i.repository.clone()).collect();
        let needed = roots.clone();
        roots.extend(request.code_bases.iter().cloned());
        let (mut histories, mut plan) = (BTreeMap::new(), Self::default());
        for root in roots {
            // A code base without items is used only if it can be read.
            match CodeBaseHistory::read(&root, request, artifacts, since, &names_in(&root, &items))
            {
                Ok(history) => {
                    plan.notes.extend(history.notes(&root));
                    histories.insert(root, history);
                }
                Err(error) if needed.contains(&root) => return Err(error),
                Err(_) => {}
            }
        }
        let linked: HashSet<i64> = artifacts.items().collect();
        let mut misled: BTreeMap<(String, String), usize> = BTreeMap::new();
        for item in items {
            plan.links.push(links_of(&histories, &item));
            match find_fix(&histories, &linked, &item) {
                Ok(found) => {
                    let tasks = plan.tasks.entry(item.repository.clone()).or_default();
                    tasks.push(found.of_item(item));
                }
                Err(why) => {
                    if why == SkipReason::OtherCodeBase {
                        for root in holders(&histories, &item) {
                            *misled.entry((item.area.clone(), root)).or_default() += 1;
                        }
                    }
                    plan.left.push(outcome(&item, Err(why)));
                }
            }
        }
        for ((area, root), count) in misled {
            plan.notes.push(format!(
                "{count} items of {area:?} were fixed in {root}, which is not their code base: repository.routes = [{{ area = {area:?}, path = {root:?} }}]"
            ));
        }
        plan.tasks.values_mut().for_each(|tasks| tasks.sort_by_key(|task| task.order));
        Ok(plan)
    }

    /// Merges two plans: items of several sources.
    pub fn join(&mut self, other: Self) {
        for (code_base, tasks) in other.tasks {
            let all = self.tasks.entry(code_base).or_default();
            all.extend(tasks);
            all.sort_by_key(|task| task.order);
        }
        self.left.extend(other.left);
        self.links.extend(other.links);
        let new = other.notes.into_iter().filter(|note| !self.notes.contains(note));
        let new: Vec<String> = new.collect();
        self.notes.extend(new);
    }

    pub fn all_tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values().flatten()
    }

    /// Sets the past text of each task's item; tasks without one are dropped.
    pub fn set_past_texts(&mut self, mut texts: HashMap<i64, (Subject, Option<Box<WorkItem>>)>) {
        for tasks in self.tasks.values_mut() {
            for task in tasks.extract_if(.., |task| {
                if let Some((subject, raw)) = texts.remove(&task.item.id) {
                    (task.item.subject, task.item.raw) = (Some(subject), raw);
                }
                task.item.subject.is_none()
            }) {
                self.left.push(outcome(&task.item, Err(SkipReason::NoText)));
            }
        }
    }
}

/// The names of items in commits of this code base. A number that differs from the item's id (one
/// repository of several has its own numbers) refers to the item only in the item's code base.
fn names_in(root: &Path, items: &[PastItem]) -> Names {
    let own = items.iter().filter(|item| item.repository == root);
    let others =
        items.iter().filter(|item| item.repository != root && !item.name.has_other_number(item.id));
    Names::of(own.chain(others).map(|item| (item.id, &item.name)))
}

struct CodeBaseHistory {
    linked: Linked,
    changes: HashMap<String, Vec<Change>>,
    /// The code base's folder within its repository; empty: all of it.
    prefix: String,
}

impl CodeBaseHistory {
    fn read(
        root: &Path,
        request: &Request,
        artifacts: &Artifacts,
        since: Option<i64>,
        names: &Names,
    ) -> Result<Self, BacktestError> {
        past::common_folder(root)?;
        let rules = names.complete(history::rules_of(root, &request.fixes));
        let linked = history::linked(root, &rules, artifacts, since, names)?;
        let changes = history::changes_of(root, linked.commits.values().flatten());
        Ok(Self { linked, changes, prefix: PastTree::prefix_of(root)? })
    }

    fn notes(&self, root: &Path) -> Vec<String> {
        let root = root.display();
        let mut notes = Vec::new();
        if self.linked.shallow {
            notes.push(format!(
                "{root} is a shallow clone: only {} commits are known. Run `git fetch --unshallow` to get the rest.",
                self.linked.total
            ));
        }
        if self.linked.other_host > 0 {
            notes.push(format!(
                "{root} has a remote with its own issues, so #123 counts as one of those; otherwise {} commits would name items. If your items are these issues, use --numbers issues; if they are in another tracker, --numbers items (or set fixes.numbers).",
                self.linked.other_host
            ));
        }
        // If there are links, the rule is not questioned: some numbers are equal by chance.
        if self.linked.appended > 0 && self.linked.commits.is_empty() {
            notes.push(format!(
                "{root}: {} commits end with the number of an item in brackets, such as (#123). It counts as the number of a pull request, because the host of this repository appends those; if they are items, set fixes.patterns = [\"(#{{id}})\"].",
                self.linked.appended
            ));
        }
        notes
    }
}

/// The commits of an item in its code base.
fn links_of(histories: &BTreeMap<PathBuf, CodeBaseHistory>, item: &PastItem) -> ItemLinks {
    let history = histories.get(&item.repository);
    let commits = history.and_then(|history| history.linked.commits.get(&item.id));
    let commits = commits.map(Vec::as_slice).unwrap_or_default();
    ItemLinks::of(item, &fix::of_item(commits, item.created_at))
}

/// The code bases with commits of an item, other than its own.
fn holders(histories: &BTreeMap<PathBuf, CodeBaseHistory>, item: &PastItem) -> Vec<String> {
    let others = histories.iter().filter(|(root, history)| {
        **root != item.repository && history.linked.commits.contains_key(&item.id)
    });
    others.map(|(root, _)| root.display().to_string()).collect()
}

/// A task without its item.
struct FoundFixOfItem {
    base: String,
    before: i64,
    gold: Vec<Change>,
    commits: Vec<(String, Reason)>,
    order: usize,
}

impl FoundFixOfItem {
    fn of_item(self, item: PastItem) -> Task {
        let Self { base, before, gold, commits, order } = self;
        Task { item, base, before, gold, commits, order }
    }
}

fn find_fix(
    histories: &BTreeMap<PathBuf, CodeBaseHistory>,
    linked: &HashSet<i64>,
    item: &PastItem,
) -> Result<FoundFixOfItem, SkipReason> {
    let history = histories.get(&item.repository).ok_or(SkipReason::NoCommit)?;
    let commits = history.linked.commits.get(&item.id).map(Vec::as_slice).unwrap_or_default();
    let found = match fix::of_commits(commits, item.created_at, &history.changes) {
        Err(SkipReason::NoCommit) => {
            let elsewhere =
                |history: &CodeBaseHistory| history.linked.commits.contains_key(&item.id);
            return Err(if histories.values().any(elsewhere) {
                SkipReason::OtherCodeBase
            } else if linked.contains(&item.id) {
                SkipReason::Elsewhere
            } else {
                SkipReason::NoCommit
            });
        }
        found => found?,
    };
    let first = found.commits.first().ok_or(SkipReason::NoCommit)?;
    let base = first.parent.clone().ok_or(SkipReason::NoParent)?;
    let within = |change: Change| {
        let path = change.path.strip_prefix(&history.prefix)?.to_owned();
        Some(Change { path, ..change })
    };
    let gold: Vec<Change> = found.changes.into_iter().filter_map(within).collect();
    if gold.is_empty() {
        return Err(SkipReason::OtherCodeBase);
    }
    // Text written while the fix was made may already describe it.
    let existed = item.created_at.is_none_or(|created| created < first.written);
    let before = if existed { first.written } else { first.time };
    let commits = found.commits.iter().map(|commit| (commit.id.clone(), commit.reason)).collect();
    Ok(FoundFixOfItem { base, before, gold, commits, order: first.order })
}

pub(super) fn outcome(item: &PastItem, result: Result<Scored, SkipReason>) -> Outcome {
    Outcome {
        item: item.id,
        name: item.name.text(),
        title: item.title.clone(),
        area: item.area.clone(),
        item_type: item.item_type.clone(),
        repository: item.repository.display().to_string(),
        result,
    }
}
