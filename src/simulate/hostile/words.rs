//! What misbehaving agents say, in the form of the real agent's stream, and how it is understood.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use crate::model::{FailureKind, Outcome};
use crate::session::agent::{Agent, AgentEvent, AgentResult, Decoder, Exit, Task, Transcript};

/// Writes a line; an output that is gone is no reason to stop.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}

/// Writes bytes and leaves.
pub fn say_raw(bytes: &[u8]) -> ExitCode {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).ok();
    ExitCode::SUCCESS
}

/// The first line.
pub fn hello() {
    say(r#"{"type":"system","subtype":"init","model":"hostile","claude_code_version":"0"}"#);
}

/// A word of content.
pub fn content() {
    say(r#"{"type":"assistant"}"#);
}

/// A tool call.
pub fn tool_started() {
    say(r#"{"type":"tool_use","id":"1","name":"Bash"}"#);
}

/// The final line.
pub fn result() {
    content();
    say(r#"{"type":"result","structured_output":{"done":true}}"#);
}

/// Pings and nothing else.
pub fn ping_for_ever(every: Duration) -> ! {
    loop {
        say(r#"{"type":"ping"}"#);
        std::thread::sleep(every);
    }
}

/// A tool that only says that it runs.
pub fn tool_progress_for_ever(every: Duration) -> ! {
    loop {
        say(r#"{"type":"tool_progress"}"#);
        std::thread::sleep(every);
    }
}

/// Lines as fast as the pipe takes them.
pub fn flood() -> ExitCode {
    hello();
    let lines = "{\"type\":\"ping\"}\n".repeat(4_096);
    let mut out = std::io::stdout().lock();
    while out.write_all(lines.as_bytes()).is_ok() {}
    ExitCode::SUCCESS
}

/// A line of a hundred million bytes.
pub fn endless_line() -> ExitCode {
    let mut out = std::io::stdout().lock();
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        if out.write_all(&chunk).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// Closes standard output and standard error.
pub fn close_output() {
    content();
    for descriptor in [1, 2] {
        nix::unistd::close(descriptor).ok();
    }
}

/// Understands these words: the agent that the self-test runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostileAgent;

struct HostileDecoder;

impl Decoder for HostileDecoder {
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        let Ok(Value::Object(fields)) = serde_json::from_slice::<Value>(line) else {
            return vec![AgentEvent::NotJson];
        };
        let text =
            |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        vec![match text("type").as_str() {
            "system" => AgentEvent::Initialised {
                model: text("model"),
                version: text("claude_code_version"),
            },
            "assistant" => AgentEvent::Content,
            "tool_use" => AgentEvent::ToolStarted { id: text("id"), name: text("name") },
            "result" => AgentEvent::Result(Box::new(AgentResult {
                structured_output: fields.get("structured_output").cloned(),
                ..AgentResult::default()
            })),
            kind => AgentEvent::Alive { kind: kind.to_owned() },
        }]
    }

    fn last_error(&self) -> Option<String> {
        None
    }

    fn reads(&self) -> u32 {
        0
    }
}

impl Agent for HostileAgent {
    fn args(&self, _task: &Task) -> Vec<OsString> {
        Vec::new()
    }

    fn env(&self, _task: &Task) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(HostileDecoder)
    }

    fn classify(&self, transcript: &Transcript) -> Outcome {
        match (transcript.exit, &transcript.result) {
            (Exit::Signal(signal), _) => Outcome::Signal { signal },
            (Exit::Code(0), Some(_)) => Outcome::Completed,
            (Exit::Code(0), None) if transcript.json_lines == 0 => {
                Outcome::BadOutput { why: FailureKind::NoJson }
            }
            (Exit::Code(0), None) => Outcome::BadOutput { why: FailureKind::NoResult },
            (Exit::Code(code), _) => Outcome::ExitCode { code },
        }
    }
}
