//! The service: ticks, reload, shutdown.

use nix::sys::signal::Signal;

use crate::eventually::eventually;
use crate::support::{Running, World, code, text};

/// A demo service that fires every second, with a configuration file of its own.
fn service(world: &World, config: &str) -> Running {
    let file = world.path().join("heartbeat.toml");
    std::fs::write(&file, config).unwrap();
    let mut command = world.demo(&["--set", "schedule.cron=* * * * * *"]);
    command.arg("--config").arg(file);
    Running::start(command)
}

fn finished_runs(world: &World) -> i64 {
    world.figure("SELECT count(*) FROM runs WHERE ended_at IS NOT NULL")
}

#[test]
fn ten_ticks_without_overlap_a_broken_config_and_a_clean_stop() {
    let world = World::new(30);
    let service = service(&world, "[limits]\nmax_deep_per_run = 2\n");
    let database = world.state().join("heartbeat.db");
    eventually("the state", || database.exists() && tables_exist(&world));
    eventually("two runs", || finished_runs(&world) >= 2);
    std::fs::write(world.path().join("heartbeat.toml"), "[limits]\nmax_deep_per_run = \"many\"\n")
        .unwrap();
    let broken = "SELECT count(*) FROM events WHERE event = 'config_broken'";
    eventually("the broken configuration to be told", || world.figure(broken) == 1);
    let before = finished_runs(&world);
    eventually("runs on the last good configuration", || finished_runs(&world) >= before + 2);
    let status = text(&world.heartbeat(&["status"]).output().unwrap());
    assert!(status.contains("broken on disk, the last good one is in force"), "{status}");
    std::fs::write(world.path().join("heartbeat.toml"), "[limits]\nmax_deep_per_run = 1\n")
        .unwrap();
    let good = "SELECT count(*) FROM events WHERE event = 'config_reloaded'";
    eventually("the good configuration to be told", || world.figure(good) >= 1);
    eventually("ten runs", || finished_runs(&world) >= 10);
    service.signal(Signal::SIGTERM);
    let output = service.output();
    assert_eq!(code(&output), 143, "{}", text(&output));
    assert_eq!(world.session_processes(), Vec::<u32>::new());
    assert_eq!(overlaps(&world), 0);
    assert_eq!(world.figure("SELECT count(*) FROM runs WHERE ended_at IS NULL"), 0);
    let (fired, runs) = (
        world.figure("SELECT count(*) FROM ticks WHERE decision = 'fired'"),
        world.figure("SELECT count(*) FROM runs"),
    );
    assert_eq!(fired, runs, "every run has its scheduled time, and every time one run");
}

fn tables_exist(world: &World) -> bool {
    world.figure("SELECT count(*) FROM sqlite_schema WHERE name = 'runs'") == 1
}

/// Pairs of runs of which one began before the other had ended.
fn overlaps(world: &World) -> i64 {
    world.figure(
        "SELECT count(*) FROM runs a JOIN runs b
         ON a.run < b.run AND b.started_at < a.ended_at AND a.started_at < b.ended_at",
    )
}

#[test]
fn stopping_in_the_middle_of_a_run_ends_its_sessions_and_keeps_its_items() {
    let world = World::new(60_000);
    let service = service(&world, "");
    eventually("an agent", || !world.live_agents().is_empty());
    service.signal(Signal::SIGTERM);
    let output = service.output();
    assert_eq!(code(&output), 143, "{}", text(&output));
    assert_eq!(world.session_processes(), Vec::<u32>::new());
    assert_eq!(world.figure("SELECT count(*) FROM heartbeat_active_sessions"), 0);
    let pending = world.figure("SELECT count(*) FROM heartbeat_state WHERE phase = 'pending'");
    assert_eq!(pending, 19, "nothing is lost and nothing counts as an attempt");
    assert_eq!(world.figure("SELECT coalesce(max(attempts), 0) FROM heartbeat_state"), 0);
}

#[test]
fn a_tick_that_finds_a_run_going_on_is_skipped_with_the_runs_id() {
    let world = World::new(3_000);
    let service = service(&world, "");
    let skipped = "SELECT count(*) FROM events WHERE event = 'tick_skipped'";
    let database = world.state().join("heartbeat.db");
    eventually("the state", || database.exists() && tables_exist(&world));
    eventually("a skipped tick", || world.figure(skipped) >= 1);
    let blocked: String = world
        .database()
        .query_row(
            "SELECT json_extract(body, '$.blocked_by') FROM events WHERE event = 'tick_skipped'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let run: String =
        world.database().query_row("SELECT run FROM runs", [], |row| row.get(0)).unwrap();
    assert_eq!(blocked, run);
    service.signal(Signal::SIGINT);
    assert_eq!(code(&service.output()), 130);
}
