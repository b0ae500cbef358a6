//! Converts a session to the output format of another CLI.
//!
//! The scripted agent produces the lines of Claude Code; for another kind, its turns are converted
//! to that CLI's lines, in the format and order of the recorded sessions.

use std::io;
use std::path::Path;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::Session;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum AgentDialect {
    /// Claude Code
    #[default]
    Claude,
    /// Codex
    Codex,
    /// GitHub Copilot
    Copilot,
}

pub(super) fn convert_to(dialect: AgentDialect, session: Session) -> Session {
    let lines = match dialect {
        AgentDialect::Claude => return session,
        AgentDialect::Codex => codex(&session.lines),
        AgentDialect::Copilot => copilot(&session.lines),
    };
    Session { lines, ..session }
}

/// What a line of the scripted session means.
enum LineMeaning<'a> {
    Said(&'a str),
    Read { id: &'a str, path: &'a str },
    Returned { id: &'a str, failed: bool },
    Ended(&'a Value),
    Other,
}

fn meaning(line: &Value) -> LineMeaning<'_> {
    let block = &line["message"]["content"][0];
    let text = |value: &'static str| block[value].as_str().unwrap_or_default();
    match (line["type"].as_str(), block["type"].as_str(), block["name"].as_str()) {
        (Some("result"), ..) => LineMeaning::Ended(line),
        (Some("assistant"), Some("tool_use"), Some("Read")) => {
            let path = block["input"]["file_path"].as_str().unwrap_or_default();
            LineMeaning::Read { id: text("id"), path }
        }
        (Some("assistant"), Some("text"), _) if line["error"].is_null() => {
            LineMeaning::Said(text("text"))
        }
        (Some("user"), Some("tool_result"), _) => {
            LineMeaning::Returned { id: text("tool_use_id"), failed: block["is_error"] == true }
        }
        _ => LineMeaning::Other,
    }
}

fn answer_of(result: &Value) -> String {
    result["result"].as_str().unwrap_or_default().to_owned()
}

fn codex(lines: &[Value]) -> Vec<Value> {
    let mut converted = vec![
        json!({ "type": "thread.started", "thread_id": "0199a000-0000-7000-8000-000000000001" }),
        json!({ "type": "turn.started" }),
    ];
    let item = |kind: &str, item: Value| json!({ "type": kind, "item": item });
    let command = |id: &str, path: &str, status: &str, code: Value| {
        json!({
            "id": id, "type": "command_execution", "command": format!("/bin/bash -c 'cat {path}'"),
            "aggregated_output": "", "exit_code": code, "status": status,
        })
    };
    let mut reading = String::new();
    for line in lines {
        match meaning(line) {
            LineMeaning::Said(text) => {
                let said = json!({ "id": "item_said", "type": "agent_message", "text": text });
                converted.push(item("item.completed", said));
            }
            LineMeaning::Read { id, path } => {
                path.clone_into(&mut reading);
                converted.push(item("item.started", command(id, path, "in_progress", Value::Null)));
            }
            LineMeaning::Returned { id, failed } if !reading.is_empty() => {
                let (status, code) = if failed { ("failed", 1) } else { ("completed", 0) };
                converted.push(item("item.completed", command(id, &reading, status, json!(code))));
                reading.clear();
            }
            LineMeaning::Ended(result) if result["is_error"] == true => {
                let message = match result["api_error_status"].as_u64() {
                    Some(429) => "exceeded retry limit, last status: 429 Too Many Requests",
                    _ => {
                        "We\u{2019}re currently experiencing high demand, which may cause temporary errors."
                    }
                };
                converted.push(json!({ "type": "error", "message": message }));
                converted.push(json!({ "type": "turn.failed", "error": { "message": message } }));
            }
            LineMeaning::Ended(result) => {
                let text = answer_of(result);
                let said = json!({ "id": "item_last", "type": "agent_message", "text": text });
                converted.push(item("item.completed", said));
                let usage = &result["usage"];
                converted.push(json!({ "type": "turn.completed", "usage": {
                    "input_tokens": usage["input_tokens"], "cached_input_tokens": 0,
                    "cache_write_input_tokens": 0, "output_tokens": usage["output_tokens"],
                    "reasoning_output_tokens": 0,
                } }));
            }
            LineMeaning::Returned { .. } | LineMeaning::Other => {}
        }
    }
    converted
}

fn copilot(lines: &[Value]) -> Vec<Value> {
    let line = |kind: &str, data: Value| json!({ "type": kind, "data": data });
    let mut out = vec![
        line("session.skills_loaded", json!({})),
        line("session.tools_updated", json!({ "model": "simulated" })),
    ];
    let mut turn = 0;
    let mut asks = |out: &mut Vec<Value>| {
        let id = json!({ "turnId": turn.to_string() });
        turn += 1;
        out.push(line("assistant.turn_start", id.clone()));
        out.push(line("model.call_start", id));
    };
    let message = |content: &str, requests: Value| {
        line("assistant.message", json!({ "content": content, "toolRequests": requests }))
    };
    let mut open = false;
    for line_of_script in lines {
        match meaning(line_of_script) {
            LineMeaning::Read { id, path } => {
                asks(&mut out);
                out.push(line("model.call_finished", json!({ "outcome": "success" })));
                let request = json!([{ "toolCallId": id, "name": "view" }]);
                out.push(message("", request));
                let call =
                    json!({ "toolCallId": id, "toolName": "view", "arguments": { "path": path } });
                out.push(line("tool.execution_start", call));
                open = true;
            }
            LineMeaning::Returned { id, failed } if open => {
                let data = json!({ "toolCallId": id, "success": !failed });
                out.push(line("tool.execution_complete", data));
                out.push(line("assistant.turn_end", json!({})));
                open = false;
            }
            LineMeaning::Ended(result) => {
                asks(&mut out);
                let failed = result["is_error"] == true;
                if failed {
                    let status = &result["api_error_status"];
                    out.push(line(
                        "model.call_failure",
                        json!({ "statusCode": status, "retryAttempt": 0 }),
                    ));
                    let kind = if *status == 429 { "rate_limit" } else { "query" };
                    let data = json!({ "errorType": kind, "message": result["result"], "statusCode": status });
                    out.push(line("session.error", data));
                } else {
                    let text = answer_of(result);
                    out.push(line("assistant.message_delta", json!({ "deltaContent": text })));
                    out.push(line("model.call_finished", json!({ "outcome": "success" })));
                    out.push(message(&text, json!([])));
                    out.push(line("assistant.turn_end", json!({})));
                }
                out.push(line("assistant.idle", json!({})));
                out.push(json!({ "type": "result", "exitCode": i32::from(failed), "usage": {} }));
            }
            LineMeaning::Said(_) | LineMeaning::Returned { .. } | LineMeaning::Other => {}
        }
    }
    out
}

/// Writes the usage file that Copilot leaves, if the session reported its tokens.
pub(super) fn leave_usage(file: &Path, lines: &[Value]) -> io::Result<()> {
    let Some(LineMeaning::Ended(result)) = lines.last().map(meaning) else { return Ok(()) };
    let usage = json!({ "modelMetrics": { "simulated": { "usage": {
        "inputTokens": result["usage"]["input_tokens"],
        "outputTokens": result["usage"]["output_tokens"],
        "cacheReadTokens": 0, "cacheWriteTokens": 0,
    } } } });
    std::fs::write(file, usage.to_string())
}
