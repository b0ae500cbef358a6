//! Reads all sources concurrently: each fetches and cleans its own pages; one plan decides on all
//! items.
//!
//! A page is stored before the next one of its source is fetched, so memory does not grow with the
//! backlog and no item is lost. A source that fails does not stop the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::read::{Planning, SourceFigures, SourceToRead, read_source};
use super::{RunContext, RunError, Tracker};
use crate::dedupe::{Plan, PlanCounts, Queues};
use crate::event::{Event, Trigger};
use crate::fetch::FetchError;
use crate::model::Usd;
use crate::schedule::{Schedule, day_in};
use crate::settings::Source;

/// A source that was not read completely.
#[derive(Debug)]
pub struct UnreadSource {
    pub name: String,
    pub error: RunError,
}

pub(super) struct ReadSources {
    pub(super) queues: Queues,
    /// Sources whose own budget has no room for another analysis. Triage counts for no source, so
    /// this holds until the analyses begin.
    pub(super) out_of_budget: HashSet<String>,
    /// The error that the run ends with unless a worse one follows.
    pub(super) unread: Result<(), RunError>,
}

/// Reads every source that is due. Fails if none could be read.
pub(super) async fn read_all(cx: &RunContext) -> Result<ReadSources, RunError> {
    follow_configuration(cx).await?;
    if cx.journal.sources().distrust_after_clock_went_back(cx.now()).await? {
        tracing::warn!("the clock went back since the last run; every source is read again");
    }
    cx.emit(Event::FetchStarted);
    let out_of_budget = exhausted(cx).await?;
    let planning = Arc::new(Mutex::new(Planning { plan: Plan::new(&cx.config), items: 0 }));
    // With several sources, none may use up the time of the others.
    let until = has_several(cx).then(|| cx.stop.half_time());
    let (mut tasks, mut names) = (JoinSet::new(), HashMap::new());
    for tracker in cx.edges.trackers.iter() {
        if is_due(cx, tracker).await? {
            let (tracker, name) = (tracker.clone(), tracker.name.clone());
            let out_of_budget = out_of_budget.contains(&name);
            let source = SourceToRead { tracker, out_of_budget, until };
            let read = read_source(cx.clone(), source, Arc::clone(&planning));
            names.insert(tasks.spawn(read.in_current_span()).id(), name);
        }
    }
    let (mut read, mut unread) = (Vec::new(), Vec::new());
    while let Some(ended) = tasks.join_next_with_id().await {
        let id = ended.as_ref().map_or_else(tokio::task::JoinError::id, |(id, _)| *id);
        let name = names.remove(&id).unwrap_or_default();
        let figures = match ended {
            Ok((_, figures)) => figures,
            Err(panic) => Err(RunError::Panicked { stage: "read", message: panic.to_string() }),
        };
        match figures {
            Ok(figures) => {
                let doubt = figures.doubt();
                unread.extend(doubt.map(|error| note_failure(cx, name.clone(), error)));
                read.push(note_read(cx, name, figures).await?);
            }
            Err(error @ RunError::Store(_)) => return Err(error),
            Err(error) => unread.push(note_failure(cx, name, error)),
        }
    }
    let place = |source: &UnreadSource| {
        cx.edges.trackers.iter().position(|tracker| tracker.name == source.name)
    };
    unread.sort_by_key(place);
    if read.is_empty()
        && let Some(first) = unread.pop()
    {
        if unread.is_empty() {
            return Err(first.error);
        }
        unread.push(first);
        return Err(RunError::AllSources(unread));
    }
    let mut planning = planning.lock().await;
    let plan = std::mem::replace(&mut planning.plan, Plan::new(&cx.config));
    let queues = finish_plan(cx, plan, planning.items, &read).await?;
    let unread = match unread.is_empty() {
        true => Ok(()),
        false => Err(RunError::SomeSources(unread)),
    };
    Ok(ReadSources { queues, out_of_budget, unread })
}

/// Parks items of sources that are no longer configured until they are configured again.
async fn follow_configuration(cx: &RunContext) -> Result<(), RunError> {
    let names = cx.edges.trackers.iter().map(|tracker| tracker.name.clone()).collect();
    for (source, items) in cx.journal.items().follow_sources(names).await? {
        tracing::warn!(
            source,
            items,
            "parked the open items of a source that is no longer configured; they \
             are queued again if it returns"
        );
    }
    Ok(())
}

