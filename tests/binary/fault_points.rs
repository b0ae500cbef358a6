//! The real binary is killed with SIGKILL at every fault point of a run, one after the other, and
//! restarted: the final state equals that of an undisturbed run, and only the analysis in flight is
//! paid for twice.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");
/// More points than a run of this size has; the test fails if it is not enough.
const FAR: u32 = 400;

#[expect(clippy::disallowed_methods, reason = "the real binary is what is tested")]
fn once(state: &Path, fault_point: Option<u32>) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["--once", "--demo", "--json", "--quiet", "--state-dir"]).arg(state);
    let agent = format!("agent.command=[\"{BINARY}\", \"simulate\", \"agent\"]");
    for set in [
        "source.where=[System.Id] <= 4105",
        "limits.max_live_sessions=1",
        "dedupe.retry_delay=0s",
        &agent,
    ] {
        command.args(["--set", set]);
    }
    match fault_point {
        Some(point) => command.env("HEARTBEAT_TEST_FAULT_POINT", point.to_string()),
        None => command.env_remove("HEARTBEAT_TEST_FAULT_POINT"),
    };
    command.output().unwrap()
}

/// Runs until nothing is new.
fn settle(state: &Path) -> u32 {
    for run in 1..=8 {
        let output = once(state, None);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 10)), "{code:?} {told} {:?}", output.stderr);
        if told.contains("\"nothing_new\"") {
            return run;
        }
    }
    panic!("{}: there is always something new", state.display());
}

/// Key, phase, text, finished text, verdict, findings.
type Item = (String, String, String, Option<String>, Option<String>, u32);

#[derive(Debug, PartialEq, Eq)]
struct Final {
    items: Vec<Item>,
    /// Completed sessions, by item; triage under "".
    completed: Vec<(String, u32)>,
}

fn database(state: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(state.join("heartbeat.db")).unwrap()
}

fn final_state(state: &Path) -> Final {
    let database = database(state);
    let items = database
        .prepare(
            "SELECT key, phase, fingerprint, processed_fingerprint, verdict,
                 (SELECT count(*) FROM findings f WHERE f.key = s.key)
             FROM heartbeat_state s ORDER BY key",
        )
        .unwrap()
        .query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        })
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let completed = database
        .prepare(
            "SELECT coalesce(item, ''), count(*) FROM sessions
             WHERE outcome LIKE '%completed%' AND stage <> 'locate' GROUP BY item ORDER BY item",
        )
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    Final { items, completed }
}

fn count(state: &Path, sql: &str) -> i64 {
    database(state).query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The answer of the locate step is not kept: a crash before the analyses costs one more question.
const STARTED: &str = "SELECT count(*) FROM sessions WHERE stage <> 'locate'";

/// Kills at one point and recovers. False if the run ended before it.
fn crash_at(point: u32, folder: &Path, undisturbed: &Final, sessions: i64) -> bool {
    let state = folder.join(format!("at-{point}"));
    let output = once(&state, Some(point));
    if output.status.code().is_some() {
        return false;
    }
    settle(&state);
    assert_eq!(&final_state(&state), undisturbed, "killed at point {point}");
    let started = count(&state, STARTED);
    assert!(started <= sessions + 1, "killed at point {point}: {started} sessions, not {sessions}");
    for (sql, what) in [
        ("SELECT count(*) FROM heartbeat_active_sessions", "open rows"),
        ("SELECT count(*) FROM budget WHERE spent IS NULL", "reservations"),
        ("SELECT count(*) FROM sessions WHERE applied = 0", "unused results"),
        ("SELECT count(*) FROM runs WHERE ended_at IS NULL", "unfinished runs"),
        ("SELECT max(seq) - count(*) FROM events", "gaps in the log"),
        (
            "SELECT max(count(*) - 3, 0) FROM sessions WHERE stage = 'locate'",
            "more questions than runs that analysed something",
        ),
    ] {
        assert_eq!(count(&state, sql), 0, "killed at point {point}: {what} are left");
    }
    std::fs::remove_dir_all(&state).unwrap();
    true
}

#[test]
fn a_run_killed_at_any_point_ends_like_one_that_was_not() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("undisturbed");
    settle(&state);
    let undisturbed = final_state(&state);
    assert!(undisturbed.items.iter().any(|item| item.5 == 1), "{undisturbed:?}");
    let sessions = count(&state, STARTED);
    let (next, last) = (AtomicU32::new(1), AtomicU32::new(FAR));
    let told = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let point = next.fetch_add(1, Ordering::SeqCst);
                    if point >= last.load(Ordering::SeqCst) {
                        return;
                    }
                    if crash_at(point, folder.path(), &undisturbed, sessions) {
                        told.lock().unwrap().push(point);
                    } else {
                        last.fetch_min(point, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let points = last.load(Ordering::SeqCst);
    assert!(points < FAR, "the run has more points than were tried");
    assert!(points > 20, "only {points} points: the switch does not work");
    println!("killed at each of {} points, {sessions} sessions", told.lock().unwrap().len());
}
