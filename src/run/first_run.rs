//! The first run on a source: an old backlog is not analysed unless the configuration says so.

use jiff::SignedDuration;

use super::read::PageReader;
use super::{RunContext, RunError, Tracker};
use crate::event::Trigger;
use crate::fetch::FetchRequest;
use crate::model::Usd;
use crate::settings::{Config, FirstRun};
use crate::store::FirstRunFact;

/// How long a count of the backlog is used: it is not read again at every tick.
const COUNTED_FOR: SignedDuration = SignedDuration::from_hours(6);

/// What this run does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstRunStep {
    /// Nothing: the first run is over.
    None,
    /// Record the backlog as seen.
    Baseline,
    /// Work on the backlog.
    Process,
}

impl FirstRunStep {
    /// What a stored page says about it.
    pub(super) const fn fact(self) -> Option<FirstRunFact> {
        match self {
            Self::None => None,
            Self::Baseline => Some(FirstRunFact::Baseline),
            Self::Process => Some(FirstRunFact::Over),
        }
    }
}

/// What a first run would find and cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Items in the look-back window that would be work.
    pub items: u64,
    /// The most one run may spend on them.
    pub per_run: Usd,
    /// The most all of them may cost.
    pub in_all: Usd,
    /// Runs it would take at least.
    pub runs: u64,
}

/// A configured baseline applies whoever starts the run. If the configuration says nothing, a run
/// that a person starts processes the backlog; a scheduled one asks once.
pub(super) async fn decide(
    cx: &RunContext,
    tracker: &Tracker,
    so_far: Option<FirstRunFact>,
) -> Result<FirstRunStep, RunError> {
    match (so_far, cx.config.schedule.first_run) {
        (Some(FirstRunFact::Over), _) => Ok(FirstRunStep::None),
        // A baseline that was cut short goes on, whatever the configuration says by now.
        (Some(FirstRunFact::Baseline), _) | (None, FirstRun::Baseline) => {
            Ok(FirstRunStep::Baseline)
        }
        (None, FirstRun::Ask) if cx.trigger == Trigger::Schedule => ask(cx, tracker).await,
        (None, FirstRun::Process | FirstRun::Ask) => Ok(FirstRunStep::Process),
    }
}

/// Counts and prices the backlog. Stores the count only, and starts nothing.
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

/// The worst case: every item is analysed, and every session costs as much as it may.
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
