//! Scoring: each worker takes one stretch of the time line, so that its index moves forward.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::memory::{self, Memory};
use super::plan::{Task, outcome};
use super::{BacktestError, Left, Outcome, PastTree, Progress, Request, Scored, Watch};
use crate::context::{
    Ancestry, ContextError, Moved, MovingIndex, Options, Query, pack, rank, shown_lines,
};

/// Ranked files that are remembered; a deep session is offered fewer.
const RANKED: usize = 50;
/// Files that are offered to the packer, as in a run.
const OFFERED: usize = 30;
/// Fewer items are not worth a second index.
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
    // What is known from before needs no index.
    let mut open: Vec<&Task> = Vec::new();
    for task in tasks {
        match shared.memory().take(&key(shared.request, task)) {
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
    let heads = open.iter().map(|task| task.base.as_str());
    let place = Place {
        repository,
        prefix: PastTree::prefix_of(repository)?,
        // Without it each commit is asked for alone.
        ancestry: Arc::new(Ancestry::read(repository, heads).unwrap_or_default()),
        options: Options { threads: threads(workers), ..Options::default() },
    };
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
    ancestry: Arc<Ancestry>,
    options: Options,
}

fn work(
    shared: &Shared<'_>,
    place: &Place<'_>,
    number: usize,
    tasks: &[&Task],
) -> Result<Vec<Outcome>, BacktestError> {
    let folder = shared.request.folder.join("index").join(format!("{number}"));
    let Place { repository, prefix, ancestry, options } = place;
    let mut index = MovingIndex::open(repository, prefix, &folder, ancestry.clone(), options)?;
    let mut outcomes = Vec::with_capacity(tasks.len());
    for task in tasks {
        if !shared.go_on() {
            break;
        }
        match score(shared, &mut index, task) {
            Ok(result) => outcomes.push(outcome(&task.item, result)),
            Err(error) => {
                // The others end soon; what they scored is kept.
                let already = shared.stopped.swap(true, Ordering::Relaxed);
                return if already { Ok(outcomes) } else { Err(error) };
            }
        }
        shared.done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(outcomes)
}

fn key(request: &Request, task: &Task) -> String {
    let subject = task.item.subject.clone().unwrap_or_default();
    memory::key(request, &subject, &task.base, &task.gold)
}

/// The score of one item, or why there is none.
fn score(
    shared: &Shared<'_>,
    index: &mut MovingIndex,
    task: &Task,
) -> Result<Result<Scored, Left>, BacktestError> {
    let Some(subject) = &task.item.subject else { return Ok(Err(Left::NoText)) };
    let index = match index.move_to(&task.base)? {
        Moved::Here(index) => index,
        Moved::NoCommit => return Ok(Err(Left::NoParent)),
        Moved::NoFolder => return Ok(Err(Left::NoFolder)),
    };
    let query = Query::of(subject);
    let ranked = rank(index, &query, RANKED)?;
    let offered = &ranked[..ranked.len().min(OFFERED)];
    let packed = pack(index, &query, offered, shared.request.tokens)?;
    let ranked: Vec<String> = ranked.into_iter().map(|file| file.path).collect();
    let shown = shown_lines(&packed.text);
    let scored = Scored::of(&task.base, &task.commits, &task.gold, &ranked, &shown);
    shared.memory().put(&key(shared.request, task), &scored)?;
    Ok(Ok(scored))
}
