//! Scores items: stored scores are reused, the rest is computed along the history.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::memory::{self, Memory};
use super::plan::{Task, outcome};
use super::walk::walk;
use super::{BacktestError, Outcome, Progress, Request, Scored, SkipReason, Watch};
use crate::context::{Index, Query, Weights, pack, rank, shown_lines, weights_of};

/// Ranked files that are stored; a deep session gets fewer.
pub(super) const RANKED: usize = 50;
/// Files offered to the packer, as in a run.
const OFFERED: usize = 30;

/// Shared by the workers.
struct ScoringState<'a> {
    request: &'a Request,
    weights: Weights,
    memory: Mutex<Memory<Scored>>,
    watch: &'a Watch<'a>,
    all: usize,
    done: AtomicUsize,
    stopped: AtomicBool,
}

impl ScoringState<'_> {
    /// Reports progress; false: stop.
    fn go_on(&self) -> bool {
        let progress = Progress { done: self.done.load(Ordering::Relaxed), all: self.all };
        if !(self.watch)(progress) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        !self.stopped.load(Ordering::Relaxed)
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory<Scored>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Scores every task; `left` are the items that were excluded before.
pub fn score_all(
    request: &Request,
    tasks: BTreeMap<PathBuf, Vec<Task>>,
    left: Vec<Outcome>,
    watch: &Watch<'_>,
) -> Result<Vec<Outcome>, BacktestError> {
    let all = left.len() + tasks.values().map(Vec::len).sum::<usize>();
    let shared = ScoringState {
        request,
        weights: weights_of(&request.ranking),
        memory: Mutex::new(Memory::open(request.folder.join("scores.jsonl"))),
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
    shared: &ScoringState<'_>,
    repository: &Path,
    tasks: &[Task],
) -> Result<Vec<Outcome>, BacktestError> {
    let mut outcomes = Vec::with_capacity(tasks.len());
    // Stored scores need no index.
    let mut open: Vec<&Task> = Vec::new();
    for task in tasks {
        match shared.memory().take(&key(shared.request, task)) {
            // The rules for how commits name items may have changed.
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
    let go_on = || shared.go_on();
    let each = |task: &Task, index: Result<&Index, SkipReason>| {
        let result = match index {
            Ok(index) => score(shared, index, task)?,
            Err(why) => Err(why),
        };
        shared.done.fetch_add(1, Ordering::Relaxed);
        Ok(outcome(&task.item, result))
    };
    outcomes.extend(walk(shared.request, repository, &open, &go_on, &each)?);
    Ok(outcomes)
}

fn key(request: &Request, task: &Task) -> String {
    let subject = task.item.subject.clone().unwrap_or_default();
    memory::key(request, &subject, &task.base, &task.gold)
}

/// The score of one item, or why there is none.
fn score(
    shared: &ScoringState<'_>,
    index: &Index,
    task: &Task,
) -> Result<Result<Scored, SkipReason>, BacktestError> {
    let Some(subject) = &task.item.subject else { return Ok(Err(SkipReason::NoText)) };
    let query = Query::of(subject);
    let ranked = rank(index, &query, &shared.weights, RANKED)?;
    let offered = &ranked[..ranked.len().min(OFFERED)];
    let packed = pack(index, &query, offered, shared.request.tokens)?;
    let ranked: Vec<String> = ranked.into_iter().map(|file| file.path).collect();
    let shown = shown_lines(&packed.text);
    let scored = Scored::of(&task.base, &task.commits, &task.gold, &ranked, &shown);
    shared.memory().put(&key(shared.request, task), &scored)?;
    Ok(Ok(scored))
}
