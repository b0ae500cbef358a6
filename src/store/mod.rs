//! The state: one SQLite database in a private folder, and its lock file.
//!
//! [`Store`] reads, [`Journal`] writes. Methods are grouped by subject (see `subjects`):
//! `store.items().get(key)`, `journal.runs().end(…)`. Every change is one transaction that also
//! stores its events.
//!
//! There is one connection behind a mutex, used through `spawn_blocking`, so that the async side
//! never waits for a disk and tests with a paused clock work.

#![expect(missing_docs, reason = "fields and variants whose name says it all have no comment")]

mod budget;
mod claims;
mod dry;
mod duplicates;
mod error;
mod events;
mod exclusive;
pub mod fault;
mod findings;
mod fixes;
mod hosted;
mod item_list;
mod item_rows;
mod items;
mod journal;
mod ledger;
mod lock;
mod migrate;
mod ndjson;
mod neighbours;
mod outbox;
mod pages;
mod pause;
mod place;
mod provider;
mod quiet;
mod readings;
mod removed;
mod results;
mod retention;
mod rows;
mod runs;
mod scheduler;
mod sessions;
mod sources;
mod spending;
mod stale;
mod subjects;
mod suggestions;
mod ticks;
mod totals;
mod transcripts;
mod transfer;
mod unreleased;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::private;
use error::explain;

pub use budget::{BudgetCaps, BudgetRefusal, SourceSpending, Spending};
pub use claims::{Claim, ClaimRefusal};
pub use dry::scratch_copy;
pub use duplicates::{DuplicateGroup, DuplicateItem};
pub use error::StoreError;
pub use findings::FindingRow;
pub use fixes::UnfixedFinding;
pub use hosted::UndeliveredEnd;
pub use item_list::{Facet, ItemList, ItemQuery, ItemSort, ItemState, ListedItem};
pub use item_rows::{ItemFilter, ItemRow, JudgedItem, OpenItems};
pub use journal::{Journal, run_folder};
pub use lock::{Held, Holder, HolderHealth, LockError, RunLock, WORKER};
pub use migrate::{SCHEMA_VERSION, migrate};
pub use outbox::{Delivery, MAX_DELIVERIES, Message, MessageKind, MessageState, Undelivered};
pub use pages::PageRecord;
pub use pause::Pause;
pub use place::{prepare_folder, refuse_foreign};
pub use quiet::Quiet;
pub use readings::EarlierVerdicts;
pub use results::{DeepResult, TriageResult, UnappliedSession};
pub use retention::Pruned;
pub use runs::{Digest, RunRow, close_crashed_runs};
pub use scheduler::SchedulerMark;
pub use sessions::{ActiveSession, AttemptRow, SessionRow};
pub use sources::{FirstRunFact, Revisit, ToRead};
pub use spending::StageSpending;
pub use stale::AgeingFinding;
pub use subjects::{
    Budget, Claims, Events, Findings, Items, Outbox, Provider, Reader, Results, Runs, Sessions,
    Sources, Suggestions, Ticks,
};
pub use suggestions::{FieldOutcome, RememberedItem, SuggestionRow};
pub use ticks::TickRow;
pub use totals::{DURATION_BUCKETS, SessionTotal, Totals};
pub use transfer::TransferError;
pub use unreleased::{TakenOver, is_database, take_over};

/// How long to wait for another writer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Name of the database in the state folder.
pub const DATABASE: &str = "heartbeat.db";

/// The state. Cheap to clone; all clones share one connection.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    database: PathBuf,
    connection: Mutex<Connection>,
}

/// Result of a unit of work on the database, before the error names the database.
pub(crate) type Sql<T> = Result<T, rusqlite::Error>;

impl Store {
    /// Opens the state in `folder`, creating and migrating it as needed.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        prepare_folder(folder)?;
        place::refuse_network(folder)?;
        let database = folder.join(DATABASE);
        place::refuse_emptied(folder, &database)?;
        create_private_file(&database)?;
        let mut connection = connect(&database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        migrate(&mut connection, &database)?;
        neighbours::fill(&mut connection).map_err(|e| explain(&database, e))?;
        Ok(Self::over(folder, database, connection))
    }

    /// Opens an existing state for reading only; nothing is created.
    pub fn open_for_reading(folder: &Path) -> Result<Option<Self>, StoreError> {
        let database = folder.join(DATABASE);
        if !database.exists() {
            return Ok(None);
        }
        let connection = connect(&database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.pragma_update(None, "query_only", true).map_err(|e| explain(&database, e))?;
        migrate::refuse_other_versions(&connection, &database)?;
        Ok(Some(Self::over(folder, database, connection)))
    }

    fn over(folder: &Path, database: PathBuf, connection: Connection) -> Self {
        let inner = Inner { folder: folder.into(), database, connection: Mutex::new(connection) };
        Self { inner: Arc::new(inner) }
    }

    pub fn folder(&self) -> &Path {
        &self.inner.folder
    }

    /// Runs one transaction on this thread.
    pub(crate) fn transact_here<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Sql<T>,
    ) -> Result<T, StoreError> {
        let mut connection = self.inner.connection();
        let transact = || {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        transact().map_err(|error| explain(&self.inner.database, error))
    }

    /// Reads on this thread.
    pub(crate) fn read_here<T>(
        &self,
        work: impl FnOnce(&Connection) -> Sql<T>,
    ) -> Result<T, StoreError> {
        work(&self.inner.connection()).map_err(|error| explain(&self.inner.database, error))
    }

    /// Checks that the state can be written now, without writing anything.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        let store = self.clone();
        let check = move || {
            store.transact_here(|transaction| transaction.query_row("SELECT 1", [], |_| Ok(())))
        };
        tokio::task::spawn_blocking(check).await?
    }

    /// Reads the whole database and reports the first damage; changes nothing. Uses a separate
    /// connection, so that nothing waits for it.
    pub async fn check_integrity(&self) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        let check = move || {
            let path = &inner.database;
            let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            let found: String = connection
                .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
                .map_err(|error| explain(path, error))?;
            match found.as_str() {
                "ok" => Ok(()),
                _ => Err(StoreError::Damaged { path: path.clone(), found }),
            }
        };
        tokio::task::spawn_blocking(check).await?
    }
}

impl Inner {
    /// A panic inside a transaction rolled it back, so the connection is still usable.
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(database: &Path, mode: OpenFlags) -> Result<Connection, StoreError> {
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(database, flags).map_err(|e| explain(database, e))?;
    let prepare = || -> Sql<()> {
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Detects a damaged header before anything is written.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
    };
    prepare().map_err(|e| explain(database, e))?;
    Ok(connection)
}

/// SQLite gives its side files the mode of the database, so only that file is created privately.
fn create_private_file(path: &Path) -> Result<(), StoreError> {
    private::options().create(true).append(true).open(path).map(drop).map_err(|source| {
        StoreError::Folder {
            path: path.into(),
            source,
            hint: "Check that the folder and the disk can be written",
        }
    })
}

#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod upkeep_tests;
