//! The adapter for the misbehaving agents of [`crate::simulate::hostile`].

use serde_json::Value;

use crate::model::{FailureKind, Outcome, Untrusted};
use crate::session::agent::{
    Agent, AgentCommand, AgentEvent, AgentResult, Decoder, Dialect, Exit, Task, Transcript,
};

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
                model: Some(text("model")),
                version: Some(text("claude_code_version")),
            },
            "assistant" => AgentEvent::Content,
            "tool_use" => AgentEvent::ToolStarted { id: text("id"), name: text("name") },
            "result" => AgentEvent::Result(Box::new(AgentResult {
                structured_output: fields.get("structured_output").cloned().map(Untrusted::new),
                ..AgentResult::default()
            })),
            kind => AgentEvent::Alive { kind: kind.to_owned() },
        }]
    }

    fn last_error(&self) -> Option<String> {
        None
    }

    fn files_read(&self) -> Vec<String> {
        Vec::new()
    }

    fn reads(&self) -> u32 {
        0
    }
}

impl Dialect for HostileAgent {
    fn complaint(&self, _stderr: &str) -> Option<Outcome> {
        None
    }
}

impl Agent for HostileAgent {
    fn command(&self, _task: &Task) -> AgentCommand {
        AgentCommand::default()
    }

    fn decoder(&self, _task: &Task) -> Box<dyn Decoder> {
        Box::new(HostileDecoder)
    }

    fn dialect(&self) -> &dyn Dialect {
        self
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
