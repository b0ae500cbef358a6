//! The one place where every failure gets its exit code.

use std::io;

use super::exit::Code;
use crate::config::{ConfigError, CredentialError};
use crate::prompt::PromptError;
use crate::run::RunError;
use crate::schedule::ScheduleError;
use crate::store::{LockError, StoreError};

/// Why a command failed: what happened and why, and the fix as a hint on a line of its own.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nothing was set up yet.
    #[error(
        "no heartbeat.toml found (looked at --config, $HEARTBEAT_CONFIG, the working directory and \
         $XDG_CONFIG_HOME/heartbeat)\n  hint: run `heartbeat init` to write one, or try `heartbeat \
         --once --demo` without any"
    )]
    NoConfig,
    /// A broken configuration that may have named another state folder than the default.
    #[error("{0}\nThe state folder cannot be determined from it.\n  hint: pass --state-dir")]
    StateUnknown(ConfigError),
    /// The schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A prompt template.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// No credential to begin with.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The code base to analyse.
    #[error("{0}")]
    Repository(String),
    /// The fleet cannot be used as it is configured.
    #[error("{0}")]
    Fleet(String),
    /// Another coordinator works on this state.
    #[error("{0}")]
    NotNow(String),
    /// The state is older than the fleet's last run.
    #[error("{0}")]
    OldState(String),
    /// A command that has an error of its own.
    #[error(transparent)]
    Command(Box<dyn std::error::Error + Send + Sync>),
    /// What was asked for does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Wrong usage that only shows after parsing.
    #[error("{0}")]
    Usage(String),
    /// A signal ended it.
    #[error("{what}")]
    Stopped {
        /// By which signal.
        code: Code,
        /// How far it was.
        what: String,
    },
    /// Anything else the system says.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's word.
        source: io::Error,
    },
}

impl CommandError {
    /// A failed system call, with what it was for.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// What the process exits with.
    pub fn code(&self) -> Code {
        match self {
            Self::Config(_)
            | Self::NoConfig
            | Self::StateUnknown(_)
            | Self::Schedule(_)
            | Self::Prompt(_)
            | Self::Credential(_)
            | Self::Repository(_)
            | Self::Fleet(_) => Code::Config,
            Self::Store(_) | Self::OldState(_) | Self::Lock(LockError::Io { .. }) => Code::Store,
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => Code::Store,
            Self::Lock(LockError::Held { .. }) | Self::NotNow(_) => Code::NotNow,
            Self::Run(error) => run_code(error),
            Self::Usage(_) => Code::Usage,
            Self::Stopped { code, .. } => *code,
            Self::Command(_) | Self::NotFound(_) | Self::Io { .. } => Code::Unexpected,
        }
    }
}

fn run_code(error: &RunError) -> Code {
    match error {
        RunError::Store(_) => Code::Store,
        RunError::Fetch(error) => Code::of_run(crate::run::fetch_outcome(error)),
        RunError::SomeSources(_) => Code::SourcesFailed,
        RunError::AllSources(unread) => {
            unread.first().map_or(Code::Unavailable, |source| run_code(&source.error))
        }
        RunError::AgentCredential(_) => Code::Credential,
        RunError::Prompt(_) | RunError::AgentConfig(_) | RunError::NoCodeBase(_) => Code::Config,
        RunError::FirstRun(_) | RunError::CannotStart(_) => Code::NotNow,
        RunError::AnalysisPanicked { .. } => Code::SomeFailed,
        RunError::Panicked { .. } => Code::Unexpected,
    }
}
