//! What goes into a session, what comes out, and the ledger that remembers it in between.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{
    BoxFuture, ItemKey, Outcome, ProcessIdentity, RunId, SessionId, Stage, Usage, Usd,
};

/// Everything needed to start one session. The environment is complete: nothing is inherited.
#[derive(Debug, Clone)]
pub struct SessionSpec {
    /// Its id; also the marker in the environment of every process it starts.
    pub session: SessionId,
    /// The run it belongs to.
    pub run: RunId,
    /// What it is for.
    pub stage: Stage,
    /// For which item; none for triage.
    pub item: Option<ItemKey>,
    /// 1 is the first try.
    pub attempt: u32,
    /// The executable, resolved.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Written to its standard input, which is then closed.
    pub stdin: Vec<u8>,
    /// A private folder for HOME and temporary files, made before and removed after.
    pub scratch: PathBuf,
    /// Its bounds.
    pub limits: SessionLimits,
    /// The most it may cost, for those who watch it.
    pub worst_case: Usd,
}

/// The bounds of one session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionLimits {
    /// Until the first decoded line.
    pub init: Duration,
    /// In all; the keeper holds it too.
    pub hard: Duration,
    /// Without progress, with idle tools and no new process.
    pub stall: Duration,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Between the result line and the sweep.
    pub drain: Duration,
    /// Between two signs of life.
    pub liveness: Duration,
    /// Live processes in the tree.
    pub max_processes: u32,
    /// Resident memory of the tree, in bytes.
    pub max_memory: u64,
    /// Longest line of output, in bytes.
    pub max_line: usize,
    /// Files the agent may read before it is ended; none: no limit.
    pub max_reads: Option<u32>,
    /// Niceness added; 0 leaves it.
    pub nice: i32,
}

/// A row of `heartbeat_active_sessions`: written before the agent starts, closed after its tree is
/// certified empty. Open rows are the live count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// Which session.
    pub session: SessionId,
    /// Of which run.
    pub run: RunId,
    /// What it is for.
    pub stage: Stage,
    /// For which item.
    pub item: Option<ItemKey>,
    /// Which try.
    pub attempt: u32,
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
    /// The store failed.
    #[error("cannot use the session ledger: {0}")]
    Store(String),
}

/// Where session rows are made durable.
pub trait Ledger: Send + Sync {
    /// Commits the row, if fewer than `max_live` rows are open. Durable when it returns.
    fn register(&self, row: LedgerRow, max_live: u32) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// The agent's own process, once it runs.
    fn spawned(&self, session: SessionId, pid: u32) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Closes the row and keeps its end, with the output, in the history. Only with zero survivors.
    fn close(&self, session: SessionId, end: SessionEnd) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Every open row, of this life and earlier ones.
    fn open_rows(&self) -> BoxFuture<'_, Result<Vec<LedgerRow>, LedgerError>>;
}

/// What is left of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// The structured output, if the outcome is `Completed`.
    pub output: Option<serde_json::Value>,
    /// Used, also when it was killed after its result.
    pub usage: Usage,
    /// The provider's reset, if it refuses more work.
    pub suspended_until: Option<Timestamp>,
    /// From spawn to certificate.
    pub duration: Duration,
    /// Files it read.
    pub reads: u32,
    /// Processes the sweep had to end.
    pub swept: u32,
    /// Processes left alive.
    pub survivors: u32,
    /// Last lines of standard error, for diagnosis.
    pub stderr_tail: String,
}

impl SessionEnd {
    /// The end of a session whose agent never said anything.
    pub fn without_words(outcome: Outcome) -> Self {
        Self {
            outcome,
            output: None,
            usage: Usage::default(),
            suspended_until: None,
            duration: Duration::ZERO,
            reads: 0,
            swept: 0,
            survivors: 0,
            stderr_tail: String::new(),
        }
    }
}
