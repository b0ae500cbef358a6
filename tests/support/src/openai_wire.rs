//! The two protocols of OpenAI for the loopback API: Responses and chat completions, as streams.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::messages_api::{Fault, Reply, Request};

impl Connection<'_> {
    /// Answers a call of `/responses` or `/chat/completions`.
    pub fn answer_openai(&mut self, request: &Request, reply: &Reply) -> io::Result<()> {
        match reply {
            Reply::Fault(fault) => self.openai_fault(request, *fault),
            reply => {
                self.headers(200, "text/event-stream", &[], None)?;
                for frame in frames(request, reply) {
                    self.frame(&frame)?;
                }
                self.chunk(b"")
            }
        }
    }

    fn frame(&mut self, frame: &Value) -> io::Result<()> {
        match frame {
            // The end marker of a chat, which is not JSON.
            Value::String(text) => self.chunk(format!("data: {text}\n\n").as_bytes()),
            frame if frame["type"].is_string() => self.event(frame),
            frame => self.chunk(format!("data: {frame}\n\n").as_bytes()),
        }
    }

    fn openai_fault(&mut self, request: &Request, fault: Fault) -> io::Result<()> {
        match fault {
            Fault::Hang => return self.hang(false),
            Fault::DropEarly => return Ok(()),
            Fault::Html => {
                let page = b"<html><body>Please log in to the network</body></html>";
                self.headers(200, "text/html", &[], Some(page.len()))?;
                return self.stream.write_all(page);
            }
            _ => self.headers(200, "text/event-stream", &[], None)?,
        }
        if fault == Fault::HangAfterHeaders {
            return self.hang(false);
        }
        if fault == Fault::Malformed {
            self.chunk(b"data: {not json\n\n")?;
            return self.chunk(b"");
        }
        if fault == Fault::ErrorEvent {
            let error = json!({ "code": "server_error", "message": "scripted failure" });
            let response = json!({ "id": "resp_1", "status": "failed", "error": error });
            self.frame(&match is_chat(request) {
                true => json!({ "error": error }),
                false => json!({ "type": "response.failed", "response": response }),
            })?;
            return self.chunk(b"");
        }
        for frame in frames(request, &Reply::Text("partial".into())).iter().take(4) {
            self.frame(frame)?;
        }
        match fault {
            Fault::SilentMidStream => self.hang(false),
            Fault::PingsMidStream => self.hang(true),
            Fault::Truncated => self.chunk(b""),
            // The connection is closed in the middle of a chunked body.
            _ => Ok(()),
        }
    }
}

fn is_chat(request: &Request) -> bool {
    request.path.ends_with("/chat/completions")
}

/// Everything that is sent for a reply, in order.
fn frames(request: &Request, reply: &Reply) -> Vec<Value> {
    let (content, stop) = reply.content();
    let bill = match reply {
        Reply::Billed(_, input, output) => (*input, *output),
        _ => (request.bytes as u64 / 4, json!(content).to_string().len() as u64 / 4 + 1),
    };
    match is_chat(request) {
        true => chat(request, &content, stop, bill),
        false => responses(request, &content, stop, bill),
    }
}

