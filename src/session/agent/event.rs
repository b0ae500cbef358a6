//! Events of an agent's output, independent of the CLI.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

pub use ::supervisor::keeper::protocol::Exit;

use crate::model::{FailureKind, TranscriptKind, Untrusted, Usage};

/// One event decoded from the agent's output.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The agent has started.
    Initialised {
        /// `None` if the stream does not name it.
        model: Option<String>,
        /// Version of the CLI; `None` if the stream does not name it.
        version: Option<String>,
    },
    /// A turn of the model began: the first request or a further one.
    Turn,
    /// Part of the model's answer.
    Content,
    ToolStarted {
        id: String,
        name: String,
    },
    ToolFinished {
        id: String,
    },
    /// A request to the model is open.
    Requesting,
    /// The model's answer is complete.
    Answered,
    /// The agent waits before a retry.
    Retrying {
        attempt: u32,
        /// `None` if the agent does not state it.
        delay_ms: Option<u64>,
        /// HTTP status, if there was a response.
        status: Option<u16>,
    },
    /// The agent changed its model because its own was overloaded.
    FellBack {
        model: String,
    },
    /// Shows only that the agent is alive: pings, tool heartbeats, status lines, unknown types.
    Alive {
        /// Type of the line, for the evidence.
        kind: String,
    },
    /// The final line.
    Result(Box<AgentResult>),
    /// Not JSON, or not an object.
    NotJson,
}

/// How a session ended according to the agent. Only [`Done`](Self::Done) can be a success.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Ending {
    Done,
    /// The prompt never reached the model.
    NotSent,
    /// The model declined, or its answer was filtered.
    Refused,
    /// The answer was cut at the token limit.
    Cut,
    /// Interrupted by a signal.
    Interrupted,
    /// The agent's own budget limit.
    OverBudget,
    /// The agent's own turn limit.
    MaxTurns,
    /// Several answers did not fit the schema.
    SchemaExhausted,
    /// A request to the provider failed; the message is in `text`.
    ApiError {
        /// HTTP status, if there was a response.
        status: Option<u16>,
        /// The CLI's name for the error, if it has one.
        kind: Option<String>,
    },
    /// A shape that the adapter does not know; not a success.
    #[default]
    Unknown,
}

/// The agent's report of its end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentResult {
    pub ending: Ending,
    /// The answer or the error message.
    pub text: Option<Untrusted>,
    /// The answer as JSON.
    pub structured_output: Option<Untrusted<Value>>,
    /// Why an answer exists but is not usable.
    pub misfit: Option<FailureKind>,
    pub usage: Usage,
}

/// Everything known about an agent that ended without the supervisor.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    pub exit: Exit,
    /// The final line, if there was one.
    pub result: Option<AgentResult>,
    /// Number of lines that were JSON.
    pub json_lines: u64,
    /// Last error named in the stream, such as `rate_limit`.
    pub last_error: Option<String>,
    /// Last part of standard error.
    pub stderr_tail: Untrusted,
}

/// Decodes an agent's output line by line and keeps what classification needs.
pub trait Decoder: Send {
    /// Takes one line without its newline. A line may yield several events.
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent>;

    /// Name of the last error the stream itself reported.
    fn last_error(&self) -> Option<String>;

    /// Distinct files read so far; a lower bound where the agent reads by commands.
    fn reads(&self) -> u32;

    /// The files it was seen to read, relative to the code base if they are inside.
    fn files_read(&self) -> Vec<String>;

    /// Transcript entries of the lines since the last call, in order.
    fn take_transcript(&mut self) -> Vec<(TranscriptKind, String)> {
        Vec::new()
    }

    /// Further facts of the stream, for events and diagnosis.
    fn notes(&self) -> StreamNotes {
        StreamNotes::default()
    }
}

/// Facts of a stream that do not change the session's state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamNotes {
    /// When the provider accepts requests again, if it stated a limit.
    pub suspended_until: Option<Timestamp>,
    /// The model that the agent switched to because its own was overloaded.
    pub fallback_model: Option<String>,
    /// Tool calls that were denied.
    pub denied_tools: u32,
    /// Announced waits before a retry.
    pub retries: u32,
    /// Lines of unknown type, counted by type. At most
    /// [`MAX_UNKNOWN_KINDS`](Self::MAX_UNKNOWN_KINDS) names are kept; the rest is counted as
    /// `other`.
    pub unknown: BTreeMap<String, u64>,
    /// Tokens of the requests seen so far, without cost; used when no result line comes.
    pub tokens_seen: Usage,
}

impl StreamNotes {
    /// Unknown types counted by name; the rest is counted together.
    pub const MAX_UNKNOWN_KINDS: usize = 32;

    /// Counts one line of an unknown type.
    pub fn count_unknown(&mut self, kind: &str) {
        let known = self.unknown.contains_key(kind);
        let name = match known || self.unknown.len() < Self::MAX_UNKNOWN_KINDS {
            true => kind,
            false => "other",
        };
        *self.unknown.entry(name.to_owned()).or_default() += 1;
    }
}
