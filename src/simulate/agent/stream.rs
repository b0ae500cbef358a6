//! The lines of a session, in the format and order of the Claude Code CLI 2.1.325.

use serde_json::{Value, json};

use super::AgentInvocation;

/// The imitated version.
pub(super) const VERSION: &str = "2.1.325";

const BYTES_PER_TOKEN: usize = 4;

pub(super) enum ScriptTurn<'a> {
    /// A file is read; `None` if it does not exist.
    Read { path: &'a str, content: Option<&'a str> },
}

/// The lines of a session so far.
pub(super) struct ScriptLines<'a> {
    invocation: &'a AgentInvocation,
    model: &'static str,
    lines: Vec<Value>,
    conversation_bytes: usize,
    input_tokens: usize,
    output_tokens: usize,
    turns: usize,
}

impl<'a> ScriptLines<'a> {
    /// The first lines.
    pub fn begin(invocation: &'a AgentInvocation, prompt: &str) -> Self {
        let schema_bytes = invocation.schema.as_ref().map_or(0, |schema| schema.to_string().len());
        let mut session = Self {
            invocation,
            model: full_name(&invocation.model),
            lines: Vec::new(),
            conversation_bytes: prompt.len() + schema_bytes + 1_200,
            input_tokens: 0,
            output_tokens: 0,
            turns: 0,
        };
        session.push(json!({ "type": "system", "subtype": "ui_invalidate", "event": "ui.render" }));
        let cwd = std::env::current_dir().unwrap_or_default();
        session.push(json!({
            "type": "system", "subtype": "init", "cwd": cwd, "tools": ["Read", "StructuredOutput"],
            "mcp_servers": [], "model": session.model, "permissionMode": "dontAsk",
            "slash_commands": [], "apiKeySource": "none", "claude_code_version": VERSION,
            "output_style": "default", "agents": [], "skills": [], "plugins": [],
        }));
        session
    }

    fn push(&mut self, mut line: Value) {
        line["session_id"] = json!(self.invocation.session);
        line["uuid"] =
            json!(format!("{:08x}-0000-4000-8000-{:012x}", self.lines.len(), self.turns));
        self.lines.push(line);
    }

