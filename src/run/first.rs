//! The first run on a state: an old backlog is not analysed before somebody said so.

use jiff::SignedDuration;

use super::{Run, RunError};
use crate::event::Trigger;
use crate::fetch::FetchRequest;
use crate::model::Usd;
use crate::settings::FirstRun;
use crate::store::FirstRunFact;

/// How long the answer to the question holds: the backlog is not read anew at every tick.
const COUNTED_FOR: SignedDuration = SignedDuration::from_hours(6);

/// What a run has to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstRunStep {
    /// Nothing: it is over.
    None,
    /// The present is recorded as seen.
    Baseline,
    /// The present is worked on.
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

impl Run {
    /// A baseline is one whoever starts the run. Where nobody said what to do, a person who starts a
    /// run by hand wants it to work; the schedule needs to be told once.
    pub(super) async fn first_run_policy(&self) -> Result<FirstRunStep, RunError> {
        match (self.journal.store().sources().first_run().await?, self.config.schedule.first_run) {
            (Some(FirstRunFact::Over), _) => Ok(FirstRunStep::None),
            // One that was cut short goes on, whatever the configuration says by now.
            (Some(FirstRunFact::Baseline), _) | (None, FirstRun::Baseline) => {
                Ok(FirstRunStep::Baseline)
            }
            (None, FirstRun::Ask) if self.trigger == Trigger::Schedule => self.ask_first().await,
            (None, FirstRun::Process | FirstRun::Ask) => Ok(FirstRunStep::Process),
        }
    }

    /// Counts and prices the backlog; stores no more than the count and starts nothing.
    async fn ask_first(&self) -> Result<FirstRunStep, RunError> {
        let now = self.journal.clock().now();
        if let Some((items, at)) = self.journal.store().sources().backlog().await?
            && at <= now
            && now.duration_since(at) < COUNTED_FOR
        {
            return Err(RunError::FirstRun(self.price(items)));
        }
        let request = FetchRequest { changed_since: None, also: Vec::new() };
        let Some(opened) = self.unless_stopped(self.edges.source.open(request)).await else {
            self.cut_short()?;
            return Ok(FirstRunStep::Process);
        };
        let (mut pages, mut items) = (opened?, 0);
        while let Some(page) = self.next_page(&mut *pages).await? {
            items += page.items.iter().filter(|item| !self.is_terminal(&item.state)).count() as u64;
        }
        self.cut_short()?;
        if items == 0 || self.stopping().is_some() {
            return Ok(FirstRunStep::Process);
        }
        self.journal.sources().note_backlog(items, now).await?;
        Err(RunError::FirstRun(self.price(items)))
    }

    /// The worst case: every item is analysed, every session spends all it may.
    fn price(&self, items: u64) -> Backlog {
        let config = &self.config;
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
}

fn times(price: Usd, count: u64) -> Usd {
    Usd::from_micros(price.micros().saturating_mul(i64::try_from(count).unwrap_or(i64::MAX)))
}
