//! Fetch → clean → dedupe: from the tracker's pages to the line of work, a page at a time, so that
//! memory does not grow with the backlog and nothing delivered can be lost.

use jiff::{SignedDuration, Timestamp};

use super::first::FirstRunStep;
use super::{Run, RunError, Work};
use crate::clean;
use crate::dedupe::{
    self, Decided, FingerprintInputs, Known, Line, Place, Seen, Standing, fingerprint,
};
use crate::event::{Decision, Event, Reason, Shares};
use crate::fetch::{FetchError, FetchRequest, Page};
use crate::model::{CleanItem, ItemKey, WorkItem};
use crate::store::{FirstRunFact, KnownItem, PageRecord, Phase, Planned, StoreError, Write, fault};

impl Run {
    /// Reads what changed and what was left, decides on each item, stores the decisions and
    /// returns the first in line.
    pub(super) async fn plan(&self) -> Result<Vec<Work>, RunError> {
        let first_run = self.first_run_policy().await?;
        self.emit(Event::FetchStarted);
        let planned = self.read_pages(first_run).await;
        if let Err(RunError::Fetch(error)) = &planned {
            let (class, message) = (error.class.as_str().into(), error.message.clone());
            self.emit(Event::FetchFailed { class, message });
        }
        planned
    }

    async fn request(&self, now: Timestamp) -> Result<FetchRequest, RunError> {
        let store = self.journal.store();
        let overlap = SignedDuration::try_from(self.config.source.overlap).unwrap_or_default();
        let cursor = store.sources().cursor(self.config.source.name.clone()).await?;
        // Twice the line: enough to fill it when half of what was left is no longer work.
        let revisit = self.config.limits.max_items_per_run.saturating_mul(2);
        let urgent = self.config.order.urgent_priority;
        Ok(FetchRequest {
            changed_since: cursor.map(|cursor| cursor.checked_sub(overlap).unwrap_or(cursor)),
            also: store.items().to_revisit(now, revisit, urgent).await?,
        })
    }

    async fn read_pages(&self, first_run: FirstRunStep) -> Result<Vec<Work>, RunError> {
        let now = self.journal.clock().now();
        let request = self.request(now).await?;
        let Some(opened) = self.unless_stopped(self.edges.source.open(request)).await else {
            self.cut_short()?;
            return Ok(Vec::new());
        };
        let mut pages = opened?;
        let limit = usize::try_from(self.config.limits.max_items_per_run).unwrap_or(usize::MAX);
        let (line, totals) = (Line::new(limit), Totals::default());
        let shares = Shares::default();
        let mut reading = Reading { line, totals, shares, now, first_run };
        while let Some(page) = self.next_page(&mut *pages).await? {
            self.take_page(&mut reading, page).await?;
            fault::point();
            self.emit(Event::FetchProgressed { items: reading.totals.items });
            self.emit(Event::ItemsShared { shares: reading.shares });
        }
        pages.settle().await?;
        self.cut_short()?;
        let (mut totals, mut shares, requests) = (reading.totals, reading.shares, pages.requests());
        let (work, left) = reading.line.serve();
        totals.deferred += left.len() as u64;
        left.iter().for_each(|work| crowd_out(&mut shares, work.why));
        let left = left.into_iter().map(|work| work.item.item.key).collect();
        self.journal.items().defer(left, Reason::MaxItemsPerRun).await?;
        if first_run == FirstRunStep::Baseline && self.stopping().is_none() {
            self.journal.sources().note_first_run(FirstRunFact::Over).await?;
        }
        let (items, vanished) = (totals.items, totals.vanished);
        self.emit(Event::FetchCompleted { items, vanished, requests });
        self.emit(Event::ItemsShared { shares });
        self.emit(Event::PlanMade {
            work: work.len() as u64,
            deferred: totals.deferred,
            unchanged: totals.unchanged,
        });
        Ok(work)
    }

