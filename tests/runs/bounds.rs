//! Limits of a run on a real state with everything else scripted: time, figures, cost, and their
//! reports.

use std::time::Duration;

use crate::world::{Play, World, config};
use heartbeat::event::{RunOutcome, Trigger};
use heartbeat::model::{Stage, Usd};
use heartbeat::run::RunEnd;
use heartbeat::session::StopReason;
use heartbeat::settings::FirstRun;
use serde_json::Value;

const MINUTE: Duration = Duration::from_mins(1);

async fn run(world: &World) -> RunEnd {
    world.run(Trigger::Manual).await.unwrap().unwrap()
}

fn plays(world: &World, plays: &[Play]) {
    world.outside.lock().unwrap().plays = plays.iter().copied().collect();
}

fn deep_starts(world: &World) -> usize {
    let outside = world.outside.lock().unwrap();
    outside.started.iter().filter(|start| start.0 == Stage::Deep).count()
}

#[tokio::test]
async fn an_item_that_one_read_left_out_is_asked_for_again_and_reported_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let no_overlap = config(|config| config.source.overlap = std::time::Duration::ZERO);
    let world = World::new(folder.path(), no_overlap);
    // A fourth one, so that the cursor passes the others.
    (1..=4).for_each(|id| world.add(id, 3, 2));
    world.outside.lock().unwrap().undelivered = [(2, 1), (3, 9)].into();
    run(&world).await;
    assert_eq!(world.row(1).unwrap().0, "done");
    assert_eq!(world.row(2), None, "it was not delivered");
    run(&world).await;
    assert_eq!(world.row(2).unwrap().0, "done", "nothing changed in the tracker meanwhile");
    let given_up = "SELECT count(*) FROM events WHERE event = 'item_decided' AND item = 'ado/3'
                    AND body LIKE '%not_delivered%'";
    assert_eq!(world.count(given_up), 0);
    for _ in 0..4 {
        run(&world).await;
    }
    assert_eq!(world.count(given_up), 1, "reported once, after three runs");
    world.outside.lock().unwrap().undelivered.clear();
    world.edit(3, |item| item.version = 6);
    run(&world).await;
    assert_eq!(world.row(3).unwrap().0, "done", "a change brings it back");
}

/// The figure called `name`; a missing one is not zero.
fn figure(ended: &RunEnd, name: &str) -> u64 {
    let summary = serde_json::to_value(ended.summary).unwrap();
    summary[name].as_u64().unwrap_or_else(|| panic!("no {name} in {summary}"))
}

