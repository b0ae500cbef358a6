//! Reads one source: fetches a page, cleans its texts, compares its items with the state, stores
//! the decisions, queues the work.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::first_run::{self, FirstRunStep};
use super::{RunContext, RunError, Tracker, commands, recheck};
use crate::clean::{self, clean_items, without_texts};
use crate::dedupe::{FingerprintInputs, Plan, ReadItem, fingerprint, raw_fingerprint};
use crate::event::{Decision, Event};
use crate::fetch::{FetchError, FetchRequest, Page, Pages, Source};
use crate::model::{CleanItem, FailureClass, ItemId, ItemKey, Tier, WorkItem};
use crate::store::{FirstRunFact, PageRecord, Revisit, ToRead, fault};

/// Runs that request an item which the query listed but no read returned, before it is given up.
const MAX_RUNS: u32 = 3;
/// The same for items that disappeared together with many others: an empty answer is more often a
/// fault of the tracker, of a permission or of the query than a mass deletion.
const MAX_RUNS_WITHOUT_MANY: u32 = 5;
/// Items that are many.
const MANY: usize = 5;
/// Most items of a page that are asked for one by one; the others wait for the next run.
const MAX_ASKED: usize = 50;

struct CleanPage {
    items: Vec<CleanItem>,
    /// Items on which the cleaner failed (a bug); the others continue.
    failed: Vec<WorkItem>,
    vanished: Vec<ItemId>,
    undelivered: Vec<ItemId>,
    cursor: Option<Timestamp>,
    commands: Vec<commands::Given>,
}

/// The plan of a run while its sources are read.
pub(super) struct Planning {
    pub(super) plan: Plan,
    /// Items read so far, of all sources.
    pub(super) items: u64,
}

/// A source that is due.
pub(super) struct SourceToRead {
    pub(super) tracker: Tracker,
    pub(super) out_of_budget: bool,
    /// When its last page must have arrived, if other sources wait.
    pub(super) until: Option<Instant>,
}

/// Reads a source to its end. Each page is stored before the next one is requested.
pub(super) async fn read_source(
    cx: RunContext,
    source: SourceToRead,
    planning: Arc<Mutex<Planning>>,
) -> Result<SourceFigures, RunError> {
    let SourceToRead { tracker, out_of_budget, until } = source;
    let mut reading = in_time(until, SourceReading::begin(&cx, tracker, out_of_budget)).await?;
    while let Some(page) = in_time(until, reading.next_page(&cx)).await? {
        // One plan decides on the items of all sources.
        let mut planning = planning.lock().await;
        reading.dedupe_and_store(&cx, &mut planning, page).await?;
    }
    reading.finish(&cx).await
}

async fn in_time<T>(
    until: Option<Instant>,
    work: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    match until {
        Some(until) => {
            tokio::time::timeout_at(until, work).await.unwrap_or_else(|_| Err(too_slow()))
        }
        None => work.await,
    }
}

fn too_slow() -> RunError {
    let message = "the source could not be read completely within half of the run's time limit \
                   (limits.run_deadline), and other sources wait. What was read is stored; the next \
                   run continues from there";
    FetchError::new(FailureClass::TooSlow, message).into()
}

/// A source being read.
struct SourceReading {
    tracker: Tracker,
    pages: PageReader,
    first_run: FirstRunStep,
    undelivered: Undelivered,
    out_of_budget: bool,
    items: u64,
    vanished: u64,
}

impl SourceReading {
    /// Requests everything that changed since the last read, and the items that earlier runs
    /// deferred.
    async fn begin(
        cx: &RunContext,
        tracker: Tracker,
        out_of_budget: bool,
    ) -> Result<Self, RunError> {
        let limits = &cx.config.limits;
        // Twice the limits: fills the queues even if half of the deferred items no longer need
        // processing.
        let revisit = Revisit {
            untriaged: limits.max_items_per_run.saturating_mul(2),
            triaged: limits.max_deep_per_run.saturating_mul(2),
            urgent_priority: cx.config.order.urgent_priority,
        };
        let to_read = cx.store().sources().to_read(tracker.name.clone(), cx.now(), revisit).await?;
        let ToRead { cursor, revisit: mut also, undelivered, first_run } = to_read;
        let first_run = first_run::decide(cx, &tracker, first_run).await?;
        also.extend(
            undelivered.keys().filter(|id| !also.contains(id)).copied().collect::<Vec<_>>(),
        );
        let overlap = cx.config.source_named(&tracker.name).map(|source| source.overlap);
        let overlap = SignedDuration::try_from(overlap.unwrap_or_default()).unwrap_or_default();
        let changed_since = cursor.map(|cursor| cursor.checked_sub(overlap).unwrap_or(cursor));
        let pages = PageReader::new(&tracker, FetchRequest { changed_since, also });
        let requested = pages.requested();
        let undelivered = Undelivered {
            source: tracker.name.clone(),
            runs: undelivered,
            requested,
            read_any: false,
            absent: 0,
        };
        let (items, vanished) = (0, 0);
        Ok(Self { tracker, pages, first_run, undelivered, out_of_budget, items, vanished })
    }

