//! What the edges ask of the state without knowing the store: the session ledger and the memory
//! of sources. `store` implements both for its journal; tests and the self-test have their own.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::Reason;
use crate::model::{BoxFuture, ProcessIdentity, SessionEnd, SessionId, SessionRef, SourceRecord};

/// The state could not be read or written, whatever keeps it.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct StateError(Arc<dyn std::error::Error + Send + Sync>);

impl StateError {
    /// Keeps the cause.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(Arc::from(cause.into()))
    }
}

/// A row of `heartbeat_active_sessions`: written before the agent starts, closed after its tree is
/// certified empty. Open rows are the live count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// Which session.
    #[serde(flatten)]
    pub session: SessionRef,
    /// Its keeper.
    pub keeper: ProcessIdentity,
    /// Containment in force, such as `pidns` or `subreaper`.
    pub tier: String,
    /// Control group of the tree, if it has one.
    pub cgroup: Option<PathBuf>,
    /// Its private folder, to be removed.
    pub scratch: PathBuf,
    /// When the row was written.
    pub started_at: Timestamp,
    /// When the keeper ends it at the latest.
    pub deadline_at: Timestamp,
    /// The host it was given to, empty while none took it; none: this machine. A row with a host has
    /// no keeper here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// The ledger could not be written or read; nothing may start then.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LedgerError {
    /// The limit over all processes that share the state.
    #[error("{live} of {max} session slots are in use")]
    Full {
        /// Open rows.
        live: u32,
        /// Allowed.
        max: u32,
    },
    /// The limit over all states of this user on this machine.
    #[error("{live} of {max} session slots of this machine are in use")]
    MachineFull { live: u32, max: u32 },
    /// Nothing was started.
    #[error(
        "cannot create the session's private folder in {}: {source}. Check permissions and free \
         space", path.display()
    )]
    Folder { path: PathBuf, source: Arc<io::Error> },
    /// Nothing was started, for a reason outside the work; another try needs another session.
    #[error("{1}")]
    NotStarted(Reason, String),
    /// The session goes on at another host, and nobody waits for it here any more: its row stays open
    /// and a later run takes its end.
    #[error("the session goes on at another host")]
    LeftRunning,
    /// The store failed.
    #[error("cannot use the session ledger: {0}")]
    Store(#[from] StateError),
}

impl LedgerError {
    /// The storage behind the ledger failed with this error.
    pub fn store(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Store(StateError::new(cause))
    }
}

/// Where session rows are made durable.
pub trait Ledger: Send + Sync {
    /// Commits the row, if fewer than `max_live` rows of other sessions are open. A session that goes
    /// on under another keeper replaces its row. Durable when it returns.
    fn register(&self, row: LedgerRow, max_live: u32) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// The agent's own process, once it runs.
    fn spawned(&self, session: SessionId, pid: u32) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Closes the row and keeps its end, with the output, in the history. Only with zero survivors.
    fn close(&self, session: SessionId, end: SessionEnd) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// The host that took a session.
    fn placed(&self, session: SessionId, host: String) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Removes the row of a session for which nothing was started.
    fn withdraw(&self, session: SessionId) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Every open row, of this life and earlier ones.
    fn open_rows(&self) -> BoxFuture<'_, Result<Vec<LedgerRow>, LedgerError>>;
}

/// Where the memories of sources are kept.
pub trait SourceMemory: Send + Sync {
    /// What is remembered of the source called `name`; nothing yet: the default.
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SourceRecord, StateError>>;

    /// Keeps `value` for the source called `name`.
    fn save<'a>(
        &'a self,
        name: &'a str,
        value: &'a SourceRecord,
    ) -> BoxFuture<'a, Result<(), StateError>>;
}