#[tokio::test(start_paused = true)]
async fn a_session_that_meets_the_runs_deadline_counts() {
    let folder = tempfile::tempdir().unwrap();
    // An interval shorter than one analysis may take.
    let often = config(|config| config.schedule.cron = "*/5 * * * *".into());
    let world = World::new(folder.path(), often);
    world.add(1, 1, 2);
    for number in 0..6 {
        plays(&world, if number == 0 { &[Play::Good, Play::Hangs] } else { &[Play::Hangs] });
        let outcome = run(&world).await.outcome;
        assert_ne!(outcome, RunOutcome::NotNow, "run {number} did start a session");
        world.clock.advance_ms(4 * 3_600_000);
    }
    assert_eq!(world.row(1).unwrap(), ("parked".into(), "attempts_exhausted".into(), 3));
    assert_eq!(deep_starts(&world), 3, "three attempts, whatever the schedule is");
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_own_time_is_not_left_is_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let tight = config(|config| config.limits.run_deadline = Some(16 * MINUTE));
    let world = World::new(folder.path(), tight);
    world.add(1, 1, 2);
    plays(&world, &[Play::Takes(8 * 60)]);
    assert_eq!(run(&world).await.outcome, RunOutcome::Completed, "triage was done");
    assert_eq!(deep_starts(&world), 0);
    assert_eq!(world.row(1).unwrap(), ("pending".into(), "run_deadline".into(), 0));
    run(&world).await;
    assert_eq!(world.row(1).unwrap().0, "done", "the next run has the time");
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_heard_while_the_tracker_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    world.outside.lock().unwrap().tracker_hangs = true;
    let stop = async {
        tokio::time::sleep(MINUTE).await;
        world.stop.stop(StopReason::Shutdown);
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = tokio::time::timeout(2 * MINUTE, run(&world)) => ended,
        never = stop => never,
    };
    assert_eq!(ended.expect("the stop was not heard").outcome, RunOutcome::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn a_silent_tracker_does_not_make_a_run_outlive_its_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let bounded = config(|config| config.limits.run_deadline = Some(20 * MINUTE));
    let world = World::new(folder.path(), bounded);
    world.outside.lock().unwrap().tracker_hangs = true;
    for trigger in [Trigger::Manual, Trigger::Schedule] {
        let ended = tokio::time::timeout(21 * MINUTE, world.run(trigger)).await;
        let ended = ended.expect("it outlived its deadline").unwrap().unwrap();
        assert_eq!(ended.outcome, RunOutcome::SourceUnavailable);
        let error = ended.error.unwrap().to_string();
        assert!(error.contains("run_deadline"), "{error}");
    }
}

#[tokio::test]
async fn a_dry_run_tells_every_decision_of_a_big_backlog() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|config| config.limits.max_deep_per_run = 7));
    world.outside.lock().unwrap().page_size = 500;
    for id in 1..=5000 {
        world.add(id, 1, 2);
    }
    let dry_run = world.dry_run().await.unwrap();
    assert_eq!(dry_run.decisions.len(), 5000);
    let told = serde_json::to_value(&dry_run).unwrap();
    let decided = |word: &str| {
        let decisions = told["decisions"].as_array().unwrap();
        decisions.iter().filter(|decision| decision["decision"] == word).count()
    };
    assert_eq!((decided("new"), decided("deferred")), (100, 4900), "an item has one decision");
    // Each triage may ask once more for items without a usable verdict.
    let triages = dry_run.prompts.iter().filter(|prompt| prompt.stage == Stage::Triage).count();
    assert_eq!(dry_run.sessions_at_most, 2 * triages + 7);
    let most = 2.0 * 0.25 * f64::from(u32::try_from(triages).unwrap()) + 7.0 * 0.5;
    assert_eq!(dry_run.worst_case, Usd::from_dollars(most));
}

/// The figures into which everything fetched is divided.
const SHARES: [&str; 7] =
    ["new", "changed", "carried_over", "unchanged", "baseline", "crowded_out", "resting"];

fn shares(ended: &RunEnd) -> Vec<u64> {
    let shares: Vec<u64> = SHARES.iter().map(|name| figure(ended, name)).collect();
    assert_eq!(shares.iter().sum::<u64>(), figure(ended, "fetched"), "{shares:?}");
    shares
}

#[tokio::test]
async fn the_figures_of_a_run_add_up_to_what_was_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let limits = |config: &mut heartbeat::settings::Config| {
        config.limits.max_items_per_run = 10;
        config.order.urgent_priority = 1;
    };
    let world = World::new(folder.path(), config(limits));
    for id in 1..=30 {
        world.add(id, 1, 2);
    }
    assert_eq!(shares(&run(&world).await), [10, 0, 0, 0, 0, 20, 0]);
    // Of the next ones, one is new, urgent and moves another over the limit; one was finished and
    // changed; one fails.
    world.add(31, 1, 1);
    world.edit(1, |item| item.version = 2);
    world.outside.lock().unwrap().cursed = Some(11);
    assert_eq!(shares(&run(&world).await), [1, 0, 9, 9, 0, 12, 0]);
    assert_eq!(
        shares(&run(&world).await),
        [0, 0, 10, 18, 0, 2, 1],
        "one waits for its next attempt"
    );
    assert_eq!(shares(&run(&world).await)[2], 2, "the rest");
}

