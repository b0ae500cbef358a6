//! Decodes the CLI's `--json` output, line by line.
//!
//! It is silent while the model thinks or writes: an item is reported when it is complete, and a
//! command also when it begins. The answer is the last `agent_message` before the end; tokens are
//! only in the last line of a successful end. Everything kept is bounded, whatever the agent
//! writes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::super::answer::{AnswerSpec, store_answer};
use super::super::fields::{Object, add, name, named, number, part, shortened, text};
use super::super::outcome::status_in;
use super::super::sparse::{self, KeptKeys};
use super::super::{AgentEvent, AgentResult, Decoder, Ending, StreamNotes, Task};
use super::reading::files_named;
use crate::model::{FailureKind, TranscriptKind, Untrusted, Usage};

const KEPT: KeptKeys = KeptKeys {
    keys: &[
        "cache_write_input_tokens",
        "cached_input_tokens",
        "command",
        "error",
        "exit_code",
        "id",
        "input_tokens",
        "item",
        "message",
        "output_tokens",
        "status",
        "text",
        "type",
        "usage",
    ],
    answer: "",
    long: ("text", 2 << 20),
};

/// Prefix of the message that announces a retry.
const RETRY: &str = "Reconnecting... ";

#[derive(Debug)]
pub struct CodexDecoder {
    wanted: AnswerSpec,
    model: String,
    /// The model's last message.
    answer: Option<String>,
    /// Ids of running commands.
    open: Vec<String>,
    cwd: PathBuf,
    /// Files named by commands that succeeded.
    files_read: BTreeSet<String>,
    commands: u32,
    last_error: Option<String>,
    notes: StreamNotes,
    transcript_entries: Vec<(TranscriptKind, String)>,
}

impl CodexDecoder {
    /// The stream does not name the model; `model` is the configured one.
    pub fn new(task: &Task, model: &str) -> Self {
        Self {
            wanted: AnswerSpec::of(task),
            model: model.to_owned(),
            answer: None,
            open: Vec::new(),
            cwd: task.cwd.clone(),
            files_read: BTreeSet::new(),
            commands: 0,
            last_error: None,
            notes: StreamNotes::default(),
            transcript_entries: Vec::new(),
        }
    }
}

impl Decoder for CodexDecoder {
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Vec::new();
        }
        match sparse::object(&KEPT, line) {
            Some(object) => self.object(&object),
            None => vec![AgentEvent::NotJson],
        }
    }

    fn last_error(&self) -> Option<String> {
        self.last_error.clone()
    }

    /// Counts commands; each may read several files or none.
    fn reads(&self) -> u32 {
        self.commands
    }

    fn files_read(&self) -> Vec<String> {
        self.files_read.iter().cloned().collect()
    }

    fn take_transcript(&mut self) -> Vec<(TranscriptKind, String)> {
        std::mem::take(&mut self.transcript_entries)
    }

    fn notes(&self) -> StreamNotes {
        self.notes.clone()
    }
}

impl CodexDecoder {
    fn object(&mut self, object: &Object) -> Vec<AgentEvent> {
        match text(object, "type") {
            "thread.started" => {
                let model = Some(self.model.clone());
                vec![AgentEvent::Initialised { model, version: None }]
            }
            "turn.started" => vec![AgentEvent::Turn, AgentEvent::Requesting],
            "item.started" => self.item(object, Self::started),
            "item.completed" => self.item(object, Self::completed),
            "item.updated" => vec![AgentEvent::Content],
            "error" => vec![self.error(text(object, "message"))],
            "turn.completed" => vec![self.completed_turn(object)],
            "turn.failed" => {
                let message = part(object, "error").map(|error| text(error, "message"));
                vec![self.failed_turn(message.unwrap_or_default())]
            }
            kind => {
                let kind = shortened("", kind);
                self.notes.count_unknown(&kind);
                vec![AgentEvent::Alive { kind }]
            }
        }
    }

    fn item(
        &mut self,
        object: &Object,
        take: fn(&mut Self, &str, &Object) -> Vec<AgentEvent>,
    ) -> Vec<AgentEvent> {
        match part(object, "item") {
            Some(item) => take(self, text(item, "type"), item),
            None => vec![AgentEvent::Alive { kind: "item".to_owned() }],
        }
    }

