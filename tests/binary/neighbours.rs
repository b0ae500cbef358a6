//! Other programs beside the running service: whoever reads, copies or backs up the database with
//! the tools of the machine must not damage it.

use std::process::Command;

use nix::sys::signal::Signal;

use crate::job::world::{Running, World, code, text};
use support::eventually;

/// Rounds of neighbours.
const ROUNDS: u32 = 50;

/// The `sqlite3` of the machine; the Debian package `sqlite3`, which `tests/run` installs.
fn sqlite3() -> Option<String> {
    let found = Command::new("sqlite3").arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&found.stdout).trim().to_owned())
}

#[test]
fn programs_beside_the_running_service_leave_the_state_whole() {
    let Some(version) = sqlite3() else {
        eprintln!("SKIPPED: there is no `sqlite3` (Debian package sqlite3) to put beside it");
        return;
    };
    let world = World::new(30);
    // Each run opens and closes what it needs of the state: that is when locks could be lost.
    let mut command = world.demo(&["--set", "schedule.cron=* * * * * *"]);
    let log = world.path().join("log");
    command.stderr(std::fs::File::create(&log).unwrap());
    let service = Running::start(command);
    let database = world.state().join("heartbeat.db");
    let (copy, backup) = (world.path().join("copy.db"), world.path().join("backup.db"));
    eventually("the state", || database.exists() && ran("SELECT count(*) FROM runs", &database));
    let runs = || figure(&database, "SELECT count(*) FROM runs WHERE ended_at IS NOT NULL");
    eventually("a run", || runs() >= 1);
    for round in 0..ROUNDS {
        for script in ["SELECT count(*) FROM events", "PRAGMA wal_checkpoint(PASSIVE)"] {
            assert!(ran(script, &database), "round {round}: {script}");
        }
        std::fs::remove_file(&backup).ok();
        assert!(ran(&format!(".backup '{}'", backup.display()), &database), "round {round}");
        assert_eq!(figure_text(&backup, "PRAGMA quick_check"), "ok", "round {round}");
        // An indexer, and a copy that nobody should make but somebody will.
        std::fs::copy(&database, &copy).unwrap();
        let told = std::fs::read_to_string(&log).unwrap();
        assert!(!told.contains("disk I/O error") && !told.contains("malformed"), "{told}");
    }
    let before = runs();
    eventually("more runs", || runs() > before);
    service.signal(Signal::SIGTERM);
    let output = service.output();
    assert_eq!(code(&output), 143, "{}", text(&output));
    assert_eq!(figure_text(&database, "PRAGMA integrity_check"), "ok");
    let told = std::fs::read_to_string(&log).unwrap();
    assert!(!told.contains("ERROR"), "{told}");
    assert!(runs() > before, "what ran while they were beside it is stored");
    eprintln!("{ROUNDS} rounds beside a busy service with sqlite3 {version}: 0 damaged");
}

/// True if `sqlite3` ran this without an error.
fn ran(script: &str, database: &std::path::Path) -> bool {
    let timeout = ["-cmd", ".timeout 10000"];
    let output = Command::new("sqlite3").args(timeout).arg(database).arg(script).output().unwrap();
    output.status.success() && output.stderr.is_empty()
}

