//! Several sources in one run: one triage for all, and none blocks another.

use std::sync::Arc;
use std::time::Duration;

use heartbeat::event::{RunOutcome, Trigger};
use heartbeat::model::Stage;
use heartbeat::settings::{Config, FirstRun, Source};

use crate::world::{World, config};

fn named(config: &Config, name: &str) -> Source {
    Source { name: name.into(), ..config.source.clone() }
}

/// A test environment with these sources; each except the first has its own tracker.
fn world(folder: &std::path::Path, names: &[&str], change: impl FnOnce(&mut Config)) -> World {
    let mut world = World::new(folder, config(|_| {}));
    for name in names.iter().skip(1) {
        world.others.insert((*name).to_owned(), Arc::default());
    }
    with_sources(&mut world, names, change);
    world
}

fn with_sources(world: &mut World, names: &[&str], change: impl FnOnce(&mut Config)) {
    world.config = config(|config| {
        config.source_list = names.iter().map(|name| named(config, name)).collect();
        change(config);
    });
}

fn state_of(world: &World, key: &str) -> (String, String) {
    let sql = "SELECT phase, reason FROM heartbeat_state WHERE key = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    world.open_database().query_row(sql, [key], read).unwrap()
}

fn triage_sessions(world: &World) -> usize {
    let outside = world.outside.lock().unwrap();
    outside.started.iter().filter(|(stage, ..)| *stage == Stage::Triage).count()
}

#[tokio::test]
async fn one_triage_serves_all_sources_and_one_that_fails_stops_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), &["ado", "web", "server"], |_| {});
    world.add(1, 1, 2);
    world.add_to("web", 101, 1, 2);
    world.add_to("server", 201, 1, 2);
    world.others["server"].lock().unwrap().pages_until_failure = Some(0);
    let ended = world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(ended.outcome, RunOutcome::SourcesFailed);
    let error = ended.error.unwrap().to_string();
    assert!(error.contains("source \"server\": the tracker went away"), "{error}");
    assert_eq!(triage_sessions(&world), 1, "one session for both sources");
    for key in ["ado/1", "web/101"] {
        assert_eq!(state_of(&world, key).0, "done", "{key}");
    }
    assert_eq!(world.count("SELECT count(*) FROM heartbeat_state"), 2);
    let ended = world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(ended.outcome, RunOutcome::Completed, "it is back");
    assert_eq!(state_of(&world, "server/201").0, "done");
}

#[tokio::test]
async fn a_run_that_can_read_no_source_says_so_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), &["ado", "web"], |_| {});
    world.outside.lock().unwrap().pages_until_failure = Some(0);
    world.others["web"].lock().unwrap().pages_until_failure = Some(0);
    let ended = world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(ended.outcome, RunOutcome::SourceUnavailable);
    let error = ended.error.unwrap().to_string();
    assert!(error.contains("\"ado\"") && error.contains("\"web\""), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_never_answers_leaves_the_others_half_of_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), &["ado", "web"], |config| {
        config.limits.run_deadline = Some(Duration::from_secs(4000));
    });
    world.add(1, 1, 2);
    world.others["web"].lock().unwrap().tracker_hangs = true;
    let ended = world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(ended.outcome, RunOutcome::SourcesFailed);
    assert_eq!(state_of(&world, "ado/1").0, "done");
}

#[tokio::test]
async fn items_of_a_source_that_is_removed_are_parked_and_come_back_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["ado", "web"];
    let mut world = world(folder.path(), &names, |config| config.limits.max_deep_per_run = 0);
    world.add_to("web", 101, 1, 2);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(state_of(&world, "web/101").0, "pending");
    with_sources(&mut world, &["ado"], |_| {});
    let ended = world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(ended.outcome, RunOutcome::NothingNew);
    assert_eq!(state_of(&world, "web/101"), ("parked".into(), "source_removed".into()));
    let told = "SELECT count(*) FROM events WHERE event = 'item_parked' AND item = 'web/101'";
    assert_eq!(world.count(told), 1);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(world.count(told), 1, "once");
    with_sources(&mut world, &names, |_| {});
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(state_of(&world, "web/101").0, "done");
    assert_eq!(triage_sessions(&world), 1, "its verdict is kept");
}