    /// The next page, cleaned; `None` at the end, or when the run should end.
    async fn next_page(&mut self, cx: &RunContext) -> Result<Option<CleanPage>, RunError> {
        let Some(page) = self.pages.next(cx).await? else { return Ok(None) };
        let Page { mut items, vanished, undelivered, cursor } = page;
        let commands = commands::take(cx, &mut items);
        let (full, tight) = (cx.config.analyze.max_item_tokens, cx.config.triage.max_item_tokens);
        let budget = clean::Budget::per_item(full, tight).with_doubtful(cx.config.text.doubtful);
        let (started, time) = (Instant::now(), cx.config.text.page_timeout);
        // CPU-bound, so not on the event loop.
        let cleaned = tokio::task::spawn_blocking(move || {
            clean_items(items, &budget, || started.elapsed() > time)
        });
        let (items, failed) = cleaned
            .await
            .map_err(|error| RunError::Panicked { stage: "clean", message: error.to_string() })?;
        report_cleaned(cx, &items, &failed);
        Ok(Some(CleanPage { items, failed, vanished, undelivered, cursor, commands }))
    }

    /// Decides on the items of a page, queues its work, and stores the decisions in one transaction
    /// with the cursor.
    async fn dedupe_and_store(
        &mut self,
        cx: &RunContext,
        planning: &mut Planning,
        page: CleanPage,
    ) -> Result<(), RunError> {
        let count = (page.items.len() + page.failed.len()) as u64;
        self.items += count;
        self.vanished += page.vanished.len() as u64;
        let baseline = self.first_run == FirstRunStep::Baseline;
        let mut record = PageRecord {
            cursor: page.cursor,
            baseline,
            first_run: self.first_run.fact(),
            ..PageRecord::default()
        };
        let cleaned = page.items.iter().map(|item| item.facts.id);
        let delivered = cleaned.chain(page.failed.iter().map(|item| item.id));
        let doubtful =
            self.undelivered.note(delivered, page.undelivered, page.vanished, &mut record);
        self.give_up_unless_there(cx, doubtful, &mut record).await;
        let traits = (baseline, self.out_of_budget);
        let items = read_items(cx, page.items, page.failed, traits);
        let seen = items.iter().map(|read| (read.item.facts.key.clone(), read.fingerprint.clone()));
        let seen = seen.collect();
        // Before the decisions: what was asked for is done by this run.
        commands::carry_out(cx, page.commands).await?;
        let known = cx.store().items().known(seen).await?;
        let now = cx.now();
        for (read, known) in items.into_iter().zip(known) {
            let facts = &read.item.facts;
            let rule = cx.config.rule_for(facts).map(|(rule, effect)| Event::RuleMatched {
                item: facts.key.clone(),
                rule,
                changes: effect.changes(),
            });
            let (planned, over_limit) = planning.plan.add(read, known.as_ref(), now);
            let is_work =
                matches!(planned.decision, Decision::New | Decision::Changed | Decision::Deferred);
            if let Some(matched) = rule.filter(|_| is_work && !baseline) {
                cx.emit(matched);
            }
            record.planned.push(planned);
            record.over_limit.extend(over_limit);
        }
        cx.journal.items().record_page(&self.tracker.name, record).await?;
        fault::point();
        planning.items += count;
        cx.emit(Event::FetchProgressed { items: planning.items });
        cx.emit(Event::ItemsShared { shares: planning.plan.counts().shares });
        Ok(())
    }

