//! Would it have helped? Finished items and the commits that fixed them are the truth; nothing is
//! asked of a model, so a backtest costs no money.
//!
//! For each item the code is laid out as it was before its first fix ([`PastTree`], a work tree of
//! our own that borrows the objects of the user's repository and changes nothing there), the same
//! query is built as in a run, and the ranking is compared with the files that the fix changed.
//! Items are taken in the order of their fixes, so that the index moves from one commit to the next
//! instead of starting anew. What was scored is kept in the backtest's folder: a second run goes on
//! where the first was ended.

mod change;
mod fix;
mod history;
mod memory;
mod page;
mod past;
mod score;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use fix::{LaterFix, fixes_of};
pub use history::PastCommit;
pub use page::render as render_html;
pub use past::PastTree;
pub use score::{Place, Scored, Table};
pub use text::render;

use crate::context::{ContextError, Index, Options, Query, Subject, pack, rank, shown_lines};
use crate::fixes::{Change, Numbers, Reason, Unusable};
use memory::Memory;

/// Ranked files that count: as many as a deep session is offered.
const OFFERED: usize = 30;

/// A finished item.
#[derive(Debug, Clone)]
pub struct PastItem {
    /// The tracker's number.
    pub id: i64,
    /// For people.
    pub title: String,
    /// Where it belongs.
    pub area: String,
    /// Bug, User Story, …
    pub item_type: String,
    /// Seconds since the epoch; a commit before it did not fix it.
    pub created_at: Option<i64>,
    /// What a run would ask the index.
    pub subject: Subject,
    /// The code base that the configuration gives it.
    pub repository: PathBuf,
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where work trees, indexes and results are kept.
    pub folder: PathBuf,
    /// What `#123` means; none: what the repository's remote suggests.
    pub numbers: Option<Numbers>,
    /// Tokens of a packed context.
    pub tokens: usize,
}

/// Why an item could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// No commit names it.
    NoCommit,
    /// All its commits are older than the item.
    FixedBefore,
    /// The commits say nothing about it.
    Fix(Unusable),
    /// The code before the fix is not in this clone.
    NoParent,
}

impl Left {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoCommit => "no commit names the item",
            Self::FixedBefore => "every commit that names the item is older than the item",
            Self::Fix(why) => why.text(),
            Self::NoParent => {
                "the code before the fix is not in this clone (shallow or rewritten history)"
            }
        }
    }
}

/// How one item fared.
#[derive(Debug, Clone, PartialEq, Serialize, serde::Deserialize)]
pub struct Outcome {
    pub item: i64,
    pub title: String,
    pub area: String,
    pub item_type: String,
    pub repository: String,
    /// What was found, or why nothing was tried.
    pub result: Result<Scored, Left>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub total: Table,
    /// By area, type, repository and language: name of the group, then its tables.
    pub groups: BTreeMap<&'static str, BTreeMap<String, Table>>,
    /// Items that were not used, by reason.
    pub left: BTreeMap<String, usize>,
    pub outcomes: Vec<Outcome>,
}

