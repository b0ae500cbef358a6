//! Decodes the CLI's `--output-format json`, line by line.
//!
//! Every chunk of the model's answer is a line. The answer is the last `assistant.message` without
//! tool requests. The `result` that follows has only an exit code, which is not reliable: it is 0
//! for an interrupted session. Everything kept is bounded.

use serde_json::Value;

use super::super::answer::{AnswerSpec, store_answer};
use super::super::fields::{Object, add, name, named, number, part, shortened, status, text};
use super::super::outcome::INTERRUPTED;
use super::super::seen::{Lines, Seen};
use super::super::sparse::KeptKeys;
use super::super::{AgentEvent, AgentResult, Ending, Task};
use crate::model::{FailureKind, Untrusted, Usage};

const KEPT: KeptKeys = KeptKeys {
    keys: &[
        "arguments",
        "code",
        "content",
        "data",
        "error",
        "errorType",
        "exitCode",
        "message",
        "model",
        "outcome",
        "path",
        "reason",
        "retryAttempt",
        "statusCode",
        "success",
        "toolCallId",
        "toolName",
        "toolRequests",
        "type",
    ],
    answer: "",
    long: ("content", 2 << 20),
};

/// Known types that show only that the agent is alive.
const QUIET_TYPES: [&str; 20] = [
    "session.skills_loaded",
    "session.info",
    "session.warning",
    "session.mcp_servers_loaded",
    "session.mcp_server_status_changed",
    "session.custom_agents_updated",
    "session.background_tasks_changed",
    "user.message",
    "assistant.turn_end",
    "assistant.idle",
    "assistant.turn_retry",
    "model.call_final_result",
    "tool.shell_output",
    "tool.execution_partial_result",
    "session.start",
    "session.resume",
    "session.idle",
    "session.usage_info",
    "assistant.usage",
    "assistant.intent",
];

/// The CLI's replacement text when the provider filtered the answer.
const FILTERED: &str = "The model returned no content because the response was blocked";

#[derive(Debug)]
pub struct CopilotDecoder {
    seen: Seen,
    wanted: AnswerSpec,
    answer: Option<String>,
    /// `session.error`: name, status, message.
    failure: Option<(String, Option<u16>, String)>,
    interrupted: bool,
}

impl CopilotDecoder {
    pub fn new(task: &Task) -> Self {
        let (seen, wanted) = (Seen::of(&task.cwd), AnswerSpec::of(task));
        Self { seen, wanted, answer: None, failure: None, interrupted: false }
    }
}

impl Lines for CopilotDecoder {
    const KEPT: KeptKeys = KEPT;

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn seen_mut(&mut self) -> &mut Seen {
        &mut self.seen
    }

    fn error_named(&self) -> Option<String> {
        match self.interrupted {
            true => Some(INTERRUPTED.to_owned()),
            false => self.seen.error.clone(),
        }
    }

    fn object(&mut self, object: Object) -> Vec<AgentEvent> {
        let object = &object;
        let nothing = Object::new();
        let data = part(object, "data").unwrap_or(&nothing);
        match text(object, "type") {
            "session.tools_updated" => {
                vec![AgentEvent::Initialised { model: named(data, "model"), version: None }]
            }
            "assistant.turn_start" => vec![AgentEvent::Turn],
            "model.call_start" => vec![AgentEvent::Requesting],
            "assistant.message_start" => vec![AgentEvent::Content],
            "assistant.reasoning_delta"
            | "assistant.reasoning"
            | "assistant.message_delta"
            | "assistant.tool_call_delta" => {
                // At least one token; the usage file has the number.
                add(&mut self.seen.notes.tokens_seen.output_tokens, 1);
                vec![AgentEvent::Content]
            }
            // Also ends a failed call; the wait before the next one counts as the provider's.
            "model.call_finished" if text(data, "outcome") == "error" => {
                vec![AgentEvent::Alive { kind: "model.call_finished".to_owned() }]
            }
            "model.call_finished" => vec![AgentEvent::Answered],
            "model.call_failure" => vec![self.failure(data)],
            "assistant.message" => self.message(data),
            "tool.execution_start" => self.tool_started(data).into_iter().collect(),
            "tool.execution_complete" => vec![self.tool_finished(data)],
            "abort" | "agent.interrupted" => {
                self.interrupted = true;
                vec![AgentEvent::Alive { kind: INTERRUPTED.to_owned() }]
            }
            "session.error" => {
                let kind = name(data, "errorType");
                self.seen.error = Some(kind.clone());
                self.failure =
                    Some((kind, status(data, "statusCode"), text(data, "message").into()));
                vec![AgentEvent::Alive { kind: "session.error".to_owned() }]
            }
            "result" => vec![self.result(object)],
            kind => {
                let kind = shortened("", kind);
                if !QUIET_TYPES.contains(&kind.as_str()) {
                    self.seen.notes.count_unknown(&kind);
                }
                vec![AgentEvent::Alive { kind }]
            }
        }
    }
}

