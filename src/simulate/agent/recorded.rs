//! Replays a recorded session: its output, and from the notes next to the recording its standard
//! error, its usage file and how it ended.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use nix::sys::signal::{Signal, raise};
use serde_json::Value;

/// Replays it line by line and ends as it did; `exit` overrides its exit code.
pub(super) fn play(file: &Path, exit: Option<u8>, usage_file: Option<&Path>) -> ExitCode {
    let notes = notes(file);
    match replay(file, &notes, usage_file) {
        Err(error) => {
            // Standard error may be closed; the exit code says the same.
            writeln!(io::stderr(), "cannot play {}: {error}", file.display()).ok();
            ExitCode::FAILURE
        }
        Ok(()) => end(&notes, exit),
    }
}

/// The notes of a recording; null if there are none.
fn notes(file: &Path) -> Value {
    let text = std::fs::read_to_string(file.with_extension("meta.json"));
    text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn replay(file: &Path, notes: &Value, usage_file: Option<&Path>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&std::fs::read(file)?)?;
    out.flush()?;
    for line in notes["stderr"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        writeln!(io::stderr(), "{line}")?;
    }
    match (usage_file, &notes["usage"]) {
        (None, _) | (_, Value::Null) => Ok(()),
        (Some(place), usage) => std::fs::write(place, usage.to_string()),
    }
}

fn end(notes: &Value, exit: Option<u8>) -> ExitCode {
    let number = |key: &str| notes[key].as_i64().and_then(|number| i32::try_from(number).ok());
    if let Some(exit) = exit {
        return exit.into();
    }
    if let Some(signal) = number("exit_signal").and_then(|number| Signal::try_from(number).ok()) {
        // Returns only if the signal is blocked.
        raise(signal).ok();
    }
    if !notes["cut_after_seconds"].is_null() {
        super::wait_to_be_stopped();
    }
    u8::try_from(number("exit_code").unwrap_or(0)).unwrap_or(1).into()
}
