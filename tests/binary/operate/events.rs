//! The files for external watchers: liveness events however quiet a session is, output progress as
//! separate events, and nothing missing after a crash.

use std::collections::{BTreeMap, BTreeSet};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::world::{World, finish, lines, signal};

/// Silence in the middle of each session; liveness events come every 200 ms.
const QUIET_MS: u64 = 4000;
const EVERY_MS: u64 = 200;
const QUIET: &str = r#"
"$AGENT" simulate agent "$@" | { IFS= read -r a; printf '%s\n' "$a"; IFS= read -r b; printf '%s\n' "$b"
sleep 4; cat; }
"#;

fn is(event: &Value, name: &str) -> bool {
    event["event"] == name
}

#[tokio::test]
async fn a_quiet_stage_gives_signs_of_life_at_every_interval() {
    let world = World::new().await;
    world.agent(QUIET);
    let every = format!("timeouts.liveness={EVERY_MS}ms");
    let limits = ["--set", "limits.max_deep_per_run=1", "--set", &every];
    let run = world.start(&[&["--once", "--quiet"], &limits[..]].concat());
    let watched = watch(&world, run).await;
    let events = world.events();
    let sessions: BTreeSet<&str> = events
        .iter()
        .filter(|event| is(event, "session_registered"))
        .map(|event| event["session"].as_str().unwrap())
        .collect();
    assert_eq!(sessions.len(), 2, "triage and one analysis");
    for session in &sessions {
        let own: Vec<&Value> =
            events.iter().filter(|event| event["session"] == **session).collect();
        assert_alive_throughout(&own);
    }
    assert!(watched.during_silence >= 5, "live.json changed {} times", watched.during_silence);
    let last: Value =
        serde_json::from_slice(&std::fs::read(world.path("state/live.json")).unwrap()).unwrap();
    assert_eq!(last["step"], "ended", "{last:#}");
    assert_eq!(last["sessions"], serde_json::json!({}));
}

/// The liveness events of one session: all of them, through the silence, separate from its output.
fn assert_alive_throughout(own: &[&Value]) {
    let beats: Vec<&&Value> = own.iter().filter(|event| is(event, "session_liveness")).collect();
    let numbers: Vec<u64> = beats.iter().map(|beat| beat["beat"].as_u64().unwrap()).collect();
    let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, expected, "a sign of life is missing");
    // Without output the counters do not change and the silence grows with each event.
    let is_silent = |beat: &&&&Value| beat["since_output_ms"].as_u64().unwrap() >= EVERY_MS;
    let bytes = |beat: &Value| beat["stdout_bytes"].as_u64().unwrap();
    // On a busy machine the agent may be slow to begin: the longest silence is the one it was told.
    let mut silences: BTreeMap<u64, Vec<&&&Value>> = BTreeMap::new();
    for beat in beats.iter().filter(is_silent) {
        silences.entry(bytes(beat)).or_default().push(beat);
    }
    let silent = silences.into_values().max_by_key(Vec::len).unwrap_or_default();
    let expected = QUIET_MS / EVERY_MS;
    assert!(silent.len() as u64 >= expected / 2, "{} of {expected} signs of life", silent.len());
    let ages: Vec<u64> =
        silent.iter().map(|beat| beat["since_output_ms"].as_u64().unwrap()).collect();
    assert!(ages.is_sorted_by(|a, b| a < b), "{ages:?}");
    // The last one may come after the agent has exited while its output is still in the pipe.
    for beat in &silent[..silent.len() - 1] {
        assert!(beat["processes"].as_u64().unwrap() >= 1, "alive, and seen to be: {beat:#}");
        assert!(!beat["evidence"].as_str().unwrap().is_empty());
    }
    // Output has separate events, after the silence and not because of a timer.
    let place = |beat: &Value| own.iter().position(|event| **event == *beat).unwrap();
    let (first, last) = (place(silent[0]), place(silent[silent.len() - 1]));
    let progressed = |range: &[&Value]| range.iter().any(|e| is(e, "session_progressed"));
    assert!(!progressed(&own[first..last]), "output in the silence");
    assert!(progressed(&own[last..]), "no output after it");
}

struct Watched {
    during_silence: usize,
}

/// Reads `live.json` as a watcher does, until the run is over.
async fn watch(world: &World, mut run: tokio::process::Child) -> Watched {
    let mut seen = BTreeSet::new();
    loop {
        if let Some(status) = run.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return Watched { during_silence: seen.len() };
        }
        if let Ok(bytes) = std::fs::read(world.path("state/live.json")) {
            let live: Value = serde_json::from_slice(&bytes).expect("always whole");
            let sessions = live["sessions"].as_object().unwrap();
            if sessions.values().any(|session| session["evidence"] != "") {
                seen.insert(live["written_at"].as_str().unwrap().to_owned());
            }
        }
        // Between two samples; the loop waits for the end of the run.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_talkative_stage_gives_both_kinds_of_events() {
    let world = World::new().await;
    world.agent("exec \"$AGENT\" simulate agent --pace 3000 \"$@\"");
    let args = ["--set", "limits.max_deep_per_run=1", "--set", "timeouts.liveness=200ms"];
    let said = world.run(&[&["--once", "--quiet"], &args[..]].concat()).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    let events = world.events();
    let count = |name: &str| events.iter().filter(|event| is(event, name)).count();
    assert!(count("session_liveness") >= 4, "{}", count("session_liveness"));
    assert!(count("session_progressed") >= 4, "{}", count("session_progressed"));
}

#[tokio::test]
async fn a_crashed_run_has_its_file_completed_by_the_next_start() {
    let world = World::new().await;
    world.agent(QUIET);
    let args = ["--once", "--quiet", "--set", "timeouts.liveness=200ms"];
    let run = world.start(&args);
    let alive = || async {
        world.events_so_far().iter().any(|event| is(event, "session_liveness")).then_some(())
    };
    support::until("sign of life", alive).await;
    signal(&run, Signal::SIGKILL);
    finish(run).await;
    let folder = std::fs::read_dir(world.path("state/runs")).unwrap().next().unwrap().unwrap();
    let file = folder.path().join("events.ndjson");
    let whole = std::fs::read(&file).unwrap();
    // As left by a crash between the commit and the file, in the middle of a line.
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    world.agent("exec \"$AGENT\" simulate agent \"$@\"");
    let next = world.run(&["--once", "--quiet"]).await;
    assert_eq!(next.code(), 0, "{}", next.stderr);
    let database = rusqlite::Connection::open(world.path("state/heartbeat.db")).unwrap();
    let run = folder.file_name().into_string().unwrap();
    let stored: Vec<i64> = database
        .prepare("SELECT seq FROM events WHERE run = ?1 ORDER BY seq")
        .unwrap()
        .query_map([run], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let written: Vec<i64> =
        lines(&file).iter().map(|event| event["seq"].as_i64().unwrap()).collect();
    assert!(stored.len() >= 5, "{stored:?}");
    assert_eq!(written, stored);
}

impl World {
    /// The same while a run is writing: an incomplete line is omitted.
    fn events_so_far(&self) -> Vec<Value> {
        let Ok(runs) = std::fs::read_dir(self.path("state/runs")) else { return Vec::new() };
        runs.filter_map(|run| std::fs::read_to_string(run.ok()?.path().join("events.ndjson")).ok())
            .flat_map(|text| {
                text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<_>>()
            })
            .collect()
    }
}
