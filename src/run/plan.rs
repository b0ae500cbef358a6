//! Plan: the queues of this run, and every decision stored.
//!
//! Triage and deep analysis have a queue and a limit each, so that items which wait for a deep
//! session take nothing from triage.

use std::collections::BTreeMap;

use super::dedupe::{DecidedItem, DecidedPage};
use super::first_run::{self, FirstRunStep};
use super::{RunContext, RunError};
use crate::dedupe::{Queue, QueuedItem, Write};
use crate::event::{Decision, Event, Reason, Shares};
use crate::model::{ItemId, ItemKey};
use crate::store::{FirstRunFact, PageRecord, fault};

/// Runs that ask for an item which the query named and no read delivered, before it is given up.
const MOST_RUNS: u32 = 3;

/// The work of one run, first items first.
pub(super) struct Queues {
    /// Without a verdict: at most `limits.max_items_per_run`.
    pub(super) untriaged: Vec<QueuedItem>,
    /// With a verdict of an earlier run: at most `limits.max_deep_per_run`.
    pub(super) triaged: Vec<QueuedItem>,
}

/// What reading gathers, page by page.
pub(super) struct Plan {
    untriaged: Queue<QueuedItem>,
    triaged: Queue<QueuedItem>,
    totals: Totals,
    shares: Shares,
    first_run: FirstRunStep,
    undelivered: Undelivered,
}

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    items: u64,
    vanished: u64,
    deferred: u64,
    unchanged: u64,
}

