//! What an end means, for every kind: exit codes alone mean nothing, so a success is the conjunction
//! of exit code, the agent's own word and an answer of the right shape. Everything else has its name.

use super::event::{AgentResult, Ending, Exit, Transcript};
use crate::model::{FailureKind, Outcome};

/// What a session was asked to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Text is enough.
    Text,
    /// An object that fits the schema. All of heartbeat's sessions.
    Structured,
}

/// The last error of a stream that tells of an interruption from outside.
pub const INTERRUPTED: &str = "interrupted";

/// The program does not know its own flags or settings.
pub const REFUSED_COMMAND_LINE: Outcome = Outcome::SpawnFailed { why: FailureKind::CommandLine };

/// What each CLI says in its own way.
pub trait Dialect {
    /// A process that ended without a word that explains it.
    fn exit(&self, exit: Exit) -> Outcome {
        match exit {
            Exit::Signal(signal) => Outcome::Signal { signal },
            Exit::Code(code) => Outcome::ExitCode { code },
        }
    }

    /// What standard error says of a program that ended before its first line: that it refuses its
    /// command line, its settings or its login, which no work item can bring about.
    fn complaint(&self, stderr: &str) -> Option<Outcome>;

    /// A failed call of the provider.
    fn api_failure(&self, failure: &ApiFailure<'_>) -> Outcome;
}

/// What is known of a failed call.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApiFailure<'a> {
    /// HTTP status, 0 if there was none.
    pub status: u16,
    /// The CLI's name for it.
    pub kind: &'a str,
    /// The last error that the stream named.
    pub last_error: &'a str,
    /// The message.
    pub text: &'a str,
}

/// The outcome of a session that ended by itself.
pub fn classify(dialect: &impl Dialect, transcript: &Transcript, expected: Expected) -> Outcome {
    let Some(result) = &transcript.result else { return without_result(dialect, transcript) };
    let error = |why| Outcome::AgentError { why };
    match &result.ending {
        Ending::OverBudget => Outcome::OverBudget,
        Ending::MaxTurns => error(FailureKind::MaxTurns),
        Ending::SchemaExhausted => error(FailureKind::SchemaExhausted),
        Ending::Interrupted => error(FailureKind::Interrupted),
        Ending::Refused => error(FailureKind::Refused),
        Ending::Cut => error(FailureKind::MaxOutputTokens),
        Ending::ApiError { status, kind } => dialect.api_failure(&ApiFailure {
            status: status.unwrap_or_default(),
            kind: kind.as_deref().unwrap_or_default(),
            last_error: transcript.last_error.as_deref().unwrap_or_default(),
            text: result.text.as_ref().map(|text| text.raw().as_str()).unwrap_or_default(),
        }),
        ending @ (Ending::Done | Ending::NotSent | Ending::Unknown) => match transcript.exit {
            Exit::Code(0) => said_done(ending, result, expected),
            exit => dialect.exit(exit),
        },
    }
}

fn said_done(ending: &Ending, result: &AgentResult, expected: Expected) -> Outcome {
    let why = match ending {
        Ending::NotSent => FailureKind::NotSent,
        Ending::Done => match (expected, &result.structured_output) {
            (Expected::Structured, None) => result.misfit.unwrap_or(FailureKind::SchemaIgnored),
            _ => return Outcome::Completed,
        },
        _ => FailureKind::NoResult,
    };
    Outcome::BadOutput { why }
}

fn without_result(dialect: &impl Dialect, transcript: &Transcript) -> Outcome {
    let why = match transcript.json_lines {
        0 => FailureKind::NoJson,
        _ => FailureKind::NoResult,
    };
    match transcript.exit {
        Exit::Code(_) if transcript.last_error.as_deref() == Some(INTERRUPTED) => {
            Outcome::AgentError { why: FailureKind::Interrupted }
        }
        Exit::Code(0) => Outcome::BadOutput { why },
        // A shell in between.
        Exit::Code(126 | 127) if transcript.json_lines == 0 => REFUSED_COMMAND_LINE,
        exit => {
            let silent = transcript.json_lines == 0 && matches!(exit, Exit::Code(_));
            let complaint = silent.then(|| dialect.complaint(transcript.stderr_tail.raw()));
            complaint.flatten().unwrap_or_else(|| dialect.exit(exit))
        }
    }
}

/// A call that had not succeeded when the session was ended. Only limits are told apart: what
/// concerns the request itself is not retried by any CLI.
pub fn provider_failure(dialect: &impl Dialect, last_error: &str) -> Outcome {
    let failure = ApiFailure { last_error, text: last_error, ..ApiFailure::default() };
    match dialect.api_failure(&failure) {
        limit @ Outcome::ProviderLimit { .. } => limit,
        _ => Outcome::AgentError { why: FailureKind::ApiError },
    }
}
