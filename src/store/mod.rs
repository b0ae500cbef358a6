//! The state: one SQLite database in a private folder, and its lock file.
//!
//! [`Store`] reads, [`Journal`] writes. Methods are grouped by subject (see `subjects`):
//! `store.items().get(key)`, `journal.runs().end(…)`. Every change is one transaction that also
//! stores its events.
//!
//! There is one connection behind a mutex, used through `spawn_blocking`, so that the async side
//! never waits for a disk and tests with a paused clock work.

#![expect(missing_docs, reason = "fields and variants whose name says it all have no comment")]

mod backup;
mod budget;
mod claims;
mod commands;
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
mod link;
mod lock;
mod migrate;
mod ndjson;
mod neighbours;
mod outbox;
mod owner;
mod pages;
mod pause;
mod place;
mod provider;
mod quiet;
mod readings;
mod removed;
mod rescue;
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
mod twin;
mod unreleased;
mod verifications;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::private;
use error::explain;
use link::{Access, Link};

pub use backup::{restore, set_aside};
pub use budget::{BudgetCaps, BudgetRefusal, SourceSpending, Spending};
pub use claims::{Claim, ClaimRefusal};
pub use commands::{CommentCommand, Effect};
pub use dry::scratch_copy;
pub use duplicates::{DuplicateGroup, DuplicateItem};
pub use error::StoreError;
pub use findings::FindingRow;
pub use fixes::UnfixedFinding;
pub use hosted::UndeliveredEnd;
pub use item_list::{Facet, ItemList, ItemQuery, ItemSort, ItemState, ListedItem};
pub use item_rows::{ItemFilter, ItemRow, JudgedItem, OpenItems};
pub use items::WaitingWork;
pub use journal::{Journal, run_folder};
pub use lock::{Held, Holder, HolderHealth, LockError, RunLock, STARTING, WORKER};
pub use migrate::{SCHEMA_VERSION, migrate};
pub use outbox::{Delivery, MAX_DELIVERIES, Message, MessageKind, MessageState, Undelivered};
pub use owner::Owner;
pub use pages::PageRecord;
pub use pause::Pause;
pub use place::{prepare_folder, refuse_foreign};
pub use quiet::Quiet;
pub use readings::EarlierVerdicts;
pub use rescue::{Rescued, rescue};
pub use results::{DeepResult, TriageResult, UnappliedSession};
pub use retention::Pruned;
pub use runs::{Digest, RunRow, close_crashed_runs};
pub use scheduler::SchedulerMark;
pub use sessions::{ActiveSession, AttemptRow, SessionRow};
pub use sources::{FirstRunFact, Revisit, ToRead};
pub use spending::{SpendingTotals, StageSpending};
pub use stale::AgeingFinding;
pub use subjects::{
    Budget, Claims, Events, Findings, Items, Outbox, Provider, Reader, Results, Runs, Sessions,
    Sources, Suggestions, Ticks,
};
pub use suggestions::{FieldOutcome, RememberedItem, SuggestionRow};
pub use ticks::TickRow;
pub use totals::{DURATION_BUCKETS, SessionTotal, Totals};
pub use twin::{BroughtBack, bring_back};
pub use unreleased::{TakenOver, is_database, take_over};
pub use verifications::UnverifiedFinding;

/// How long to wait for another writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Name of the database in the state folder.
pub const DATABASE: &str = "heartbeat.db";

/// The state. Cheap to clone; all clones share one connection.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
}

#[derive(Debug)]
struct StoreInner {
    folder: PathBuf,
    database: PathBuf,
    link: Mutex<Link>,
}

/// Result of a unit of work on the database, before the error names the database.
pub(crate) type Sql<T> = Result<T, rusqlite::Error>;

