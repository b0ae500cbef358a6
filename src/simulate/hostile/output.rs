//! The output of misbehaving agents, in the format of the real agent's stream.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Writes a line; a closed output does not stop the agent.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}

/// Writes bytes and exits.
pub fn say_raw(bytes: &[u8]) -> ExitCode {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).ok();
    ExitCode::SUCCESS
}

pub fn hello() {
    say(r#"{"type":"system","subtype":"init","model":"hostile","claude_code_version":"0"}"#);
}

pub fn content() {
    say(r#"{"type":"assistant"}"#);
}

pub fn tool_started() {
    say(r#"{"type":"tool_use","id":"1","name":"Bash"}"#);
}

pub fn result() {
    content();
    result_with(&serde_json::json!({ "done": true }));
}

/// The final line, with this output.
pub fn result_with(output: &serde_json::Value) {
    say(&serde_json::json!({ "type": "result", "structured_output": output }).to_string());
}

pub fn ping_for_ever(every: Duration) -> ! {
    loop {
        say(r#"{"type":"ping"}"#);
        std::thread::sleep(every);
    }
}

/// Reports a running tool forever.
pub fn tool_progress_for_ever(every: Duration) -> ! {
    loop {
        say(r#"{"type":"tool_progress"}"#);
        std::thread::sleep(every);
    }
}

/// Writes lines as fast as the pipe accepts them.
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
