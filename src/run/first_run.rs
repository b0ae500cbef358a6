//! The first run on a source: a backlog is not analysed unless the configuration says so.

use jiff::SignedDuration;

use super::read::PageReader;
use super::{RunContext, RunError, Tracker};
use crate::event::Trigger;
use crate::fetch::FetchRequest;
use crate::model::Usd;
use crate::settings::{Config, FirstRun};
use crate::store::FirstRunFact;

/// How long a count of the backlog is reused, so that it is not read at every tick.
const COUNTED_FOR: SignedDuration = SignedDuration::from_hours(6);

/// What this run does with the backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstRunStep {
    /// Not a first run.
    None,
    /// Mark the backlog as seen.
    Baseline,
    /// Process the backlog.
    Process,
}

impl FirstRunStep {
    /// The fact stored with each page.
    pub(super) const fn fact(self) -> Option<FirstRunFact> {
        match self {
            Self::None => None,
            Self::Baseline => Some(FirstRunFact::Baseline),
            Self::Process => Some(FirstRunFact::Over),
        }
    }
}

/// Size and cost of a first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Items in the look-back window that would be processed.
    pub items: u64,
    /// Maximum cost of one run.
    pub per_run: Usd,
    /// Maximum cost of all of them.
    pub in_all: Usd,
    /// Minimum number of runs.
    pub runs: u64,
}

/// A configured baseline always applies. With "ask", a run started by hand processes the backlog; a
/// scheduled run stops and reports it.
pub(super) async fn decide(
    cx: &RunContext,
    tracker: &Tracker,
    so_far: Option<FirstRunFact>,
) -> Result<FirstRunStep, RunError> {
    match (so_far, cx.config.schedule.first_run) {
        (Some(FirstRunFact::Over), _) => Ok(FirstRunStep::None),
        // An interrupted baseline continues, even if the configuration has changed.
        (Some(FirstRunFact::Baseline), _) | (None, FirstRun::Baseline) => {
            Ok(FirstRunStep::Baseline)
        }
        (None, FirstRun::Ask) if cx.trigger == Trigger::Schedule => ask(cx, tracker).await,
        (None, FirstRun::Process | FirstRun::Ask) => Ok(FirstRunStep::Process),
    }
}

/// Counts and prices the backlog. Stores only the count; starts nothing.
async fn ask(cx: &RunContext, tracker: &Tracker) -> Result<FirstRunStep, RunError> {
    let now = cx.now();
    if let Some((items, at)) = cx.store().sources().backlog(&tracker.name).await?
        && at <= now
        && now.duration_since(at) < COUNTED_FOR
    {
        return Err(RunError::FirstRun(price(&cx.config, items)));
    }
    let request = FetchRequest { changed_since: None, also: Vec::new() };
    let (mut pages, mut items) = (PageReader::new(tracker, request), 0);
    while let Some(page) = pages.next(cx).await? {
        items +=
            page.items.iter().filter(|item| !cx.is_terminal(&item.state, item.finished)).count()
                as u64;
    }
    pages.ensure_complete(cx)?;
    if items == 0 || cx.stop.reason().is_some() {
        return Ok(FirstRunStep::Process);
    }
    cx.journal.sources().note_backlog(&tracker.name, items, now).await?;
    Err(RunError::FirstRun(price(&cx.config, items)))
}

/// The worst case: every item is analysed at maximum cost.
fn price(config: &Config, items: u64) -> Backlog {
    let cost = |items: u64| {
        let tokens = items.saturating_mul(u64::from(config.triage.max_item_tokens));
        let batches = tokens.div_ceil(u64::from(config.triage.max_prompt_tokens).max(1));
        times(config.triage.max_cost, batches) + times(config.analyze.max_cost, items)
    };
    let (most, deep) = (config.limits.max_items_per_run, config.limits.max_deep_per_run);
    let per_run = u64::from(most.min(deep)).max(1);
    Backlog {
        items,
        per_run: cost(items.min(per_run)).min(config.budget.per_run),
        in_all: cost(items),
        runs: items.div_ceil(per_run),
    }
}

fn times(price: Usd, count: u64) -> Usd {
    Usd::from_micros(price.micros().saturating_mul(i64::try_from(count).unwrap_or(i64::MAX)))
}
