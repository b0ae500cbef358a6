//! The ordered log of events, and the transactions that write them.
//!
//! [`Journal::emit`] queues an event and returns at once; a writer stores the queue in batches.
//! [`Journal::commit`] stores a change together with its events, after the events that were queued
//! before it. So the order in the log is the order in which things happened, and no change is
//! without its event. Subscribers and `events.ndjson` see events after the commit.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use rusqlite::{Transaction, params};
use tokio::sync::{Notify, broadcast};

use super::rows::{Ms, to_json};
use super::runs::close_crashed_runs;
use super::{Sql, Store, StoreError, fault, twin};
use crate::clock::Clock;
use crate::event::fold::RunView;
use crate::event::{Event, Recorded, Sink};
use crate::model::RunId;
use crate::private;

/// Subscribers that fall further behind lose events and learn how many.
const FOLLOWER_LAG: usize = 4096;
/// How long queued events are collected before they are stored on their own.
const GATHER: std::time::Duration = std::time::Duration::from_millis(50);

/// Orders, stores and publishes events. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal {
    inner: Arc<JournalInner>,
}

#[derive(Debug)]
struct JournalInner {
    store: Store,
    clock: Clock,
    run: Option<RunId>,
    /// Queued, not yet stored.
    pending: Mutex<Vec<(Timestamp, Event)>>,
    /// Held from draining `pending` to publishing, so that two writers cannot swap batches.
    order: Mutex<Option<File>>,
    /// The fold over everything stored so far.
    view: Mutex<RunView>,
    wake: Notify,
    followers: broadcast::Sender<Recorded>,
}

impl Journal {
    /// A journal whose events belong to `run`, also written to the run's `events.ndjson`.
    pub fn open(store: Store, clock: Clock, run: Option<RunId>) -> Result<Self, StoreError> {
        let file = run.map(|run| open_ndjson(store.folder(), run)).transpose()?;
        Ok(Self::new(store, clock, run, file))
    }

    /// The journal of a run that begins now. The caller holds the run lock, so any run that is
    /// still open has crashed and is closed first.
    pub async fn begin_run(store: Store, clock: Clock, run: RunId) -> Result<Self, StoreError> {
        let (older, now) = (store.clone(), clock.now());
        tokio::task::spawn_blocking(move || twin::catch_up(&older, now)).await??;
        let journal = Self::open(store, clock, Some(run))?;
        close_crashed_runs(journal.store(), journal.clock()).await?;
        Ok(journal)
    }

    /// The run that this journal belongs to.
    pub(super) fn run(&self) -> Option<RunId> {
        self.inner.run
    }

    /// For events of a run that is over, such as its crash.
    pub(super) fn without_file(store: Store, clock: Clock, run: RunId) -> Self {
        Self::new(store, clock, Some(run), None)
    }

    fn new(store: Store, clock: Clock, run: Option<RunId>, file: Option<File>) -> Self {
        let inner = JournalInner {
            store,
            clock,
            run,
            pending: Mutex::new(Vec::new()),
            order: Mutex::new(file),
            view: Mutex::new(RunView::default()),
            wake: Notify::new(),
            followers: broadcast::channel(FOLLOWER_LAG).0,
        };
        Self { inner: Arc::new(inner) }
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The clock for event times.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// The run's current view: the fold over all its events, stored or queued.
    pub fn view(&self) -> RunView {
        let mut view = self.inner.view().clone();
        let (seq, run) = (0, self.inner.run);
        for (at, event) in self.inner.pending().iter().cloned() {
            view.apply(&Recorded { seq, at, run, event });
        }
        view
    }

    /// As [`view`](Self::view), after events that are being stored now.
    pub async fn settled_view(&self) -> Result<RunView, StoreError> {
        let journal = self.clone();
        tokio::task::spawn_blocking(move || {
            let _order = journal.inner.order.lock().unwrap_or_else(PoisonError::into_inner);
            journal.view()
        })
        .await
        .map_err(StoreError::Worker)
    }

    /// Events from now on, in order, after they are stored.
    pub fn follow(&self) -> broadcast::Receiver<Recorded> {
        self.inner.followers.subscribe()
    }

    /// Runs a change and stores its events in one transaction, after all events queued before.
    pub async fn commit<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>, &mut Vec<Event>) -> Sql<T> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        // Storing, publishing and folding stay together, even if the caller is cancelled.
        tokio::task::spawn_blocking(move || inner.commit(work)).await?
    }

    /// Stores the queued events.
    pub async fn flush(&self) -> Result<(), StoreError> {
        if self.inner.pending().is_empty() {
            return Ok(());
        }
        self.commit(|_, _| Ok(())).await
    }

    /// Stores queued events soon after they arrive; run it next to the work and drop it with it.
    /// Events that are close together share one transaction, or that of the next commit.
    pub async fn keep_writing(&self) -> Infallible {
        loop {
            self.inner.wake.notified().await;
            tokio::time::sleep(GATHER).await;
            if let Err(error) = self.flush().await {
                tracing::error!(%error, "could not store events; they are kept and retried");
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                self.inner.wake.notify_one();
            }
        }
    }
}

