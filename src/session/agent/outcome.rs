//! Classifies the end of a session, for every kind. Exit codes alone mean nothing: success requires
//! the exit code, the agent's report and an answer of the right shape together. Every other
//! combination has its own outcome.

use super::event::{AgentResult, Ending, Exit, Transcript};
use crate::gateway::failure::class_of;
use crate::model::{FailureKind, Outcome};

/// What a session has to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Any text.
    Text,
    /// An object that fits the schema, as in all of heartbeat's sessions.
    Structured,
}

/// Value of `last_error` for an interruption from outside.
pub const INTERRUPTED: &str = "interrupted";

/// The program rejects its flags or settings.
pub const REFUSED_COMMAND_LINE: Outcome = Outcome::SpawnFailed { why: FailureKind::CommandLine };

/// The parts of classification that differ between CLIs.
pub trait Dialect {
    /// A process that ended without an explanation.
    fn exit(&self, exit: Exit) -> Outcome {
        match exit {
            Exit::Signal(signal) => Outcome::Signal { signal },
            Exit::Code(code) => Outcome::ExitCode { code },
        }
    }

    /// Standard error of a program that ended before its first line: it rejected its command line,
    /// settings or login. A work item cannot cause that.
    fn complaint(&self, stderr: &str) -> Option<Outcome>;

    /// A failed request to the provider that no gateway saw: the gateway's table, over what the CLI
    /// says.
    fn api_failure(&self, failure: &ApiFailure<'_>) -> Outcome {
        let ApiFailure { status, kind, last_error, text } = *failure;
        let said = [Some(status), status_in(last_error), status_in(text)];
        let status = said.into_iter().flatten().find(|status| *status > 0).unwrap_or_default();
        match last_error {
            "refusal" => Outcome::AgentError { why: FailureKind::Refused },
            "max_output_tokens" => Outcome::AgentError { why: FailureKind::MaxOutputTokens },
            _ => class_of(status, &format!("{kind} {last_error} {text}")).outcome(),
        }
    }
}

/// The HTTP status in a message such as `unexpected status 401 Unauthorized: …`.
pub fn status_in(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once("status ").or_else(|| message.split_once("status: "))?;
    let number: String = rest.trim_start_matches(": ").chars().take(3).collect();
    number.parse().ok().filter(|status| (100..600).contains(status))
}

#[derive(Debug, Clone, Copy, Default)]
pub struct ApiFailure<'a> {
    /// HTTP status; 0 if there was no response.
    pub status: u16,
    /// The CLI's name for the error.
    pub kind: &'a str,
    /// The last error named in the stream.
    pub last_error: &'a str,
    pub text: &'a str,
}

/// The outcome of a session that was not ended by the supervisor.
pub fn classify(
    dialect: &(impl Dialect + ?Sized),
    transcript: &Transcript,
    expected: Expected,
) -> Outcome {
    let Some(result) = &transcript.result else { return without_result(dialect, transcript) };
    let error = |why| Outcome::AgentError { why };
    match &result.ending {
        Ending::OverBudget => Outcome::BudgetReached,
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
            Exit::Code(0) => outcome_of_success_exit(ending, result, expected),
            exit => dialect.exit(exit),
        },
    }
}

fn outcome_of_success_exit(ending: &Ending, result: &AgentResult, expected: Expected) -> Outcome {
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

fn without_result(dialect: &(impl Dialect + ?Sized), transcript: &Transcript) -> Outcome {
    let why = match transcript.json_lines {
        0 => FailureKind::NoJson,
        _ => FailureKind::NoResult,
    };
    match transcript.exit {
        Exit::Code(_) if transcript.last_error.as_deref() == Some(INTERRUPTED) => {
            Outcome::AgentError { why: FailureKind::Interrupted }
        }
        Exit::Code(0) => Outcome::BadOutput { why },
        // Exit codes of a shell that could not start the program.
        Exit::Code(126 | 127) if transcript.json_lines == 0 => REFUSED_COMMAND_LINE,
        exit => {
            let silent = transcript.json_lines == 0 && matches!(exit, Exit::Code(_));
            let complaint = silent.then(|| dialect.complaint(transcript.stderr_tail.raw()));
            complaint.flatten().unwrap_or_else(|| dialect.exit(exit))
        }
    }
}

/// A request that had not succeeded when the session was ended. Only limits are distinguished: no
/// CLI retries an error that concerns the request itself.
pub fn provider_failure(dialect: &(impl Dialect + ?Sized), last_error: &str) -> Outcome {
    let failure = ApiFailure { last_error, text: last_error, ..ApiFailure::default() };
    match dialect.api_failure(&failure) {
        limit @ Outcome::ProviderLimit { .. } => limit,
        _ => Outcome::AgentError { why: FailureKind::ApiError },
    }
}
