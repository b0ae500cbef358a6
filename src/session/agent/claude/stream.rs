//! Decodes the CLI's `stream-json` output, line by line.
//!
//! One JSON object per line, in no fixed key order. Types vary between versions: unknown ones are
//! counted and show only that the agent is alive. Everything kept is bounded, whatever the agent
//! writes; `sparse` reads the JSON for that.

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;

use super::super::fields::{Object, add, name, named, number, part, shortened, status, text};
use super::super::prose::embedded_object;
use super::super::seen::{Lines, Seen};
use super::super::sparse::KeptKeys;
use super::super::{AgentEvent, AgentResult, Ending};
use crate::model::{Untrusted, Usage, Usd};

/// Keys kept of a line. The answer of a model that ignored the schema may be in `result`.
const KEPT: KeptKeys = KeptKeys {
    keys: &[
        "api_error_status",
        "api_error_type",
        "attempt",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "claude_code_version",
        "content",
        "cwd",
        "error",
        "error_status",
        "errors",
        "event",
        "fallback_model",
        "file_path",
        "id",
        "input",
        "input_tokens",
        "is_error",
        "message",
        "model",
        "name",
        "output_tokens",
        "rate_limit_info",
        "resetsAt",
        "result",
        "retry_delay_ms",
        "status",
        "structured_output",
        "subtype",
        "terminal_reason",
        "text",
        "tool_use_id",
        "total_cost_usd",
        "type",
        "usage",
    ],
    answer: "structured_output",
    long: ("result", 256 << 10),
};

/// Known types that show only that the agent is alive.
const QUIET_TYPES: [&str; 12] = [
    "system/ui_invalidate",
    "system/hook_started",
    "system/hook_response",
    "system/informational",
    "system/thinking_tokens",
    "system/task_started",
    "system/task_notification",
    "system/background_tasks_changed",
    "system/status",
    "stream_event",
    "tool_progress",
    "user",
];

#[derive(Debug, Default)]
pub struct ClaudeDecoder {
    seen: Seen,
    usage_limit: bool,
    refused: bool,
    current_message: Option<String>,
}

impl Lines for ClaudeDecoder {
    const KEPT: KeptKeys = KEPT;

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn seen_mut(&mut self) -> &mut Seen {
        &mut self.seen
    }

    fn error_named(&self) -> Option<String> {
        // The final line names the cause less exactly than the one before it.
        match self.seen.error.as_deref() {
            None | Some("rate_limit") if self.usage_limit => Some("usage_limit".to_owned()),
            None | Some("invalid_request") if self.refused => Some("refusal".to_owned()),
            error => error.map(str::to_owned),
        }
    }

    fn object(&mut self, mut object: Object) -> Vec<AgentEvent> {
        let kind = kind_of(&object);
        match kind.as_str() {
            "system/init" => {
                self.seen.cwd = PathBuf::from(text(&object, "cwd"));
                vec![AgentEvent::Initialised {
                    model: named(&object, "model"),
                    version: named(&object, "claude_code_version"),
                }]
            }
            "system/status" if text(&object, "status") == "requesting" => {
                vec![AgentEvent::Requesting]
            }
            "system/api_retry" => vec![self.retry(&object)],
            "assistant" => self.assistant(&object),
            "user" => self.user(&object),
            "stream_event" => self.partial(&object),
            "result" => vec![AgentEvent::Result(Box::new(result(&mut object)))],
            "system/model_fallback" => {
                let model = name(&object, "fallback_model");
                self.seen.notes.fallback_model = Some(model.clone());
                vec![AgentEvent::FellBack { model }]
            }
            _ => {
                self.remark(&kind, &object);
                vec![AgentEvent::Alive { kind }]
            }
        }
    }
}

impl ClaudeDecoder {
    fn retry(&mut self, object: &Object) -> AgentEvent {
        self.seen.notes.retries = self.seen.notes.retries.saturating_add(1);
        self.seen.error = Some(name(object, "error")).filter(|error| !error.is_empty());
        AgentEvent::Retrying {
            attempt: number(object, "attempt").try_into().unwrap_or(u32::MAX),
            delay_ms: Some(number(object, "retry_delay_ms")),
            status: status(object, "error_status"),
        }
    }

    fn assistant(&mut self, object: &Object) -> Vec<AgentEvent> {
        let message = part(object, "message");
        let error = name(object, "error");
        if !error.is_empty() {
            self.seen.error = Some(error);
            return vec![AgentEvent::Alive { kind: "assistant/error".to_owned() }];
        }
        let is_new = message.is_some_and(|message| self.count_input(message));
        let mut events = vec![AgentEvent::Content];
        events.extend(is_new.then_some(AgentEvent::Turn));
        for block in content(message) {
            match text(block, "type") {
                "tool_use" => events.extend(self.tool_started(block)),
                "text" => self.seen.said(text(block, "text")),
                _ => {}
            }
        }
        events
    }

    fn tool_started(&mut self, block: &Object) -> Option<AgentEvent> {
        let (id, name) = (name(block, "id"), name(block, "name"));
        let input = part(block, "input").filter(|_| name == "Read");
        self.seen.tool_started(id, name, input.map(|input| text(input, "file_path")))
    }

    fn user(&mut self, object: &Object) -> Vec<AgentEvent> {
        let message = part(object, "message");
        let finished: Vec<AgentEvent> = content(message)
            .filter(|block| text(block, "type") == "tool_result")
            .map(|block| {
                let succeeded = block.get("is_error").and_then(Value::as_bool) != Some(true);
                self.seen.tool_finished(name(block, "tool_use_id"), succeeded, "a tool call")
            })
            .collect();
        match finished.is_empty() {
            true => vec![AgentEvent::Alive { kind: "user".to_owned() }],
            false => finished,
        }
    }