#[tokio::test]
async fn a_source_that_is_added_has_a_first_run_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(folder.path(), &["ado"], |_| {});
    world.add(1, 1, 2);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    world.others.insert("web".into(), Arc::default());
    world.add_to("web", 101, 1, 2);
    world.add(2, 1, 2);
    // Nothing was configured for its backlog.
    with_sources(&mut world, &["ado", "web"], |_| {});
    let ended = world.run(Trigger::Schedule).await.unwrap().unwrap();
    assert_eq!(ended.outcome, RunOutcome::SourcesFailed);
    let error = ended.error.unwrap().to_string();
    assert!(error.contains("first_run"), "{error}");
    assert_eq!(state_of(&world, "ado/2").0, "done", "the other source goes on");
    let baseline = |config: &mut Config| config.schedule.first_run = FirstRun::Baseline;
    with_sources(&mut world, &["ado", "web"], baseline);
    world.add(3, 1, 2);
    world.run(Trigger::Schedule).await.unwrap().unwrap();
    assert_eq!(state_of(&world, "web/101"), ("done".into(), "baseline".into()));
    assert_ne!(state_of(&world, "ado/3").1, "baseline", "its first run is long over");
}

#[tokio::test]
async fn a_source_with_a_schedule_of_its_own_is_read_at_its_times() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), &["ado", "web"], |config| {
        config.schedule.first_run = FirstRun::Process;
        config.source_list[1].schedule = "0 6 * * *".into();
    });
    let opened = |world: &World| world.others["web"].lock().unwrap().opened;
    // It is 08:00.
    for _ in 0..3 {
        world.run(Trigger::Schedule).await.unwrap().unwrap();
    }
    assert_eq!((opened(&world), world.outside.lock().unwrap().opened), (1, 3));
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(opened(&world), 2, "whoever starts a run by hand wants all");
    world.clock.advance_ms(24 * 3_600_000);
    world.run(Trigger::Schedule).await.unwrap().unwrap();
    assert_eq!(opened(&world), 3, "it is the next day");
}

#[tokio::test]
async fn each_source_has_its_own_comments() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), &["ado", "web"], |_| {});
    world.others["web"].lock().unwrap().published = Some(Vec::new());
    world.add(1, 1, 2);
    world.add_to("web", 101, 1, 2);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(world.count("SELECT count(*) FROM findings"), 2);
    assert_eq!(world.count("SELECT count(*) FROM outbox"), 1);
    let published = world.others["web"].lock().unwrap().published.clone().unwrap();
    assert_eq!(published, [(101, 1)]);
}

#[tokio::test]
async fn the_same_bug_in_two_sources_is_offered_named_and_grouped() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), &["ado", "web"], |_| {});
    let retitle = |outside: &Arc<std::sync::Mutex<crate::world::Outside>>, id: i64, title: &str| {
        outside.lock().unwrap().items.get_mut(&id).unwrap().title = title.to_owned();
    };
    world.add(7, 3, 2);
    retitle(&world.outside, 7, "Invoice total is wrong by a cent");
    world.add(8, 3, 2);
    retitle(&world.outside, 8, "Login page stays blank in Safari");
    world.run(Trigger::Manual).await.unwrap().unwrap();
    // The other source has an item with the same number and text.
    world.add_to("web", 7, 1, 2);
    retitle(&world.others["web"], 7, "Totals of invoices are wrong: a cent is missing");
    let prompts = world.dry_run().await.unwrap().prompts;
    let triage = &prompts[0].user;
    assert!(triage.contains(" item=\"7\" near=\"9000001"), "{triage}");
    assert!(triage.contains("\n9000001 | done | Invoice total is wrong by a cent\n"), "{triage}");
    let deep = &prompts[1].user;
    assert!(deep.contains("\nado/7 | done | Invoice total is wrong by a cent\n"), "{deep}");
    world.outside.lock().unwrap().duplicates.insert(7, 9_000_001);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    let store = heartbeat::store::Store::open_for_reading(&world.state).unwrap().unwrap();
    let key = heartbeat::model::ItemKey::from_stored("web/7".into());
    let group = store.items().duplicates_of(key).await.unwrap();
    let keys: Vec<_> = group.items.iter().map(|item| item.key.to_string()).collect();
    assert_eq!(keys, ["ado/7", "web/7"]);
}
