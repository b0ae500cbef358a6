//! What a session leaves.

use std::time::Duration;

use jiff::Timestamp;

use super::{Outcome, Usage};

/// What is left of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// The structured output, if the outcome is `Completed`.
    pub output: Option<serde_json::Value>,
    /// Used, also when it was killed after its result.
    pub usage: Usage,
    /// The provider's reset, if it refuses more work.
    pub suspended_until: Option<Timestamp>,
    /// From spawn to certificate.
    pub duration: Duration,
    /// Files it read.
    pub reads: u32,
    /// Processes the sweep had to end.
    pub swept: u32,
    /// Processes left alive.
    pub survivors: u32,
    /// Last lines of standard error, for diagnosis.
    pub stderr_tail: String,
}

impl SessionEnd {
    /// The end of a session whose agent never said anything.
    pub fn without_words(outcome: Outcome) -> Self {
        Self {
            outcome,
            output: None,
            usage: Usage::default(),
            suspended_until: None,
            duration: Duration::ZERO,
            reads: 0,
            swept: 0,
            survivors: 0,
            stderr_tail: String::new(),
        }
    }
}
