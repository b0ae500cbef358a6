//! Tries weights and languages on the user's own history: one half of the items suggests what to
//! try, the other half is ranked again with it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::gain::{Gain, MIN};
use super::tune::{drawn, is_seen};
use super::tune_ranking::{Change, Seen, propose, written};
use super::walk::{Each, walk};
use super::work::RANKED;
use super::{BacktestError, Plan, Progress, Request, SkipReason, Suggestion, Task, Watch};
use crate::context::{Index, Query, Weights, candidates, rank, weights_of};
use crate::settings::Ranking;

/// Most items used, in both halves together.
const MAX_ITEMS: usize = 1000;
/// Candidate files per item.
const CANDIDATES: usize = 100;

type Tasks = BTreeMap<PathBuf, Vec<Task>>;

/// The items of a trial, in two halves.
pub struct Trials {
    seen: Tasks,
    held_back: Tasks,
}

impl Trials {
    /// Deterministic for the same seed.
    pub fn of(plan: &Plan, seed: u64) -> Self {
        let mut all: Vec<(&PathBuf, &Task)> = plan
            .tasks
            .iter()
            .flat_map(|(root, tasks)| tasks.iter().map(move |task| (root, task)))
            .collect();
        all.sort_by_key(|(_, task)| drawn(task.item.id, seed.wrapping_add(1)));
        all.truncate(MAX_ITEMS);
        // The index moves forward.
        all.sort_by_key(|(_, task)| task.order);
        let mut trials = Self { seen: Tasks::new(), held_back: Tasks::new() };
        for (root, task) in all {
            let seen = is_seen(task.item.id, seed);
            let half = if seen { &mut trials.seen } else { &mut trials.held_back };
            half.entry(root.clone()).or_default().push(task.clone());
        }
        trials
    }
}

fn count(tasks: &Tasks) -> usize {
    tasks.values().map(Vec::len).sum()
}

/// Changes of `[ranking]`, each with its gain on the held-back items.
pub fn tune_ranking(
    request: &Request,
    trials: &Trials,
    watch: &Watch<'_>,
) -> Result<Vec<Suggestion>, BacktestError> {
    let Trials { seen, held_back } = trials;
    if count(seen) < MIN || count(held_back) < MIN {
        return Ok(Vec::new());
    }
    let all = count(seen) + count(held_back);
    let work = Work { request, watch, all, done: AtomicUsize::new(0) };
    let weights = weights_of(&request.ranking);
    let collected = work.along(seen, &|task, index| collect(task, index, &weights))?;
    let collected: Vec<Seen> = collected.into_iter().flatten().collect();
    let proposed = propose(&collected, &request.ranking);
    drop(collected);
    if proposed.is_empty() {
        return Ok(Vec::new());
    }
    let changed: Vec<Ranking> = proposed.iter().map(|one| one.apply(&request.ranking)).collect();
    let gains = work.measure(held_back, &changed)?;
    let mut found = Vec::new();
    let mut kept: Vec<&Change> = Vec::new();
    for ((change, ranking), gain) in proposed.iter().zip(&changed).zip(gains) {
        if gain.is_significant() {
            kept.push(change);
            found.push(suggestion(change.what(), ranking, request, gain));
        }
    }
    if kept.len() > 1 {
        let together = kept.iter().fold(request.ranking.clone(), |all, one| one.apply(&all));
        let gain = work.measure(held_back, std::slice::from_ref(&together))?.remove(0);
        let alone = found.iter().map(|one| one.gain.rank_after).fold(0.0, f64::max);
        if gain.is_significant() && gain.rank_after > alone {
            let what = "these changes of the ranking together".to_owned();
            found.insert(0, suggestion(what, &together, request, gain));
        }
    }
    Ok(found)
}

fn suggestion(what: String, ranking: &Ranking, request: &Request, gain: Gain) -> Suggestion {
    Suggestion { what, setting: written(ranking, &request.ranking), gain }
}

/// The candidate files of an item; `None` if it cannot be used.
fn collect(
    task: &Task,
    index: Result<&Index, SkipReason>,
    weights: &Weights,
) -> Result<Option<Seen>, BacktestError> {
    let (Ok(index), Some(subject)) = (index, &task.item.subject) else { return Ok(None) };
    let right: Vec<&str> = task.gold.iter().map(|change| change.path.as_str()).collect();
    let candidates = candidates(index, &Query::of(subject), weights, CANDIDATES, &right)?;
    let right = right.into_iter().map(str::to_owned).collect();
    Ok(Some(Seen { candidates, right }))
}

/// The rank of the first right file with each of the weights; `None` if the item cannot be used.
fn places(
    task: &Task,
    index: Result<&Index, SkipReason>,
    all: &[Weights],
) -> Result<Option<Vec<Option<usize>>>, BacktestError> {
    let (Ok(index), Some(subject)) = (index, &task.item.subject) else { return Ok(None) };
    let query = Query::of(subject);
    let is_right = |path: &str| task.gold.iter().any(|change| change.path == path);
    let place = |weights: &Weights| {
        let ranked = rank(index, &query, weights, RANKED)?;
        Ok(ranked.iter().position(|file| is_right(&file.path)).map(|at| at + 1))
    };
    all.iter().map(place).collect::<Result<_, BacktestError>>().map(Some)
}

struct Work<'a> {
    request: &'a Request,
    watch: &'a Watch<'a>,
    all: usize,
    done: AtomicUsize,
}

impl Work<'_> {
    fn along<T: Send>(
        &self,
        tasks: &Tasks,
        each: &Each<'_, Option<T>>,
    ) -> Result<Vec<Option<T>>, BacktestError> {
        let progress =
            || Progress { done: self.done.load(Ordering::Relaxed).min(self.all), all: self.all };
        let go_on = || (self.watch)(progress());
        let counted = |task: &Task, index: Result<&Index, SkipReason>| {
            let result = each(task, index);
            self.done.fetch_add(1, Ordering::Relaxed);
            result
        };
        let mut found = Vec::with_capacity(count(tasks));
        for (root, tasks) in tasks {
            let tasks: Vec<&Task> = tasks.iter().collect();
            found.extend(walk(self.request, root, &tasks, &go_on, &counted)?);
        }
        if found.len() < count(tasks) {
            let Progress { done, all } = progress();
            return Err(BacktestError::Stopped { done, all });
        }
        Ok(found)
    }

    /// The gain of each of these configurations over the current one.
    fn measure(&self, tasks: &Tasks, changed: &[Ranking]) -> Result<Vec<Gain>, BacktestError> {
        let all = std::iter::once(&self.request.ranking).chain(changed);
        let all: Vec<Weights> = all.map(weights_of).collect();
        let found = self.along(tasks, &|task, index| places(task, index, &all))?;
        let found: Vec<Vec<Option<usize>>> = found.into_iter().flatten().collect();
        let gain = |at: usize| Gain::of(found.iter().map(|places| (places[0], places[at])));
        Ok((1..all.len()).map(gain).collect())
    }
}