impl JournalInner {
    fn pending(&self) -> MutexGuard<'_, Vec<(Timestamp, Event)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> MutexGuard<'_, RunView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &mut Vec<Event>) -> Sql<T>,
    ) -> Result<T, StoreError> {
        let mut file = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        fault::point();
        let observed = std::mem::take(&mut *self.pending());
        let kept = observed.clone();
        let (run, now) = (self.run, self.clock.now());
        let stored = self.store.transact_here(|transaction| {
            let mut events = Vec::new();
            let value = work(transaction, &mut events)?;
            let events = events.into_iter().map(|event| (now, event));
            let recorded = observed
                .into_iter()
                .chain(events)
                .map(|(at, event)| append(transaction, run, at, event))
                .collect::<Sql<Vec<_>>>()?;
            Ok((value, recorded))
        });
        let (value, recorded) = match stored {
            Ok(stored) => stored,
            Err(error) => {
                // Queued events are kept if the transaction failed.
                self.pending().splice(0..0, kept);
                return Err(error);
            }
        };
        fault::point();
        publish(file.as_mut(), &recorded);
        for event in recorded {
            self.view().apply(&event);
            // No subscribers is fine.
            drop(self.followers.send(event));
        }
        Ok(value)
    }
}

impl Sink for Journal {
    fn emit(&self, event: Event) {
        let now = self.inner.clock.now();
        self.inner.pending().push((now, event));
        self.inner.wake.notify_one();
    }
}

fn append(
    transaction: &Transaction<'_>,
    run: Option<RunId>,
    at: Timestamp,
    event: Event,
) -> Sql<Recorded> {
    // With stored precision, so that subscribers and later readers see the same event.
    let at = Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at);
    let body = to_json(&event)?;
    let name = event.into_str();
    transaction
        .prepare_cached(
            "INSERT INTO events (at, run, event, session, item, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![Ms(at), run, name, event.session(), event.item(), body])?;
    Ok(Recorded { seq: transaction.last_insert_rowid(), at, run, event })
}

/// Copy of a run's events for readers.
pub(super) const EVENTS_FILE: &str = "events.ndjson";

/// Folder for a run's files.
pub fn run_folder(state: &Path, run: RunId) -> PathBuf {
    state.join("runs").join(run.to_string())
}

fn open_ndjson(state: &Path, run: RunId) -> Result<File, StoreError> {
    let folder = run_folder(state, run);
    let open = || -> io::Result<File> {
        private::create_folder(&folder)?;
        private::options().create(true).append(true).open(folder.join(EVENTS_FILE))
    };
    open().map_err(|source| StoreError::Folder {
        path: folder.clone(),
        source,
        hint: "Check that the state folder and the disk can be written",
    })
}

/// The file is a copy for readers and the database is authoritative, so a failed write is only
/// logged.
fn publish(file: Option<&mut File>, recorded: &[Recorded]) {
    let Some(file) = file else { return };
    let mut lines = Vec::new();
    for event in recorded {
        if serde_json::to_writer(&mut lines, event).is_ok() {
            lines.push(b'\n');
        }
    }
    if let Err(error) = file.write_all(&lines) {
        tracing::warn!(%error, "could not write events.ndjson; the database has every event");
    }
}
