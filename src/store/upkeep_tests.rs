//! Tests of the state outside of runs: its location, copies of it, retention.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::clock::Clock;
use crate::event::{Event, Sink};
use crate::model::SessionId;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_folder_that_is_not_ours_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (home, shared) = (folder.path().join("home"), folder.path().join("shared"));
    fs::create_dir(&home).unwrap();
    fs::write(home.join("thesis.txt"), "years of work").unwrap();
    set_mode(&home, 0o755);
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    for (place, left) in [(&home, 0o755), (&shared, 0o1777)] {
        let message = Store::open(place).unwrap_err().to_string();
        assert!(
            message.contains("--state-dir") && message.contains("nothing was changed"),
            "{message}"
        );
        assert_eq!(mode(place), left, "{}", place.display());
        assert!(!place.join(DATABASE).exists());
    }
}

#[test]
fn a_folder_that_was_prepared_is_ours_whatever_is_put_there_before_the_first_run() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    prepare_folder(&state).unwrap();
    // As the log file does, if it is in the state folder and the configuration is rejected later.
    fs::write(state.join("heartbeat.log"), "the configuration is wrong").unwrap();
    prepare_folder(&state).unwrap();
    drop(Store::open(&state).unwrap());
}

#[test]
fn a_new_an_empty_and_an_own_folder_are_taken_and_closed_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let (new, empty) = (folder.path().join("a/new"), folder.path().join("empty"));
    fs::create_dir(&empty).unwrap();
    set_mode(&empty, 0o755);
    for place in [&new, &empty] {
        drop(Store::open(place).unwrap());
        assert_eq!(mode(place), 0o700);
        // The folder was made readable and a file was added by mistake.
        set_mode(place, 0o755);
        fs::write(place.join("notes.txt"), "mine").unwrap();
        drop(Store::open(place).unwrap());
        assert_eq!(mode(place), 0o700);
    }
}

/// Two tables that are equal after every transaction, and a writer that never pauses.
fn write_on(database: &Path, stop: &AtomicBool) {
    let connection = Connection::open(database).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 20;
             PRAGMA synchronous = OFF;
             CREATE TABLE left_side (n INTEGER, t TEXT); CREATE TABLE right_side (n INTEGER, t TEXT);",
        )
        .unwrap();
    let filling = "x".repeat(30_000);
    for n in 0.. {
        let both = |table| format!("INSERT INTO {table} VALUES ({n}, '{filling}'); ");
        let sql = format!("BEGIN; {}{}COMMIT;", both("left_side"), both("right_side"));
        connection.execute_batch(&sql).unwrap();
        if n % 200 == 199 {
            let sql = "BEGIN; DELETE FROM left_side; DELETE FROM right_side; COMMIT;";
            connection.execute_batch(sql).unwrap();
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

#[test]
fn a_copy_beside_a_busy_writer_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    drop(Store::open(&state).unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let (database, stopped) = (state.join(DATABASE), Arc::clone(&stop));
    let writer = std::thread::spawn(move || write_on(&database, &stopped));
    for number in 0..60 {
        let copy = folder.path().join(format!("copy-{number}"));
        fs::create_dir(&copy).unwrap();
        scratch_copy(&state, &copy).unwrap();
        let copied = Connection::open(copy.join(DATABASE)).unwrap();
        let text = |sql: &str| copied.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(text("PRAGMA quick_check"), "ok", "copy {number}");
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name IN ('left_side', 'right_side')";
        if copied.query_row(tables, [], |row| row.get::<_, i64>(0)).unwrap() == 2 {
            let sums =
                |table| format!("SELECT count(*) || ' ' || coalesce(sum(n), 0) FROM {table}");
            assert_eq!(text(&sums("left_side")), text(&sums("right_side")), "copy {number}");
        }
        drop(copied);
        drop(Store::open(&copy).unwrap());
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

#[tokio::test]
async fn old_ticks_and_orphans_go_and_their_totals_stay() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::manual("2026-11-16T08:00:00Z".parse().unwrap());
    let store = Store::open(&folder.path().join("state")).unwrap();
    let journal = Journal::open(store.clone(), clock.clone(), None).unwrap();
    for schedule in ["often", "once"] {
        for n in 0..if schedule == "often" { 100 } else { 1 } {
            let nominal = clock.now() + jiff::SignedDuration::from_secs(n);
            let run = (n % 2 == 0).then(|| crate::model::RunId(uuid::Uuid::nil()));
            let tick = TickRow { schedule: schedule.into(), nominal, run, missed: 1 };
            assert!(journal.ticks().take(tick).await.unwrap());
        }
    }
    let session = SessionId(uuid::Uuid::nil());
    journal.emit(Event::OrphanResolved { session, killed: 1 });
    journal.flush().await.unwrap();
    let before = store.totals().await.unwrap();
    assert_eq!((before.orphans, before.missed_ticks), (1, 101));
    clock.advance_ms(91 * 86_400_000);
    journal.emit(Event::ConfigReloaded);
    journal.flush().await.unwrap();
    for _ in 0..2 {
        store.prune(clock.now(), Duration::from_secs(90 * 86_400)).await.unwrap();
        assert_eq!(store.totals().await.unwrap(), before);
    }
    let left = store
        .read_here(|connection| {
            connection.query_row("SELECT count(*) FROM ticks", [], |row| row.get::<_, i64>(0))
        })
        .unwrap();
    assert_eq!(left, 2, "the newest of each schedule");
    let orphans = "SELECT count(*) FROM events WHERE event = 'orphan_resolved'";
    let left = store
        .read_here(|connection| connection.query_row(orphans, [], |row| row.get::<_, i64>(0)))
        .unwrap();
    assert_eq!(left, 0);
}
