//! What differs from one agent CLI to the next: command line, stream, meaning of its end.

use std::ffi::OsString;

use serde_json::Value;

use crate::model::{Outcome, Usage};

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
    /// The agent waits before it asks again.
    Retrying {
        /// Which try.
        attempt: u32,
        /// How long.
        delay_ms: u64,
        /// HTTP status, if there was one.
        status: Option<u16>,
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
    pub text: Option<String>,
    /// The structured output.
    pub structured_output: Option<Value>,
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
    pub stderr_tail: String,
}

/// Decodes an agent's output line by line; keeps what classification needs.
pub trait Decoder: Send {
    /// One line without its newline. A line may mean several things.
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent>;

    /// Name of the last error the stream itself reported.
    fn last_error(&self) -> Option<String>;

    /// Files read so far.
    fn reads(&self) -> u32;
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

    /// A fresh decoder.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// What the end means. Success needs all parts of the agent's success test.
    fn classify(&self, transcript: &Transcript) -> Outcome;
}
