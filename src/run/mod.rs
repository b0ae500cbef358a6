//! The run: one readable way from the tick to the report.
//!
//! [`Run::perform`] reads like the picture in the crate's documentation. Everything with an effect
//! is behind [`Edges`], so that the same code runs on the real tracker and agent, on the
//! simulators, and in tests. A run works on the configuration it started with.

mod advice;
mod analyze;
mod code;
mod deadline;
mod edges;
mod fault;
mod first;
mod gate;
mod plan;
mod publish;
mod reconcile;
mod recover;
mod rehearse;
mod triage;

use std::sync::{Arc, Mutex, OnceLock};

use crate::dedupe::Place;
use crate::event::fold::RunView;
use crate::event::{Event, Reason, RunOutcome, RunSummary, Sink, Trigger};
use crate::fetch::FetchError;
use crate::model::{CleanItem, FailureClass, RunId, Verdict};
use crate::prompt::{PromptError, Prompts};
use crate::session::StopHandle;
use crate::settings::{Config, Order};
use crate::store::{Journal, StoreError};

pub use edges::{
    CodeBase, CodeContext, CodeError, Edges, Gate, Job, Publisher, Publishing, Secrets, Sessions,
};
pub use first::Backlog;
pub use rehearse::{Rehearsal, RehearsedDecision, RehearsedPrompt};

/// Why a run could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tracker.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A prompt template.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The agent cannot be used as it is configured.
    #[error("{0}. The items stay queued and no attempt is counted")]
    AgentConfig(String),
    /// A code base is not there.
    #[error("{0}. Its items stay queued and no attempt is counted")]
    NoCodeBase(CodeError),
    /// This machine starts no process for us.
    #[error(
        "no session can be started on this machine: {0}. `heartbeat doctor` looks for the cause; \
         the items stay queued and no attempt is counted"
    )]
    CannotStart(String),
    /// The first scheduled run must be told what to do with an old backlog.
    #[error(
        "this is the first scheduled run on this state, and the configuration does not say what to do with the {} items that already exist. Analysing them takes {} runs or more and costs at most {} per run, \
         {} in all; `heartbeat --dry-run` shows them. Set [schedule] first_run to \"baseline\" \
         (record them as seen) or \"process\" (analyse them), or shorten [source] look_back. \
         Nothing was started",
        .0.items, .0.runs, .0.per_run, .0.in_all
    )]
    FirstRun(Backlog),
}

/// Work of this run: an item that needs a verdict, or has one and needs analysis.
#[derive(Debug, Clone, PartialEq)]
struct Work {
    item: CleanItem,
    fingerprint: String,
    verdict: Option<Verdict>,
    why: Reason,
    deferrals: u32,
}

impl Work {
    fn place(&self, order: &Order) -> Place {
        let complexity = self.verdict.as_ref().map(|verdict| verdict.complexity);
        Place::of(&self.item.item, self.deferrals, complexity, order)
    }
}

/// How a run went.
#[derive(Debug)]
pub struct Ended {
    /// In a word.
    pub outcome: RunOutcome,
    /// In figures.
    pub summary: RunSummary,
    /// What kept it from its work, if anything did.
    pub error: Option<RunError>,
}

/// One run.
#[derive(Clone)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Why it began.
    pub trigger: Trigger,
    /// The configuration it started with.
    pub config: Arc<Config>,
    /// The prompts it started with.
    pub prompts: Arc<Prompts>,
    /// State and events.
    pub journal: Journal,
    /// Everything with an effect.
    pub edges: Edges,
    /// Asked to stop by whoever runs us.
    pub stop: StopHandle,
    /// Asked to stop by this run's own deadline.
    deadline: StopHandle,
    /// When that will be; not known before the run is performed.
    ends_at: Arc<OnceLock<tokio::time::Instant>>,
    /// What else keeps it from its work.
    fault: Arc<Mutex<Option<RunError>>>,
    /// What is wrong with the agent's configuration, as a session of this run has shown.
    agent_fault: Arc<OnceLock<String>>,
}

impl Run {
    /// A run that is ready to be performed.
    pub fn new(
        id: RunId,
        trigger: Trigger,
        config: Arc<Config>,
        prompts: Arc<Prompts>,
        journal: Journal,
        edges: Edges,
        stop: StopHandle,
    ) -> Self {
        Self {
            id,
            trigger,
            config,
            prompts,
            journal,
            edges,
            stop,
            deadline: StopHandle::new(),
            ends_at: Arc::default(),
            agent_fault: Arc::default(),
            fault: Arc::default(),
        }
    }

    /// The whole way. The caller holds the run lock.
    pub async fn perform(&self) -> Result<Ended, StoreError> {
        self.journal
            .runs()
            .begin(self.id, self.trigger, self.config.limits.max_live_sessions)
            .await?;
        let worked = tokio::select! {
            worked = self.work() => worked,
            // Stores observations as they come, for as long as the work lasts.
            never = self.journal.keep_writing() => match never {},
        };
        let error = worked.err();
        let view = self.journal.settled_view().await?;
        let (outcome, summary) = (self.outcome(error.as_ref(), &view), view.figures());
        match (self.journal.runs().end(self.id, outcome, summary).await, error) {
            (Ok(()), error) => Ok(Ended { outcome, summary, error }),
            // The first failure of the state is the one to tell.
            (Err(_), Some(RunError::Store(first))) => Err(first),
            (Err(failed), _) => Err(failed),
        }
    }

    /// The line in the architecture's picture, top to bottom.
    async fn work(&self) -> Result<(), RunError> {
        let _deadline = self.arm_deadline();
        self.recover().await?;
        let work = self.plan().await?;
        let deep = self.triage(work).await?;
        self.agent_is_usable()?;
        self.analyze(deep).await?;
        self.agent_is_usable()?;
        self.no_fault()
    }

    fn emit(&self, event: Event) {
        self.journal.emit(event);
    }

    fn outcome(&self, error: Option<&RunError>, view: &RunView) -> RunOutcome {
        let figures = view.figures();
        match error {
            Some(RunError::Store(_)) => RunOutcome::StoreFailed,
            Some(RunError::Fetch(error)) => fetch_outcome(error.class),
            Some(RunError::Prompt(_) | RunError::AgentConfig(_) | RunError::NoCodeBase(_)) => {
                RunOutcome::ConfigRefused
            }
            Some(RunError::FirstRun(_) | RunError::CannotStart(_)) => RunOutcome::NotNow,
            None if self.stop.state().reason.is_some() => RunOutcome::Interrupted,
            None if view.triage_failed => RunOutcome::TriageFailed,
            None if figures.failed_sessions > 0 => RunOutcome::SomeFailed,
            None if view.work == 0 => RunOutcome::NothingNew,
            // There was work, and nothing of it was let through.
            None if figures.triaged == 0 && figures.analysed == 0 => RunOutcome::NotNow,
            None => RunOutcome::Completed,
        }
    }
}

/// How a failed read is told.
pub const fn fetch_outcome(class: FailureClass) -> RunOutcome {
    match class {
        FailureClass::Auth | FailureClass::Denied => RunOutcome::CredentialRefused,
        FailureClass::Config | FailureClass::BadQuery | FailureClass::Version => {
            RunOutcome::ConfigRefused
        }
        _ => RunOutcome::SourceUnavailable,
    }
}
