//! A silent run is visibly alive: in `events.ndjson` and in `live.json`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

const INTERVAL_MS: u64 = 200;
/// An agent that writes its first line, is silent for fifteen intervals, and then produces output.
const AGENT: &str = r#""$0" simulate agent --pace 4000 "$@" | {
    for _ in 1 2; do IFS= read -r line; printf '%s\n' "$line"; done
    sleep 3
    cat
}"#;

fn run_folder(state: &Path) -> Option<PathBuf> {
    std::fs::read_dir(state.join("runs")).ok()?.flatten().next().map(|entry| entry.path())
}

fn read_live(state: &Path) -> Option<Value> {
    let text = std::fs::read(state.join("live.json")).ok()?;
    // Replaced atomically: it is always complete.
    Some(serde_json::from_slice(&text).unwrap())
}

#[test]
fn quiet_and_busy_stages_beat_at_every_interval() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let program = env!("CARGO_BIN_EXE_heartbeat");
    let words = ["/bin/sh", "-c", AGENT, program].map(|word| toml::Value::String(word.into()));
    let agent = format!("agent.command={}", toml::Value::Array(words.into()));
    let liveness = format!("timeouts.liveness=\"{INTERVAL_MS}ms\"");
    let mut command = assert_cmd::Command::new(program);
    command.args(["--once", "--demo", "--state-dir"]).arg(&state);
    command.args(["--set", &agent, "--set", &liveness]);
    command.args(["--set", "limits.max_deep_per_run=2", "--set", "http.listen=\"\""]);
    let running = std::thread::spawn(move || command.output().unwrap());
    let mut beats = Vec::new();
    while !running.is_finished() {
        if let Some(live) = read_live(&state) {
            let beat = live["beat"].as_u64().unwrap();
            if beats.last().is_none_or(|(last, _)| *last != beat) {
                beats.push((beat, live["step"].as_str().unwrap().to_owned()));
            }
        }
        // Between two samples; the loop waits for the end of the run.
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = running.join().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let last = read_live(&state).unwrap();
    assert_eq!(last["outcome"], "completed");
    assert_eq!(last["step"], "ended");
    assert_eq!(last["sessions"], serde_json::json!({}));
    for step in ["triaging", "analysing"] {
        let seen = beats.iter().filter(|(_, at)| at == step).count();
        assert!(seen >= 5, "{step} was seen {seen} times: {beats:?}");
    }
    signs_of_life(&run_folder(&state).unwrap().join("events.ndjson"));
}

/// Every session has a liveness event in every interval, also in those without output, and output
/// is reported separately.
fn signs_of_life(file: &Path) {
    let events: Vec<Value> = std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |name: &str, session: &Value| -> Vec<&Value> {
        events.iter().filter(|e| e["event"] == name && e["session"] == *session).collect()
    };
    let ended: Vec<&Value> = events.iter().filter(|e| e["event"] == "session_ended").collect();
    assert!(ended.len() >= 3, "triage and two analyses");
    for end in ended {
        let session = &end["session"];
        let beats = of("session_liveness", session);
        let numbers: Vec<u64> = beats.iter().map(|e| e["beat"].as_u64().unwrap()).collect();
        let without_gap: Vec<u64> = (1..=numbers.len() as u64).collect();
        assert_eq!(numbers, without_gap, "beats are counted without a gap");
        // Half of the maximum: the machine that runs the tests may be slow, never silent.
        let intervals = end["duration_ms"].as_u64().unwrap() / INTERVAL_MS;
        assert!(numbers.len() as u64 >= intervals / 2, "{} of {intervals}", numbers.len());
        let silent = |e: &&&Value| e["since_output_ms"].as_u64() > Some(2 * INTERVAL_MS);
        let quiet: Vec<&&Value> = beats.iter().filter(silent).collect();
        assert!(quiet.len() >= 5, "{} beats in fifteen quiet intervals", quiet.len());
        let audible = beats.last().unwrap()["stdout_bytes"].as_u64();
        assert!(audible > quiet[0]["stdout_bytes"].as_u64(), "and then it is heard again");
        assert!(!of("session_progressed", session).is_empty(), "progress is told on its own");
    }
}
