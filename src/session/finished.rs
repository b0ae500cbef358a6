//! What is known of a session when its process tree is gone, before its end is judged.

use std::time::Duration;

use jiff::Timestamp;

use super::agent::{AgentResult, Exit};
use super::machine::End;
use crate::model::{Foreign, SessionTranscript, Usage};

/// What the machine says about the session's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// Its process tree is certified empty.
    Close,
    /// Something of it is still alive: it keeps its slot.
    KeepOpen,
}

/// All that is known at the end.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The machine's view.
    pub end: End,
    /// None if the row was never committed.
    pub row: Option<Row>,
    /// The agent's process.
    pub exit: Option<Exit>,
    /// The agent's result line.
    pub result: Option<AgentResult>,
    /// What it used, as far as it was told.
    pub usage: Usage,
    /// Lines that were JSON.
    pub json_lines: u64,
    /// Last error named in the stream.
    pub last_error: Option<String>,
    /// End of its standard error.
    pub stderr_tail: Foreign,
    /// From spawn to certificate.
    pub duration: Duration,
    /// Files read.
    pub reads: u32,
    /// Processes that a sweep ended.
    pub swept: u32,
    /// Processes left alive.
    pub survivors: u32,
    /// We ended it because the provider kept it waiting.
    pub provider_failed: bool,
    /// What it read and said, in short.
    pub transcript: SessionTranscript,
    /// The provider's stated reset, if it refused more work.
    pub suspended_until: Option<Timestamp>,
}
