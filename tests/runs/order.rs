//! Runs on a real state with everything else scripted: order, deferral, parking, first run,
//! reconciliation, clocks.

use crate::world::{Play, World, config};
use heartbeat::event::{RunOutcome, Trigger};
use heartbeat::model::{Outcome, Stage, Usd};
use heartbeat::run::RunError;
use heartbeat::settings::FirstRun;

fn deep_order(world: &World) -> Vec<i64> {
    let outside = world.outside.lock().unwrap();
    outside.started.iter().filter(|start| start.0 == Stage::Deep).map(|start| start.1).collect()
}

async fn run(world: &World) -> RunOutcome {
    world.run(Trigger::Manual).await.unwrap().unwrap().outcome
}

#[tokio::test]
async fn three_per_run_and_thirty_items_are_done_in_ten_runs() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|config| config.limits.max_deep_per_run = 3));
    for id in 1..=30 {
        world.add(id, 1, 2 + id % 3);
    }
    for number in 1..=10 {
        run(&world).await;
        let done = world.count("SELECT count(*) FROM heartbeat_state WHERE phase = 'done'");
        assert_eq!(done, number * 3, "after run {number}");
    }
    let mut order = deep_order(&world);
    order.sort_unstable();
    assert_eq!(order, (1..=30).collect::<Vec<_>>(), "each once");
    assert_eq!(run(&world).await, RunOutcome::NothingNew);
}

#[tokio::test]
async fn what_one_run_left_comes_first_in_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let limits = |config: &mut heartbeat::settings::Config| {
        config.limits.max_deep_per_run = 2;
        config.limits.max_live_sessions = 1;
    };
    let world = World::new(folder.path(), config(limits));
    for id in 1..=4 {
        world.add(id, 1, 4);
    }
    run(&world).await;
    world.add(5, 1, 2);
    run(&world).await;
    assert_eq!(deep_order(&world), [1, 2, 3, 4], "the newcomer waits");
    run(&world).await;
    assert_eq!(deep_order(&world), [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn an_urgent_newcomer_does_not_wait_behind_the_backlog_nor_starve_it() {
    let folder = tempfile::tempdir().unwrap();
    let limits = |config: &mut heartbeat::settings::Config| {
        config.limits.max_deep_per_run = 2;
        config.limits.max_items_per_run = 4;
        config.limits.max_live_sessions = 1;
    };
    let world = World::new(folder.path(), config(limits));
    for id in 1..=12 {
        world.add(id, 1, 3);
    }
    run(&world).await;
    for id in 101..=106 {
        world.add(id, 1, 1);
    }
    run(&world).await;
    let second = deep_order(&world)[2..].to_vec();
    assert_eq!(second.iter().filter(|id| **id > 100).count(), 1, "{second:?}");
    assert_eq!(second.len(), 2);
    for _ in 0..9 {
        run(&world).await;
    }
    assert_eq!(world.count("SELECT count(*) FROM heartbeat_state WHERE phase <> 'done'"), 0);
}

#[tokio::test]
async fn an_item_that_always_fails_is_parked_after_three_attempts_and_blocks_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|config| config.limits.max_deep_per_run = 2));
    for id in 1..=6 {
        world.add(id, 1, 2);
    }
    world.outside.lock().unwrap().cursed = Some(1);
    // Triage's first answer is unusable, the second one is good: asked again, not failed.
    world.outside.lock().unwrap().plays.push_back(Play::BadOutput);
    for _ in 0..6 {
        run(&world).await;
        world.clock.advance_ms(3_600_000);
    }
    assert_eq!(world.row(1).unwrap(), ("parked".into(), "attempts_exhausted".into(), 3));
    assert_eq!(deep_order(&world).iter().filter(|id| **id == 1).count(), 3);
    assert_eq!(world.count("SELECT count(*) FROM heartbeat_state WHERE phase = 'done'"), 5);
    // Reverting an edit gives no new attempts on the old text.
    world.edit(1, |item| item.version = 3);
    run(&world).await;
    assert_eq!(world.row(1).unwrap().0, "done", "version 3 is settled by triage");
    world.edit(1, |item| item.version = 1);
    run(&world).await;
    assert_eq!(world.row(1).unwrap(), ("parked".into(), "attempts_exhausted".into(), 3));
    assert_eq!(deep_order(&world).iter().filter(|id| **id == 1).count(), 3);
}

