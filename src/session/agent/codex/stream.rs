//! The CLI's `--json` output, line by line.
//!
//! It is silent while the model thinks or writes: an item is told when it is complete, and a command
//! also when it begins. The answer is the last `agent_message` before the end, tokens are in the last
//! line of a good end and nowhere else. All that is kept is bounded, whatever the agent writes.

use super::super::answer::{AnswerWanted, put_into};
use super::super::fields::{Object, add, name, named, number, part, shortened, text};
use super::super::sparse::{self, Wanted};
use super::super::{AgentEvent, AgentResult, Decoder, Ending, StreamNotes, Task};
use crate::model::{FailureKind, Foreign, TranscriptKind, Usage};

const WANTED: Wanted = Wanted {
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

/// The wait before another try is announced so.
const RETRY: &str = "Reconnecting... ";

/// Decodes one session's output.
#[derive(Debug)]
pub struct CodexDecoder {
    wanted: AnswerWanted,
    model: String,
    /// The last thing that the model said.
    answer: Option<String>,
    /// Open commands.
    open: Vec<String>,
    commands: u32,
    last_error: Option<String>,
    notes: StreamNotes,
    told: Vec<(TranscriptKind, String)>,
}

impl CodexDecoder {
    /// The stream names no model: it is the one that was asked for.
    pub fn new(task: &Task, model: &str) -> Self {
        Self {
            wanted: AnswerWanted::of(task),
            model: model.to_owned(),
            answer: None,
            open: Vec::new(),
            commands: 0,
            last_error: None,
            notes: StreamNotes::default(),
            told: Vec::new(),
        }
    }
}

impl Decoder for CodexDecoder {
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Vec::new();
        }
        match sparse::object(&WANTED, line) {
            Some(object) => self.object(&object),
            None => vec![AgentEvent::NotJson],
        }
    }

    fn last_error(&self) -> Option<String> {
        self.last_error.clone()
    }

    /// Commands, each of which may read many files or none.
    fn reads(&self) -> u32 {
        self.commands
    }

    fn take_transcript(&mut self) -> Vec<(TranscriptKind, String)> {
        std::mem::take(&mut self.told)
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
        self.told.push((TranscriptKind::Tool, named(item, "command").unwrap_or_default()));
        vec![AgentEvent::ToolStarted { id, name: "command".to_owned() }]
    }

    fn completed(&mut self, kind: &str, item: &Object) -> Vec<AgentEvent> {
        match kind {
            "command_execution" => {
                let id = name(item, "id");
                self.open.retain(|open| *open != id);
                if text(item, "status") == "failed" || text(item, "status") == "declined" {
                    let command = named(item, "command").unwrap_or_default();
                    self.told.push((TranscriptKind::Failed, command));
                }
                // The model is asked again when the last of them is done.
                let asked = self.open.is_empty().then_some(AgentEvent::Requesting);
                std::iter::once(AgentEvent::ToolFinished { id }).chain(asked).collect()
            }
            "agent_message" => {
                self.see_an_answer();
                let said = text(item, "text");
                self.told.push((TranscriptKind::Said, said.to_owned()));
                self.answer = Some(said.to_owned());
                vec![AgentEvent::Content]
            }
            "reasoning" => {
                self.see_an_answer();
                vec![AgentEvent::Content]
            }
            // A warning, such as that of an unknown model.
            "error" => vec![AgentEvent::Alive { kind: "warning".to_owned() }],
            kind => {
                let kind = shortened("item/", kind);
                self.notes.count_unknown(&kind);
                vec![AgentEvent::Alive { kind }]
            }
        }
    }

    /// The model answered: at least one token, which is all that is known until the end.
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
                let status = super::outcome::status_in(message);
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
                // The whole of the input is told, cached or not.
                input_tokens: tokens("input_tokens").saturating_sub(cached.saturating_add(written)),
                output_tokens: tokens("output_tokens"),
                cache_read_tokens: cached,
                cache_creation_tokens: written,
                ..Usage::default()
            },
            ..AgentResult::default()
        };
        let said = self.answer.take().unwrap_or_default();
        put_into(&mut result, &self.wanted, &said, FailureKind::SchemaViolated);
        AgentEvent::Result(Box::new(result))
    }

    fn failed_turn(&mut self, message: &str) -> AgentEvent {
        let ending = match message {
            cut if cut.contains("reason: max_output_tokens") => Ending::Cut,
            filtered if filtered.contains("reason: content_filter") => Ending::Refused,
            _ => Ending::ApiError { status: super::outcome::status_in(message), kind: None },
        };
        let text = Some(Foreign::new(message.to_owned()));
        AgentEvent::Result(Box::new(AgentResult { ending, text, ..AgentResult::default() }))
    }
}
