//! Absence is not an answer: items that a tracker stops returning, and clocks that are wrong.

use heartbeat::event::Trigger;
use heartbeat::model::{ItemId, ItemKey, Phase, Stage};
use heartbeat::store::{ItemFilter, Journal, Store};

use crate::world::{Outside, World, config};

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

/// Somebody tried out a narrower query for longer than an item is waited for, and put it back.
#[tokio::test]
async fn an_item_that_the_query_returns_again_is_queued_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    world.outside.lock().unwrap().out_of_query = Some(1);
    run(&world).await;
    // A later change moves the cursor, so that what is unchanged is not listed again.
    world.clock.advance_ms(2 * 86_400_000);
    world.outside.lock().unwrap().seconds += 2 * 86_400;
    world.add(2, 1, 2);
    for _ in 0..4 {
        run(&world).await;
    }
    assert_eq!(world.row(1).unwrap().0, "vanished");
    assert_eq!(world.row(2).unwrap().0, "done");
    let sessions = world.count("SELECT count(*) FROM budget");
    world.outside.lock().unwrap().out_of_query = None;
    for _ in 0..2 {
        run(&world).await;
    }
    assert_eq!(world.row(1).unwrap().0, "done");
    // Its verdict is known; what was finished is not paid for again, and nothing follows.
    assert_eq!(world.count("SELECT count(*) FROM budget"), sessions + 1);
    run(&world).await;
    assert_eq!(world.count("SELECT count(*) FROM budget"), sessions + 1);
}

/// One that is closed or deleted stays away.
#[tokio::test]
async fn an_item_that_was_closed_meanwhile_is_not_brought_back() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    world.outside.lock().unwrap().out_of_query = Some(1);
    for _ in 0..3 {
        run(&world).await;
    }
    world.edit(1, |item| item.open = false);
    world.outside.lock().unwrap().out_of_query = None;
    for _ in 0..3 {
        run(&world).await;
    }
    assert_eq!(world.row(1).unwrap().0, "vanished");
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
    let world = World::new(folder.path(), config(|_| {}));
    let outside = |change: &dyn Fn(&mut Outside)| change(&mut world.outside.lock().unwrap());
    // Nothing is analysed, so that they wait.
    outside(&|outside| outside.outage = vec![Stage::Deep]);
    (1..=2).for_each(|id| world.add(id, 1, 2));
    run(&world).await;
    assert_eq!(phases(&world, "pending"), 2);
    // One that the tracker leaves out alone, and then all of them.
    for hidden in [vec![2], vec![1, 2]] {
        outside(&|outside| outside.unlisted.clone_from(&hidden));
        for _ in 0..8 {
            run(&world).await;
            assert_eq!(phases(&world, "vanished"), 0, "{hidden:?}");
        }
    }
    outside(&|outside| outside.unlisted.clear());
    // One that is really deleted is given up, with its reason, and a person brings it back.
    let kept = world.outside.lock().unwrap().items.clone();
    run(&world).await;
    outside(&|outside| drop(outside.items.remove(&2)));
    run(&world).await;
    let (phase, reason, _) = world.row(2).unwrap();
    assert_eq!((phase.as_str(), reason.as_str()), ("vanished", "deleted"));
    outside(&|outside| {
        outside.items.clone_from(&kept);
        outside.outage.clear();
    });
    let store = Store::open(&world.state).unwrap();
    let gone = ItemFilter { phase: Some(Phase::Vanished), ..ItemFilter::default() };
    let gone = store.items().matching(gone, u32::MAX).await.unwrap();
    let keys: Vec<ItemKey> = gone.into_iter().map(|item| item.key).collect();
    assert_eq!(keys, [ItemKey::new("ado", ItemId(2))]);
    let journal = Journal::open(store, world.clock.clone(), None).unwrap();
    assert_eq!(journal.items().requeue_all(keys).await.unwrap(), 1, "as `retry --gone` does");
    world.clock.advance_ms(24 * 3_600_000);
    run(&world).await;
    assert_eq!(phases(&world, "done"), 2);
}

#[tokio::test]
async fn what_changed_while_our_clock_and_the_trackers_were_ahead_is_seen_after_both_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    let hour = 3_600;
    world.add(1, 3, 2);
    run(&world).await;
    // Both are wrong: the cursor follows them.
    let right = world.outside.lock().unwrap().seconds;
    world.outside.lock().unwrap().seconds += 48 * hour;
    world.clock.advance_ms(30 * hour * 1000);
    world.add(2, 3, 2);
    run(&world).await;
    // The tracker is right again, and an item comes before ours is.
    world.outside.lock().unwrap().seconds = right + 3 * hour;
    world.add(3, 3, 2);
    world.clock.advance_ms(-20 * hour * 1000);
    run(&world).await;
    assert_eq!(world.row(3).unwrap().0, "done");
}

#[tokio::test]
async fn what_came_before_a_cursor_of_wrong_clocks_is_seen_when_ours_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    let hours = |hours: i64| world.clock.advance_ms(hours * 3_600_000);
    let tracker = |seconds: i64| world.outside.lock().unwrap().seconds = seconds;
    world.add(1, 3, 2);
    run(&world).await;
    // Both are ahead, and the cursor with them.
    let right = world.outside.lock().unwrap().seconds;
    tracker(right + 48 * 3600);
    hours(30);
    world.add(2, 3, 2);
    run(&world).await;
    // The tracker's is right, and an item comes long before the cursor.
    tracker(right + 6 * 3600);
    world.add(3, 3, 2);
    hours(6);
    run(&world).await;
    assert_eq!(world.row(3), None, "nobody can know yet");
    // Time has passed the cursor when ours is right, in a run that cannot read.
    hours(30);
    run(&world).await;
    hours(-30);
    world.outside.lock().unwrap().pages_until_failure = Some(0);
    world.run(Trigger::Manual).await.unwrap();
    run(&world).await;
    assert_eq!(world.row(3).unwrap().0, "done");
}
