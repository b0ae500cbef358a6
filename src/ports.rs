//! Traits through which the edges use the state without knowing the store: the session ledger and
//! the stored state of sources. `store` implements both; tests and the self-test have their own.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::Reason;
use crate::model::{
    BoxFuture, ProcessIdentity, SessionEnd, SessionId, SessionRef, SessionTranscript, SourceRecord,
    Usage,
};
use crate::settings::HeldSecrets;

/// The state could not be read or written, whatever stores it.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct StateError(Arc<dyn std::error::Error + Send + Sync>);

impl StateError {
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(Arc::from(cause.into()))
    }
}

/// A row of `heartbeat_active_sessions`: written before the agent starts, closed after its process
/// tree is certified empty. The live count is the number of open rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRow {
    #[serde(flatten)]
    pub session: SessionRef,
    pub keeper: ProcessIdentity,
    /// Containment in use, such as `pidns` or `subreaper`.
    pub tier: String,
    /// Control group of the process tree, if it has one.
    pub cgroup: Option<PathBuf>,
    /// The session's private folder, removed afterwards.
    pub scratch: PathBuf,
    pub started_at: Timestamp,
    /// When the keeper ends the session at the latest.
    pub deadline_at: Timestamp,
    /// The host that runs the session; empty until one takes it. `None`: this machine. A row with a
    /// host has no keeper here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What holds the session by subject, as JSON; `None`: not known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<String>,
}

/// The ledger could not be written or read; no session may start then.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LedgerError {
    /// The limit over all processes that share the state.
    #[error("{live} of {max} session slots are in use")]
    Full {
        /// Number of open rows.
        live: u32,
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
    /// Nothing was started, for a reason unrelated to the item; a retry needs a new session.
    #[error("{1}")]
    NotStarted(Reason, String),
    /// The session continues on another host, but this process no longer waits for it: its row
    /// stays open and a later run collects its result.
    #[error("the session continues on another host")]
    LeftRunning,
    #[error("cannot use the session ledger: {0}")]
    Store(#[from] StateError),
}

impl LedgerError {
    /// Wraps an error of the storage.
    pub fn store(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Store(StateError::new(cause))
    }
}

/// The credentials that must not be stored with an agent's answer.
pub trait HeldCredentials: Send + Sync {
    /// Those at this moment.
    fn held_now(&self) -> BoxFuture<'_, HeldSecrets>;
}

/// A fixed set.
impl HeldCredentials for HeldSecrets {
    fn held_now(&self) -> BoxFuture<'_, HeldSecrets> {
        Box::pin(async { self.clone() })
    }
}

/// Stores session rows durably.
pub trait Ledger: Send + Sync {
    /// Commits the row if fewer than `max_live` rows of other sessions are open. A session that
    /// continues under another keeper replaces its row. Durable on return.
    fn register(&self, row: LedgerRow, max_live: u32) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Records the agent's process once it runs.
    fn spawned(&self, session: SessionId, pid: u32) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Shows what a live session has read and said so far, without credentials. Informational: a
    /// ledger that nobody looks at ignores it.
    fn said(
        &self,
        _session: SessionId,
        _transcript: SessionTranscript,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }

    /// Records what a live session has used so far: what a crash cuts off is booked at that.
    fn used(&self, session: SessionId, usage: Usage) -> BoxFuture<'_, Result<(), LedgerError>> {
        let _ = (session, usage);
        Box::pin(async { Ok(()) })
    }

    /// Closes the row and keeps its result, with the output, in the history. Only allowed with zero
    /// survivors.
    fn close(&self, session: SessionId, end: SessionEnd) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Records the host that took a session.
    fn placed(&self, session: SessionId, host: String) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Removes the row of a session for which nothing was started.
    fn withdraw(&self, session: SessionId) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Every open row, including those of earlier processes.
    fn open_rows(&self) -> BoxFuture<'_, Result<Vec<LedgerRow>, LedgerError>>;
}

/// Stores what is known about sources.
pub trait SourceMemory: Send + Sync {
    /// The default if nothing is stored yet.
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SourceRecord, StateError>>;

    fn save<'a>(
        &'a self,
        name: &'a str,
        value: &'a SourceRecord,
    ) -> BoxFuture<'a, Result<(), StateError>>;
}
