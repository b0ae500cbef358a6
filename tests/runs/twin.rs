//! A database that is lost or older than what happened since: what was spent and what was finished is
//! not forgotten when a person starts over.

use heartbeat::event::Trigger;
use heartbeat::model::{RunId, Usd};
use heartbeat::store::{BroughtBack, Journal, Store, bring_back, restore, set_aside};

use crate::world::{World, config};

/// Twelve items, of which eight are analysed.
async fn worked(folder: &std::path::Path) -> World {
    let world = World::new(folder, config(|_| {}));
    (1..=12).for_each(|id| world.add(id, u32::try_from(id).unwrap(), 2));
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(done(&world), 12);
    world
}

fn done(world: &World) -> i64 {
    world.count("SELECT count(*) FROM heartbeat_state WHERE phase = 'done'")
}

fn spent(world: &World) -> i64 {
    world.count("SELECT coalesce(sum(spent), 0) FROM budget")
}

fn sessions(world: &World) -> usize {
    world.outside.lock().unwrap().started.len()
}

#[tokio::test]
async fn a_lost_database_is_refused_and_a_new_one_knows_what_was_spent_and_finished() {
    let folder = tempfile::tempdir().unwrap();
    let world = worked(folder.path()).await;
    let (before, asked) = (spent(&world), sessions(&world));
    for name in ["heartbeat.db", "heartbeat.db-wal", "heartbeat.db-shm"] {
        std::fs::remove_file(world.state.join(name)).ok();
    }
    let refused = Store::open(&world.state).unwrap_err().to_string();
    assert!(refused.contains("is gone") && refused.contains("state new"), "{refused}");
    // A person decides to start over.
    set_aside(&world.state, world.clock.now()).unwrap();
    let back = bring_back(&world.state, true, world.clock.now()).unwrap();
    assert_eq!(back, BroughtBack { items: 12, spent: Usd::from_micros(before) });
    assert_eq!((done(&world), spent(&world)), (12, before));
    let again = bring_back(&world.state, true, world.clock.now()).unwrap();
    assert_eq!(again, BroughtBack::default(), "once is enough");
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(sessions(&world), asked, "nothing is paid for twice");
    let title = world.count("SELECT count(*) FROM heartbeat_state WHERE title = 'Item 7'");
    assert_eq!(title, 1, "they are listed by their titles");
    // What changed since is work, within what is left of the day's money.
    world.edit(1, |item| item.version = 2);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(sessions(&world), asked + 2, "one triage, one analysis");
    let store = Store::open(&world.state).unwrap();
    let today = store.budget().on_day("2026-11-16".into()).await.unwrap();
    assert_eq!(today.spent.micros(), before + 20_000, "the day goes on from where it was");
}

#[tokio::test]
async fn items_are_forgotten_on_request_and_money_never() {
    let folder = tempfile::tempdir().unwrap();
    let world = worked(folder.path()).await;
    let (before, asked) = (spent(&world), sessions(&world));
    set_aside(&world.state, world.clock.now()).unwrap();
    let back = bring_back(&world.state, false, world.clock.now()).unwrap();
    assert_eq!(back, BroughtBack { items: 0, spent: Usd::from_micros(before) });
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert!(sessions(&world) > asked, "everything is work again");
    assert!(spent(&world) > before);
}

#[tokio::test]
async fn a_backup_that_is_older_learns_what_happened_since() {
    let folder = tempfile::tempdir().unwrap();
    let world = worked(folder.path()).await;
    let backup = folder.path().join("backup.db");
    Store::open(&world.state).unwrap().backup(&backup).await.unwrap();
    (13..=20).for_each(|id| world.add(id, 1, 2));
    world.run(Trigger::Manual).await.unwrap().unwrap();
    let (before, asked) = (spent(&world), sessions(&world));
    assert_eq!(done(&world), 20);
    restore(&world.state, &backup, world.clock.now()).unwrap();
    assert!(done(&world) == 12 && spent(&world) < before, "as it was then");
    let back = bring_back(&world.state, true, world.clock.now()).unwrap();
    assert_eq!(back.items, 8);
    assert_eq!((done(&world), spent(&world)), (20, before));
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(sessions(&world), asked, "nothing is paid for twice");
}

#[tokio::test]
async fn an_older_copy_that_was_put_in_its_place_learns_what_happened_since() {
    let folder = tempfile::tempdir().unwrap();
    let world = worked(folder.path()).await;
    let (database, copy) = (world.state.join("heartbeat.db"), folder.path().join("copy.db"));
    Store::open(&world.state).unwrap().backup(&copy).await.unwrap();
    (13..=20).for_each(|id| world.add(id, 1, 2));
    world.run(Trigger::Manual).await.unwrap().unwrap();
    let (before, asked) = (spent(&world), sessions(&world));
    for side in ["heartbeat.db-wal", "heartbeat.db-shm"] {
        std::fs::remove_file(world.state.join(side)).ok();
    }
    std::fs::copy(copy, database).unwrap();
    assert!(done(&world) == 12 && spent(&world) < before, "as it was then");
    // As each run does before it begins.
    let begins = || async {
        let store = Store::open(&world.state).unwrap();
        let run = RunId(uuid::Uuid::now_v7());
        drop(Journal::begin_run(store, world.clock.clone(), run).await.unwrap());
    };
    begins().await;
    assert_eq!((done(&world), spent(&world)), (20, before));
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(sessions(&world), asked, "nothing is paid for twice");
    // What a person wants again stays wanted: the database is not older.
    let retried = "UPDATE heartbeat_state SET processed_fingerprint = NULL, phase = 'pending'
                   WHERE item_id = 1";
    world.open_database().execute(retried, []).unwrap();
    begins().await;
    assert_eq!(done(&world), 19);
}

#[tokio::test]
async fn a_twin_that_is_damaged_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let world = worked(folder.path()).await;
    std::fs::write(world.state.join("spent.json"), "{ not json").unwrap();
    std::fs::write(world.state.join("finished.json"), "[{}]").unwrap();
    let back = bring_back(&world.state, true, world.clock.now()).unwrap();
    assert_eq!(back, BroughtBack::default());
    world.run(Trigger::Manual).await.unwrap().unwrap();
    set_aside(&world.state, world.clock.now()).unwrap();
    let back = bring_back(&world.state, true, world.clock.now()).unwrap();
    assert_eq!(back.items, 12, "the next run wrote it again");
}