fn responses(
    request: &Request,
    content: &[Value],
    stop: &str,
    (input, output): (u64, u64),
) -> Vec<Value> {
    let number = request.number;
    let item = |(index, block): (usize, &Value)| match block["text"].as_str() {
        Some(text) => {
            let part = match stop {
                "refusal" => json!({ "type": "refusal", "refusal": text }),
                _ => json!({ "type": "output_text", "text": text, "annotations": [] }),
            };
            json!({
                "type": "message", "id": format!("msg_{number}_{index}"), "role": "assistant",
                "status": "completed", "content": [part],
            })
        }
        None => json!({
            "type": "function_call", "id": format!("fc_{number}_{index}"),
            "call_id": format!("call_{number}_{index}"), "name": block["name"],
            "arguments": block["input"].to_string(), "status": "completed",
        }),
    };
    let items: Vec<Value> = content.iter().enumerate().map(item).collect();
    let base = json!({
        "id": format!("resp_{number}"), "object": "response", "created_at": 1_800_000_000,
        "model": request.model(), "status": "in_progress", "output": [],
    });
    let mut last = base.clone();
    last["status"] = json!("completed");
    last["output"] = json!(items);
    last["usage"] = json!({
        "input_tokens": input, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": output, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": input + output,
    });
    let mut kind = "response.completed";
    if matches!(stop, "max_tokens" | "content_filter") {
        let reason = if stop == "max_tokens" { "max_output_tokens" } else { stop };
        last["status"] = json!("incomplete");
        last["incomplete_details"] = json!({ "reason": reason });
        kind = "response.incomplete";
    }
    let mut frames = vec![
        json!({ "type": "response.created", "response": base }),
        json!({ "type": "response.in_progress", "response": base }),
    ];
    for (index, item) in items.iter().enumerate() {
        let at = |kind: &str| json!({ "type": kind, "output_index": index, "item_id": item["id"], "content_index": 0 });
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        if item["type"] == "message" {
            begun["content"] = json!([]);
        }
        frames.push(
            json!({ "type": "response.output_item.added", "output_index": index, "item": begun }),
        );
        let with = |kind: &str, key: &str, value: &Value| {
            let mut frame = at(kind);
            frame[key] = value.clone();
            frame
        };
        let part = &item["content"][0];
        if part["type"] == "refusal" {
            frames.push(with("response.refusal.delta", "delta", &part["refusal"]));
            frames.push(with("response.refusal.done", "refusal", &part["refusal"]));
        } else if item["type"] == "message" {
            frames.push(with("response.output_text.delta", "delta", &part["text"]));
            frames.push(with("response.output_text.done", "text", &part["text"]));
        } else {
            let arguments = &item["arguments"];
            frames.push(with("response.function_call_arguments.delta", "delta", arguments));
            frames.push(with("response.function_call_arguments.done", "arguments", arguments));
        }
        frames.push(
            json!({ "type": "response.output_item.done", "output_index": index, "item": item }),
        );
    }
    frames.push(json!({ "type": kind, "response": last }));
    for (number, frame) in frames.iter_mut().enumerate() {
        frame["sequence_number"] = json!(number);
    }
    frames
}

fn chat(
    request: &Request,
    content: &[Value],
    stop: &str,
    (input, output): (u64, u64),
) -> Vec<Value> {
    let number = request.number;
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl-{number}"), "object": "chat.completion.chunk",
            "created": 1_800_000_000, "model": request.model(), "choices": choices,
        })
    };
    let delta = |delta: Value, finish: Value| {
        chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }]))
    };
    let mut frames = vec![delta(json!({ "role": "assistant", "content": "" }), Value::Null)];
    let mut calls = 0;
    for block in content {
        match block["text"].as_str() {
            Some(text) if stop == "refusal" => {
                frames.push(delta(json!({ "refusal": text }), Value::Null));
            }
            Some(text) => {
                let characters: Vec<char> = text.chars().collect();
                for piece in characters.chunks(characters.len().div_ceil(4).max(1)) {
                    let piece: String = piece.iter().collect();
                    frames.push(delta(json!({ "content": piece }), Value::Null));
                }
            }
            None => {
                let function =
                    json!({ "name": block["name"], "arguments": block["input"].to_string() });
                let id = format!("call_{number}_{calls}");
                let call =
                    json!({ "index": calls, "id": id, "type": "function", "function": function });
                frames.push(delta(json!({ "tool_calls": [call] }), Value::Null));
                calls += 1;
            }
        }
    }
    let finish = match stop {
        "max_tokens" => "length",
        "content_filter" => "content_filter",
        _ if calls > 0 => "tool_calls",
        _ => "stop",
    };
    frames.push(delta(json!({}), json!(finish)));
    let mut usage = chunk(json!([]));
    usage["usage"] = json!({
        "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
        "prompt_tokens_details": { "cached_tokens": 0 },
    });
    frames.push(usage);
    frames.push(json!("[DONE]"));
    frames
}