impl CopilotDecoder {
    /// A call failed. Whether a retry follows is known only when it starts.
    fn failure(&mut self, data: &Object) -> AgentEvent {
        self.seen.notes.retries = self.seen.notes.retries.saturating_add(1);
        let status = status(data, "statusCode");
        self.seen.error = Some(
            status.map_or_else(|| "transport".to_owned(), |status| format!("status {status}")),
        );
        let attempt = u32::try_from(number(data, "retryAttempt")).unwrap_or(u32::MAX);
        AgentEvent::Retrying { attempt: attempt.saturating_add(1), delay_ms: None, status }
    }

    fn message(&mut self, data: &Object) -> Vec<AgentEvent> {
        let said = text(data, "content");
        if !said.is_empty() {
            self.seen.said(said);
        }
        let asks = data.get("toolRequests").and_then(Value::as_array);
        // Text next to a tool request is not the answer.
        self.answer = asks.is_none_or(Vec::is_empty).then(|| said.to_owned());
        vec![AgentEvent::Content]
    }

    fn tool_started(&mut self, data: &Object) -> Option<AgentEvent> {
        let (id, name) = (name(data, "toolCallId"), name(data, "toolName"));
        let arguments = part(data, "arguments").filter(|_| name == "view");
        self.seen.tool_started(id, name, arguments.map(|arguments| text(arguments, "path")))
    }

    fn tool_finished(&mut self, data: &Object) -> AgentEvent {
        let succeeded = data.get("success").and_then(Value::as_bool) == Some(true);
        let error = part(data, "error").filter(|_| !succeeded);
        let denied = error.is_some_and(|error| text(error, "code") == "denied");
        let denied_tools = &mut self.seen.notes.denied_tools;
        *denied_tools = denied_tools.saturating_add(u32::from(denied));
        self.seen.tool_finished(name(data, "toolCallId"), succeeded, "a tool call")
    }

    fn result(&mut self, object: &Object) -> AgentEvent {
        let code = object.get("exitCode").and_then(Value::as_i64);
        let mut result = AgentResult { ending: Ending::Unknown, ..AgentResult::default() };
        let said = self.answer.take().unwrap_or_default();
        if self.interrupted {
            result.ending = Ending::Interrupted;
        } else if let Some((kind, status, words)) = self.failure.take() {
            result.ending = Ending::ApiError { status, kind: Some(kind) };
            result.text = Some(Untrusted::new(words));
        } else if said.starts_with(FILTERED) {
            // Not an answer of the model; asking again would not help.
            result.ending = Ending::Done;
        } else if code == Some(0) {
            result.ending = Ending::Done;
            store_answer(&mut result, &self.wanted, &said, FailureKind::SchemaIgnored);
        }
        AgentEvent::Result(Box::new(result))
    }
}

/// Tokens in the CLI's usage file, over all models; `None` if it has none.
pub fn usage(file: &str) -> Option<Usage> {
    let file: Value = serde_json::from_str(file).ok()?;
    let mut sum = Usage::default();
    for model in file.get("modelMetrics")?.as_object()?.values() {
        let usage = model.get("usage").and_then(Value::as_object)?;
        let (cached, written) =
            (number(usage, "cacheReadTokens"), number(usage, "cacheWriteTokens"));
        // `inputTokens` includes cached tokens.
        let fresh = number(usage, "inputTokens").saturating_sub(cached.saturating_add(written));
        add(&mut sum.input_tokens, fresh);
        add(&mut sum.output_tokens, number(usage, "outputTokens"));
        add(&mut sum.cache_read_tokens, cached);
        add(&mut sum.cache_creation_tokens, written);
    }
    (sum != Usage::default()).then_some(sum)
}