impl Plan {
    /// An empty plan. The first run on a state may have to stop here and ask.
    pub(super) async fn begin(cx: &RunContext) -> Result<Self, RunError> {
        let first_run = first_run::decide(cx).await?;
        let queue = |limit| Queue::new(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(Self {
            untriaged: queue(cx.config.limits.max_items_per_run),
            triaged: queue(cx.config.limits.max_deep_per_run),
            totals: Totals::default(),
            shares: Shares::default(),
            first_run,
            undelivered: Undelivered::load(cx).await?,
        })
    }

    /// Queues the work of a page and stores its decisions in one transaction.
    pub(super) async fn store_page(
        &mut self,
        cx: &RunContext,
        page: DecidedPage,
    ) -> Result<(), RunError> {
        self.totals.items += page.items.len() as u64;
        self.totals.vanished += page.vanished.len() as u64;
        let mut record = PageRecord {
            cursor: page.cursor,
            baseline: self.first_run == FirstRunStep::Baseline,
            first_run: self.first_run.fact(),
            ..PageRecord::default()
        };
        let delivered = page.items.iter().map(|item| item.queued.id());
        let (missing, vanished) = (page.undelivered, page.vanished);
        self.undelivered.note(cx, delivered, missing, vanished, &mut record);
        for item in page.items {
            self.take(cx, item, &mut record);
        }
        cx.journal.items().record_page(&cx.config.source.name, record).await?;
        fault::point();
        cx.emit(Event::FetchProgressed { items: self.totals.items });
        cx.emit(Event::ItemsShared { shares: self.shares });
        Ok(())
    }

    /// Counts an item, queues it if it is work, and adds it to the page's record.
    fn take(&mut self, cx: &RunContext, decided: DecidedItem, record: &mut PageRecord) {
        let mut planned = decided.planned();
        match decided.decision {
            Decision::New | Decision::Changed if self.first_run == FirstRunStep::Baseline => {
                self.shares.baseline += 1;
            }
            Decision::New | Decision::Changed => {
                if let Some((over, limit)) = self.enqueue(cx, decided.queued) {
                    if over == planned.key {
                        planned.decision = Decision::Deferred;
                        planned.reason = limit;
                        planned.write = Write::Row;
                    } else {
                        record.over_limit.push((over, limit));
                    }
                }
            }
            Decision::Unchanged => {
                self.totals.unchanged += 1;
                self.shares.unchanged += 1;
            }
            _ => self.shares.resting += 1,
        }
        record.planned.push(planned);
    }

    /// Returns the item that is over the limit, if there is one, and which limit.
    fn enqueue(&mut self, cx: &RunContext, item: QueuedItem) -> Option<(ItemKey, Reason)> {
        *share_of(&mut self.shares, item.reason) += 1;
        let (queue, limit) = match item.verdict {
            None => (&mut self.untriaged, Reason::MaxItemsPerRun),
            Some(_) => (&mut self.triaged, Reason::MaxDeepPerRun),
        };
        let over = queue.push(item.position(&cx.config.order), item)?;
        self.totals.deferred += 1;
        count_over_limit(&mut self.shares, over.reason);
        Some((over.key().clone(), limit))
    }

    /// Defers what is over the limits and returns the queues.
    pub(super) async fn finish(self, cx: &RunContext, requests: u64) -> Result<Queues, RunError> {
        let Self { untriaged, triaged, mut totals, mut shares, first_run, .. } = self;
        let (untriaged, over_triage) = untriaged.into_order();
        let (triaged, over_deep) = triaged.into_order();
        for (over, limit) in
            [(over_triage, Reason::MaxItemsPerRun), (over_deep, Reason::MaxDeepPerRun)]
        {
            totals.deferred += over.len() as u64;
            over.iter().for_each(|item| count_over_limit(&mut shares, item.reason));
            let over = over.iter().map(|item| item.key().clone()).collect();
            cx.journal.items().defer(over, limit).await?;
        }
        if first_run == FirstRunStep::Baseline && cx.stop.reason().is_none() {
            cx.journal.sources().note_first_run(FirstRunFact::Over).await?;
        }
        let Totals { items, vanished, deferred, unchanged } = totals;
        cx.emit(Event::FetchCompleted { items, vanished, requests });
        cx.emit(Event::ItemsShared { shares });
        let work = (untriaged.len() + triaged.len()) as u64;
        cx.emit(Event::PlanMade { work, deferred, unchanged });
        Ok(Queues { untriaged, triaged })
    }
}

/// Where queued work is counted, by the reason it was queued.
const fn share_of(shares: &mut Shares, reason: Reason) -> &mut u64 {
    match reason {
        Reason::FirstSeen => &mut shares.new,
        Reason::CarriedOver | Reason::RetryDue | Reason::RetryRequested => &mut shares.carried_over,
        _ => &mut shares.changed,
    }
}

/// Work over the limit is counted as that and no longer by its reason.
const fn count_over_limit(shares: &mut Shares, reason: Reason) {
    *share_of(shares, reason) -= 1;
    shares.over_limit += 1;
}

/// Items that the query named and no read delivered, each with the number of runs that asked for it.
/// They are stored with the cursor that passes them, and asked for in the next runs.
struct Undelivered(BTreeMap<ItemId, u32>);

impl Undelivered {
    async fn load(cx: &RunContext) -> Result<Self, RunError> {
        Ok(Self(cx.store().sources().undelivered(&cx.config.source.name).await?))
    }

    /// Adds to a page's record what its reads mean for these items.
    fn note(
        &mut self,
        cx: &RunContext,
        delivered: impl Iterator<Item = ItemId>,
        missing: Vec<ItemId>,
        vanished: Vec<ItemId>,
        record: &mut PageRecord,
    ) {
        record.delivered = delivered.filter(|id| self.0.contains_key(id)).collect();
        for id in missing {
            let runs = self.0.get(&id).copied().unwrap_or(0) + 1;
            self.miss(cx, id, runs, record);
        }
        for id in vanished {
            match self.0.get(&id).copied() {
                Some(runs) => self.miss(cx, id, runs + 1, record),
                None => record.vanished.push(key(cx, id)),
            }
        }
    }

    fn miss(&mut self, cx: &RunContext, id: ItemId, runs: u32, record: &mut PageRecord) {
        let item = key(cx, id);
        // A later page of this run may deliver it.
        self.0.insert(id, runs);
        if runs < MOST_RUNS {
            tracing::warn!(%item, runs, "the query named this item, but the tracker did not deliver it; the next run asks again");
            record.undelivered.push((id, runs));
        } else {
            tracing::error!(%item, runs, "the query named this item, but the tracker never delivered it; giving up until it changes");
            record.delivered.push(id);
            record.given_up.push(item);
        }
    }
}

fn key(cx: &RunContext, id: ItemId) -> ItemKey {
    ItemKey::new(&cx.config.source.name, id)
}