fn figure_text(database: &std::path::Path, sql: &str) -> String {
    let output = Command::new("sqlite3").arg(database).arg(sql).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn figure(database: &std::path::Path, sql: &str) -> i64 {
    figure_text(database, sql).parse().unwrap_or(-1)
}

/// A demo service that fires every second, and its log.
fn service(world: &World) -> (Running, std::path::PathBuf) {
    let mut command = world.demo(&["--set", "schedule.cron=* * * * * *"]);
    let log = world.path().join("log");
    command.stderr(std::fs::File::create(&log).unwrap());
    (Running::start(command), log)
}

fn told(log: &std::path::Path, what: &str) -> bool {
    std::fs::read_to_string(log).unwrap().contains(what)
}

fn finished_runs(world: &World) -> i64 {
    let database = world.state().join("heartbeat.db");
    let Ok(connection) =
        rusqlite::Connection::open_with_flags(database, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
    else {
        return 0;
    };
    let sql = "SELECT count(*) FROM runs WHERE ended_at IS NOT NULL";
    connection.query_row(sql, [], |row| row.get(0)).unwrap_or(0)
}

#[test]
fn a_state_that_is_taken_away_is_an_alarm_and_no_fresh_start_and_its_return_is_noticed() {
    let world = World::new(30);
    let (service, log) = service(&world);
    eventually("two runs", || finished_runs(&world) >= 2);
    let aside = world.path().join("aside");
    std::fs::create_dir(&aside).unwrap();
    let names = ["heartbeat.db", "heartbeat.db-wal", "heartbeat.db-shm"];
    for name in names {
        std::fs::rename(world.state().join(name), aside.join(name)).unwrap();
    }
    eventually("the alarm", || told(&log, "is gone: it was here"));
    assert!(!world.state().join("heartbeat.db").exists(), "it started over");
    let status = world.heartbeat(&["status"]).output().unwrap();
    assert_eq!(code(&status), 74, "{}", text(&status));
    assert!(text(&status).contains("heartbeat state restore"), "{}", text(&status));
    for name in names {
        std::fs::rename(aside.join(name), world.state().join(name)).unwrap();
    }
    eventually("the recovery", || told(&log, "usable again"));
    let before = finished_runs(&world);
    assert!(before >= 2, "what was there is there");
    eventually("more runs", || finished_runs(&world) > before);
    service.signal(Signal::SIGTERM);
    assert_eq!(code(&service.output()), 143);
}

#[test]
fn a_log_that_is_removed_under_the_service_loses_nothing_and_needs_no_restart() {
    let world = World::new(30);
    let (service, log) = service(&world);
    eventually("two runs", || finished_runs(&world) >= 2);
    let before = finished_runs(&world);
    std::fs::remove_file(world.state().join("heartbeat.db-wal")).unwrap();
    eventually("a connection that is opened again", || told(&log, "opened the state again"));
    eventually("more runs", || finished_runs(&world) > before + 1);
    service.signal(Signal::SIGTERM);
    assert_eq!(code(&service.output()), 143);
    let whole: String =
        world.database().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

#[test]
fn a_state_is_backed_up_restored_rescued_and_set_aside_by_commands() {
    let world = World::new(30);
    assert_eq!(world.run_once(&[]).0, 0);
    let state = |args: &[&str]| {
        let mut all = vec!["state"];
        all.extend(args);
        world.heartbeat(&all).output().unwrap()
    };
    let findings = world.figure("SELECT count(*) FROM findings");
    let (backup, database) = (world.path().join("backup.db"), world.state().join("heartbeat.db"));
    let file = backup.to_str().unwrap();
    let saved = state(&["backup", file]);
    assert_eq!(code(&saved), 0, "{}", text(&saved));
    let again = state(&["backup", file]);
    assert!(text(&again).contains("does not exist yet"), "{}", text(&again));
    // Damage in the middle of the file.
    world.database().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let mut bytes = std::fs::read(&database).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'readings'";
    let page = usize::try_from(world.figure(root)).unwrap();
    let size = usize::try_from(world.figure("PRAGMA page_size")).unwrap();
    bytes[(page - 1) * size..][..64].fill(0x5a);
    std::fs::write(&database, bytes).unwrap();
    let rescued = state(&["rescue"]);
    assert_eq!(code(&rescued), 0, "{}", text(&rescued));
    assert!(text(&rescued).contains("readings is damaged"), "{}", text(&rescued));
    assert_eq!(world.figure("SELECT count(*) FROM findings"), findings);
    let restored = state(&["restore", file]);
    assert_eq!(code(&restored), 0, "{}", text(&restored));
    assert_eq!(world.figure("SELECT count(*) FROM findings"), findings);
    assert!(world.figure("SELECT count(*) FROM readings") > 0);
    // Removed by somebody, it is not begun anew without a word.
    std::fs::remove_file(&database).unwrap();
    let refused = state(&["backup", "elsewhere.db"]);
    assert_eq!(code(&refused), 74, "{}", text(&refused));
    assert!(text(&refused).contains("is gone"), "{}", text(&refused));
    let new = state(&["new"]);
    assert_eq!(code(&new), 0, "{}", text(&new));
    assert!(text(&new).contains("it knows again"), "{}", text(&new));
    assert!(world.figure("SELECT sum(spent) FROM budget") > 0, "the day's money");
    assert_eq!(world.figure("SELECT count(*) FROM findings"), 0);
    // What was finished is not paid for twice, unless somebody asks for it.
    let sessions = "SELECT count(*) FROM sessions";
    world.run_once(&["--set", "schedule.first_run=process"]);
    let unfinished = world.figure(sessions);
    let again = state(&["new", "--again"]);
    assert!(text(&again).contains("0 finished items"), "{}", text(&again));
    world.run_once(&["--set", "schedule.first_run=process"]);
    assert!(world.figure(sessions) > unfinished);
}
