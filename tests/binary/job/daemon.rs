//! The service: ticks, reload, shutdown.

use nix::sys::signal::Signal;

use super::world::{Running, World, code, text};
use support::eventually;

/// A demo service that fires every second, with its own configuration file.
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
    assert!(status.contains("invalid, the last valid one is in use"), "{status}");
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
    assert_eq!(pending, 20, "nothing is lost and nothing counts as an attempt");
    assert_eq!(world.figure("SELECT coalesce(max(attempts), 0) FROM heartbeat_state"), 0);
    // Whether an agent had said hello by then decides what is assumed; nothing stays reserved.
    assert_eq!(world.figure("SELECT count(*) FROM budget WHERE spent IS NULL"), 0);
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

/// A demo service that logs to a file, so that the log can be read while it runs.
fn logged_service(world: &World, args: &[&str]) -> (Running, std::path::PathBuf) {
    let log = world.path().join("log");
    let mut all = vec!["--set", "schedule.cron=* * * * * *"];
    all.extend(args);
    let mut command = world.demo(&all);
    command.stderr(std::fs::File::create(&log).unwrap());
    (Running::start(command), log)
}

fn read(log: &std::path::Path) -> String {
    std::fs::read_to_string(log).unwrap()
}

/// The response of `/health`, at the address in the log.
fn health(log: &std::path::Path) -> String {
    use std::io::{Read as _, Write as _};
    let words = read(log);
    let after = words.split("address=").nth(1).unwrap();
    let address: String =
        after.chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect();
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    connection.write_all(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_state_that_is_busy_for_a_while_costs_no_service_and_no_run() {
    let world = World::new(60_000);
    let (mut service, log) = logged_service(&world, &["--set", "limits.run_deadline=1h"]);
    eventually("an agent", || !world.live_agents().is_empty());
    // From here on the run only emits events; everything it needs is stored.
    let beats = "SELECT count(*) FROM events WHERE event = 'session_liveness'";
    eventually("a sign of life", || world.figure(beats) >= 1);
    let foreign = world.database();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    eventually("the fault to be told", || {
        assert!(!service.ended(), "{}", read(&log));
        read(&log).contains("cannot use the state database")
    });
    let told = health(&log);
    assert!(told.starts_with("HTTP/1.0 503") && told.contains("\"code\":\"store\""), "{told}");
    foreign.execute_batch("COMMIT").unwrap();
    let ticks = || world.figure("SELECT count(*) FROM ticks");
    let before = ticks();
    eventually("the next scheduled time", || ticks() > before);
    eventually("the end of the fault", || {
        read(&log).contains("the state database is usable again")
    });
    eventually("a healthy state", || !health(&log).contains("\"code\":\"store\""));
    assert_eq!(world.live_agents().len(), 1, "the run went on");
    service.signal(Signal::SIGTERM);
    let output = service.output();
    assert_eq!(code(&output), 143, "{}", read(&log));
    assert_eq!(world.session_processes(), Vec::<u32>::new());
    assert_eq!(world.figure("SELECT count(*) FROM heartbeat_active_sessions"), 0);
}

#[test]
fn a_tick_that_meets_the_run_of_another_process_is_skipped_with_that_runs_id() {
    let world = World::new(4_000);
    let other = Running::start(world.demo(&["--once"]));
    eventually("an agent", || !world.live_agents().is_empty());
    let run: String =
        world.database().query_row("SELECT run FROM runs", [], |row| row.get(0)).unwrap();
    let (service, log) = logged_service(&world, &[]);
    let skipped = "SELECT count(*) FROM ticks WHERE decision = 'skipped'";
    eventually("a skipped tick", || world.figure(skipped) >= 1);
    eventually("its event", || {
        world.figure("SELECT count(*) FROM events WHERE event = 'tick_skipped'") >= 1
    });
    let blocked: String = world
        .database()
        .query_row(
            "SELECT json_extract(body, '$.blocked_by') FROM events WHERE event = 'tick_skipped'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(blocked, run, "{}", read(&log));
    assert_eq!(code(&other.output()), 0);
    eventually("a run of its own", || world.figure("SELECT count(*) FROM runs") >= 2);
    service.signal(Signal::SIGTERM);
    service.output();
    let lost = "SELECT count(*) FROM ticks
                WHERE decision = 'fired' AND run NOT IN (SELECT run FROM runs)";
    assert_eq!(world.figure(lost), 0, "a time that led to a run has that run");
}

#[test]
fn a_code_base_that_is_moved_away_under_the_service_costs_no_item_its_attempts() {
    let world = World::new(0);
    let (code, away) = (world.path().join("code"), world.path().join("away"));
    std::fs::create_dir(&code).unwrap();
    std::fs::write(code.join("parcel.rs"), "pub fn parcel() {}\n").unwrap();
    let config = "[limits]\nmax_deep_per_run = 1\n[dedupe]\nretry_delay = \"1s\"\n";
    std::fs::write(world.path().join("heartbeat.toml"), config).unwrap();
    let path = format!("repository.path={}", code.display());
    let mut command = world.demo(&["--set", "schedule.cron=* * * * * *", "--set", &path]);
    command.arg("--config").arg(world.path().join("heartbeat.toml"));
    let service = Running::start(command);
    let database = world.state().join("heartbeat.db");
    eventually("the state", || database.exists() && tables_exist(&world));
    let findings = || world.figure("SELECT count(*) FROM findings");
    eventually("a finding", || findings() >= 1);
    std::fs::rename(&code, &away).unwrap();
    let told = "SELECT count(*) FROM runs WHERE outcome = 'config_refused'";
    eventually("four runs without it", || world.figure(told) >= 4);
    std::fs::rename(&away, &code).unwrap();
    let before = findings();
    eventually("findings after it came back", || findings() >= before + 2);
    service.signal(Signal::SIGTERM);
    assert_eq!(super::world::code(&service.output()), 143);
    let given_up = "SELECT count(*) FROM heartbeat_state WHERE reason = 'attempts_exhausted'";
    assert_eq!(world.figure(given_up), 0);
    let twice = "SELECT count(*) FROM attempts WHERE attempt > 1";
    assert_eq!(world.figure(twice), 0, "nothing counted against an item");
}
