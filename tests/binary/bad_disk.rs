//! The state on a bad disk: full, failing, busy, damaged. Nothing is lost, the message says what to
//! do, the exit code is 74.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");

#[expect(clippy::disallowed_methods, reason = "the real binary is what is tested")]
fn shell(script: &str, state: &Path) -> Output {
    let agent = format!("agent.command=[\"{BINARY}\", \"simulate\", \"agent\"]");
    Command::new("bash")
        .args(["-c", script, BINARY])
        .args(["--once", "--demo", "--json", "--quiet"])
        .args(["--set", "source.where=[System.Id] <= 4105", "--set", &agent, "--state-dir"])
        .arg(state)
        .output()
        .unwrap()
}

fn run(state: &Path) -> Output {
    shell("exec \"$0\" \"$@\"", state)
}

fn told(output: &Output) -> String {
    // A run that could still store its end reports it, any other prints to standard error.
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

fn count(state: &Path, sql: &str) -> i64 {
    let database = rusqlite::Connection::open(state.join("heartbeat.db")).unwrap();
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// After the cause is gone, the next runs end as if nothing had happened.
fn recovers(state: &Path) {
    for _ in 0..6 {
        let output = run(state);
        assert!(matches!(output.status.code(), Some(0 | 10)), "{}", told(&output));
    }
    let open = "SELECT count(*) FROM heartbeat_state WHERE phase NOT IN ('done', 'waiting')";
    assert_eq!(count(state, open), 0);
    assert_eq!(count(state, "SELECT count(*) FROM heartbeat_state"), 5);
    let completed = "SELECT count(*) FROM sessions
                     WHERE outcome LIKE '%completed%' AND stage <> 'locate'";
    assert_eq!(count(state, completed), 3);
}

#[test]
fn a_file_system_that_refuses_in_the_middle_of_a_run_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut failed = 0;
    // In blocks of 1 KiB, from before the schema exists to after everything is stored.
    for limit in [16, 120, 180, 220, 260, 300, 340, 380] {
        let state = folder.path().join(format!("limit-{limit}"));
        // A write beyond the limit fails as on a failing disk.
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\"");
        let output = shell(&script, &state);
        if output.status.code() == Some(0) {
            continue;
        }
        assert_eq!(output.status.code(), Some(74), "limit {limit}: {}", told(&output));
        assert!(told(&output).contains("heartbeat.db"), "{}", told(&output));
        failed += 1;
        recovers(&state);
    }
    assert!(failed >= 2, "only {failed} limits were met");
}

#[test]
fn a_damaged_database_is_refused_with_the_way_out_and_never_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    assert_eq!(run(&state).status.code(), Some(0));
    let database = state.join("heartbeat.db");
    // Everything in one file, so that damage to it matters.
    rusqlite::Connection::open(&database)
        .unwrap()
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    let good = fs::read(&database).unwrap();
    let mut torn = good.clone();
    for byte in &mut torn[8192..] {
        *byte = 0x5a;
    }
    for (bad, what) in [
        (good[..good.len() / 2].to_vec(), "truncated"),
        (torn, "torn"),
        (vec![0x5a; 4096], "overwritten"),
        (Vec::new(), "emptied"),
    ] {
        for side in ["heartbeat.db-wal", "heartbeat.db-shm"] {
            fs::remove_file(state.join(side)).ok();
        }
        fs::write(&database, &bad).unwrap();
        let output = run(&state);
        let told = told(&output);
        assert_eq!(output.status.code(), Some(74), "{what}: {told}");
        assert!(told.contains("is damaged") && told.contains("estore a backup"), "{what}: {told}");
        assert_eq!(fs::read(&database).unwrap().len(), bad.len(), "{what}: it was touched");
    }
    fs::write(&database, &good).unwrap();
    assert_eq!(run(&state).status.code(), Some(0));
}

#[test]
fn what_only_the_log_has_is_recovered_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let (state, copy) = (folder.path().join("state"), folder.path().join("copy"));
    assert_eq!(run(&state).status.code(), Some(0));
    let findings = count(&state, "SELECT count(*) FROM findings");
    // A reader prevents the checkpoint; the copy is what a power cut leaves.
    let reader = rusqlite::Connection::open(state.join("heartbeat.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM findings;").unwrap();
    fs::create_dir(&copy).unwrap();
    let writer = rusqlite::Connection::open(state.join("heartbeat.db")).unwrap();
    writer.execute("UPDATE heartbeat_state SET title = 'only in the log'", []).unwrap();
    for name in ["heartbeat.db", "heartbeat.db-wal"] {
        fs::copy(state.join(name), copy.join(name)).unwrap();
    }
    let titles = "SELECT count(*) FROM heartbeat_state WHERE title = 'only in the log'";
    assert_eq!(count(&copy, titles), 5);
    assert_eq!(count(&copy, "SELECT count(*) FROM findings"), findings);
}

#[test]
fn a_state_from_before_the_first_release_is_told_and_imported_by_one_command() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    fs::create_dir(&state).unwrap();
    let database = state.join("heartbeat.db");
    let old = include_str!("../data/migrations/before_0.1.0.sql");
    rusqlite::Connection::open(&database).unwrap().execute_batch(old).unwrap();
    let command = |args: &[&str]| {
        #[expect(clippy::disallowed_methods, reason = "the real binary is what is tested")]
        let mut command = Command::new(BINARY);
        command.args(args).arg("--state-dir").arg(&state).output().unwrap()
    };
    let refused = command(&["status"]);
    assert_eq!(refused.status.code(), Some(74), "{}", told(&refused));
    let remedy = format!("heartbeat state import {}", database.display());
    assert!(told(&refused).contains(&remedy), "{}", told(&refused));
    let imported = command(&["state", "import", database.to_str().unwrap()]);
    assert!(imported.status.success(), "{}", told(&imported));
    assert!(state.join("heartbeat.db.before-0.1.0").exists());
    let shown = command(&["items", "--json"]);
    assert!(told(&shown).contains("ado/4"), "{}", told(&shown));
}

#[test]
fn a_state_moves_to_another_machine_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (state, other) = (folder.path().join("state"), folder.path().join("other"));
    assert_eq!(run(&state).status.code(), Some(0));
    let file = folder.path().join("state.db");
    let command = |state: &Path, args: &[&str]| {
        #[expect(clippy::disallowed_methods, reason = "the real binary is what is tested")]
        let mut command = Command::new(BINARY);
        command.args(args).arg(&file).arg("--state-dir").arg(state).output().unwrap()
    };
    let saved = command(&state, &["state", "backup"]);
    assert!(saved.status.success(), "{}", told(&saved));
    let restored = command(&other, &["state", "restore"]);
    assert!(restored.status.success(), "{}", told(&restored));
    let findings = "SELECT count(*) FROM findings";
    assert!(count(&state, findings) > 0);
    assert_eq!(count(&state, findings), count(&other, findings));
    // On the new machine nothing is new.
    let output = run(&other);
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"nothing_new\""));
    // What is no database is refused with the way that exists.
    fs::write(&file, "{\"format\":\"heartbeat state\"}\n").unwrap();
    let refused = command(&folder.path().join("third"), &["state", "import"]);
    assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
    assert!(told(&refused).contains("state restore"), "{}", told(&refused));
}
