//! What people see of a healthy fleet and of a host that dies: live figures, `doctor`, `status`.

use std::process::Stdio;

use support::eventually;

use crate::world::World;

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
