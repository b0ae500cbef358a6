//! Reads all sources concurrently: each fetches and cleans its own pages; one plan decides on all
//! items.
//!
//! A page is stored before the next one of its source is fetched, so memory does not grow with the
//! backlog and no item is lost. A source that fails does not stop the others.

use std::collections::{HashMap, HashSet};

use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::read::{CleanPage, SourceFigures, SourceReading};
use super::{RunContext, RunError, Tracker};
use crate::dedupe::{Plan, PlanCounts, Queues};
use crate::event::{Event, Trigger};
use crate::fetch::FetchError;
use crate::model::{FailureClass, Usd};
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
    unread: Vec<UnreadSource>,
}

impl ReadSources {
    /// The work, and the error that the run ends with unless a worse one follows.
    pub(super) fn into_parts(self) -> (Queues, Result<(), RunError>) {
        let Self { queues, unread } = self;
        let unread = match unread.is_empty() {
            true => Ok(()),
            false => Err(RunError::SomeSources(unread)),
        };
        (queues, unread)
    }
}

/// Reads every source that is due. Fails if none could be read.
pub(super) async fn read_all(cx: &RunContext) -> Result<ReadSources, RunError> {
    follow_configuration(cx).await?;
    cx.emit(Event::FetchStarted);
    let out_of_budget = exhausted(cx).await?;
    let mut reading = Reading::new(cx);
    for tracker in cx.edges.trackers.iter() {
        if is_due(cx, tracker).await? {
            reading.start(tracker.clone(), out_of_budget.contains(&tracker.name));
        }
    }
    while reading.step().await? {}
    reading.finish().await
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
pub(super) async fn exhausted(cx: &RunContext) -> Result<HashSet<String>, RunError> {
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

/// A source with its next page; `None` at its end.
type Step = (SourceReading, Option<CleanPage>);

/// The sources being read.
struct Reading<'a> {
    cx: &'a RunContext,
    tasks: JoinSet<Result<Step, RunError>>,
    names: HashMap<Id, String>,
    plan: Plan,
    /// With several sources, none may use up the time of the others.
    until: Option<Instant>,
    read: u32,
    figures: SourceFigures,
    unread: Vec<UnreadSource>,
}

impl<'a> Reading<'a> {
    fn new(cx: &'a RunContext) -> Self {
        Self {
            cx,
            tasks: JoinSet::new(),
            names: HashMap::new(),
            plan: Plan::new(&cx.config),
            until: has_several(cx).then(|| cx.stop.half_time()),
            read: 0,
            figures: SourceFigures::default(),
            unread: Vec::new(),
        }
    }

    fn start(&mut self, tracker: Tracker, out_of_budget: bool) {
        let (cx, name) = (self.cx.clone(), tracker.name.clone());
        self.spawn(name, async move {
            let mut reading = SourceReading::begin(&cx, tracker, out_of_budget).await?;
            let page = reading.next_page(&cx).await?;
            Ok((reading, page))
        });
    }

    fn go_on(&mut self, mut reading: SourceReading) {
        let (cx, name) = (self.cx.clone(), reading.name().to_owned());
        self.spawn(name, async move {
            let page = reading.next_page(&cx).await?;
            Ok((reading, page))
        });
    }

    fn spawn(
        &mut self,
        name: String,
        work: impl Future<Output = Result<Step, RunError>> + Send + 'static,
    ) {
        let until = self.until;
        let limited = async move {
            match until {
                Some(until) => {
                    tokio::time::timeout_at(until, work).await.unwrap_or_else(|_| Err(too_slow()))
                }
                None => work.await,
            }
        };
        let task = self.tasks.spawn(limited.in_current_span());
        self.names.insert(task.id(), name);
    }

    /// Processes the next page of any source. False when all are done.
    async fn step(&mut self) -> Result<bool, RunError> {
        let Some(ended) = self.tasks.join_next_with_id().await else { return Ok(false) };
        let id = ended.as_ref().map_or_else(tokio::task::JoinError::id, |(id, _)| *id);
        let name = self.names.remove(&id).unwrap_or_default();
        let stepped = match ended {
            Ok((_, stepped)) => stepped,
            Err(panic) => Err(RunError::Panicked { stage: "read", message: panic.to_string() }),
        };
        let taken = match stepped {
            Ok((reading, Some(page))) => self.take(reading, page).await,
            Ok((reading, None)) => self.end(reading).await,
            Err(error) => Err(error),
        };
        match taken {
            Ok(()) => {}
            Err(error @ RunError::Store(_)) => return Err(error),
            Err(error) => self.fail(name, error),
        }
        Ok(true)
    }

    async fn take(&mut self, mut reading: SourceReading, page: CleanPage) -> Result<(), RunError> {
        let before = reading.items();
        reading.dedupe_and_store(self.cx, &mut self.plan, page).await?;
        self.figures.items += reading.items() - before;
        self.cx.emit(Event::FetchProgressed { items: self.figures.items });
        self.cx.emit(Event::ItemsShared { shares: self.plan.counts().shares });
        self.go_on(reading);
        Ok(())
    }

    async fn end(&mut self, reading: SourceReading) -> Result<(), RunError> {
        let (cx, source) = (self.cx, reading.name().to_owned());
        let SourceFigures { items, vanished, requests } = reading.finish(cx).await?;
        if own_schedule(cx, &source).is_some() {
            cx.journal.sources().note_read(&source, cx.now()).await?;
        }
        self.read += 1;
        self.figures.vanished += vanished;
        self.figures.requests += requests;
        if has_several(cx) {
            cx.emit(Event::SourceRead { source, items, vanished, requests });
        }
        Ok(())
    }

    fn fail(&mut self, name: String, error: RunError) {
        if let RunError::Fetch(FetchError { class, message, .. }) = &error {
            let source = if has_several(self.cx) { name.clone() } else { String::new() };
            let (class, message) = (class.into_str().into(), message.clone());
            self.cx.emit(Event::FetchFailed { source, class, message });
        }
        self.unread.push(UnreadSource { name, error });
    }

    /// Called when every page is stored. Defers items over the limits.
    async fn finish(self) -> Result<ReadSources, RunError> {
        let Self { cx, plan, figures, read, mut unread, .. } = self;
        if read == 0
            && let Some(first) = unread.pop()
        {
            if unread.is_empty() {
                return Err(first.error);
            }
            unread.push(first);
            return Err(RunError::AllSources(unread));
        }
        let (queues, over_limit, counts) = plan.finish();
        for (over, limit) in over_limit {
            cx.journal.items().defer(over, limit).await?;
        }
        let PlanCounts { deferred, unchanged, shares } = counts;
        let SourceFigures { items, vanished, requests } = figures;
        cx.emit(Event::FetchCompleted { items, vanished, requests });
        cx.emit(Event::ItemsShared { shares });
        let work = (queues.untriaged.len() + queues.triaged.len()) as u64;
        cx.emit(Event::PlanMade { work, deferred, unchanged });
        Ok(ReadSources { queues, unread })
    }
}

fn has_several(cx: &RunContext) -> bool {
    cx.edges.trackers.len() > 1
}

fn too_slow() -> RunError {
    let message = "the source could not be read completely within half of the run's time limit \
                   (limits.run_deadline), and other sources wait. What was read is stored; the next \
                   run continues from there";
    FetchError::new(FailureClass::TooSlow, message).into()
}
