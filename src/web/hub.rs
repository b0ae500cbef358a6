//! Follows the log and keeps the newest snapshot for all clients.
//!
//! There is no polling without clients: a snapshot is made on request if the last one is older than
//! `FRESH`, or when an event arrives and a client listens. All responses of one moment are rendered
//! once and shared.

use std::ffi::OsString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;

use super::facts::{self, Facts};
use super::health::{self, Health, Status};
use super::snapshot::{self, Abilities, Log};
use super::{metrics, sse};
use crate::breaker::provider::Hold;
use crate::clock::Clock;
use crate::event::{Event, Recorded};
use crate::model::RunId;
use crate::report::names::Names;
use crate::settings::Config;
use crate::store::{Journal, OpenItems, Store, StoreError, Totals};

/// A snapshot this young is reused.
const FRESH: Duration = Duration::from_millis(500);
/// Minimum interval between pushed snapshots.
const PUSH_EVERY: Duration = Duration::from_millis(200);
/// Names this young are reused.
const NAMES_FRESH: Duration = Duration::from_secs(3);
/// Interval of reading the log for events of other processes, while a client listens.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum interval between pushed snapshots: load and cost change without events.
const PUSH_AT_LEAST: Duration = Duration::from_secs(5);
/// Frames a client may fall behind before it is disconnected and must catch up from the log.
const LAG: usize = 1024;
/// Events read at once.
const PAGE: u32 = 500;
/// Time limit for a snapshot.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Everything rendered from one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// By the monotonic clock.
    pub taken: Instant,
    pub facts: Facts,
    /// Body of `/health`.
    pub health: Bytes,
    pub judgement: Health,
    /// Body of `/metrics`.
    pub metrics: Bytes,
    /// Body of `/api/state`.
    pub state: Bytes,
}

/// One message to all clients.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Number of the event; `None` for a snapshot.
    pub seq: Option<i64>,
    /// As sent.
    pub bytes: Bytes,
}

/// The single follower of the log.
#[derive(Debug)]
pub struct Hub {
    store: Store,
    clock: Clock,
    search_path: OsString,
    config: RwLock<Arc<Config>>,
    can: Abilities,
    log: tokio::sync::Mutex<Log>,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    making: tokio::sync::Mutex<CachedTotals>,
    frames: broadcast::Sender<Frame>,
    clients: AtomicUsize,
    wake: Notify,
    names: RwLock<(Option<Instant>, Arc<Names>)>,
    last_loop: Mutex<Option<Instant>>,
    /// Why the writer cannot use the state, which a reader may not notice.
    fault: Mutex<Option<String>>,
}

#[derive(Debug, Default)]
struct CachedTotals {
    seq: Option<i64>,
    totals: Totals,
}

