//! Absence is not an answer: items that a tracker stops returning, and clocks that are wrong.

use heartbeat::event::Trigger;
use heartbeat::model::{ItemId, ItemKey, Phase};
use heartbeat::store::{ItemFilter, Journal, Store};

use crate::world::{World, config};

fn phases(world: &World, phase: &str) -> i64 {
    world.count(&format!("SELECT count(*) FROM heartbeat_state WHERE phase = '{phase}'"))
}

async fn run(world: &World) {
    world.run(Trigger::Manual).await.unwrap().unwrap();
    world.clock.advance_ms(60_000);
}

/// Twenty items of which one is analysed per run.
fn waiting_items(folder: &std::path::Path) -> World {
    let world = World::new(folder, config(|config| config.limits.max_deep_per_run = 1));
    (1..=20).for_each(|id| world.add(id, 1, 2));
    world
}

#[tokio::test]
async fn an_empty_answer_of_the_tracker_gives_nothing_up_and_everything_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let world = waiting_items(folder.path());
    run(&world).await;
    let waiting = phases(&world, "pending");
    assert!(waiting >= 15, "{waiting}");
    let kept = std::mem::take(&mut world.outside.lock().unwrap().items);
    for _ in 0..4 {
        run(&world).await;
        assert_eq!(phases(&world, "vanished"), 0);
        assert_eq!(phases(&world, "pending"), waiting);
    }
    world.outside.lock().unwrap().items = kept.clone();
    run(&world).await;
    assert_eq!((phases(&world, "vanished"), phases(&world, "pending")), (0, waiting - 1));
    // A mass deletion that is one is believed in the end.
    world.outside.lock().unwrap().items.clear();
    for _ in 0..100 {
        if phases(&world, "pending") == 0 {
            break;
        }
        run(&world).await;
    }
    assert_eq!(phases(&world, "pending"), 0);
    assert_eq!(phases(&world, "vanished"), waiting - 1);
}

#[tokio::test]
async fn one_deleted_item_is_given_up_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let world = waiting_items(folder.path());
    run(&world).await;
    let deleted = world.count("SELECT min(item_id) FROM heartbeat_state WHERE phase = 'pending'");
    world.outside.lock().unwrap().items.remove(&deleted);
    run(&world).await;
    assert_eq!(world.row(deleted).unwrap().0, "vanished");
}

#[tokio::test]
async fn an_item_that_the_query_leaves_out_is_given_up_after_three_runs_only() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    world.outside.lock().unwrap().out_of_query = Some(1);
    for _ in 0..2 {
        run(&world).await;
        let (phase, reason, attempts) = world.row(1).unwrap();
        assert_eq!((phase.as_str(), reason.as_str(), attempts), ("pending", "out_of_query", 0));
    }
    run(&world).await;
    assert_eq!(world.row(1).unwrap().0, "vanished");
    // Found again in between, it counts from the start.
    world.add(2, 1, 2);
    world.outside.lock().unwrap().out_of_query = Some(2);
    run(&world).await;
    run(&world).await;
    world.outside.lock().unwrap().out_of_query = None;
    run(&world).await;
    assert_eq!(world.row(2).unwrap().0, "done");
    assert_eq!(world.count("SELECT count(*) FROM facts WHERE name LIKE 'absent/%'"), 0);
}

#[tokio::test]
async fn a_trackers_clock_that_is_ahead_hides_no_later_change() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    // Two days ahead of ours, for one item.
    world.outside.lock().unwrap().seconds += 2 * 86_400;
    world.add(1, 3, 2);
    run(&world).await;
    let store = Store::open(&world.state).unwrap();
    let cursor = store.sources().cursor("ado".into()).await.unwrap().unwrap();
    let now = world.clock.now();
    assert!(cursor <= now, "{cursor} is after {now}");
    // Its clock is right again.
    let begin: jiff::Timestamp = "2026-11-16T07:00:00Z".parse().unwrap();
    world.outside.lock().unwrap().seconds = now.duration_since(begin).as_secs();
    world.add(2, 3, 2);
    run(&world).await;
    assert_eq!(world.row(2).unwrap().0, "done");
}

#[tokio::test]
async fn an_item_that_is_there_when_it_is_asked_for_alone_is_not_given_up() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing is analysed, so that it waits.
    let mut world = World::new(folder.path(), config(|config| config.limits.max_deep_per_run = 0));
    (1..=2).for_each(|id| world.add(id, 1, 2));
    run(&world).await;
    assert_eq!(phases(&world, "pending"), 2);
    // One that the tracker leaves out alone, and then all of them.
    let mut kept = world.outside.lock().unwrap().items.clone();
    for hidden in [vec![2], vec![1, 2]] {
        world.outside.lock().unwrap().unlisted = hidden;
        for _ in 0..8 {
            run(&world).await;
            assert_eq!(phases(&world, "vanished"), 0);
        }
    }
    world.outside.lock().unwrap().unlisted.clear();
    world.config = config(|_| {});
    run(&world).await;
    assert_eq!(phases(&world, "done"), 2);
    assert_eq!(world.outside.lock().unwrap().items.len(), kept.len());
    // One that is really deleted is given up at once, with its reason, and a person brings it back.
    world.edit(2, |item| item.version = 2);
    kept = world.outside.lock().unwrap().items.clone();
    world.config = config(|config| config.limits.max_deep_per_run = 0);
    run(&world).await;
    world.outside.lock().unwrap().items.remove(&2);
    run(&world).await;
    let (phase, reason, _) = world.row(2).unwrap();
    assert_eq!((phase.as_str(), reason.as_str()), ("vanished", "deleted"));
    world.outside.lock().unwrap().items = kept;
    let store = Store::open(&world.state).unwrap();
    let gone = ItemFilter { phase: Some(Phase::Vanished), ..ItemFilter::default() };
    let gone = store.items().matching(gone, u32::MAX).await.unwrap();
    let keys: Vec<ItemKey> = gone.into_iter().map(|item| item.key).collect();
    assert_eq!(keys, [ItemKey::new("ado", ItemId(2))]);
    let journal = Journal::open(store, world.clock.clone(), None).unwrap();
    assert_eq!(journal.items().requeue_all(keys).await.unwrap(), 1, "as `retry --gone` does");
    world.config = config(|_| {});
    run(&world).await;
    assert_eq!(world.row(2).unwrap().0, "done");
}
