//! Walks the history of a code base: each worker takes one section of it, so that its index moves
//! forward.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::plan::Task;
use super::{BacktestError, PastTree, Request, SkipReason};
use crate::context::{ContextError, Index, Moved, MovingIndex, Options};

/// For fewer items a second index does not pay off.
const MIN_PER_WORKER: usize = 8;

/// The work for a task with the code before its fix, or with the reason why that is missing.
pub type Each<'a, T> =
    dyn Fn(&Task, Result<&Index, SkipReason>) -> Result<T, BacktestError> + Sync + 'a;

/// Runs the work at each task's commit; the tasks are in the order of the history. Stops early when
/// `go_on` says so, or with the first error.
pub fn walk<T: Send>(
    request: &Request,
    repository: &Path,
    tasks: &[&Task],
    go_on: &(dyn Fn() -> bool + Sync),
    each: &Each<'_, T>,
) -> Result<Vec<T>, BacktestError> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let folder = request.folder.join("index");
    // A work tree of a killed backtest is as large as the code base; this one may have fewer workers.
    match std::fs::remove_dir_all(&folder) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            return Err(BacktestError::Write { path: folder, source });
        }
        _ => {}
    }
    let workers = request.workers.clamp(1, tasks.len().div_ceil(MIN_PER_WORKER));
    let part = tasks.len().div_ceil(workers);
    let place = WalkPlace {
        repository,
        folder,
        prefix: PastTree::prefix_of(repository)?,
        options: Options { threads: threads(workers), ..Options::default() },
        failed: AtomicBool::new(false),
    };
    let results: Vec<Result<Vec<T>, BacktestError>> = std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(workers);
        for (number, part) in tasks.chunks(part).enumerate() {
            let place = &place;
            handles.push(scope.spawn(move || place.work(number, part, go_on, each)));
        }
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or(Err(BacktestError::Context(ContextError::Worker)))
        };
        handles.into_iter().map(join).collect()
    });
    let mut all = Vec::with_capacity(tasks.len());
    for result in results {
        all.extend(result?);
    }
    Ok(all)
}

/// Threads that one worker's index may use.
fn threads(workers: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / workers).clamp(1, Options::default().threads)
}

struct WalkPlace<'a> {
    repository: &'a Path,
    /// Has a folder for each worker.
    folder: PathBuf,
    prefix: String,
    options: Options,
    /// One worker failed: the others stop soon, and their results are kept.
    failed: AtomicBool,
}

impl WalkPlace<'_> {
    fn work<T>(
        &self,
        number: usize,
        tasks: &[&Task],
        go_on: &(dyn Fn() -> bool + Sync),
        each: &Each<'_, T>,
    ) -> Result<Vec<T>, BacktestError> {
        let folder = self.folder.join(number.to_string());
        let mut index = MovingIndex::open(self.repository, &self.prefix, &folder, &self.options)?;
        let mut done = Vec::with_capacity(tasks.len());
        for task in tasks {
            if self.failed.load(Ordering::Relaxed) || !go_on() {
                break;
            }
            match at(&mut index, task, each) {
                Ok(result) => done.push(result),
                Err(error) => {
                    let already = self.failed.swap(true, Ordering::Relaxed);
                    return if already { Ok(done) } else { Err(error) };
                }
            }
        }
        Ok(done)
    }
}

fn at<T>(index: &mut MovingIndex, task: &Task, each: &Each<'_, T>) -> Result<T, BacktestError> {
    each(
        task,
        match index.move_to(&task.base)? {
            Moved::Here(index) => Ok(index),
            Moved::NoCommit => Err(SkipReason::NoParent),
            Moved::NoFolder => Err(SkipReason::NoFolder),
        },
    )
}
