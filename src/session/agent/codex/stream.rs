//! Decodes the CLI's `--json` output, line by line.
//!
//! It is silent while the model thinks or writes: an item is reported when it is complete, and a
//! command also when it begins. The answer is the last `agent_message` before the end; tokens are
//! only in the last line of a successful end. Everything kept is bounded, whatever the agent
//! writes.

use super::super::answer::{AnswerSpec, store_answer};
use super::super::fields::{Object, add, name, number, part, shortened, text};
use super::super::outcome::status_in;
use super::super::reading::files_named;
use super::super::seen::{Lines, Seen};
use super::super::sparse::KeptKeys;
use super::super::{AgentEvent, AgentResult, Ending, Task};
use crate::model::{FailureKind, Untrusted, Usage};

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
    seen: Seen,
    wanted: AnswerSpec,
    model: String,
    /// The model's last message.
    answer: Option<String>,
    commands: u32,
}

impl CodexDecoder {
    /// The stream does not name the model; `model` is the configured one.
    pub fn new(task: &Task, model: &str) -> Self {
        let (seen, wanted) = (Seen::of(&task.cwd), AnswerSpec::of(task));
        Self { seen, wanted, model: model.to_owned(), answer: None, commands: 0 }
    }
}

impl Lines for CodexDecoder {
    const KEPT: KeptKeys = KEPT;

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn seen_mut(&mut self) -> &mut Seen {
        &mut self.seen
    }

    /// Counts commands; each may read several files or none.
    fn reads_so_far(&self) -> u32 {
        self.commands
    }

    fn object(&mut self, object: Object) -> Vec<AgentEvent> {
        let object = &object;
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
                self.seen.notes.count_unknown(&kind);
                vec![AgentEvent::Alive { kind }]
            }
        }
    }
}

impl CodexDecoder {
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
        self.commands = self.commands.saturating_add(1);
        self.see_an_answer();
        self.seen.tool_started(id.clone(), name(item, "command"), None);
        vec![AgentEvent::ToolStarted { id, name: "command".to_owned() }]
    }

    fn completed(&mut self, kind: &str, item: &Object) -> Vec<AgentEvent> {
        match kind {
            "command_execution" => {
                let succeeded = !matches!(text(item, "status"), "failed" | "declined");
                if succeeded {
                    self.seen.was_read(files_named(text(item, "command"), &self.seen.cwd));
                }
                let command = name(item, "command");
                let finished = self.seen.tool_finished(name(item, "id"), succeeded, &command);
                // The model gets the next request when the last command is done.
                let asked = (!self.seen.has_open_tools()).then_some(AgentEvent::Requesting);
                std::iter::once(finished).chain(asked).collect()
            }
            "agent_message" => {
                self.see_an_answer();
                let said = text(item, "text");
                self.seen.said(said);
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
                self.seen.notes.count_unknown(&kind);
                vec![AgentEvent::Alive { kind }]
            }
        }
    }

    /// The answer has at least one token; the number is unknown until the end.
    fn see_an_answer(&mut self) {
        add(&mut self.seen.notes.tokens_seen.output_tokens, 1);
    }

    fn error(&mut self, message: &str) -> AgentEvent {
        let retry = message.strip_prefix(RETRY);
        let cause = retry.and_then(|retry| retry.split_once(' ')).map_or(message, |(_, why)| why);
        let cause = cause.trim_start_matches('(').trim_end_matches(')');
        self.seen.error = Some(shortened("", cause));
        match retry.and_then(|retry| retry.split('/').next()?.parse().ok()) {
            Some(attempt) => {
                self.seen.notes.retries = self.seen.notes.retries.saturating_add(1);
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