    /// A part of the model's answer, as the provider streams it. Tool calls count only when they
    /// are complete, in the `assistant` line that follows.
    fn partial(&mut self, object: &Object) -> Vec<AgentEvent> {
        let event = part(object, "event");
        let kind = event.map(|event| text(event, "type")).unwrap_or_default();
        let usage = event.and_then(|event| event.get("usage")).and_then(Value::as_object);
        match kind {
            "message_start" => {
                let message = event.and_then(|event| event.get("message"));
                let message = message.and_then(Value::as_object);
                let is_new = message.is_some_and(|message| self.count_input(message));
                let turn = is_new.then_some(AgentEvent::Turn);
                std::iter::once(AgentEvent::Content).chain(turn).collect()
            }
            "message_delta" => {
                let output = usage.map(|usage| number(usage, "output_tokens")).unwrap_or_default();
                add(&mut self.seen.notes.tokens_seen.output_tokens, output);
                vec![AgentEvent::Content]
            }
            "content_block_start" | "content_block_delta" => vec![AgentEvent::Content],
            "message_stop" => vec![AgentEvent::Answered],
            _ => vec![AgentEvent::Alive { kind: shortened("stream_event/", kind) }],
        }
    }

    /// Counts the input tokens of a message once, since every block repeats them. Returns whether
    /// the message is new.
    fn count_input(&mut self, message: &Object) -> bool {
        let id = name(message, "id");
        if self.current_message.as_deref() == Some(id.as_str()) {
            return false;
        }
        self.current_message = Some(id);
        if let Some(usage) = part(message, "usage") {
            let seen = &mut self.seen.notes.tokens_seen;
            add(&mut seen.input_tokens, number(usage, "input_tokens"));
            add(&mut seen.cache_read_tokens, number(usage, "cache_read_input_tokens"));
            add(&mut seen.cache_creation_tokens, number(usage, "cache_creation_input_tokens"));
        }
        true
    }

    /// Records facts of lines that do not change the state.
    fn remark(&mut self, kind: &str, object: &Object) {
        match kind {
            "system/permission_denied" => {
                self.seen.notes.denied_tools = self.seen.notes.denied_tools.saturating_add(1);
            }
            "system/model_refusal_no_fallback" => self.refused = true,
            "rate_limit_event" => self.rate_limit(object),
            _ if QUIET_TYPES.contains(&kind) => {}
            _ => self.seen.notes.count_unknown(kind),
        }
    }

    fn rate_limit(&mut self, object: &Object) {
        let info = part(object, "rate_limit_info");
        let Some(info) = info.filter(|info| text(info, "status") == "rejected") else { return };
        self.usage_limit = true;
        let seconds = info.get("resetsAt").and_then(Value::as_i64);
        let until = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        // Of several stated resets the earliest counts.
        self.seen.notes.suspended_until =
            [until, self.seen.notes.suspended_until].into_iter().flatten().min();
    }
}

fn result(object: &mut Object) -> AgentResult {
    let usage = part(object, "usage");
    let tokens = |key| usage.map(|usage| number(usage, key)).unwrap_or_default();
    // A negative cost is as good as none: the session is then charged at its worst case.
    let cost = object.get("total_cost_usd").and_then(Value::as_f64).filter(|cost| *cost >= 0.0);
    let usage = Usage {
        input_tokens: tokens("input_tokens"),
        output_tokens: tokens("output_tokens"),
        cache_read_tokens: tokens("cache_read_input_tokens"),
        cache_creation_tokens: tokens("cache_creation_input_tokens"),
        cost: cost.map(Usd::from_dollars),
        estimated: false,
    };
    let text = match object.remove("result") {
        Some(Value::String(text)) => Some(text),
        _ => object.get("errors").and_then(Value::as_array).map(|errors| joined(errors)),
    };
    let structured = object.remove("structured_output").filter(|value| !value.is_null());
    AgentResult {
        ending: ending(object),
        misfit: None,
        structured_output: structured
            .or_else(|| embedded_object(text.as_deref()?))
            .map(Untrusted::new),
        text: text.map(Untrusted::new),
        usage,
    }
}

/// The CLI reports `success` for failures too: an API failure has subtype `success`, a prompt that
/// begins with a slash never reaches the model.
fn ending(object: &Object) -> Ending {
    let reason = text(object, "terminal_reason");
    // If it is absent, the shape is unknown: not a success.
    let is_error = object.get("is_error").and_then(Value::as_bool).unwrap_or(true);
    match (text(object, "subtype"), reason) {
        ("error_max_budget_usd", _) if is_error => Ending::OverBudget,
        ("error_max_turns", _) if is_error => Ending::MaxTurns,
        ("error_max_structured_output_retries", _) if is_error => Ending::SchemaExhausted,
        (_, reason) if reason.starts_with("aborted") => Ending::Interrupted,
        _ if is_error => Ending::ApiError {
            status: status(object, "api_error_status"),
            kind: named(object, "api_error_type"),
        },
        (_, "") => Ending::NotSent,
        (_, "completed") => Ending::Done,
        _ => Ending::Unknown,
    }
}

fn joined(errors: &[Value]) -> String {
    errors.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
}

fn kind_of(object: &Object) -> String {
    match (text(object, "type"), text(object, "subtype")) {
        ("system", subtype) => shortened("system/", subtype),
        (kind, _) => shortened("", kind),
    }
}

fn content(message: Option<&Object>) -> impl Iterator<Item = &Object> {
    let blocks = message.and_then(|message| message.get("content")).and_then(Value::as_array);
    blocks.map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_object)
}
