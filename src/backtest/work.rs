//! Scoring: each worker takes one stretch of the time line, so that its index moves forward.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::memory::{self, Memory};
use super::plan::{Task, outcome};
use super::{BacktestError, Left, Outcome, PastTree, Progress, Request, Scored, Watch};
use crate::context::{ContextError, Index, Options, Query, pack, rank, shown_lines};

/// Ranked files that are remembered; a deep session is offered fewer.
const RANKED: usize = 50;
/// Files that are offered to the packer, as in a run.
const OFFERED: usize = 30;
/// Fewer items are not worth a second work tree.
const FEWEST_PER_WORKER: usize = 8;

/// What the workers share.
struct Shared<'a> {
    request: &'a Request,
    memory: Mutex<Memory>,
    watch: &'a Watch<'a>,
    all: usize,
    done: AtomicUsize,
    stopped: AtomicBool,
}

impl Shared<'_> {
    /// Tells how far it is; false: the work is to end.
    fn go_on(&self) -> bool {
        let progress = Progress { done: self.done.load(Ordering::Relaxed), all: self.all };
        if !(self.watch)(progress) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        !self.stopped.load(Ordering::Relaxed)
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Scores every task; `left` are the items that were left out before.
pub fn score_all(
    request: &Request,
    tasks: BTreeMap<PathBuf, Vec<Task>>,
    left: Vec<Outcome>,
    watch: &Watch<'_>,
) -> Result<Vec<Outcome>, BacktestError> {
    let all = left.len() + tasks.values().map(Vec::len).sum::<usize>();
    let shared = Shared {
        request,
        memory: Mutex::new(Memory::open(&request.folder)?),
        watch,
        all,
        done: AtomicUsize::new(left.len()),
        stopped: AtomicBool::new(false),
    };
    let mut outcomes = left;
    for (repository, tasks) in tasks {
        outcomes.extend(score_code_base(&shared, &repository, &tasks)?);
    }
    shared.go_on();
    if shared.stopped.load(Ordering::Relaxed) && outcomes.len() < all {
        return Err(BacktestError::Stopped { done: outcomes.len(), all });
    }
    Ok(outcomes)
}

fn score_code_base(
    shared: &Shared<'_>,
    repository: &Path,
    tasks: &[Task],
) -> Result<Vec<Outcome>, BacktestError> {
    let mut outcomes = Vec::with_capacity(tasks.len());
    // What is known from before needs no work tree.
    let mut open: Vec<&Task> = Vec::new();
    for task in tasks {
        match shared.memory().get(&key(shared.request, task)) {
            // How the commits name the item may be read otherwise by now.
            Some(known) => {
                let known = Scored { fixes: task.commits.clone(), ..known };
                outcomes.push(outcome(&task.item, Ok(known)));
            }
            None => open.push(task),
        }
    }
    shared.done.fetch_add(outcomes.len(), Ordering::Relaxed);
    if open.is_empty() || !shared.go_on() {
        return Ok(outcomes);
    }
    let workers = shared.request.workers.clamp(1, open.len().div_ceil(FEWEST_PER_WORKER));
    let each = open.len().div_ceil(workers);
    let place =
        Place { repository, prefix: PastTree::prefix_of(repository)?, threads: threads(workers) };
    let results: Vec<Result<Vec<Outcome>, BacktestError>> = std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(workers);
        for (number, part) in open.chunks(each).enumerate() {
            let place = &place;
            handles.push(scope.spawn(move || work(shared, place, number, part)));
        }
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or(Err(BacktestError::Context(ContextError::Worker)))
        };
        handles.into_iter().map(join).collect()
    });
    for result in results {
        outcomes.extend(result?);
    }
    Ok(outcomes)
}

/// Threads that one worker's index may use.
fn threads(workers: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / workers).clamp(1, Options::default().threads)
}

/// Where a worker works.
struct Place<'a> {
    repository: &'a Path,
    prefix: String,
    threads: usize,
}

fn work(
    shared: &Shared<'_>,
    place: &Place<'_>,
    number: usize,
    tasks: &[&Task],
) -> Result<Vec<Outcome>, BacktestError> {
    let trees = shared.request.folder.join("trees");
    let tree = PastTree::open(place.repository, &trees, &format!("{number}"))?;
    let indexes = shared.request.folder.join("index");
    let mut outcomes = Vec::with_capacity(tasks.len());
    for task in tasks {
        if !shared.go_on() {
            break;
        }
        match score(shared, place, &tree, &indexes, task) {
            Ok(result) => outcomes.push(outcome(&task.item, result)),
            Err(error) => {
                // The others end soon; what they scored is kept.
                let already = shared.stopped.swap(true, Ordering::Relaxed);
                return if already { Ok(outcomes) } else { Err(error) };
            }
        }
        shared.done.fetch_add(1, Ordering::Relaxed);
    }
    tree.remove();
    Ok(outcomes)
}

fn key(request: &Request, task: &Task) -> String {
    let subject = task.item.subject.clone().unwrap_or_default();
    memory::key(request, &subject, &task.base, &task.gold)
}

/// The score of one item, or why there is none.
fn score(
    shared: &Shared<'_>,
    place: &Place<'_>,
    tree: &PastTree,
    indexes: &Path,
    task: &Task,
) -> Result<Result<Scored, Left>, BacktestError> {
    let Some(subject) = &task.item.subject else { return Ok(Err(Left::NoText)) };
    if !tree.knows(&task.base) {
        return Ok(Err(Left::NoParent));
    }
    tree.move_to(&task.base)?;
    let root = tree.folder().join(&place.prefix);
    if !root.is_dir() {
        return Ok(Err(Left::NoFolder));
    }
    let query = Query::of(subject);
    let question = |index: &Index| {
        let ranked = rank(index, &query, RANKED)?;
        let offered = &ranked[..ranked.len().min(OFFERED)];
        let packed = pack(index, &query, offered, shared.request.tokens)?;
        Ok((ranked, packed.text))
    };
    let options = Options { threads: place.threads, ..Options::default() };
    let ((ranked, text), _) = Index::ask(&root, indexes, &options, question)?;
    let ranked: Vec<String> = ranked.into_iter().map(|file| file.path).collect();
    let scored = Scored::of(&task.base, &task.commits, &task.gold, &ranked, &shown_lines(&text));
    shared.memory().put(&key(shared.request, task), &scored)?;
    Ok(Ok(scored))
}
