//! How a run ends: its errors, its outcome, its figures.

use super::{Backlog, RunContext, UnreadSource};
use crate::context::CodeError;
use crate::event::fold::RunView;
use crate::event::{Event, Reason, RunOutcome, RunSummary};
use crate::fetch::FetchError;
use crate::model::FailureClass;
use crate::prompt::PromptError;
use crate::store::{Digest, StoreError};

/// Why a run could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tracker.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Some of several sources could not be read; the items of the others were processed.
    #[error("{}. The items of the other sources were processed", each_source(.0))]
    SomeSources(Vec<UnreadSource>),
    /// None of several sources could be read.
    #[error("{}", each_source(.0))]
    AllSources(Vec<UnreadSource>),
    /// A prompt template.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The agent cannot be used as it is configured.
    #[error("{0}. The items stay queued and no attempt is counted")]
    AgentConfig(String),
    /// The model provider refuses the agent's credential.
    #[error(
        "the model provider refuses the agent's credential: {0}. A changed credential is tried at \
         once; the items stay queued and no attempt is counted"
    )]
    AgentCredential(String),
    /// A code base is missing.
    #[error("{0}. Its items stay queued and no attempt is counted")]
    NoCodeBase(CodeError),
    /// The operating system starts no process for us.
    #[error(
        "no session can be started on this machine: {0}. `heartbeat doctor` looks for the cause; \
         the items stay queued and no attempt is counted"
    )]
    CannotStart(String),
    /// The first scheduled run needs a decision on an old backlog.
    #[error(
        "this is the first scheduled run on this state, and the configuration does not say what \
         to do with the {} items that already exist. Analysing them takes {} runs or more and \
         costs at most {} per run, {} in all; `heartbeat --dry-run` shows them. Set [schedule] \
         first_run to \"baseline\" (record them as seen) or \"process\" (analyse them), or shorten \
         [source] look_back. Nothing was started",
        .0.items, .0.runs, .0.per_run, .0.in_all
    )]
    FirstRun(Backlog),
    /// A bug: the analyses of some items panicked.
    #[error(
        "the analysis of {items} items panicked, which is a bug in heartbeat; the log shows where. \
         Each panic counts as a failed attempt of its item"
    )]
    AnalysisPanicked { items: usize },
    /// A bug: our own code panicked.
    #[error("internal error in {stage}: {message}. This is a bug in heartbeat; nothing was lost")]
    Panicked {
        /// The stage it happened in.
        stage: &'static str,
        /// The panic's message.
        message: String,
    },
}

fn each_source(unread: &[UnreadSource]) -> String {
    let one = |source: &UnreadSource| format!("source {:?}: {}", source.name, source.error);
    unread.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl RunError {
    /// The reason that items are deferred with because of it.
    pub(super) const fn refusal(&self) -> Reason {
        match self {
            Self::AgentConfig(_) | Self::Prompt(_) => Reason::AgentConfig,
            Self::AgentCredential(_) => Reason::ProviderCredential,
            Self::NoCodeBase(_) => Reason::NoCodeBase,
            _ => Reason::CannotStart,
        }
    }
}

/// How a run went.
#[derive(Debug)]
pub struct RunEnd {
    /// In a word.
    pub outcome: RunOutcome,
    /// In figures.
    pub summary: RunSummary,
    /// What kept it from its work.
    pub error: Option<RunError>,
}

/// Stores how the run ended.
pub(super) async fn end_run(
    cx: &RunContext,
    worked: Result<(), RunError>,
) -> Result<RunEnd, StoreError> {
    let error = worked.err();
    if let Some(error) = &error {
        cx.emit(Event::RunFailed { message: error.to_string() });
    }
    let view = cx.journal.settled_view().await?;
    let (outcome, summary) = (outcome(cx, error.as_ref(), &view), view.figures());
    let digest = match cx.config.report.webhook_env.is_empty() {
        true => Digest::None,
        false => Digest::Queued,
    };
    match (cx.journal.runs().end(cx.id, outcome, summary, digest).await, error) {
        (Ok(()), error) => Ok(RunEnd { outcome, summary, error }),
        // The first failure of the state is the one to report.
        (Err(_), Some(RunError::Store(first))) => Err(first),
        (Err(failed), _) => Err(failed),
    }
}

fn outcome(cx: &RunContext, error: Option<&RunError>, view: &RunView) -> RunOutcome {
    let figures = view.figures();
    match error {
        Some(RunError::Store(_)) => RunOutcome::StoreFailed,
        Some(RunError::Fetch(error)) => fetch_outcome(error),
        Some(RunError::SomeSources(_)) if cx.stop.requested() => RunOutcome::Interrupted,
        Some(RunError::SomeSources(_)) => RunOutcome::SourcesFailed,
        // Where they differ, the first one of the configuration counts.
        Some(RunError::AllSources(unread)) => {
            let first = cx
                .edges
                .trackers
                .iter()
                .find_map(|tracker| unread.iter().find(|source| source.name == tracker.name));
            outcome(cx, first.map(|source| &source.error), view)
        }
        Some(RunError::AgentCredential(_)) => RunOutcome::CredentialRefused,
        Some(RunError::Prompt(_) | RunError::AgentConfig(_) | RunError::NoCodeBase(_)) => {
            RunOutcome::ConfigRefused
        }
        Some(RunError::FirstRun(_) | RunError::CannotStart(_)) => RunOutcome::NotNow,
        Some(RunError::AnalysisPanicked { .. }) => RunOutcome::SomeFailed,
        Some(RunError::Panicked { .. }) => RunOutcome::Crashed,
        None if cx.stop.requested() => RunOutcome::Interrupted,
        None if view.triage_failed => RunOutcome::TriageFailed,
        None if figures.failed_sessions > 0 => RunOutcome::SomeFailed,
        None if view.work == 0 => RunOutcome::NothingNew,
        // There was work, and no session was allowed to start.
        None if figures.triaged == 0 && figures.analysed == 0 => RunOutcome::NotNow,
        None => RunOutcome::Completed,
    }
}

/// The outcome of a run whose read failed.
pub fn fetch_outcome(error: &FetchError) -> RunOutcome {
    if error.is_state_failure() {
        return RunOutcome::StoreFailed;
    }
    match error.class {
        FailureClass::Auth | FailureClass::Denied => RunOutcome::CredentialRefused,
        FailureClass::Config | FailureClass::BadQuery | FailureClass::Version => {
            RunOutcome::ConfigRefused
        }
        _ => RunOutcome::SourceUnavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::StateError;

    #[test]
    fn a_full_disk_during_a_read_is_no_failure_of_the_source() {
        let full = StoreError::Full { path: "/state/heartbeat.db".into() };
        let error = FetchError::from(StateError::new(full));
        assert_eq!(fetch_outcome(&error), RunOutcome::StoreFailed);
        assert!(error.message.contains("disk is full"), "{error}");
        let source = FetchError::new(FailureClass::Transient, "no answer");
        assert_eq!(fetch_outcome(&source), RunOutcome::SourceUnavailable);
    }
}