    fn started(&mut self, kind: &str, item: &Object) -> Vec<AgentEvent> {
        if kind != "command_execution" {
            return vec![AgentEvent::Content];
        }
        let id = name(item, "id");
        if self.open.len() < crate::session::conversation::MAX_OPEN_TOOLS {
            self.open.push(id.clone());
        }
        self.commands = self.commands.saturating_add(1);
        self.see_an_answer();
        self.transcript_entries
            .push((TranscriptKind::Tool, named(item, "command").unwrap_or_default()));
        vec![AgentEvent::ToolStarted { id, name: "command".to_owned() }]
    }

    fn completed(&mut self, kind: &str, item: &Object) -> Vec<AgentEvent> {
        match kind {
            "command_execution" => {
                let id = name(item, "id");
                self.open.retain(|open| *open != id);
                if text(item, "status") == "failed" || text(item, "status") == "declined" {
                    let command = named(item, "command").unwrap_or_default();
                    self.transcript_entries.push((TranscriptKind::Failed, command));
                } else if self.files_read.len() < crate::session::conversation::MAX_OPEN_TOOLS {
                    self.files_read.extend(files_named(text(item, "command"), &self.cwd));
                }
                // The model gets the next request when the last command is done.
                let asked = self.open.is_empty().then_some(AgentEvent::Requesting);
                std::iter::once(AgentEvent::ToolFinished { id }).chain(asked).collect()
            }
            "agent_message" => {
                self.see_an_answer();
                let said = text(item, "text");
                self.transcript_entries.push((TranscriptKind::Said, said.to_owned()));
                self.answer = Some(said.to_owned());
                vec![AgentEvent::Content]
            }
            "reasoning" => {
                self.see_an_answer();
                vec![AgentEvent::Content]
            }
            // A warning, for example about an unknown model.
            "error" => vec![AgentEvent::Alive { kind: "warning".to_owned() }],
            kind => {
                let kind = shortened("item/", kind);
                self.notes.count_unknown(&kind);
                vec![AgentEvent::Alive { kind }]
            }
        }
    }

    /// The answer has at least one token; the number is unknown until the end.
    fn see_an_answer(&mut self) {
        add(&mut self.notes.tokens_seen.output_tokens, 1);
    }

    fn error(&mut self, message: &str) -> AgentEvent {
        let retry = message.strip_prefix(RETRY);
        let cause = retry.and_then(|retry| retry.split_once(' ')).map_or(message, |(_, why)| why);
        let cause = cause.trim_start_matches('(').trim_end_matches(')');
        self.last_error = Some(shortened("", cause));
        match retry.and_then(|retry| retry.split('/').next()?.parse().ok()) {
            Some(attempt) => {
                self.notes.retries = self.notes.retries.saturating_add(1);
                let status = status_in(message);
                AgentEvent::Retrying { attempt, delay_ms: None, status }
            }
            None => AgentEvent::Alive { kind: "error".to_owned() },
        }
    }

    fn completed_turn(&mut self, object: &Object) -> AgentEvent {
        let usage = part(object, "usage");
        let tokens = |key| usage.map(|usage| number(usage, key)).unwrap_or_default();
        let (cached, written) = (tokens("cached_input_tokens"), tokens("cache_write_input_tokens"));
        let mut result = AgentResult {
            ending: Ending::Done,
            usage: Usage {
                // `input_tokens` includes cached tokens.
                input_tokens: tokens("input_tokens").saturating_sub(cached.saturating_add(written)),
                output_tokens: tokens("output_tokens"),
                cache_read_tokens: cached,
                cache_creation_tokens: written,
                ..Usage::default()
            },
            ..AgentResult::default()
        };
        let said = self.answer.take().unwrap_or_default();
        store_answer(&mut result, &self.wanted, &said, FailureKind::SchemaViolated);
        AgentEvent::Result(Box::new(result))
    }

    fn failed_turn(&mut self, message: &str) -> AgentEvent {
        let ending = match message {
            cut if cut.contains("reason: max_output_tokens") => Ending::Cut,
            filtered if filtered.contains("reason: content_filter") => Ending::Refused,
            _ => Ending::ApiError { status: status_in(message), kind: None },
        };
        // An answer that came before the failure is paid for.
        let mut before = AgentResult::default();
        let said = self.answer.take().unwrap_or_default();
        store_answer(&mut before, &self.wanted, &said, FailureKind::SchemaViolated);
        let text = Some(Untrusted::new(message.to_owned()));
        AgentEvent::Result(Box::new(AgentResult { ending, text, misfit: None, ..before }))
    }
}
