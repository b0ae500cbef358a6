//! What differs from one agent CLI to the next: command line, stream, meaning of its end.
//!
//! [`claude`] is the first real one. Another agent is another implementation of [`Agent`] and
//! [`Decoder`]; nothing else in the program knows which one runs.

pub mod claude;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;

use crate::model::{Foreign, Outcome, TranscriptKind, Usage};

/// What one line of the agent's output means to the supervisor.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The agent is up.
    Initialised {
        /// Model in use.
        model: String,
        /// Version of the CLI.
        version: String,
    },
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
        /// How long.
        delay_ms: u64,
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

/// The agent's own account of its end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentResult {
    /// `is_error` of the result.
    pub is_error: bool,
    /// `subtype` of the result.
    pub subtype: String,
    /// `terminal_reason`, absent when the prompt never reached the model.
    pub terminal_reason: Option<String>,
    /// HTTP status of a failed call.
    pub api_error_status: Option<u16>,
    /// Type of a failed call.
    pub api_error_type: Option<String>,
    /// The text.
    pub text: Option<Foreign>,
    /// The structured output.
    pub structured_output: Option<Foreign<Value>>,
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

    /// Distinct files read so far.
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

/// What an agent is asked to do.
#[derive(Debug, Clone)]
pub struct Task {
    /// Id of the session, also for the agent.
    pub session: crate::model::SessionId,
    /// What for.
    pub stage: crate::model::Stage,
    /// System prompt; written to a file in the scratch folder.
    pub system_prompt: String,
    /// JSON schema of the answer.
    pub schema: Value,
    /// The private folder.
    pub scratch: std::path::PathBuf,
}

/// One kind of agent CLI.
pub trait Agent: Send + Sync {
    /// Arguments after the configured command, for this task.
    fn args(&self, task: &Task) -> Vec<OsString>;

    /// The whole environment, for this task.
    fn env(&self, task: &Task) -> Vec<(OsString, OsString)>;

    /// Files to write into the scratch folder before the start, private to the session.
    fn files(&self, task: &Task) -> Vec<(PathBuf, Vec<u8>)> {
        let _ = task;
        Vec::new()
    }

    /// Folders beside the scratch folder that it must be able to write, such as that of its login.
    fn own_folders(&self, task: &Task) -> Vec<PathBuf> {
        let _ = task;
        Vec::new()
    }

    /// A fresh decoder.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// What the end means. Success needs all parts of the agent's success test.
    ///
    /// It judges an agent that ended by itself. A supervisor that had to end an agent which had
    /// already delivered its result passes `Exit::Code(0)`: the result then speaks for itself.
    fn classify(&self, transcript: &Transcript) -> Outcome;

    /// What it means that the provider kept an agent waiting until it had to be ended; `last_error`
    /// is what the stream named last.
    fn classify_provider_failure(&self, last_error: Option<&str>) -> Outcome {
        let _ = last_error;
        Outcome::AgentError { why: crate::model::FailureKind::ApiError }
    }
}
