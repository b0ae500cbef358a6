//! A panic in our own code costs one item one attempt, and affects no other.

use heartbeat::event::{RunOutcome, Trigger};
use heartbeat::run::{RunEnd, RunError};

use crate::world::{Play, World, config};

async fn run(world: &World) -> RunEnd {
    world.run(Trigger::Manual).await.unwrap().unwrap()
}

fn world(folder: &tempfile::TempDir) -> World {
    let world = World::new(folder.path(), config(|config| config.limits.max_live_sessions = 1));
    (1..=3).for_each(|id| world.add(id, 1, 2));
    world
}

#[tokio::test]
async fn a_panic_before_a_session_is_a_failed_attempt_of_its_item() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(&folder);
    world.outside.lock().unwrap().code_panics_for = Some(2);
    let ended = run(&world).await;
    assert_eq!(ended.outcome, RunOutcome::SomeFailed);
    assert!(matches!(ended.error, Some(RunError::AnalysisPanicked { items: 1 })), "{ended:?}");
    assert_eq!(world.row(2), Some(("waiting".into(), "backoff".into(), 1)));
    let recorded = "SELECT count(*) FROM attempts WHERE key = 'ado/2' AND counted = 1
                    AND outcome LIKE '%panicked%' AND ended_at IS NOT NULL";
    assert_eq!(world.count(recorded), 1, "the attempt is in the history");
    for other in [1, 3] {
        assert_eq!(world.row(other).unwrap().0, "done", "{other} is analysed all the same");
    }
}

#[tokio::test]
async fn after_its_last_attempt_the_item_is_parked() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(&folder);
    world.outside.lock().unwrap().code_panics_for = Some(2);
    for _ in 0..3 {
        run(&world).await;
        world.clock.advance_ms(24 * 3_600_000);
    }
    assert_eq!(world.row(2), Some(("parked".into(), "attempts_exhausted".into(), 3)));
}

#[tokio::test]
async fn a_panic_beside_a_session_sweeps_it_and_is_a_failed_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(&folder);
    // Triage, then the first deep session.
    world.outside.lock().unwrap().plays = [Play::Good, Play::Panics].into();
    let ended = run(&world).await;
    assert_eq!(ended.outcome, RunOutcome::SomeFailed);
    assert_eq!(
        world.count("SELECT count(*) FROM heartbeat_active_sessions"),
        0,
        "its slot is free"
    );
    assert_eq!(world.count("SELECT count(*) FROM heartbeat_state WHERE phase = 'done'"), 2);
    assert_eq!(world.row(1), Some(("waiting".into(), "backoff".into(), 1)));
}

#[tokio::test]
async fn a_panic_in_triage_divides_its_batch_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(&folder);
    world.outside.lock().unwrap().plays = [Play::Panics].into();
    let ended = run(&world).await;
    assert_eq!(ended.outcome, RunOutcome::Completed, "{ended:?}");
    assert_eq!(world.count("SELECT count(*) FROM heartbeat_active_sessions"), 0);
    assert_eq!(world.count("SELECT count(*) FROM heartbeat_state WHERE phase = 'done'"), 3);
    assert_eq!(world.outside.lock().unwrap().triaged.len(), 2, "the halves");
}

#[tokio::test]
async fn triage_that_always_panics_ends_with_the_stated_default() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(&folder);
    world.outside.lock().unwrap().overviews_panic = true;
    for _ in 0..3 {
        run(&world).await;
    }
    assert_eq!(world.count("SELECT count(*) FROM heartbeat_state WHERE verdict IS NULL"), 0);
}

#[tokio::test]
async fn a_prompt_that_cannot_be_built_for_one_item_stops_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("deep.md");
    // An item that the sample of the check at start does not show.
    let broken = "{{ fence }} {{ item }} {% if id == 2 %}{{ item.missing.part }}{% endif %}";
    std::fs::write(&template, broken).unwrap();
    let config = config(|config| {
        config.limits.max_live_sessions = 2;
        config.prompts.deep_user = template.clone();
    });
    let world = World::new(folder.path(), config);
    (1..=3).for_each(|id| world.add(id, 1, 2));
    let ended = run(&world).await;
    assert_eq!(ended.outcome, RunOutcome::ConfigRefused);
    assert!(matches!(ended.error, Some(RunError::Prompt(_))), "{ended:?}");
    for other in [1, 3] {
        assert_eq!(world.row(other).unwrap().0, "done", "{other} is analysed all the same");
    }
    let (phase, reason, attempts) = world.row(2).unwrap();
    assert_eq!((phase.as_str(), reason.as_str(), attempts), ("pending", "agent_config", 0));
}
