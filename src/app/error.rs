//! Maps every failure to its exit code.

use std::io;

use super::exit::Code;
use crate::config::{ConfigError, CredentialError};
use crate::prompt::PromptError;
use crate::run::RunError;
use crate::schedule::ScheduleError;
use crate::store::{LockError, StoreError};

/// Why a command failed: cause and fix; the fix is a hint on a separate line.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No configuration exists yet.
    #[error(
        "no heartbeat.toml found (looked at --config, $HEARTBEAT_CONFIG, the working directory and \
         $XDG_CONFIG_HOME/heartbeat)\n  hint: run `heartbeat init` to write one, or try `heartbeat \
         --once --demo` without any"
    )]
    NoConfig,
    /// An invalid configuration that may set a state folder other than the default.
    #[error("{0}\nThe state folder cannot be determined from it.\n  hint: pass --state-dir")]
    StateUnknown(ConfigError),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{0}")]
    Repository(String),
    /// The fleet's configuration does not work.
    #[error("{0}")]
    Fleet(String),
    /// Another coordinator uses this state.
    #[error("{0}")]
    NotNow(String),
    /// The state is older than the fleet's last run.
    #[error("{0}")]
    OldState(String),
    /// An error type of a single command.
    #[error(transparent)]
    Command(Box<dyn std::error::Error + Send + Sync>),
    /// The requested thing does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Wrong usage that only shows after parsing.
    #[error("{0}")]
    Usage(String),
    /// Ended by a signal.
    #[error("{what}")]
    Stopped {
        code: Code,
        /// How far it got.
        what: String,
    },
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        source: io::Error,
    },
}

impl CommandError {
    /// Wraps an IO error with what was attempted.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

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
            Self::Run(error) => Code::of_run(error.outcome()),
            Self::Usage(_) => Code::Usage,
            Self::Stopped { code, .. } => *code,
            Self::Command(_) | Self::NotFound(_) | Self::Io { .. } => Code::Unexpected,
        }
    }
}