    /// Nothing more is read once somebody asked to stop: what came so far is stored.
    pub(super) async fn next_page(
        &self,
        pages: &mut dyn crate::fetch::Pages,
    ) -> Result<Option<Page>, FetchError> {
        self.unless_stopped(pages.next()).await.unwrap_or(Ok(None))
    }

    async fn take_page(&self, reading: &mut Reading, page: Page) -> Result<(), RunError> {
        let items = self.clean_all(page.items).await?;
        let seen = items.iter().map(|(item, text)| (item.item.key.clone(), text.clone())).collect();
        let known = self.journal.store().items().known(seen).await?;
        let mut record = PageRecord {
            vanished: page.vanished.iter().map(|id| self.key(*id)).collect(),
            cursor: page.cursor,
            baseline: reading.first_run == FirstRunStep::Baseline,
            first_run: reading.first_run.fact(),
            ..PageRecord::default()
        };
        reading.totals.items += items.len() as u64;
        reading.totals.vanished += page.vanished.len() as u64;
        for (item, fingerprint) in items {
            let known = known.get(&item.item.key);
            let decided = self.decide(&item.item, &fingerprint, known, reading.now);
            let planned = planned(&item.item, &fingerprint, &decided, known);
            let deferrals = known.map_or(0, |known| known.deferrals);
            let (verdict, why) = (decided.verdict, decided.reason);
            let work = Work { item, fingerprint, verdict, why, deferrals };
            let place = work.place(&self.config.order);
            reading.place(planned, work, place, &mut record);
        }
        Ok(self.journal.items().record_page(&self.config.source.name, record).await?)
    }

    /// Cleaning is real work, so it does not run on the event loop.
    async fn clean_all(&self, items: Vec<WorkItem>) -> Result<Vec<(CleanItem, String)>, RunError> {
        let run = self.clone();
        let cleaned = tokio::task::spawn_blocking(move || {
            let (full, tight) =
                (run.config.analyze.max_item_tokens, run.config.triage.max_item_tokens);
            let budget = clean::Budget::per_item(full, tight);
            let clean = |item| {
                let item = clean::clean_item(item, &budget);
                let fingerprint = run.fingerprint(&item);
                (item, fingerprint)
            };
            items.into_iter().map(clean).collect::<Vec<_>>()
        })
        .await
        // A page that cannot be cleaned is not passed over: the cursor stays before it.
        .map_err(|panic| StoreError::Worker(panic.to_string()))?;
        self.emit(Event::ItemsCleaned {
            items: cleaned.len() as u64,
            raw_bytes: cleaned.iter().map(|(item, _)| item.stats.raw_bytes as u64).sum(),
            clean_bytes: cleaned.iter().map(|(item, _)| item.stats.clean_bytes as u64).sum(),
            alarms: cleaned.iter().filter(|(item, _)| item.alarms.any()).count() as u64,
        });
        Ok(cleaned)
    }

    fn fingerprint(&self, item: &CleanItem) -> String {
        let inputs = FingerprintInputs {
            prompt_version: self.prompts.version(),
            models: &[&self.config.triage.model, &self.config.analyze.model],
            watch: &self.config.dedupe.watch,
        };
        fingerprint(item, &inputs)
    }

    fn decide(
        &self,
        item: &WorkItem,
        fingerprint: &str,
        known: Option<&KnownItem>,
        now: Timestamp,
    ) -> Decided {
        let terminal = self.is_terminal(&item.state);
        let most = self.config.limits.max_attempts;
        let known = known.map(|known| standing(known, most));
        dedupe::decide(Seen { fingerprint, terminal }, known.as_ref(), now)
    }

    /// A workflow state in which items are finished, whatever its case.
    pub(super) fn is_terminal(&self, state: &str) -> bool {
        let state = state.to_lowercase();
        self.config.dedupe.terminal_states.iter().any(|known| known.to_lowercase() == state)
    }

    pub(super) fn key(&self, id: crate::model::ItemId) -> ItemKey {
        ItemKey::new(&self.config.source.name, id)
    }
}