/// A source with its own schedule is read by the first scheduled run after each of its times.
async fn is_due(cx: &RunContext, tracker: &Tracker) -> Result<bool, RunError> {
    let Some(schedule) = own_schedule(cx, &tracker.name) else { return Ok(true) };
    if cx.trigger == Trigger::Manual {
        return Ok(true);
    }
    let Some(last) = cx.store().sources().last_read(&tracker.name).await? else { return Ok(true) };
    let next = schedule.next_after(last);
    let due = next.is_some_and(|next| next <= cx.now()) || last > cx.now();
    if !due {
        let next = next.map(|next| next.to_string()).unwrap_or_default();
        tracing::info!(source = tracker.name, next, "this source is not due yet");
    }
    Ok(due)
}

fn own_schedule(cx: &RunContext, name: &str) -> Option<Schedule> {
    let expression = &cx.config.source_named(name)?.schedule;
    let own = !expression.is_empty();
    own.then(|| Schedule::parse(expression, &cx.config.schedule.timezone).ok()).flatten()
}

/// Sources whose own budget has no room for another analysis. Their items must not take places in
/// the queue.
async fn exhausted(cx: &RunContext) -> Result<HashSet<String>, RunError> {
    let mut exhausted = HashSet::new();
    for source in cx.config.sources() {
        if is_exhausted(cx, source).await? {
            exhausted.insert(source.name.clone());
        }
    }
    Ok(exhausted)
}

async fn is_exhausted(cx: &RunContext, source: &Source) -> Result<bool, RunError> {
    let (day, month) = (source.budget_per_day.as_cap(), source.budget_per_month.as_cap());
    if day.is_none() && month.is_none() {
        return Ok(false);
    }
    let today = day_in(&cx.config.schedule.timezone, cx.now());
    let spent = cx.store().budget().of_source(source.name.clone(), today).await?;
    // The cheapest analysis that a rule allows.
    let by_rules = cx.config.rules.iter().filter_map(|rule| rule.max_cost);
    let next = by_rules.fold(cx.config.analyze.max_cost, Usd::min);
    let is_over = |cap: Option<Usd>, so_far: Usd| cap.is_some_and(|cap| so_far + next > cap);
    Ok(is_over(day, spent.day.committed()) || is_over(month, spent.month.committed()))
}

async fn note_read(
    cx: &RunContext,
    source: String,
    figures: SourceFigures,
) -> Result<SourceFigures, RunError> {
    if own_schedule(cx, &source).is_some() {
        cx.journal.sources().note_read(&source, cx.now()).await?;
    }
    if has_several(cx) {
        let SourceFigures { items, vanished, requests, .. } = figures;
        cx.emit(Event::SourceRead { source, items, vanished, requests });
    }
    Ok(figures)
}

fn note_failure(cx: &RunContext, name: String, error: RunError) -> UnreadSource {
    if let RunError::Fetch(FetchError { class, message, .. }) = &error {
        let source = if has_several(cx) { name.clone() } else { String::new() };
        let (class, message) = (class.into_str().into(), message.clone());
        cx.emit(Event::FetchFailed { source, class, message });
    }
    UnreadSource { name, error }
}

/// Called when every page is stored. Defers items over the limits.
async fn finish_plan(
    cx: &RunContext,
    plan: Plan,
    items: u64,
    read: &[SourceFigures],
) -> Result<Queues, RunError> {
    let (queues, over_limit, counts) = plan.finish();
    for (over, limit) in over_limit {
        cx.journal.items().defer(over, limit).await?;
    }
    let PlanCounts { deferred, unchanged, shares } = counts;
    let vanished = read.iter().map(|source| source.vanished).sum();
    let requests = read.iter().map(|source| source.requests).sum();
    cx.emit(Event::FetchCompleted { items, vanished, requests });
    cx.emit(Event::ItemsShared { shares });
    let work = (queues.untriaged.len() + queues.triaged.len()) as u64;
    cx.emit(Event::PlanMade { work, deferred, unchanged });
    Ok(queues)
}

fn has_several(cx: &RunContext) -> bool {
    cx.edges.trackers.len() > 1
}
