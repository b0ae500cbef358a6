//! Identity and result of an agent session.

use std::time::Duration;

use jiff::Timestamp;

use serde::{Deserialize, Serialize};

use super::text::clip;
use super::{ItemKey, Outcome, RunId, SessionId, SessionTranscript, Stage, Untrusted, Usage};

/// A session and what it was started for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRef {
    /// Also in the environment of every process it starts, to find strays.
    #[serde(rename = "session")]
    pub id: SessionId,
    pub run: RunId,
    pub stage: Stage,
    /// `None` for triage, which judges many items in one session.
    pub item: Option<ItemKey>,
    /// 1 is the first attempt.
    pub attempt: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionEnd {
    pub outcome: Outcome,
    /// The structured output if the outcome is `Completed`.
    pub output: Option<serde_json::Value>,
    /// Also set when the session was killed after its result.
    pub usage: Usage,
    /// When the provider accepts work again, if it refused.
    pub suspended_until: Option<Timestamp>,
    /// From spawn until its process tree is certified empty.
    pub duration: Duration,
    /// Number of files read.
    pub reads: u32,
    /// The files that the agent was seen to read, relative to the code base; `None` if that is not
    /// known.
    #[serde(default)]
    pub files_read: Option<Vec<String>>,
    /// Number of processes that the sweep had to kill.
    pub swept: u32,
    /// Number of processes that could not be killed.
    pub survivors: u32,
    /// Last lines of standard error.
    #[serde(with = "as_it_came")]
    pub stderr_tail: Untrusted,
    pub transcript: SessionTranscript,
    /// The model that answered instead of the configured one.
    #[serde(default)]
    pub fell_back_to: Option<String>,
}

impl SessionEnd {
    /// An end without output, usage or processes.
    pub fn empty(outcome: Outcome) -> Self {
        Self {
            outcome,
            output: None,
            usage: Usage::default(),
            suspended_until: None,
            duration: Duration::ZERO,
            reads: 0,
            files_read: None,
            swept: 0,
            survivors: 0,
            stderr_tail: Untrusted::default(),
            transcript: SessionTranscript::default(),
            fell_back_to: None,
        }
    }

    /// The last words of an agent that failed: the end of its standard error, else of what the
    /// model said. One line, plain, without tokens.
    pub fn last_words(&self) -> String {
        const MAX_LEN: usize = 400;
        if self.outcome.is_success() {
            return String::new();
        }
        let said = self.stderr_tail.last_line(MAX_LEN);
        let last = || self.transcript.lines.back().map(|line| line.text.replace('\n', " "));
        if said.is_empty() { clip(&last().unwrap_or_default(), MAX_LEN) } else { said }
    }

    /// The texts in the output, so that secrets can be removed from them.
    pub fn output_texts_mut(&mut self) -> Vec<&mut String> {
        let mut texts = Vec::new();
        if let Some(output) = &mut self.output {
            collect_texts(output, &mut texts);
        }
        texts
    }
}

fn collect_texts<'a>(value: &'a mut serde_json::Value, texts: &mut Vec<&'a mut String>) {
    use serde_json::Value::{Array, Object, String};
    match value {
        String(text) => texts.push(text),
        Array(values) => values.iter_mut().for_each(|value| collect_texts(value, texts)),
        Object(entries) => entries.values_mut().for_each(|value| collect_texts(value, texts)),
        _ => {}
    }
}

/// Serde form of untrusted text sent between two heartbeats: unchanged, and still not shown.
mod as_it_came {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Untrusted;

    pub fn serialize<S: Serializer>(text: &Untrusted, to: S) -> Result<S::Ok, S::Error> {
        text.raw().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Untrusted, D::Error> {
        String::deserialize(from).map(Untrusted::new)
    }
}
