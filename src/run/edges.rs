//! The seams of a run: what it needs from the world, in its own words.

use std::path::PathBuf;
use std::sync::Arc;

use crate::event::Reason;
use crate::fetch::{FetchError, Source};
use crate::model::{BoxFuture, CleanItem, ItemId, SessionEnd, SessionRef, Verdict};
use crate::ports::LedgerError;
use crate::prompt::Rendered;
use crate::session::StopSignal;
use crate::settings::HeldSecrets;

/// Everything a run touches.
#[derive(Clone)]
pub struct Edges {
    /// The tracker.
    pub source: Arc<dyn Source>,
    /// Supervised agent sessions.
    pub sessions: Arc<dyn Sessions>,
    /// The code bases.
    pub code: Arc<dyn CodeBase>,
    /// The machine's say in whether another session may start.
    pub gate: Arc<dyn Gate>,
    /// Where findings are left, if they are.
    pub publisher: Option<Arc<dyn Publisher>>,
    /// What no stored text may hold.
    pub secrets: Arc<dyn Secrets>,
}

/// Knows the secrets in force.
pub trait Secrets: Send + Sync {
    /// All of them, now.
    fn held(&self) -> BoxFuture<'_, HeldSecrets>;

    /// Keyed fingerprint of the agent's credential, to see whether it changed; none: unknown.
    fn agent_fingerprint<'a>(&'a self, _key: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async { None })
    }
}

/// A set that stays as it is.
impl Secrets for HeldSecrets {
    fn held(&self) -> BoxFuture<'_, HeldSecrets> {
        Box::pin(async { self.clone() })
    }
}

/// A finding for the work item it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publishing {
    /// Which item.
    pub id: ItemId,
    /// The revision the finding was made from.
    pub rev: i64,
    /// As Markdown.
    pub comment: String,
    /// An earlier attempt may have arrived: look for it before writing.
    pub may_be_there: bool,
}

/// Leaves findings where people work.
pub trait Publisher: Send + Sync {
    /// Leaves it, once; the revision that made.
    fn publish(&self, publishing: Publishing) -> BoxFuture<'_, Result<i64, FetchError>>;

    /// Would it be taken? Changes nothing.
    fn validate(&self, publishing: Publishing) -> BoxFuture<'_, Result<(), FetchError>>;
}

/// One session's work, ready to start.
#[derive(Debug, Clone)]
pub struct Job {
    /// Which session.
    pub session: SessionRef,
    /// All that the agent is told.
    pub words: Rendered,
    /// The code base it may read; none: an empty folder.
    pub repository: Option<PathBuf>,
}

/// Runs sessions, one at a time each, under supervision.
pub trait Sessions: Send + Sync {
    /// From the row to the certificate.
    fn perform(&self, job: Job, stop: StopSignal)
    -> BoxFuture<'_, Result<SessionEnd, LedgerError>>;

    /// Resolves what an earlier life left open. Returns when it is done or its grace is over.
    fn resolve_orphans(&self) -> BoxFuture<'_, Result<(), LedgerError>>;
}

/// What is known of the code before the agent's first token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeContext {
    /// The code base.
    pub root: PathBuf,
    /// Its picture, the same for all items.
    pub overview: String,
    /// The places that matter for this item.
    pub context: String,
    /// Files named in it.
    pub files: u32,
    /// Estimated tokens.
    pub tokens: u64,
}

impl CodeContext {
    /// Nothing is known of the code in `root`.
    pub fn empty(root: PathBuf) -> Self {
        Self { root, overview: String::new(), context: String::new(), files: 0, tokens: 0 }
    }
}

/// The code base cannot be used as it should be.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CodeError {
    /// It is not there, or is no folder: nobody can work on it.
    #[error(
        "the code base {} does not exist or is not a folder: restore it, or correct [repository] \
         path and routes", .0.display()
    )]
    Missing(PathBuf),
    /// It is there, but no picture of it could be made.
    #[error("cannot read the code base {}: {why}", .root.display())]
    Unreadable {
        /// Where it is.
        root: PathBuf,
        /// What stands in the way.
        why: String,
    },
}

/// The code bases of a team.
pub trait CodeBase: Send + Sync {
    /// The context of one item.
    fn context(
        &self,
        item: CleanItem,
        verdict: Verdict,
    ) -> BoxFuture<'_, Result<CodeContext, CodeError>>;

    /// A short picture of each code base that these items belong to; one that cannot be read is
    /// left out.
    fn pictures(&self, _items: Vec<CleanItem>) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { Vec::new() })
    }
}

/// Says whether the machine can carry another session now.
pub trait Gate: Send + Sync {
    /// No: the reason and what was measured.
    fn admit(&self) -> BoxFuture<'_, Result<(), (Reason, String)>>;
}
