//! The first run on a state: an old backlog is not analysed before somebody said so.

use super::{Run, RunError};
use crate::config::FirstRun;
use crate::event::Trigger;
use crate::fetch::FetchRequest;
use crate::model::Usd;
use crate::store::FirstRunFact;

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
    /// A person who starts a run by hand wants it to work; the schedule needs to be told once.
    pub(super) async fn first_run_policy(&self) -> Result<FirstRunStep, RunError> {
        match (self.journal.store().first_run().await?, self.config.schedule.first_run) {
            (Some(FirstRunFact::Over), _) => Ok(FirstRunStep::None),
            // One that was cut short goes on, whatever the configuration says by now.
            (Some(FirstRunFact::Baseline), _) | (None, FirstRun::Baseline) => {
                Ok(FirstRunStep::Baseline)
            }
            (None, FirstRun::Ask) if self.trigger == Trigger::Schedule => self.ask_first().await,
            (None, FirstRun::Process | FirstRun::Ask) => Ok(FirstRunStep::Process),
        }
    }

    /// Counts and prices the backlog; stores nothing and starts nothing.
    async fn ask_first(&self) -> Result<FirstRunStep, RunError> {
        let request = FetchRequest { changed_since: None, also: Vec::new() };
        let mut pages = self.edges.source.open(request).await?;
        let mut items = 0;
        while let Some(page) = self.next_page(&mut *pages).await? {
            items += page.items.iter().filter(|item| !self.is_terminal(&item.state)).count() as u64;
        }
        if items == 0 || self.stopping().is_some() {
            return Ok(FirstRunStep::Process);
        }
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