#[tokio::test]
async fn a_baseline_is_reported_by_the_run_that_makes_it() {
    for trigger in [Trigger::Manual, Trigger::Schedule] {
        let folder = tempfile::tempdir().unwrap();
        let baseline = config(|config| config.schedule.first_run = FirstRun::Baseline);
        let world = World::new(folder.path(), baseline);
        for id in 1..=20 {
            world.add(id, 1, 2);
        }
        world.edit(20, |item| item.open = false);
        let ended = world.run(trigger).await.unwrap().unwrap();
        assert_eq!(ended.outcome, RunOutcome::NothingNew);
        assert_eq!(shares(&ended), [0, 0, 0, 1, 19, 0, 0]);
    }
}

#[tokio::test]
async fn what_is_counted_at_worst_is_part_of_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    plays(&world, &[Play::Good, Play::Silent]);
    let ended = run(&world).await;
    assert_eq!(ended.summary.cost, Usd::from_dollars(0.01));
    let summary = serde_json::to_value(ended.summary).unwrap();
    let at_worst = serde_json::to_value(Usd::from_dollars(0.5)).unwrap();
    assert_eq!(summary["cost_at_worst"], at_worst, "{summary}");
    let booked = world.count("SELECT sum(spent) FROM budget");
    assert_eq!(booked, Usd::from_dollars(0.51).micros(), "what the budget counts");
}

#[tokio::test]
async fn a_question_about_the_backlog_is_not_counted_anew_at_every_tick() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), config(|_| {}));
    for id in 1..=5 {
        world.add(id, 1, 2);
    }
    let mut told = Vec::new();
    for _ in 0..4 {
        let ended = world.run(Trigger::Schedule).await.unwrap().unwrap();
        assert_eq!(ended.outcome, RunOutcome::NotNow);
        told.push(ended.error.unwrap().to_string());
        world.clock.advance_ms(30 * 60_000);
    }
    assert!(told.iter().all(|error| *error == told[0]), "{told:?}");
    assert_eq!(world.outside.lock().unwrap().opened, 1, "the backlog was read once");
    world.clock.advance_ms(24 * 3_600_000);
    world.add(6, 1, 2);
    let ended = world.run(Trigger::Schedule).await.unwrap().unwrap();
    assert!(ended.error.unwrap().to_string().contains("the 6 items"));
    world.config = config(|config| config.schedule.first_run = FirstRun::Process);
    world.run(Trigger::Schedule).await.unwrap().unwrap();
    assert_eq!(world.count("SELECT count(*) FROM heartbeat_state WHERE phase = 'done'"), 6);
}

#[tokio::test]
async fn a_finding_that_a_crash_held_up_is_checked_and_written_back_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    // The code base of this item is not the default one.
    let root = folder.path().join("routed");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("only_here.rs"), "").unwrap();
    {
        let mut outside = world.outside.lock().unwrap();
        outside.root = Some(root);
        outside.names_file = Some("only_here.rs".into());
        outside.published = Some(Vec::new());
    }
    world.add(1, 1, 2);
    plays(&world, &[Play::Good, Play::DiesAfterRow]);
    assert!(world.run(Trigger::Manual).await.unwrap().is_none(), "it crashed");
    plays(&world, &[]);
    run(&world).await;
    assert_eq!(world.row(1).unwrap().0, "done");
    let database = world.open_database();
    let finding: String =
        database.query_row("SELECT finding FROM findings", [], |row| row.get(0)).unwrap();
    let finding: Value = serde_json::from_str(&finding).unwrap();
    assert_eq!(finding["files"][0]["exists"], true, "{finding}");
    assert_eq!(world.outside.lock().unwrap().published, Some(vec![(1, 1)]));
    // Our own write creates no work, also after the next runs.
    run(&world).await;
    assert_eq!(world.outside.lock().unwrap().published, Some(vec![(1, 1)]));
}

