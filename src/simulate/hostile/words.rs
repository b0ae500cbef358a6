//! What misbehaving agents write, in the form of the real agent's stream.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

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
    result_with(&serde_json::json!({ "done": true }));
}

/// The final line, with this output.
pub fn result_with(output: &serde_json::Value) {
    say(&serde_json::json!({ "type": "result", "structured_output": output }).to_string());
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
