//! Facts about a session whose process tree is gone, before the end is classified.

use std::time::Duration;

use jiff::Timestamp;

use super::agent::{AgentResult, Exit};
use super::machine::End;
use crate::model::{SessionTranscript, Untrusted, Usage};

/// What happens to the session's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// The process tree is verified empty.
    Close,
    /// A process is still alive: the session keeps its slot.
    KeepOpen,
}

/// Everything known at the end.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The state machine's result.
    pub end: End,
    /// None if the row was never committed.
    pub row: Option<Row>,
    pub exit: Option<Exit>,
    /// The agent's result line.
    pub result: Option<AgentResult>,
    /// As far as it was reported.
    pub usage: Usage,
    /// Number of lines that were JSON.
    pub json_lines: u64,
    /// Last error named in the stream.
    pub last_error: Option<String>,
    /// Last part of standard error.
    pub stderr_tail: Untrusted,
    /// From spawn until the tree was verified empty.
    pub duration: Duration,
    pub reads: u32,
    pub files_read: Vec<String>,
    /// Tool calls, and how many of them failed.
    pub tried_calls: u32,
    pub failed_calls: u32,
    /// Processes killed by the sweep.
    pub swept: u32,
    /// Processes left alive.
    pub survivors: u32,
    /// We ended it because the provider kept it waiting.
    pub provider_failed: bool,
    /// Summary of what it read and said.
    pub transcript: SessionTranscript,
    /// The model that the agent fell back to.
    pub fell_back_to: Option<String>,
    /// When the provider accepts requests again, if it stated a limit.
    pub suspended_until: Option<Timestamp>,
}
