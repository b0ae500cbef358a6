//! A ledger in a folder: one file per open row. For the self-test and for tests; rows survive a
//! restart.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::event::{Event, Sink};
use crate::model::{BoxFuture, Outcome, SessionEnd, SessionId};
use crate::ports::{Ledger, LedgerError, LedgerRow};

#[derive(Debug)]
pub struct FolderLedger {
    folder: PathBuf,
}

impl FolderLedger {
    /// Creates the folder if missing.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn row_file(&self, session: SessionId) -> PathBuf {
        self.folder.join(format!("{session}.row"))
    }

    pub fn rows(&self) -> io::Result<Vec<LedgerRow>> {
        let mut rows = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "row") {
                rows.push(serde_json::from_slice(&fs::read(path)?)?);
            }
        }
        Ok(rows)
    }

    /// Commits a row like a real ledger, without the limit.
    pub fn insert(&self, row: &LedgerRow) -> io::Result<()> {
        let temporary = self.folder.join(format!("{}.new", row.session.id));
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec(row)?)?;
        file.sync_all()?;
        fs::rename(&temporary, self.row_file(row.session.id))
    }

    fn insert_below(&self, row: &LedgerRow, max_live: u32) -> Result<(), LedgerError> {
        let lock = File::create(self.folder.join("lock")).map_err(LedgerError::store)?;
        // Held for count and insert, also against other processes; released with the file.
        lock.lock().map_err(LedgerError::store)?;
        let rows = self.rows().map_err(LedgerError::store)?;
        let others = rows.iter().filter(|open| open.session.id != row.session.id).count();
        let live = u32::try_from(others).unwrap_or(u32::MAX);
        if live >= max_live {
            return Err(LedgerError::Full { live, max: max_live });
        }
        self.insert(row).map_err(LedgerError::store)
    }
}

impl Ledger for FolderLedger {
    fn register(&self, row: LedgerRow, max_live: u32) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move { self.insert_below(&row, max_live) })
    }

    fn spawned(&self, _session: SessionId, _pid: u32) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }

    fn close(
        &self,
        session: SessionId,
        _end: SessionEnd,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            match fs::remove_file(self.row_file(session)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(LedgerError::store(error))
                }
                _ => Ok(()),
            }
        })
    }

    fn placed(&self, _session: SessionId, _host: String) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }

    fn withdraw(&self, session: SessionId) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.close(session, SessionEnd::empty(Outcome::Orphaned))
    }

    fn open_rows(&self) -> BoxFuture<'_, Result<Vec<LedgerRow>, LedgerError>> {
        Box::pin(async move { self.rows().map_err(LedgerError::store) })
    }
}

/// A sink that records every event with its arrival time.
#[derive(Debug)]
pub struct EventRecorder {
    events: Mutex<Vec<(Duration, Event)>>,
    arrived: Notify,
    started: Instant,
}

impl Default for EventRecorder {
    fn default() -> Self {
        Self { events: Mutex::default(), arrived: Notify::new(), started: Instant::now() }
    }
}

impl EventRecorder {
    /// Each with the time since the sink was created.
    pub fn timed(&self) -> Vec<(Duration, Event)> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn events(&self) -> Vec<Event> {
        self.timed().into_iter().map(|(_, event)| event).collect()
    }

    /// The events after the first `seen`; waits for one if there is none.
    pub async fn after(&self, seen: usize) -> Vec<Event> {
        loop {
            // Registered before the check, so that no arrival is missed in between.
            let mut arrived = std::pin::pin!(self.arrived.notified());
            arrived.as_mut().enable();
            let mut events = self.events();
            if events.len() > seen {
                return events.split_off(seen);
            }
            arrived.await;
        }
    }

    /// Waits until `count` matching events have arrived.
    pub async fn saw(&self, count: usize, wanted: impl Fn(&Event) -> bool) {
        let (mut seen, mut found) = (0, 0);
        while found < count {
            let new = self.after(seen).await;
            seen += new.len();
            found += new.iter().filter(|event| wanted(event)).count();
        }
    }
}

impl Sink for EventRecorder {
    fn emit(&self, event: Event) {
        let at = self.started.elapsed();
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push((at, event));
        self.arrived.notify_waiters();
    }
}