impl Hub {
    /// `store` should be a separate connection.
    pub fn new(
        store: Store,
        clock: Clock,
        config: Arc<Config>,
        can: Abilities,
        search_path: OsString,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            search_path,
            config: RwLock::new(config),
            can,
            log: tokio::sync::Mutex::default(),
            snapshot: Mutex::default(),
            making: tokio::sync::Mutex::default(),
            frames: broadcast::channel(LAG).0,
            clients: AtomicUsize::new(0),
            wake: Notify::new(),
            names: RwLock::default(),
            last_loop: Mutex::default(),
            fault: Mutex::default(),
        })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn adopt(&self, config: Arc<Config>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        self.wake.notify_one();
    }

    /// Wakes on every event of this journal, until the journal is dropped.
    pub fn subscribe_to(self: &Arc<Self>, journal: &Journal) {
        let (hub, mut events) = (Arc::clone(self), journal.follow());
        tokio::spawn(async move {
            while !matches!(events.recv().await, Err(broadcast::error::RecvError::Closed)) {
                hub.wake.notify_one();
            }
        });
    }

    /// Listens from now on; counted until dropped.
    pub fn listen(self: &Arc<Self>) -> Listener {
        let frames = self.frames.subscribe();
        self.clients.fetch_add(1, Ordering::Relaxed);
        self.wake.notify_one();
        Listener { hub: Arc::clone(self), frames }
    }

    /// Number of listening clients.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Follows the log while it is polled. Events are sent at once; snapshots are rate-limited and
    /// include everything that happened in between.
    pub async fn follow(&self) {
        let mut pushed: Option<Instant> = None;
        let mut due: Option<Instant> = None;
        loop {
            let listened = self.clients() > 0;
            let next = due.unwrap_or_else(|| Instant::now() + LOOK_EVERY);
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep_until(next), if listened => {}
            }
            if self.clients() == 0 {
                due = None;
                continue;
            }
            let news = self.catch_up().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot follow the event log");
                true
            });
            let now = Instant::now();
            let old = pushed.is_none_or(|at| at + PUSH_AT_LEAST <= now);
            if news || old {
                due = due.or(Some(pushed.map_or(now, |at| (at + PUSH_EVERY).max(now))));
            }
            if due.is_some_and(|at| at <= now) {
                let snapshot = self.make(Duration::ZERO).await;
                // No clients is fine.
                drop(self.frames.send(sse::snapshot_frame(&snapshot)));
                (pushed, due) = (Some(Instant::now()), None);
            }
        }
    }

    /// Reads new events and sends them. Returns whether there were any.
    async fn catch_up(&self) -> Result<bool, StoreError> {
        let mut log = self.log.lock().await;
        if !log.begun {
            self.begin(&mut log).await?;
            log.begun = true;
        }
        let mut news = false;
        loop {
            let events = self.store.events().after(log.seq, PAGE).await?;
            let is_last = events.len() < PAGE as usize;
            for recorded in events {
                news = true;
                log.apply(&recorded);
                if self.clients() > 0 {
                    drop(self.frames.send(sse::happened(&recorded, &log.view)));
                }
            }
            if is_last {
                return Ok(news);
            }
        }
    }

    /// The log may be long: only the newest run and what came after it is folded.
    async fn begin(&self, log: &mut Log) -> Result<(), StoreError> {
        let Some(run) = self.store.runs().newest(1).await?.pop() else { return Ok(()) };
        let last = self.store.events().last_number().await?;
        for recorded in self.store.events().in_run(run.run).await? {
            if recorded.seq <= last {
                log.apply(&recorded);
            }
        }
        log.seq = last;
        Ok(())
    }

    /// The newest run, as far as its log was read.
    pub async fn view(&self) -> crate::event::fold::RunView {
        self.log.lock().await.view.clone()
    }

    /// Events of an earlier run need titles that the newest run's view may not have.
    pub async fn learn_title(&self, view: &mut crate::event::fold::RunView, recorded: &Recorded) {
        let Some(key) = recorded.event.item() else { return };
        if !view.titles.contains_key(key)
            && let Ok(Some(row)) = self.store.items().get(key.clone()).await
        {
            view.titles.insert(key.clone(), row.title);
        }
    }

    /// The items' names, at most a few seconds old.
    pub async fn names(&self) -> Arc<Names> {
        let (read_at, known) = self.names.read().unwrap_or_else(PoisonError::into_inner).clone();
        if read_at.is_some_and(|at| at.elapsed() < NAMES_FRESH) {
            return known;
        }
        let Ok(names) = Names::read(&self.store).await else { return known };
        let names = Arc::new(names);
        *self.names.write().unwrap_or_else(PoisonError::into_inner) =
            (Some(Instant::now()), Arc::clone(&names));
        names
    }

    /// `None` when the state can be written again.
    pub fn set_fault(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        self.wake.notify_one();
    }

    /// Records that the daemon's loop is alive.
    pub fn note_loop(&self) {
        *self.last_loop.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Time since the last iteration of the daemon's loop; `None` without a daemon.
    pub fn since_turn(&self) -> Option<Duration> {
        self.last_loop.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    /// The newest snapshot, at most half a second old.
    pub async fn snapshot(&self) -> Arc<Snapshot> {
        match self.present() {
            Some(snapshot) if snapshot.taken.elapsed() < FRESH => snapshot,
            _ => self.make(FRESH).await,
        }
    }

    fn present(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One caller makes it, the others wait for it. Always returns a snapshot, even if the state
    /// fails.
    async fn make(&self, good_enough: Duration) -> Arc<Snapshot> {
        let made = tokio::time::timeout(READ_TIMEOUT, async {
            let mut totals = self.making.lock().await;
            match self.present() {
                Some(snapshot) if snapshot.taken.elapsed() < good_enough => snapshot,
                _ => self.make_new(&mut totals).await,
            }
        });
        match made.await {
            Ok(snapshot) => snapshot,
            Err(_) => self.overdue(),
        }
    }

    async fn make_new(&self, cached: &mut CachedTotals) -> Arc<Snapshot> {
        let config = self.config();
        let news = self.catch_up().await.err();
        let mut facts = facts::gather(&self.store, &config, &self.clock).await;
        facts.agent_missing = facts::agent_missing(&config, &self.search_path);
        if let Some(error) = news {
            facts.store_fault = Some(error.to_string());
        }
        if let Some(fault) = self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            facts.store_fault.get_or_insert(fault);
        }
        let open = self.store.items().open(snapshot::QUEUE).await.unwrap_or_default();
        let names = self.names().await;
        let log = self.log.lock().await;
        if cached.seq != Some(log.seq)
            && let Ok(totals) = self.store.totals().await
        {
            *cached = CachedTotals { seq: Some(log.seq), totals };
        }
        facts.totals = cached.totals.clone();
        facts.clients = self.clients();
        let beats =
            || log.beats.iter().filter(|(id, _)| facts.active.iter().any(|s| s.session.id == **id));
        facts.oldest_output_ms = beats().map(|(_, beat)| beat.since_output_ms).max();
        facts.processes = beats().map(|(_, beat)| beat.processes).sum();
        let snapshot = Arc::new(self.render(facts, &log, &open, &config, &names));
        drop(log);
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&snapshot));
        snapshot
    }

    fn render(
        &self,
        facts: Facts,
        log: &Log,
        open: &OpenItems,
        config: &Config,
        names: &Names,
    ) -> Snapshot {
        let judgement = health::judge(&facts, Duration::ZERO);
        let mut state = snapshot::state(&facts, &judgement, log, open, config, self.can);
        names.add_to(&mut state);
        let state = state.to_string();
        Snapshot {
            taken: Instant::now(),
            health: health_body(&facts, &judgement),
            metrics: metrics::render(&facts, &judgement).into(),
            state: state.into(),
            judgement,
            facts,
        }
    }

    /// The old facts, judged by their age, if nothing could be collected in time.
    fn overdue(&self) -> Arc<Snapshot> {
        let config = self.config();
        let (mut facts, taken) = match self.present() {
            Some(old) => (old.facts.clone(), old.taken),
            None => (Facts::empty(self.clock.now(), &config), Instant::now()),
        };
        facts.store_fault.get_or_insert_with(|| {
            format!("the state database did not answer within {} s", READ_TIMEOUT.as_secs())
        });
        let snapshot =
            self.render(facts, &Log::default(), &OpenItems::default(), &config, &Names::default());
        Arc::new(Snapshot { taken, ..snapshot })
    }
}

