//! One agent session: which one it is, and what it leaves.

use std::time::Duration;

use jiff::Timestamp;

use serde::{Deserialize, Serialize};

use super::{Foreign, ItemKey, Outcome, RunId, SessionId, SessionTranscript, Stage, Usage};

/// Which session: its id and what it was started for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRef {
    /// Also the marker in the environment of every process it starts.
    #[serde(rename = "session")]
    pub id: SessionId,
    /// The run it belongs to.
    pub run: RunId,
    /// What it is for.
    pub stage: Stage,
    /// None for triage, which judges many items in one session.
    pub item: Option<ItemKey>,
    /// 1 is the first attempt.
    pub attempt: u32,
}

/// How a session ended, what it returned and what it used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    #[serde(with = "as_it_came")]
    pub stderr_tail: Foreign,
    /// What it read and said, in short.
    pub transcript: SessionTranscript,
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
            swept: 0,
            survivors: 0,
            stderr_tail: Foreign::default(),
            transcript: SessionTranscript::default(),
        }
    }

    /// The texts of its output, for whoever takes secrets out of them.
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

/// Text of others on its way between two heartbeats: stored and sent as it came, still not shown.
mod as_it_came {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Foreign;

    pub fn serialize<S: Serializer>(text: &Foreign, to: S) -> Result<S::Ok, S::Error> {
        text.raw().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Foreign, D::Error> {
        String::deserialize(from).map(Foreign::new)
    }
}