    /// Asks for each of these items alone. Only one that the tracker does not know is given up; one
    /// that is there, or of which it says nothing, is requested again by the next run.
    async fn give_up_unless_there(
        &mut self,
        cx: &RunContext,
        doubtful: Vec<ItemId>,
        record: &mut PageRecord,
    ) {
        let mut answers = MAX_ASKED;
        for id in doubtful {
            let mut is_gone = false;
            if answers > 0 {
                let alone = self.tracker.source.current_states(vec![id]);
                (answers, is_gone) = match cx.stop.unless_stopped(alone).await {
                    Some(Ok(Some(states))) => (answers - 1, states.is_empty()),
                    // It has no such request: the read itself is all there is.
                    Some(Ok(None)) => (answers, true),
                    Some(Err(_)) | None => (0, false),
                };
            }
            match is_gone {
                true => self.undelivered.give_up(id, record),
                false => self.undelivered.ask_again(id, record),
            }
        }
    }

    /// Saves the source's position after every page is stored.
    async fn finish(self, cx: &RunContext) -> Result<SourceFigures, RunError> {
        let Self { tracker, pages, first_run, items, vanished, undelivered, .. } = self;
        let requests = pages.finish(cx).await?;
        recheck::bring_back(cx, &tracker).await?;
        if first_run == FirstRunStep::Baseline && cx.stop.reason().is_none() {
            cx.journal.sources().note_first_run(&tracker.name, FirstRunFact::Over).await?;
        }
        Ok(SourceFigures { items, vanished, requests, absent: undelivered.absent })
    }
}

/// Totals of one source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SourceFigures {
    pub(super) items: u64,
    pub(super) vanished: u64,
    pub(super) requests: u64,
    /// Most of the items that wait: they disappeared together, which is believed only after some runs.
    pub(super) absent: u64,
}

impl SourceFigures {
    /// What is wrong with an answer in which most of the items are missing that wait.
    pub(super) fn doubt(&self) -> Option<RunError> {
        let message = format!(
            "the tracker did not return {} items that wait, most of those that it was asked for. \
             Nothing is given up before it says so in {MAX_RUNS_WITHOUT_MANY} runs; check the query \
             and the permissions of the credential",
            self.absent
        );
        (self.absent > 0).then(|| FetchError::new(FailureClass::Transient, message).into())
    }
}

fn report_cleaned(cx: &RunContext, items: &[CleanItem], failed: &[WorkItem]) {
    for item in failed {
        tracing::error!(item = %item.key, "the cleaner panicked on this item, which is a bug; the item is parked");
    }
    let is_alarm = |item: &&CleanItem| item.alarms.tier() == Some(Tier::Alarm);
    cx.emit(Event::ItemsCleaned {
        items: items.len() as u64,
        raw_bytes: items.iter().map(|item| item.stats.raw_bytes as u64).sum(),
        clean_bytes: items.iter().map(|item| item.stats.clean_bytes as u64).sum(),
        alarms: items.iter().filter(is_alarm).count() as u64,
    });
    for item in items.iter().filter(|item| item.alarms.any()) {
        cx.emit(Event::TextAlarm { item: item.facts.key.clone(), alarms: item.alarms });
    }
}

/// The items of a page with their fingerprints; those that could not be cleaned have no texts.
fn read_items(
    cx: &RunContext,
    items: Vec<CleanItem>,
    failed: Vec<WorkItem>,
    (baseline, out_of_budget): (bool, bool),
) -> Vec<ReadItem> {
    let inputs = FingerprintInputs {
        prompt_version: cx.prompts.version(),
        models: &[&cx.config.triage.model, &cx.config.analyze.model],
        watch: &cx.config.dedupe.watch,
    };
    let clean = items.into_iter().map(|item| (fingerprint(&item, &inputs), item, true));
    let failed =
        failed.into_iter().map(|item| (raw_fingerprint(&item), without_texts(item), false));
    let read = |(fingerprint, item, readable): (String, CleanItem, bool)| ReadItem {
        terminal: cx.is_terminal(&item.facts.state, item.facts.finished),
        item,
        fingerprint,
        readable,
        baseline,
        out_of_budget,
    };
    clean.chain(failed).map(read).collect()
}

/// The pages of one query. Reading ends early when the run should end.
pub(super) struct PageReader {
    source: Arc<dyn Source>,
    /// Taken with the first page.
    request: Option<FetchRequest>,
    /// `None` until the first page is requested, or if the run was stopped before the tracker
    /// answered.
    pages: Option<Box<dyn Pages>>,
}

impl PageReader {
    pub(super) fn new(tracker: &Tracker, request: FetchRequest) -> Self {
        Self { source: Arc::clone(&tracker.source), request: Some(request), pages: None }
    }

    /// Number of items that are requested by id.
    fn requested(&self) -> usize {
        self.request.as_ref().map_or(0, |request| request.also.len())
    }