/// Readable without sign-in: no text of a tracker, an agent, a provider or the configuration.
pub(super) fn health_body(facts: &Facts, health: &Health) -> Bytes {
    let last = facts.last_ended();
    let hold = |hold: &Hold| serde_json::json!({ "kind": hold.kind, "until": hold.until });
    let body = serde_json::json!({
        "status": health.status,
        "reasons": health.reasons,
        "checks": {
            "sessions": { "active": facts.active.len(), "limit": facts.limits.max_live_sessions },
            "load": {
                "average": facts.machine.load,
                "cpu_count": facts.machine.cores,
                "per_core": facts.machine.load_per_core(),
                "no_start_above": facts.limits.max_load_per_core,
                "unhealthy_above": facts.limits.unhealthy_load_per_core,
            },
            "breaker": facts.sources.first().map(|(_, source)| &source.breaker),
            "breakers": facts.sources.iter().map(|(name, source)| (name, &source.breaker)).collect::<std::collections::BTreeMap<_, _>>(),
            "last_run": last.map(|run| serde_json::json!({
                "run": run.run, "outcome": run.outcome, "ended_at": run.ended_at,
            })),
            "next_run": facts.next_run,
            "running": facts.running().map(|run| run.run),
            "lock": facts.holder,
            "config": if facts.config_fault.is_some() { "invalid" } else { "good" },
            "store": facts.store_fault.as_deref().unwrap_or("writable"),
            "agent": facts.agent_missing.as_deref().unwrap_or("found"),
            "provider": { "hold": facts.provider.as_ref().map(hold), "breaker": facts.provider_breaker },
            "outbox": facts.outbox,
            "budget": { "spent": facts.today.spent, "reserved": facts.today.reserved, "limit": facts.limits.per_day },
        },
        "time": facts.now,
        "version": env!("CARGO_PKG_VERSION"),
    });
    body.to_string().into()
}

impl Snapshot {
    /// Whether `/health` reports unhealthy.
    pub fn is_unhealthy(&self) -> bool {
        self.judgement.status == Status::Unhealthy
    }
}

impl Log {
    pub fn apply(&mut self, recorded: &Recorded) {
        self.seq = recorded.seq;
        if matches!(recorded.event, Event::RunStarted { .. }) {
            self.view = crate::event::fold::RunView::default();
            self.beats.clear();
        }
        let belongs = recorded.run.is_some() && recorded.run == self.current().or(recorded.run);
        if belongs {
            self.view.apply(recorded);
        }
        match &recorded.event {
            Event::SessionLiveness { session, liveness } => {
                self.beats.insert(*session, liveness.clone());
            }
            Event::SessionEnded { session, .. } => drop(self.beats.remove(session)),
            _ => {}
        }
    }

    fn current(&self) -> Option<RunId> {
        self.view.run
    }
}

#[derive(Debug)]
pub struct Listener {
    hub: Arc<Hub>,
    pub frames: broadcast::Receiver<Frame>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.hub.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