    /// One request to the model that ends in a tool call, and the tool's result.
    pub fn turn(&mut self, turn: ScriptTurn<'_>) {
        let ScriptTurn::Read { path, content } = turn;
        let id = self.request("Read", &json!({ "file_path": path }));
        let (text, is_error) = match content {
            Some(text) => (numbered(text), false),
            None => ("File does not exist.".to_owned(), true),
        };
        self.conversation_bytes += text.len();
        let result = json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error });
        self.push(json!({
            "type": "user", "message": { "role": "user", "content": [result] },
            "parent_tool_use_id": null,
        }));
    }

    fn request(&mut self, tool: &str, input: &Value) -> String {
        self.turns += 1;
        let (id, message) =
            (format!("toolu_{:024}", self.turns), format!("msg_{:024}", self.turns));
        let text = input.to_string();
        let (fresh, output) =
            (self.conversation_bytes / BYTES_PER_TOKEN, text.len().div_ceil(BYTES_PER_TOKEN) + 20);
        self.input_tokens += fresh;
        self.output_tokens += output;
        self.conversation_bytes += text.len();
        let usage = json!({ "input_tokens": fresh, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1 });
        let envelope = |content: Value| {
            json!({
                "id": message, "type": "message", "role": "assistant", "model": self.model,
                "content": content, "stop_reason": null, "stop_sequence": null, "usage": usage,
            })
        };
        let (empty, full) = (
            envelope(json!([])),
            envelope(json!([{ "type": "tool_use", "id": id, "name": tool, "input": input }])),
        );
        if self.invocation.partial {
            self.push(json!({ "type": "system", "subtype": "status", "status": "requesting" }));
            self.partial(json!({ "type": "message_start", "message": empty }));
            let block = json!({ "type": "tool_use", "id": id, "name": tool, "input": {} });
            self.partial(
                json!({ "type": "content_block_start", "index": 0, "content_block": block }),
            );
            for piece in pieces(&text) {
                let delta = json!({ "type": "input_json_delta", "partial_json": piece });
                self.partial(json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
            }
        }
        self.push(json!({ "type": "assistant", "message": full, "parent_tool_use_id": null }));
        if self.invocation.partial {
            self.partial(json!({ "type": "content_block_stop", "index": 0 }));
            let delta = json!({ "stop_reason": "tool_use", "stop_sequence": null });
            self.partial(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": output } }));
            self.partial(json!({ "type": "message_stop" }));
        }
        id
    }

    fn partial(&mut self, event: Value) {
        self.push(json!({ "type": "stream_event", "event": event, "parent_tool_use_id": null }));
    }

    /// Adds the structured answer and the end.
    pub fn answer(mut self, answer: Value) -> Vec<Value> {
        let id = self.request("StructuredOutput", &answer);
        let said = "Structured output provided successfully";
        let block = json!({ "tool_use_id": id, "type": "tool_result", "content": said });
        self.push(json!({
            "type": "user", "message": { "role": "user", "content": [block] },
            "parent_tool_use_id": null, "tool_use_result": said,
        }));
        let mut result = self.result("completed");
        result["is_error"] = json!(false);
        result["stop_reason"] = json!("tool_use");
        result["result"] = json!(answer.to_string());
        result["structured_output"] = answer;
        self.push(result);
        self.lines
    }

    /// Adds prose instead of the structured answer, and the end.
    pub fn prose(mut self, text: &str) -> Vec<Value> {
        self.turns += 1;
        let message = json!({
            "id": "msg_prose", "type": "message", "role": "assistant", "model": self.model,
            "content": [{ "type": "text", "text": text }], "stop_reason": "end_turn",
        });
        self.push(json!({ "type": "assistant", "message": message, "parent_tool_use_id": null }));
        let mut result = self.result("completed");
        result["is_error"] = json!(false);
        result["stop_reason"] = json!("end_turn");
        result["result"] = json!(text);
        self.push(result);
        self.lines
    }

    /// Ends without further lines.
    pub fn unfinished(self) -> Vec<Value> {
        self.lines
    }

    /// The provider answers with 500 until the agent gives up.
    pub fn provider_error(mut self) -> Vec<Value> {
        for attempt in 1..=2 {
            self.push(json!({
                "type": "system", "subtype": "api_retry", "attempt": attempt, "max_retries": 2,
                "retry_delay_ms": 1, "error_status": 500, "error": "server_error",
            }));
        }
        self.failed("server_error", 500, "api_error", "API Error: 500 scripted failure")
    }

    /// The provider accepts no more work until its reset.
    pub fn provider_limit(mut self, resets_at: i64) -> Vec<Value> {
        let info = json!({ "status": "rejected", "resetsAt": resets_at, "rateLimitType": "five_hour", "isUsingOverage": false });
        self.push(json!({ "type": "rate_limit_event", "rate_limit_info": info }));
        self.failed("rate_limit", 429, "rate_limit_error", "You've hit your limit")
    }

    fn failed(mut self, error: &str, status: u16, kind: &str, text: &str) -> Vec<Value> {
        self.turns = 1;
        let message = json!({
            "id": "synthetic", "type": "message", "role": "assistant", "model": "<synthetic>",
            "content": [{ "type": "text", "text": text }], "stop_reason": "stop_sequence",
        });
        self.push(json!({
            "type": "assistant", "message": message, "parent_tool_use_id": null, "error": error,
            "is_api_error_message": true, "api_error_status": status, "api_error_type": kind,
        }));
        let mut result = self.result("api_error");
        result["is_error"] = json!(true);
        result["api_error_status"] = json!(status);
        result["api_error_type"] = json!(kind);
        result["result"] = json!(text);
        self.push(result);
        self.lines
    }

    fn result(&self, terminal_reason: &str) -> Value {
        json!({
            "type": "result", "subtype": "success", "terminal_reason": terminal_reason,
            "num_turns": self.turns + 1, "duration_ms": 0, "duration_api_ms": 0,
            "total_cost_usd": self.cost(), "permission_denials": [], "api_error_status": null,
            "usage": {
                "input_tokens": self.input_tokens, "output_tokens": self.output_tokens,
                "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            },
        })
    }

    /// By list price per million tokens.
    #[expect(clippy::cast_precision_loss, reason = "token counts of one session are small")]
    fn cost(&self) -> f64 {
        let (input, output) = match self.model {
            "claude-haiku-5-5" => (0.10, 0.50),
            _ => (2.0, 10.0),
        };
        (self.input_tokens as f64 * input + self.output_tokens as f64 * output) / 1e6
    }
}

fn full_name(model: &str) -> &'static str {
    match model {
        "haiku" => "claude-haiku-5-5",
        "opus" => "claude-opus-5-5",
        _ => "claude-sonnet-5-5",
    }
}

fn numbered(text: &str) -> String {
    let lines = text.lines().enumerate().map(|(index, line)| format!("{}\t{line}", index + 1));
    lines.collect::<Vec<_>>().join("\n")
}

/// About four pieces, cut between characters.
fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(4).max(1);
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}
