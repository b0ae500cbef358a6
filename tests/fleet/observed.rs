//! What people see of a healthy fleet and of a host that dies: live figures, `doctor`, `status`.

use std::process::Stdio;
use std::time::Instant;

use support::eventually;

use crate::bad_input::doctor;
use crate::cut_off::DEEP_ON;
use crate::world::{LEASE, Process, World};

/// The output of a command on the state of a host.
fn shown(world: &World, host: &str, command: &str) -> String {
    let config = world.path().join(format!("{host}.toml"));
    let output = world.command(&config, host, &[command]).stdout(Stdio::piped()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Seconds between the start of the lock's holder and its last heartbeat.
fn lock_age(world: &World, host: &str) -> i64 {
    let text = std::fs::read_to_string(world.path().join(host).join("run.lock")).unwrap();
    let holder: serde_json::Value = serde_json::from_str(text.trim()).unwrap_or_default();
    let at = |name: &str| holder[name].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    at("heartbeat").zip(at("since")).map_or(0, |(last, since)| last.duration_since(since).as_secs())
}

#[test]
fn an_idle_worker_keeps_its_lock_fresh_and_has_no_next_run() {
    let Some(world) = World::new(1) else { return };
    let _worker = world.ready_worker("w0", 1);
    let status = shown(&world, "w0", "status");
    assert!(status.contains("by the coordinator"), "{status}");
    assert!(!status.contains("no scheduler is running"), "{status}");
    eventually("a renewed lock", || lock_age(&world, "w0") >= 20);
    let found = shown(&world, "w0", "doctor");
    assert!(found.contains("(worker), alive"), "{found}");
}

/// Three sessions on a host, each slow enough to be observed.
fn three_sessions(world: &World) -> (Process, Process) {
    world.agent.set_pace(100);
    let worker = world.ready_worker("w0", 4);
    let run = world.once(3);
    eventually("triage", || world.figure("SELECT count(*) FROM sessions WHERE stage = 'deep'") > 0);
    world.agent.set_pace(60_000);
    eventually("sessions on it", || world.figure(DEEP_ON) == 3);
    (worker, run)
}

/// Events of live sessions that match.
fn live_events(world: &World, kind: &str, condition: &str) -> i64 {
    world.figure(&format!(
        "SELECT count(DISTINCT e.session) FROM events e JOIN heartbeat_active_sessions a USING (session)
         WHERE a.stage = 'deep' AND e.event = '{kind}' AND {condition}"
    ))
}

#[test]
fn a_session_on_a_host_shows_its_progress_and_then_the_silence_of_its_host() {
    let Some(world) = World::new(24) else { return };
    let (mut worker, _run) = three_sessions(&world);
    eventually("what the host measured", || {
        let measured = "json_extract(e.body, '$.processes') > 0
             AND json_extract(e.body, '$.stdout_bytes') > 0
             AND json_extract(e.body, '$.verdict') <> 'starting'
             AND json_extract(e.body, '$.evidence') LIKE 'w0: %'";
        live_events(&world, "session_liveness", measured) == 3
    });
    eventually("steps", || live_events(&world, "session_progressed", "1") == 3);
    let found = doctor(&world, &world.path().join("coordinator.toml"));
    assert!(found.contains("3 running on hosts (w0: 3)\n"), "{found}");

    worker.kill();
    let died = Instant::now();
    eventually("the silence of the host", || {
        let silent = "json_extract(e.body, '$.verdict') = 'suspect'
             AND json_extract(e.body, '$.evidence') LIKE 'no heartbeat from w0 for % s'";
        live_events(&world, "session_liveness", silent) == 3
    });
    println!("its silence was shown after {:?}; lease {LEASE:?}", died.elapsed());
    assert!(died.elapsed() < LEASE, "while the sessions are live");
    eventually("the host's loss", || {
        let lost = "SELECT count(*) FROM events WHERE event = 'session_ended'
             AND json_extract(body, '$.host') = 'w0' AND body LIKE '%orphaned%'";
        world.figure(lost) >= 3
    });
    let sessions = shown(&world, "coordinator", "sessions");
    assert!(sessions.matches("orphaned (host w0 was lost)").count() >= 3, "{sessions}");
}