/// The session itself completed, so only the check of its answer can tell.
#[tokio::test]
async fn a_rejected_finding_is_a_failed_analysis_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    world.outside.lock().unwrap().plays.extend([Play::Good, Play::BadOutput]);
    assert_eq!(run(&world).await, RunOutcome::SomeFailed);
    assert_eq!(world.count("SELECT count(*) FROM findings"), 0);
    let failed =
        "SELECT count(*) FROM sessions WHERE stage = 'deep' AND outcome LIKE '%bad_output%'";
    assert_eq!(world.count(failed), 1, "the session's row says so too");
    world.clock.advance_ms(3_600_000);
    assert_eq!(run(&world).await, RunOutcome::Completed);
}

#[tokio::test]
async fn triage_that_always_fails_falls_back_to_the_stated_default() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    for _ in 0..3 {
        world.outside.lock().unwrap().plays.push_back(Play::Fails);
        run(&world).await;
        world.clock.advance_ms(60_000);
    }
    let triages =
        world.outside.lock().unwrap().started.iter().filter(|s| s.0 == Stage::Triage).count();
    assert_eq!(triages, 3);
    assert!(["done", "parked"].contains(&world.row(1).unwrap().0.as_str()), "{:?}", world.row(1));
    run(&world).await;
    let triages =
        world.outside.lock().unwrap().started.iter().filter(|s| s.0 == Stage::Triage).count();
    assert_eq!(triages, 3, "it is not asked about a fourth time");
}

#[tokio::test]
async fn a_provider_limit_in_triage_counts_for_nobody_and_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    world.outside.lock().unwrap().plays.push_back(Play::Limited);
    run(&world).await;
    assert_eq!(world.row(1).unwrap(), ("pending".into(), "provider_limit".into(), 0));
    assert_eq!(world.count("SELECT max(triage_failures) FROM heartbeat_state"), 0);
    world.clock.advance_ms(16 * 60_000);
    run(&world).await;
    assert_eq!(world.row(1).unwrap().0, "done");
}

#[tokio::test]
async fn the_first_scheduled_run_tells_counts_and_cost_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), config(|_| {}));
    for id in 1..=25 {
        world.add(id, 1, 2);
    }
    world.edit(25, |item| item.open = false);
    let ended = world.run(Trigger::Schedule).await.unwrap().unwrap();
    assert_eq!(ended.outcome, RunOutcome::NotNow);
    let Some(RunError::FirstRun(backlog)) = ended.error else { panic!("{:?}", ended.error) };
    assert_eq!((backlog.items, backlog.runs), (24, 1));
    assert_eq!(backlog.in_all, Usd::from_dollars(24.0 * 0.5 + 0.25));
    assert_eq!(world.count("SELECT count(*) FROM heartbeat_state"), 0);
    assert_eq!(world.count("SELECT count(*) FROM sessions"), 0);
    let told = "SELECT count(*) FROM events WHERE event = 'run_failed'
                AND json_extract(body, '$.message') LIKE '%24 items%first_run%'";
    assert_eq!(world.count(told), 1, "the dashboard says it in the words of the log");
    // A baseline that the tracker interrupted after one page continues as a baseline.
    world.config = config(|config| config.schedule.first_run = FirstRun::Baseline);
    world.outside.lock().unwrap().pages_until_failure = Some(1);
    let ended = world.run(Trigger::Schedule).await.unwrap().unwrap();
    assert_eq!(ended.outcome, RunOutcome::SourceUnavailable);
    world.config = config(|config| config.schedule.first_run = FirstRun::Process);
    assert_eq!(
        world.run(Trigger::Schedule).await.unwrap().unwrap().outcome,
        RunOutcome::NothingNew
    );
    assert_eq!(world.count("SELECT count(*) FROM sessions"), 0);
    let baseline =
        "SELECT count(*) FROM heartbeat_state WHERE phase = 'done' AND reason = 'baseline'";
    assert_eq!(world.count(baseline), 24);
    // From now on, changed items are work.
    world.edit(7, |item| item.version = 2);
    world.run(Trigger::Schedule).await.unwrap().unwrap();
    assert_eq!(deep_order(&world), [7]);
}

