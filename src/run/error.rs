//! What can end a run early, and how it then ends.

use super::{Backlog, RunContext, UnreadSource};
use crate::context::CodeError;
use crate::event::fold::RunView;
use crate::event::{Reason, RunOutcome};
use crate::fetch::FetchError;
use crate::model::text::counted;
use crate::model::{FailureClass, Stage};
use crate::prompt::PromptError;
use crate::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Some of several sources could not be read; the items of the others were processed.
    #[error("{}. What else could be read was processed", each_source(.0))]
    SomeSources(Vec<UnreadSource>),
    /// None of several sources could be read; in the order of the configuration.
    #[error("{}", each_source(.0))]
    AllSources(Vec<UnreadSource>),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The agent's configuration does not work.
    #[error("{0}. The items stay queued and no attempt is counted")]
    AgentConfig(String),
    /// The agent's program works for no session.
    #[error(
        "{0}. The items stay queued, no attempt is counted, nothing is parked; the next run tries \
         one session first"
    )]
    AgentBroken(String),
    /// Several items failed alike.
    #[error(
        "{1}. Their attempts are given back and nothing is parked; the next run tries one item \
         first"
    )]
    FailsAlike(Stage, String),
    /// The model provider rejects the agent's credential.
    #[error(
        "the model provider refuses the agent's credential: {0}. A changed credential is tried at \
         once; the items stay queued and no attempt is counted"
    )]
    AgentCredential(String),
    #[error("{0}. Its items stay queued and no attempt is counted")]
    NoCodeBase(CodeError),
    /// The operating system cannot start processes.
    #[error(
        "no session can be started on this machine: {0}. `heartbeat doctor` looks for the cause; \
         the items stay queued and no attempt is counted"
    )]
    CannotStart(String),
    /// The first scheduled run found a backlog and no decision about it in the configuration.
    #[error(
        "this is the first scheduled run on this state, and the configuration does not say what \
         to do with the {} items that already exist. Analysing them takes at least {} and \
         costs at most {} per run, {} in all; `heartbeat --dry-run` shows them. Set [schedule] \
         first_run to \"baseline\" (mark them as seen) or \"process\" (analyse them), or shorten \
         [source] look_back. Nothing was started",
        .0.items, counted(usize::try_from(.0.runs).unwrap_or(usize::MAX), "run"), .0.per_run, .0.in_all
    )]
    FirstRun(Backlog),
    #[error(
        "the analysis of {items} items panicked, which is a bug in heartbeat; the log shows where. \
         Each panic counts as a failed attempt of its item"
    )]
    AnalysisPanicked { items: usize },
    #[error("internal error in {stage}: {message}. This is a bug in heartbeat; nothing was lost")]
    Panicked { stage: &'static str, message: String },
}

fn each_source(unread: &[UnreadSource]) -> String {
    let one = |source: &UnreadSource| format!("source {:?}: {}", source.name, source.error);
    unread.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl RunError {
    /// Whether only one stage is concerned: the other one goes on.
    pub(super) const fn is_of_one_stage(&self) -> bool {
        matches!(self, Self::AgentBroken(_) | Self::FailsAlike(..))
    }

    /// The deferral reason for items that this error affects.
    pub(super) const fn refusal(&self) -> Reason {
        match self {
            Self::AgentConfig(_) | Self::Prompt(_) => Reason::AgentConfig,
            Self::AgentCredential(_) => Reason::ProviderCredential,
            Self::NoCodeBase(_) => Reason::NoCodeBase,
            Self::AgentBroken(_) => Reason::AgentBroken,
            Self::FailsAlike(..) => Reason::FailsAlike,
            _ => Reason::CannotStart,
        }
    }

    /// How a run ends with this error.
    pub fn outcome(&self) -> RunOutcome {
        match self {
            Self::Store(_) => RunOutcome::StoreFailed,
            Self::Fetch(error) => fetch_outcome(error),
            Self::SomeSources(_) => RunOutcome::SourcesFailed,
            // If they differ, the first one in the configuration counts.
            Self::AllSources(unread) => {
                let first = unread.first().map(|source| source.error.outcome());
                first.unwrap_or(RunOutcome::SourceUnavailable)
            }
            Self::AgentCredential(_) => RunOutcome::CredentialRefused,
            Self::Prompt(_) | Self::AgentConfig(_) | Self::NoCodeBase(_) => {
                RunOutcome::ConfigRefused
            }
            Self::FirstRun(_) | Self::CannotStart(_) | Self::AgentBroken(_) => RunOutcome::NotNow,
            Self::FailsAlike(Stage::Triage, _) => RunOutcome::TriageFailed,
            Self::FailsAlike(Stage::Locate | Stage::Deep, _) => RunOutcome::SomeFailed,
            Self::AnalysisPanicked { .. } => RunOutcome::SomeFailed,
            Self::Panicked { .. } => RunOutcome::Crashed,
        }
    }
}

/// How a run ended that reported this error, or none.
pub(super) fn outcome(cx: &RunContext, error: Option<&RunError>, view: &RunView) -> RunOutcome {
    let figures = view.figures();
    match error {
        Some(RunError::SomeSources(_)) | None if cx.stop.requested() => RunOutcome::Interrupted,
        Some(error) => error.outcome(),
        None if view.triage_failed => RunOutcome::TriageFailed,
        // What the provider or the agent's program kept from every analysis was not done.
        None if view.held_up > 0
            && figures.analysed == 0
            && (figures.triaged == 0 || view.to_analyse > 0) =>
        {
            RunOutcome::NotNow
        }
        None if figures.failed_sessions > view.failed_orders => RunOutcome::SomeFailed,
        None if view.work == 0 => RunOutcome::NothingNew,
        // There was work, but no session was allowed to start.
        None if figures.triaged == 0 && figures.analysed == 0 => RunOutcome::NotNow,
        None => RunOutcome::Completed,
    }
}

fn fetch_outcome(error: &FetchError) -> RunOutcome {
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