impl Store {
    /// Opens the state in `folder`, creating and migrating it as needed.
    ///
    /// The file of the database is opened by SQLite alone, here and everywhere: closing any other
    /// descriptor of it would drop the locks that this process has on it, and the next program that
    /// reads it would take it for unused and remove its log.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        prepare_folder(folder)?;
        place::refuse_network(folder)?;
        let database = folder.join(DATABASE);
        place::refuse_lost(folder, &database)?;
        let create = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = connect(&database, create)?;
        migrate(&mut connection, &database)?;
        neighbours::fill(&mut connection).map_err(|e| explain(&database, e))?;
        place::mark_used(folder)?;
        Ok(Self::over(folder, database, Access::Writing, connection))
    }

    /// Opens an existing state; one that is gone is an error, not a reason to start over.
    pub fn open_existing(folder: &Path) -> Result<Self, StoreError> {
        let database = folder.join(DATABASE);
        if !database.exists() {
            return Err(StoreError::Vanished { path: database });
        }
        Self::open(folder)
    }

    /// Opens an existing state for reading only; nothing is created.
    pub fn open_for_reading(folder: &Path) -> Result<Option<Self>, StoreError> {
        let database = folder.join(DATABASE);
        place::refuse_lost(folder, &database)?;
        if !database.exists() {
            return Ok(None);
        }
        let connection = connect(&database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        link::read_only(&connection, &database)?;
        migrate::refuse_other_versions(&connection, &database)?;
        Ok(Some(Self::over(folder, database, Access::Reading, connection)))
    }

    fn over(folder: &Path, database: PathBuf, access: Access, connection: Connection) -> Self {
        let link = Mutex::new(Link::new(&database, access, connection));
        Self { inner: Arc::new(StoreInner { folder: folder.into(), database, link }) }
    }

    pub fn folder(&self) -> &Path {
        &self.inner.folder
    }

    /// Runs one transaction on this thread.
    pub(crate) fn transact_here<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Sql<T>,
    ) -> Result<T, StoreError> {
        self.inner.with(|connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })
    }

    /// Reads on this thread.
    pub(crate) fn read_here<T>(
        &self,
        work: impl FnOnce(&Connection) -> Sql<T>,
    ) -> Result<T, StoreError> {
        self.inner.with(|connection| work(connection))
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
        self.check_within(None).await.map(drop)
    }

    /// The same for at most `most`; false if the time was too short for the whole database.
    pub async fn check_integrity_within(&self, most: Duration) -> Result<bool, StoreError> {
        self.check_within(Some(most)).await
    }

    async fn check_within(&self, most: Option<Duration>) -> Result<bool, StoreError> {
        let inner = Arc::clone(&self.inner);
        let path = inner.database.clone();
        let open = move || connect(&inner.database, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let connection = tokio::task::spawn_blocking(open).await??;
        let interrupt = connection.get_interrupt_handle();
        let check = move || {
            let sql = "PRAGMA quick_check(1)";
            let found = connection.query_row(sql, [], |row| row.get::<_, String>(0));
            match found {
                Ok(found) if found == "ok" => Ok(true),
                Ok(found) => Err(StoreError::Damaged { path, found }),
                Err(error) if is_interrupted(&error) => Ok(false),
                Err(error) => Err(explain(&path, error)),
            }
        };
        let mut checking = tokio::task::spawn_blocking(check);
        let Some(most) = most else { return checking.await? };
        if let Ok(checked) = tokio::time::timeout(most, &mut checking).await {
            return checked?;
        }
        interrupt.interrupt();
        checking.await?
    }
}

fn is_interrupted(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted)
}

impl StoreInner {
    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Sql<T>) -> Result<T, StoreError> {
        let mut link = self.link();
        let worked = work(link.connection(&self.database)?);
        worked.map_err(|error| {
            link.note(&error);
            explain(&self.database, error)
        })
    }

    /// A panic inside a transaction rolled it back, so the connection is still usable.
    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(database: &Path, mode: OpenFlags) -> Result<Connection, StoreError> {
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let is_new = !database.exists();
    let connection =
        Connection::open_with_flags(database, flags).map_err(|e| explain(database, e))?;
    if is_new {
        make_private(database)?;
    }
    let prepare = || -> Sql<()> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Detects a damaged header before anything is written.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
    };
    prepare().map_err(|e| explain(database, e))?;
    Ok(connection)
}

/// SQLite creates a file with the usual mode, in a folder that is private already, and gives the
/// side files the mode of the database. The mode is set by name: see [`Store::open`].
fn make_private(database: &Path) -> Result<(), StoreError> {
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(database, private).map_err(|source| unwritable(database, source))
}

/// Creates a file that is not a database.
fn create_private_file(path: &Path) -> Result<(), StoreError> {
    let created = private::options().create(true).append(true).open(path);
    created.map(drop).map_err(|source| unwritable(path, source))
}

fn unwritable(path: &Path, source: std::io::Error) -> StoreError {
    let hint = "Check that the folder and the disk can be written";
    StoreError::Folder { path: path.into(), source, hint }
}

/// The write-ahead log of a database.
fn log_of(database: &Path) -> PathBuf {
    beside(database, "-wal")
}

/// A file next to the database whose name begins with the database's.
fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod upkeep_tests;