    /// The next page; `None` at the end, or when the run should end.
    pub(super) async fn next(&mut self, cx: &RunContext) -> Result<Option<Page>, RunError> {
        if let Some(request) = self.request.take() {
            self.pages = cx.stop.unless_stopped(self.source.open(request)).await.transpose()?;
        }
        let Some(pages) = &mut self.pages else { return Ok(None) };
        let next = cx.stop.unless_stopped(pages.next()).await.unwrap_or(Ok(None));
        Ok(next?)
    }

    /// Saves the source's position after every page is stored. Returns the number of requests sent.
    pub(super) async fn finish(mut self, cx: &RunContext) -> Result<u64, RunError> {
        let mut requests = 0;
        if let Some(pages) = &mut self.pages {
            pages.commit().await?;
            requests = pages.requests();
        }
        self.ensure_complete(cx)?;
        Ok(requests)
    }

    /// A read cut short by the run's deadline is an error; one stopped on request is not.
    pub(super) fn ensure_complete(&self, cx: &RunContext) -> Result<(), RunError> {
        let Some(limit) = cx.stop.deadline_passed() else { return Ok(()) };
        let message = format!(
            "the tracker could not be read completely within the run's time limit of {limit} \
             (limits.run_deadline). What was read is stored; the next run continues from there"
        );
        Err(FetchError::new(FailureClass::TooSlow, message).into())
    }
}

/// Items that the query listed but no read returned, each with the number of runs that requested
/// it. They are stored with the cursor that passes them, and requested in the next runs.
struct Undelivered {
    source: String,
    runs: BTreeMap<ItemId, u32>,
    /// Number of items that this run requests by id.
    requested: usize,
    /// Whether this run read any item.
    read_any: bool,
    /// Items that disappeared together.
    absent: u64,
}

impl Undelivered {
    /// Adds the results for these items to a page's record. Returns those that would be given up.
    fn note(
        &mut self,
        delivered: impl Iterator<Item = ItemId>,
        missing: Vec<ItemId>,
        vanished: Vec<ItemId>,
        record: &mut PageRecord,
    ) -> Vec<ItemId> {
        let delivered: Vec<ItemId> = delivered.collect();
        self.read_any |= !delivered.is_empty();
        record.delivered = delivered.into_iter().filter(|id| self.runs.contains_key(id)).collect();
        for id in missing {
            let runs = self.runs.get(&id).copied().unwrap_or(0) + 1;
            self.miss(id, runs, MAX_RUNS, record);
        }
        let nothing_else = vanished.len() > 1 && !self.read_any;
        let many = vanished.len() >= MANY || nothing_else;
        let many = many && vanished.len() * 2 >= self.requested;
        if many {
            self.absent += vanished.len() as u64;
        }
        let limit = if many { MAX_RUNS_WITHOUT_MANY } else { MAX_RUNS };
        let mut doubtful = Vec::new();
        for id in vanished {
            match self.runs.get(&id).copied() {
                Some(runs) if runs + 1 < limit => self.miss(id, runs + 1, limit, record),
                None if many => self.miss(id, 1, limit, record),
                _ => doubtful.push(id),
            }
        }
        doubtful
    }

    /// The tracker has no such item.
    fn give_up(&mut self, id: ItemId, record: &mut PageRecord) {
        match self.runs.get(&id).copied() {
            Some(runs) => self.miss(id, runs + 1, 0, record),
            None => record.vanished.push(ItemKey::new(&self.source, id)),
        }
    }

    /// It is there, but a read of many did not return it.
    fn ask_again(&mut self, id: ItemId, record: &mut PageRecord) {
        let runs = *self.runs.entry(id).or_insert(1);
        let item = ItemKey::new(&self.source, id);
        tracing::warn!(%item, "the tracker did not return this item, but it is not gone; the next run requests it again");
        record.undelivered.push((id, runs));
    }

    fn miss(&mut self, id: ItemId, runs: u32, limit: u32, record: &mut PageRecord) {
        let item = ItemKey::new(&self.source, id);
        // A later page of this run may return it.
        self.runs.insert(id, runs);
        if runs < limit {
            tracing::warn!(%item, runs, "the query listed this item, but the tracker did not return it; the next run requests it again");
            record.undelivered.push((id, runs));
        } else {
            tracing::error!(%item, runs, "the query listed this item, but the tracker never returned it; ignoring it until it changes");
            record.delivered.push(id);
            record.given_up.push(item);
        }
    }
}