/// What reading gathers, page by page.
struct Reading {
    line: Line<Work>,
    totals: Totals,
    shares: Shares,
    now: Timestamp,
    first_run: FirstRunStep,
}

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    items: u64,
    vanished: u64,
    deferred: u64,
    unchanged: u64,
}

impl Reading {
    /// Gives work its place in the line and everything its line in the page's record.
    fn place(&mut self, mut planned: Planned, work: Work, place: Place, record: &mut PageRecord) {
        let is_baseline = self.first_run == FirstRunStep::Baseline;
        match planned.decision {
            Decision::New | Decision::Changed if is_baseline => self.shares.baseline += 1,
            Decision::New | Decision::Changed => {
                *share_of_work(&mut self.shares, work.why) += 1;
                if let Some(out) = self.line.join(place, work) {
                    self.totals.deferred += 1;
                    crowd_out(&mut self.shares, out.why);
                    if out.item.item.key == planned.key {
                        planned.decision = Decision::Deferred;
                        planned.reason = Reason::MaxItemsPerRun;
                        planned.write = Write::Row;
                    } else {
                        record.crowded_out.push(out.item.item.key);
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
}

/// Where work is counted, by the reason it is work.
const fn share_of_work(shares: &mut Shares, why: Reason) -> &mut u64 {
    match why {
        Reason::FirstSeen => &mut shares.new,
        Reason::CarriedOver | Reason::RetryDue | Reason::RetryRequested => &mut shares.carried_over,
        _ => &mut shares.changed,
    }
}

/// Work that has no place in this run is counted as that, and no longer as what it is.
const fn crowd_out(shares: &mut Shares, why: Reason) {
    *share_of_work(shares, why) -= 1;
    shares.crowded_out += 1;
}

fn planned(
    item: &WorkItem,
    fingerprint: &str,
    decided: &Decided,
    known: Option<&KnownItem>,
) -> Planned {
    Planned {
        key: item.key.clone(),
        id: item.id,
        title: item.title.clone(),
        item_type: item.item_type.clone(),
        url: item.url.clone(),
        priority: item.priority,
        revision: item.rev,
        changed_at: item.changed_at,
        fingerprint: fingerprint.to_owned(),
        decision: decided.decision,
        reason: decided.reason,
        attempts: known.map_or(0, |known| known.attempts),
        write: writing(item.rev, fingerprint, decided, known),
    }
}

/// What a decision makes of the row: nothing, if it says everything already.
fn writing(rev: i64, text: &str, decided: &Decided, known: Option<&KnownItem>) -> Write {
    let unseen_terminal = Decision::Unchanged == decided.decision;
    let Some(known) = known else {
        return if unseen_terminal { Write::Nothing } else { Write::Row };
    };
    let stands = match decided.decision {
        Decision::New | Decision::Changed => known.phase == Phase::Pending,
        Decision::Unchanged if decided.reason == Reason::OutOfQuery => return Write::Nothing,
        Decision::Unchanged => known.phase == Phase::Done,
        Decision::Waiting => known.phase == Phase::Waiting,
        Decision::Parked => known.phase == Phase::Parked,
        Decision::Deferred | Decision::Vanished => return Write::Nothing,
    };
    match (stands && known.fingerprint == text, known.revision == rev) {
        (true, true) => Write::Nothing,
        (true, false) => Write::Touch,
        (false, _) => Write::Row,
    }
}

fn standing(known: &KnownItem, max_attempts: u32) -> Known {
    let standing = match known.phase {
        Phase::Pending => Standing::Pending,
        Phase::Claimed => Standing::Claimed,
        Phase::Done => Standing::Done,
        Phase::Waiting => Standing::Waiting(known.next_attempt),
        Phase::Parked => Standing::Parked(known.reason),
        Phase::Vanished => Standing::Vanished,
    };
    Known {
        standing,
        fingerprint: known.fingerprint.clone(),
        processed_fingerprint: known.processed_fingerprint.clone(),
        verdict: known.verdict.clone(),
        exhausted: known.attempts >= max_attempts,
    }
}
