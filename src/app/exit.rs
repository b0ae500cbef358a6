//! Exit codes: documented, stable, one meaning each.

use std::process::ExitCode;

use serde::Serialize;

use crate::event::RunOutcome;

/// What the process tells its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[repr(u8)]
pub enum Code {
    /// Done, or nothing new.
    Done = 0,
    /// Something unexpected.
    Unexpected = 1,
    /// Wrong usage of the command line.
    Usage = 2,
    /// Some analyses failed.
    SomeFailed = 10,
    /// Triage failed.
    TriageFailed = 11,
    /// The source is unavailable, or its breaker is open.
    Unavailable = 69,
    /// The state store.
    Store = 74,
    /// Not run now: another run holds the lock, a budget, admission.
    NotNow = 75,
    /// The credential was refused.
    Credential = 77,
    /// The configuration.
    Config = 78,
    /// Stopped by SIGINT.
    Interrupted = 130,
    /// Stopped by SIGTERM.
    Terminated = 143,
}

impl Code {
    /// All of them, in order.
    pub const ALL: [Self; 12] = [
        Self::Done,
        Self::Unexpected,
        Self::Usage,
        Self::SomeFailed,
        Self::TriageFailed,
        Self::Unavailable,
        Self::Store,
        Self::NotNow,
        Self::Credential,
        Self::Config,
        Self::Interrupted,
        Self::Terminated,
    ];

    /// What it means, in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done, or nothing new",
            Self::Unexpected => "unexpected error",
            Self::Usage => "invalid command line",
            Self::SomeFailed => "some analyses failed; they will be retried or are parked",
            Self::TriageFailed => "triage failed; the items stay queued",
            Self::Unavailable => "the source is unavailable, or its circuit breaker is open",
            Self::Store => "the state database cannot be read or written",
            Self::NotNow => {
                "did not run now: another run is in progress, or a budget or machine \
                             limit was reached"
            }
            Self::Credential => "the credential was rejected",
            Self::Config => {
                "the configuration is invalid or names something that does not exist; the message \
                 names the key"
            }
            Self::Interrupted => "stopped by SIGINT",
            Self::Terminated => "stopped by SIGTERM",
        }
    }

    /// As the operating system takes it.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// How a run's end is told. An interruption is told by the signal that caused it.
    pub const fn of_run(outcome: RunOutcome) -> Self {
        match outcome {
            RunOutcome::Completed | RunOutcome::NothingNew => Self::Done,
            RunOutcome::SomeFailed => Self::SomeFailed,
            RunOutcome::TriageFailed => Self::TriageFailed,
            RunOutcome::SourceUnavailable => Self::Unavailable,
            RunOutcome::CredentialRefused => Self::Credential,
            RunOutcome::ConfigRefused => Self::Config,
            RunOutcome::NotNow => Self::NotNow,
            RunOutcome::Interrupted => Self::Terminated,
            RunOutcome::StoreFailed => Self::Store,
            RunOutcome::Crashed => Self::Unexpected,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// The table in `--help` and the README.
pub fn table() -> String {
    let rows: Vec<String> = Code::ALL
        .iter()
        .map(|code| format!("  {:>3}  {}", code.number(), code.meaning()))
        .collect();
    format!("Exit codes:\n{}", rows.join("\n"))
}
