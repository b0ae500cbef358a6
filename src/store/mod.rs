//! The state: one SQLite database in a private folder, and the lock beside it.
//!
//! One connection behind a mutex, used through `spawn_blocking`: the async side never waits on a
//! disk, and paused-clock tests stay true. Every fact is one transaction, and the events that tell
//! it are written in the same one (see [`Journal`]).

mod budget;
mod claims;
mod crashed;
mod dry;
mod events;
mod exclusive;
pub mod fault;
mod findings;
mod item_rows;
mod items;
mod journal;
mod ledger;
mod lock;
mod migrate;
mod ndjson;
mod pages;
mod place;
mod provider;
mod publications;
mod results;
mod retention;
mod rows;
mod runs;
mod sessions;
mod sources;
mod spending;
mod subjects;
mod ticks;
mod totals;
mod transfer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::ports::LedgerError;
use crate::private;

pub use budget::{BudgetCaps, BudgetRefusal, Spending};
pub use claims::{Claim, ClaimRefusal};
pub use crashed::close_crashed;
pub use dry::scratch_copy;
pub use findings::FindingRow;
pub use item_rows::{ItemRow, JudgedItem, OpenItems};
pub use items::{KnownItem, Phase};
pub use journal::{Journal, run_folder};
pub use lock::{Held, Holder, HolderHealth, LockError, RunLock};
pub use migrate::{SCHEMA_VERSION, migrate};
pub use ndjson::catch_up;
pub use pages::{PageRecord, Planned, Write};
pub use place::{prepare_folder, refuse_foreign};
pub use results::{DeepResult, TriageResult, UnappliedSession};
pub use retention::Pruned;
pub use runs::RunRow;
pub use sessions::{ActiveSession, AttemptRow, SessionRow};
pub use sources::FirstRunFact;
pub use spending::StageSpending;
pub use subjects::{
    Budget, Claims, Events, Findings, Items, Provider, Publications, Reader, Results, Runs,
    Sessions, Sources, Ticks,
};
pub use ticks::TickRow;
pub use totals::{DURATION_BUCKETS, SessionTotal, Totals};
pub use transfer::TransferError;

/// How long a writer in the way is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Name of the database in the state folder.
pub const DATABASE: &str = "heartbeat.db";

/// Why the state cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder or a file in it.
    #[error("cannot use the state folder {path}: {source}. {hint}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// Written by a newer heartbeat.
    #[error(
        "the state in {path} has schema version {found}, but this heartbeat only knows {known}. \
         It was written by a newer heartbeat and is left untouched: upgrade heartbeat, or choose \
         another folder with --state-dir"
    )]
    Newer {
        /// Which database.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// Damaged, or not a database.
    #[error(
        "the state in {path} is damaged ({detail}) and is left untouched. Save what is left with \
         `sqlite3 {path} .recover > heartbeat.sql`, then restore a backup, or move the file away to start over (items will be analysed again)"
    )]
    Corrupt {
        /// Which database.
        path: PathBuf,
        /// SQLite's word.
        detail: String,
    },
    /// The disk is full.
    #[error(
        "cannot write the state in {path}: the disk is full. Nothing already stored is lost; \
         free some space and run again"
    )]
    Full {
        /// Which database.
        path: PathBuf,
    },
    /// Somebody else writes, for longer than we wait.
    #[error(
        "the state in {path} is busy: another process has been writing to it for over 10 s. \
         Nothing already stored is lost; stop the process that holds it (`fuser {path}` names it) \
         and run again"
    )]
    Busy {
        /// Which database.
        path: PathBuf,
    },
    /// The disk or the file system refuses.
    #[error(
        "cannot read or write the state in {path}: {detail}. Nothing already stored is lost; \
         check the disk (`dmesg`, quota, permissions) and run again"
    )]
    Disk {
        /// Which database.
        path: PathBuf,
        /// SQLite's word.
        detail: String,
    },
    /// On a file system that several machines may share.
    #[error(
        "the state folder {path} is on a network file system ({kind}), where locks between machines \
         do not hold. Choose a folder on a local disk, with --state-dir or [state] dir"
    )]
    NetworkFolder {
        /// Which.
        path: PathBuf,
        /// Which kind.
        kind: &'static str,
    },
    /// A folder that serves something else.
    #[error(
        "{path} is not a heartbeat state folder: {why}; nothing was changed. Choose a new or an \
         empty folder with --state-dir or [state] dir"
    )]
    NotOurs {
        /// Which.
        path: PathBuf,
        /// In a few words.
        why: String,
    },
    /// The session ledger, told by whoever used it.
    #[error("{0}")]
    Ledger(#[source] LedgerError),
    /// Anything else SQLite says.
    #[error("the state in {path} failed: {source}")]
    Sqlite {
        /// Which database.
        path: PathBuf,
        /// SQLite's word.
        source: rusqlite::Error,
    },
    /// A stored value that cannot be read back.
    #[error("the state holds a value that cannot be read: {0}")]
    Unreadable(String),
    /// The thread that talks to the database is gone.
    #[error("the database thread stopped: {0}")]
    Worker(String),
}

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

/// What a unit of work on the database gives back, before it is known which database it was.
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

    /// The folder everything lives in.
    pub fn folder(&self) -> &Path {
        &self.inner.folder
    }

    /// One transaction on this thread: all of it happens, or nothing.
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

    /// Shows that the state can be written now, without writing anything.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        let store = self.clone();
        let check = move || {
            store.transact_here(|transaction| transaction.query_row("SELECT 1", [], |_| Ok(())))
        };
        tokio::task::spawn_blocking(check).await.map_err(|e| StoreError::Worker(e.to_string()))?
    }

    pub(crate) async fn blocking<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Sql<T> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || {
            let mut connection = inner.connection();
            work(&mut connection).map_err(|e| explain(&inner.database, e))
        })
        .await
        .map_err(|e| StoreError::Worker(e.to_string()))?
    }
}

impl Inner {
    /// A panic inside a transaction rolled it back, so the connection is good to go on with.
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
        // A damaged header shows here, before anything is written.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
    };
    prepare().map_err(|e| explain(database, e))?;
    Ok(connection)
}

/// SQLite gives its side files the mode of the database, so creating that one privately is enough.
fn create_private_file(path: &Path) -> Result<(), StoreError> {
    private::options().create(true).append(true).open(path).map(drop).map_err(|source| {
        StoreError::Folder {
            path: path.into(),
            source,
            hint: "Check that the folder and the disk can be written",
        }
    })
}

/// Turns SQLite's word into one that says what to do.
fn explain(database: &Path, error: rusqlite::Error) -> StoreError {
    let path = database.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { path, detail: error.to_string() }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        Some(ErrorCode::SystemIoFailure) => StoreError::Disk { path, detail: error.to_string() },
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::Folder {
                path,
                source: io::Error::new(io::ErrorKind::PermissionDenied, error.to_string()),
                hint: "Check that the folder can be written by this user",
            }
        }
        _ => StoreError::Sqlite { path, source: error },
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod upkeep_tests;