#[derive(Debug, thiserror::Error)]
pub enum BacktestError {
    #[error("cannot read the history of {}: {source}", repository.display())]
    Git {
        repository: PathBuf,
        #[source]
        source: crate::context::GitError,
    },
    #[error("{} is not a git repository; a backtest needs the history that fixed the items", .0.display())]
    NoRepository(PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Context(#[from] ContextError),
}

/// A fix to be predicted.
struct Task<'a> {
    item: &'a PastItem,
    base: String,
    /// Place of the base in the history, so that the index moves forward.
    order: usize,
    gold: Vec<Change>,
    commits: Vec<(String, Reason)>,
}

/// Scores all items. `progress` hears how many are done of how many.
pub fn run(
    request: &Request,
    items: &[PastItem],
    mut progress: impl FnMut(usize, usize),
) -> Result<Report, BacktestError> {
    let mut by_repository: BTreeMap<&Path, Vec<&PastItem>> = BTreeMap::new();
    for item in items {
        by_repository.entry(&item.repository).or_default().push(item);
    }
    let mut outcomes = Vec::new();
    for (repository, items) in by_repository {
        let past = PastTree::open(repository, &request.folder)?;
        let mut memory = Memory::open(&request.folder)?;
        let (tasks, left) = plan(request, repository, &past, &items)?;
        outcomes.extend(left);
        for task in tasks {
            progress(outcomes.len(), items.len());
            let scored = score(request, &past, &task, &mut memory)?;
            outcomes.push(outcome(task.item, scored.ok_or(Left::NoParent)));
        }
    }
    progress(outcomes.len(), items.len());
    outcomes.sort_by_key(|outcome| outcome.item);
    Ok(score::report(outcomes))
}

fn outcome(item: &PastItem, result: Result<Scored, Left>) -> Outcome {
    Outcome {
        item: item.id,
        title: item.title.clone(),
        area: item.area.clone(),
        item_type: item.item_type.clone(),
        repository: item.repository.display().to_string(),
        result,
    }
}

/// Finds the fix of each item; those without one are told apart at once.
fn plan<'a>(
    request: &Request,
    repository: &Path,
    past: &PastTree,
    items: &[&'a PastItem],
) -> Result<(Vec<Task<'a>>, Vec<Outcome>), BacktestError> {
    let since = items.iter().map(|item| item.created_at).min().flatten();
    let numbers = match request.numbers {
        Some(numbers) => numbers,
        None => history::numbers_of(repository)?,
    };
    let linked = history::linked(repository, numbers, since)?;
    let (mut tasks, mut left) = (Vec::new(), Vec::new());
    for item in items {
        let commits = linked.get(&item.id).map(Vec::as_slice).unwrap_or_default();
        match task(past, item, commits)? {
            Ok(task) => tasks.push(task),
            Err(why) => left.push(outcome(item, Err(why))),
        }
    }
    tasks.sort_by_key(|task| task.order);
    Ok((tasks, left))
}

fn task<'a>(
    past: &PastTree,
    item: &'a PastItem,
    commits: &[PastCommit],
) -> Result<Result<Task<'a>, Left>, BacktestError> {
    let changes = |parent: &str, commit: &str| history::changes(past.folder(), parent, commit);
    let found = match fix::of_commits(commits, item.created_at, changes)? {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let first = found.commits.first();
    let Some((base, order)) = first.and_then(|first| Some((first.parent.clone()?, first.order)))
    else {
        return Ok(Err(Left::NoParent));
    };
    let commits = found.commits.iter().map(|commit| (commit.id.clone(), commit.reason)).collect();
    Ok(Ok(Task { item, base, order, gold: found.changes, commits }))
}

/// The score of one item; none if its past cannot be laid out.
fn score(
    request: &Request,
    past: &PastTree,
    task: &Task<'_>,
    memory: &mut Memory,
) -> Result<Option<Scored>, BacktestError> {
    let key = memory::key(request, task.item, &task.base, &task.gold);
    if let Some(known) = memory.get(&key) {
        return Ok(Some(known));
    }
    if past.move_to(&task.base).is_err() {
        return Ok(None);
    }
    let query = Query::of(&task.item.subject);
    let question = |index: &Index| {
        let ranked = rank(index, &query, OFFERED)?;
        let packed = pack(index, &query, &ranked, request.tokens)?;
        Ok((ranked, packed.text))
    };
    let indexes = request.folder.join("index");
    let ((ranked, text), _) = Index::ask(past.folder(), &indexes, &Options::default(), question)?;
    let ranked: Vec<String> = ranked.into_iter().map(|file| file.path).collect();
    let scored = Scored::of(&task.base, &task.commits, &task.gold, &ranked, &shown_lines(&text));
    memory.put(&key, &scored)?;
    Ok(Some(scored))
}