#[tokio::test]
async fn an_item_that_is_closed_before_its_turn_is_not_analysed_and_comes_back_as_work() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|config| config.limits.max_live_sessions = 1));
    world.add(1, 1, 2);
    world.add(2, 1, 3);
    world.outside.lock().unwrap().closes_meanwhile = Some(2);
    run(&world).await;
    assert_eq!(deep_order(&world), [1]);
    assert_eq!(world.row(2).unwrap(), ("vanished".into(), "out_of_query".into(), 0));
    world.edit(2, |item| item.open = true);
    run(&world).await;
    assert_eq!(deep_order(&world), [1, 2], "reopened, it is work");
    world.edit(2, |item| {
        item.version = 2;
        item.open = false;
    });
    run(&world).await;
    assert_eq!(world.row(2).unwrap().0, "done", "what was finished stays finished");
    world.edit(2, |item| item.open = true);
    run(&world).await;
    assert_eq!(deep_order(&world), [1, 2, 2], "reopened, its new text is work");
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_item_is_closed_is_ended_and_counts_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    let plays = [Play::Good, Play::Hangs];
    world.outside.lock().unwrap().plays.extend(plays);
    world.outside.lock().unwrap().closes_meanwhile = Some(1);
    run(&world).await;
    assert_eq!(world.row(1).unwrap(), ("vanished".into(), "out_of_query".into(), 0));
    let counted = "SELECT count(*) FROM attempts WHERE counted = 1";
    assert_eq!(world.count(counted), 0);
    world.edit(1, |item| item.open = true);
    run(&world).await;
    assert_eq!(world.row(1).unwrap().0, "done");
}

#[tokio::test]
async fn an_item_edited_before_its_turn_is_planned_again_with_its_new_text() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|config| config.limits.max_live_sessions = 1));
    world.add(1, 1, 2);
    world.outside.lock().unwrap().plays.push_back(Play::Limited);
    run(&world).await;
    world.clock.advance_ms(16 * 60_000);
    assert_eq!(world.row(1).unwrap(), ("pending".into(), "provider_limit".into(), 0));
    world.edit(1, |item| item.version = 2);
    run(&world).await;
    let outside = world.outside.lock().unwrap();
    let deep = outside.started.iter().filter(|start| start.0 == Stage::Deep);
    assert_eq!(deep.map(|start| start.2).collect::<Vec<_>>(), [2], "the old text costs nothing");
}

#[tokio::test]
async fn tags_and_links_do_not_requeue_the_item_but_the_revision_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    run(&world).await;
    world.edit(1, |_| {});
    assert_eq!(run(&world).await, RunOutcome::NothingNew);
    assert_eq!(world.count("SELECT revision FROM heartbeat_state"), 2);
    assert_eq!(deep_order(&world), [1]);
}

#[tokio::test]
async fn a_run_with_nothing_new_writes_its_own_record_only() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    for id in 1..=9 {
        world.add(id, 1, 2);
    }
    run(&world).await;
    // Everything is read again, because it is in the overlap; nothing is written for it.
    let keeps_the_log = world.open_database();
    keeps_the_log.query_row("SELECT count(*) FROM runs", [], |_| Ok(())).unwrap();
    let rows = "SELECT total(last_seen + revision) FROM heartbeat_state";
    let seen: f64 = keeps_the_log.query_row(rows, [], |row| row.get(0)).unwrap();
    let before = commits(&world);
    assert_eq!(run(&world).await, RunOutcome::NothingNew);
    assert_eq!(commits(&world) - before, 2, "its beginning and its end");
    let after: f64 = keeps_the_log.query_row(rows, [], |row| row.get(0)).unwrap();
    assert!((seen - after).abs() < f64::EPSILON, "a row was written");
}

/// Transactions in the write-ahead log: each ends with a frame that has the database's size.
fn commits(world: &World) -> usize {
    let Ok(log) = std::fs::read(world.state.join("heartbeat.db-wal")) else { return 0 };
    if log.len() < 32 {
        return 0;
    }
    let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let (page, salt) = (number(8) as usize, number(16));
    let frames = (32..log.len().saturating_sub(23)).step_by(24 + page);
    frames.filter(|at| number(at + 4) > 0 && number(at + 8) == salt).count()
}

#[tokio::test]
async fn a_clock_a_year_ahead_and_back_again_loses_and_delays_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    let year = 365 * 24 * 3_600_000;
    world.clock.advance_ms(year);
    world.outside.lock().unwrap().plays.extend([Play::Good, Play::Fails]);
    run(&world).await;
    assert_eq!(world.row(1).unwrap(), ("waiting".into(), "backoff".into(), 1));
    world.clock.advance_ms(-year);
    run(&world).await;
    assert_eq!(world.row(1).unwrap().0, "done", "the wait of the wrong clock is over");
    world.clock.advance_ms(-24 * 3_600_000);
    world.edit(1, |item| {
        item.version = 2;
    });
    run(&world).await;
    assert_eq!(deep_order(&world), [1, 1, 1]);
    let ends: Vec<Outcome> =
        world.outside.lock().unwrap().started.iter().map(|start| start.3.clone()).collect();
    assert_eq!(ends.iter().filter(|end| !end.is_success()).count(), 1);
}