#[tokio::test]
async fn nothing_is_written_on_an_item_in_a_terminal_state_of_any_case() {
    let folder = tempfile::tempdir().unwrap();
    let states = vec!["CLOSED".to_owned()];
    let world = World::new(folder.path(), config(|config| config.dedupe.terminal_states = states));
    world.outside.lock().unwrap().published = Some(Vec::new());
    world.add(1, 1, 2);
    world.outside.lock().unwrap().closes_meanwhile = Some(1);
    run(&world).await;
    assert_eq!(world.count("SELECT count(*) FROM findings"), 1);
    assert_eq!(world.outside.lock().unwrap().published, Some(Vec::new()));
}

#[tokio::test]
async fn a_machine_that_can_start_nothing_costs_no_item_its_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|config| config.limits.max_live_sessions = 1));
    world.add(1, 1, 2);
    world.add(2, 1, 3);
    let told = |ended: RunEnd| {
        assert_eq!(ended.outcome, RunOutcome::NotNow);
        ended.error.unwrap().to_string()
    };
    for _ in 0..4 {
        plays(&world, &[Play::NoKeeper]);
        let error = told(run(&world).await);
        assert!(error.contains("os error 11"), "{error}");
    }
    assert_eq!(world.count("SELECT max(triage_failures) FROM heartbeat_state"), 0);
    plays(&world, &[Play::Good, Play::NoKeeper]);
    run(&world).await;
    for _ in 0..4 {
        plays(&world, &[Play::NoKeeper]);
        told(run(&world).await);
        world.clock.advance_ms(4 * 3_600_000);
    }
    for id in 1..=2 {
        assert_eq!(world.row(id).unwrap(), ("pending".into(), "cannot_start".into(), 0));
    }
    assert_eq!(deep_starts(&world), 0, "no session got its row");
    plays(&world, &[]);
    assert_eq!(run(&world).await.outcome, RunOutcome::Completed);
}

#[tokio::test]
async fn an_item_that_left_the_query_before_its_turn_is_not_analysed() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|config| config.limits.max_deep_per_run = 1));
    world.add(1, 1, 2);
    world.add(2, 1, 3);
    run(&world).await;
    assert_eq!(world.row(2).unwrap().0, "pending");
    world.outside.lock().unwrap().out_of_query = Some(2);
    // One answer without it could be a mistake.
    for _ in 0..3 {
        assert_eq!(world.row(2).unwrap().0, "pending");
        run(&world).await;
    }
    assert_eq!(world.row(2).unwrap(), ("vanished".into(), "out_of_query".into(), 0));
    assert_eq!(deep_starts(&world), 1);
    // Matching again after an edit, it is work.
    world.outside.lock().unwrap().out_of_query = None;
    world.edit(2, |_| {});
    run(&world).await;
    assert_eq!(world.row(2).unwrap().0, "done");
}

#[tokio::test]
async fn an_item_whose_code_base_is_missing_waits_for_it_and_the_run_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    let root = folder.path().join("code");
    world.outside.lock().unwrap().root = Some(root.clone());
    world.add(1, 1, 2);
    for _ in 0..4 {
        let ended = run(&world).await;
        assert_eq!(ended.outcome, RunOutcome::ConfigRefused);
        let error = ended.error.unwrap().to_string();
        assert!(error.contains(&root.display().to_string()), "{error}");
        assert_eq!(world.row(1).unwrap(), ("pending".into(), "no_code_base".into(), 0));
        let dry_run = world.dry_run().await.unwrap();
        assert_eq!((dry_run.sessions_at_most, dry_run.trouble.len()), (0, 1));
    }
    assert_eq!(deep_starts(&world), 0);
    std::fs::create_dir(&root).unwrap();
    assert_eq!(run(&world).await.outcome, RunOutcome::Completed);
}
