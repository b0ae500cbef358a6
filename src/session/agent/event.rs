//! What an agent's output means, in words that no CLI owns.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::model::{FailureKind, Foreign, TranscriptKind, Usage};

/// What one line of the agent's output means to the supervisor.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The agent is up.
    Initialised {
        /// Model in use, where the stream names it.
        model: Option<String>,
        /// Version of the CLI, where the stream names it.
        version: Option<String>,
    },
    /// A turn of the model began: another request, or the first.
    Turn,
    /// Content of the model's answer.
    Content,
    /// A tool call began.
    ToolStarted {
        /// Its id.
        id: String,
        /// Its name.
        name: String,
    },
    /// A tool call ended.
    ToolFinished {
        /// Its id.
        id: String,
    },
    /// A request to the model is open.
    Requesting,
    /// The model's answer is complete.
    Answered,
    /// The agent waits before it asks again.
    Retrying {
        /// Which try.
        attempt: u32,
        /// How long, where it says so.
        delay_ms: Option<u64>,
        /// HTTP status, if there was one.
        status: Option<u16>,
    },
    /// The agent changed its model because its own was overloaded.
    FellBack {
        /// To which.
        model: String,
    },
    /// Alive, no more: pings, tool heartbeats, status lines, lines of unknown type.
    Alive {
        /// Its type, for the evidence.
        kind: String,
    },
    /// The final line.
    Result(Box<AgentResult>),
    /// Not JSON, or not an object.
    NotJson,
}

/// How a session ended by the agent's own account. Only [`Done`](Self::Done) can be a success.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Ending {
    /// Its work is done.
    Done,
    /// The prompt never reached the model.
    NotSent,
    /// The model declined, or its answer was filtered.
    Refused,
    /// The answer was cut at the token limit.
    Cut,
    /// Interrupted from outside.
    Interrupted,
    /// Its own budget limit.
    OverBudget,
    /// Its own turn limit.
    MaxTurns,
    /// It gave up after several answers that did not fit the schema.
    SchemaExhausted,
    /// A call of the provider failed; the text is that of the result.
    ApiError {
        /// HTTP status, if there was one.
        status: Option<u16>,
        /// The CLI's name for it, if it has one.
        kind: Option<String>,
    },
    /// A shape that the adapter does not know, which is no success.
    #[default]
    Unknown,
}

/// The agent's own account of its end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentResult {
    /// How it ended.
    pub ending: Ending,
    /// The text: the answer's, or that of the error.
    pub text: Option<Foreign>,
    /// The structured output.
    pub structured_output: Option<Foreign<Value>>,
    /// Why there is none although there is an answer.
    pub misfit: Option<FailureKind>,
    /// Used.
    pub usage: Usage,
}

/// How the agent's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// All that is known when an agent ended by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    /// Its process's end.
    pub exit: Exit,
    /// Its result line.
    pub result: Option<AgentResult>,
    /// Lines that were JSON.
    pub json_lines: u64,
    /// Last synthetic error named in the stream, such as `rate_limit`.
    pub last_error: Option<String>,
    /// End of its standard error.
    pub stderr_tail: Foreign,
}

/// Decodes an agent's output line by line; keeps what classification needs.
pub trait Decoder: Send {
    /// One line without its newline. A line may mean several things.
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent>;

    /// Name of the last error the stream itself reported.
    fn last_error(&self) -> Option<String>;

    /// Distinct files read so far; a lower bound where the agent reads by commands.
    fn reads(&self) -> u32;

    /// What the lines since the last call say for the transcript, in order.
    fn take_transcript(&mut self) -> Vec<(TranscriptKind, String)> {
        Vec::new()
    }

    /// What else the stream said, for events and diagnosis.
    fn notes(&self) -> StreamNotes {
        StreamNotes::default()
    }
}

/// Facts of a stream that do not change its course.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamNotes {
    /// The provider's stated reset, if it refused more work.
    pub suspended_until: Option<Timestamp>,
    /// The model the agent changed to because its own was overloaded.
    pub fallback_model: Option<String>,
    /// Tool calls that were denied.
    pub denied_tools: u32,
    /// Waits announced before another request.
    pub retries: u32,
    /// Lines of types that this decoder does not know, by type. At most
    /// [`MAX_UNKNOWN_KINDS`](Self::MAX_UNKNOWN_KINDS) names are kept, the rest is under `other`.
    pub unknown: BTreeMap<String, u64>,
    /// Tokens of the requests seen so far, without cost: all there is when no result line comes.
    pub tokens_seen: Usage,
}

impl StreamNotes {
    /// Names of unknown types kept before the rest is counted together.
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
