//! Fetch → clean → dedupe: from the tracker's pages to the line of work, a page at a time, so that
//! memory does not grow with the backlog and nothing delivered can be lost.

use jiff::{SignedDuration, Timestamp};

use super::{Run, RunError, Work};
use crate::clean;
use crate::config::FirstRun;
use crate::dedupe::{
    self, Decided, FingerprintInputs, Known, Line, Place, Seen, Standing, fingerprint,
};
use crate::event::{Decision, Event, Reason, Trigger};
use crate::fetch::{FetchError, FetchRequest, Page};
use crate::model::{CleanItem, ItemKey, WorkItem};
use crate::store::{KnownItem, PageRecord, Phase, Planned};

impl Run {
    /// Reads what changed and what was left, decides on each item, stores the decisions and
    /// returns the first in line.
    pub(super) async fn plan(&self) -> Result<Vec<Work>, RunError> {
        let baseline = self.first_run_policy().await?;
        self.emit(Event::FetchStarted);
        let planned = self.read_pages(baseline).await;
        if let Err(RunError::Fetch(error)) = &planned {
            let (class, message) = (error.class.as_str().into(), error.message.clone());
            self.emit(Event::FetchFailed { class, message });
        }
        planned
    }

    /// True: record the present as seen.
    async fn first_run_policy(&self) -> Result<bool, RunError> {
        if self.trigger != Trigger::Schedule || !self.journal.store().is_first_run().await? {
            return Ok(false);
        }
        match self.config.schedule.first_run {
            FirstRun::Ask => Err(RunError::FirstRun),
            FirstRun::Baseline => Ok(true),
            FirstRun::Process => Ok(false),
        }
    }

    async fn request(&self, now: Timestamp) -> Result<FetchRequest, RunError> {
        let store = self.journal.store();
        let overlap = SignedDuration::try_from(self.config.source.overlap).unwrap_or_default();
        let cursor = store.cursor(self.config.source.name.clone()).await?;
        // Twice the line: enough to fill it when half of what was left is no longer work.
        let revisit = self.config.limits.max_items_per_run.saturating_mul(2);
        Ok(FetchRequest {
            changed_since: cursor.map(|cursor| cursor.checked_sub(overlap).unwrap_or(cursor)),
            also: store.to_revisit(now, revisit).await?,
        })
    }

    async fn read_pages(&self, baseline: bool) -> Result<Vec<Work>, RunError> {
        let now = self.journal.clock().now();
        let mut pages = self.edges.source.open(self.request(now).await?).await?;
        let limit = usize::try_from(self.config.limits.max_items_per_run).unwrap_or(usize::MAX);
        let mut reading =
            Reading { line: Line::new(limit), totals: Totals::default(), now, baseline };
        while let Some(page) = self.next_page(&mut *pages).await? {
            self.take_page(&mut reading, page).await?;
            self.emit(Event::FetchProgressed { items: reading.totals.items });
        }
        let (totals, requests) = (reading.totals, pages.requests());
        let work = if baseline { Vec::new() } else { reading.line.into_ordered() };
        self.emit(Event::FetchCompleted {
            items: totals.items,
            vanished: totals.vanished,
            requests,
        });
        self.emit(Event::PlanMade {
            work: work.len() as u64,
            deferred: totals.deferred,
            unchanged: totals.unchanged,
        });
        self.journal.flush().await?;
        Ok(work)
    }

    /// Nothing more is read once somebody asked to stop: what came so far is stored.
    async fn next_page(
        &self,
        pages: &mut dyn crate::fetch::Pages,
    ) -> Result<Option<Page>, FetchError> {
        if self.stopping().is_some() {
            return Ok(None);
        }
        pages.next().await
    }

    async fn take_page(&self, reading: &mut Reading, page: Page) -> Result<(), RunError> {
        let items = self.clean_all(page.items).await;
        let keys = items.iter().map(|(item, _)| item.item.key.clone()).collect();
        let known = self.journal.store().known(keys).await?;
        let mut record = PageRecord {
            vanished: page.vanished.iter().map(|id| self.key(*id)).collect(),
            cursor: page.cursor,
            baseline: reading.baseline,
            ..PageRecord::default()
        };
        reading.totals.items += items.len() as u64;
        reading.totals.vanished += page.vanished.len() as u64;
        for (item, fingerprint) in items {
            let known = known.get(&item.item.key);
            let decided = self.decide(&item.item, &fingerprint, known, reading.now);
            let deferrals = known.map_or(0, |known| known.deferrals);
            reading.place(item, fingerprint, decided, deferrals, &mut record);
        }
        Ok(self.journal.record_page(&self.config.source.name, record).await?)
    }

    /// Cleaning is real work, so it does not run on the event loop.
    async fn clean_all(&self, items: Vec<WorkItem>) -> Vec<(CleanItem, String)> {
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
        .unwrap_or_default();
        self.emit(Event::ItemsCleaned {
            items: cleaned.len() as u64,
            raw_bytes: cleaned.iter().map(|(item, _)| item.stats.raw_bytes as u64).sum(),
            clean_bytes: cleaned.iter().map(|(item, _)| item.stats.clean_bytes as u64).sum(),
            alarms: cleaned.iter().filter(|(item, _)| item.alarms.any()).count() as u64,
        });
        cleaned
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
        let terminal = self.config.dedupe.terminal_states.contains(&item.state);
        dedupe::decide(Seen { fingerprint, terminal }, known.map(standing).as_ref(), now)
    }

    pub(super) fn key(&self, id: crate::model::ItemId) -> ItemKey {
        ItemKey::new(&self.config.source.name, id)
    }
}

/// What reading gathers, page by page.
struct Reading {
    line: Line<Work>,
    totals: Totals,
    now: Timestamp,
    baseline: bool,
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
    fn place(
        &mut self,
        item: CleanItem,
        fingerprint: String,
        decided: Decided,
        deferrals: u32,
        record: &mut PageRecord,
    ) {
        let mut planned = planned(&item.item, &fingerprint, &decided);
        match decided.decision {
            Decision::New | Decision::Changed if !self.baseline => {
                let place = Place::of(&item.item, deferrals);
                let key = item.item.key.clone();
                let work =
                    Work { item, fingerprint, verdict: decided.verdict, why: decided.reason };
                if let Some(out) = self.line.join(place, work) {
                    self.totals.deferred += 1;
                    if out.item.item.key == key {
                        planned.decision = Decision::Deferred;
                        planned.reason = Reason::MaxItemsPerRun;
                    } else {
                        record.crowded_out.push(out.item.item.key);
                    }
                }
            }
            Decision::Unchanged => self.totals.unchanged += 1,
            _ => {}
        }
        record.planned.push(planned);
    }
}

fn planned(item: &WorkItem, fingerprint: &str, decided: &Decided) -> Planned {
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
    }
}

fn standing(known: &KnownItem) -> Known {
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
    }
}
