//! Exit codes: documented, stable, one meaning each.

use std::process::ExitCode;

use serde::Serialize;

use crate::event::RunOutcome;

macro_rules! exit_codes {
    ($($name:ident = $number:literal: $meaning:literal,)+) => {
        /// How the process ends.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
        #[repr(u8)]
        pub enum Code { $(#[doc = $meaning] $name = $number,)+ }

        impl Code {
            /// In ascending order.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// As shown in `--help` and in docs/operations.md.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)+ }
            }
        }
    };
}

// The only table of exit codes; from 64 on they follow sysexits.h.
exit_codes! {
    Done = 0: "done, or nothing new",
    Unexpected = 1: "unexpected error",
    Usage = 2: "invalid command line",
    SomeFailed = 10: "some analyses failed; they will be retried or are parked",
    TriageFailed = 11: "triage failed; the items stay queued",
    SourcesFailed = 12: "some of several sources could not be read; the items of the others were processed",
    Unavailable = 69: "the source is unavailable, or its circuit breaker is open",
    Store = 74: "the state database cannot be read or written",
    NotNow = 75: "did not work now: another run is in progress, a budget or machine limit was reached, or the provider or the agent's program let nothing through",
    ServerLost = 76: "lost the fleet's server, or the right to run on this state; the items stay queued",
    Credential = 77: "the credential was rejected",
    Config = 78: "invalid configuration, or it names something that does not exist; the message names the key",
    Interrupted = 130: "stopped by SIGINT",
    Terminated = 143: "stopped by SIGTERM",
}

impl Code {
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The exit code of a run; for an interruption the signal decides.
    pub const fn of_run(outcome: RunOutcome) -> Self {
        match outcome {
            RunOutcome::Completed | RunOutcome::NothingNew => Self::Done,
            RunOutcome::SomeFailed => Self::SomeFailed,
            RunOutcome::TriageFailed => Self::TriageFailed,
            RunOutcome::SourceUnavailable => Self::Unavailable,
            RunOutcome::SourcesFailed => Self::SourcesFailed,
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

/// The table in `--help` and docs/operations.md.
pub fn table() -> String {
    let rows: Vec<String> = Code::ALL
        .iter()
        .map(|code| format!("  {:>3}  {}", code.number(), code.meaning()))
        .collect();
    format!("Exit codes:\n{}", rows.join("\n"))
}
