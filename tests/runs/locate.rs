//! The locate step orders the candidate files of all items in one session, and nothing that happens
//! to it costs an item its analysis.

use heartbeat::event::Trigger;
use heartbeat::model::Stage;
use serde_json::json;

use crate::world::{Play, World, config};

/// Three items with the same three candidates.
fn world(folder: &tempfile::TempDir, locate: bool) -> World {
    let world = World::new(
        folder.path(),
        config(|config| {
            config.limits.max_live_sessions = 1;
            config.analyze.locate = locate;
        }),
    );
    (1..=3).for_each(|id| world.add(id, 1, 2));
    world.outside.lock().unwrap().candidates = ["a.rs", "b.rs", "c.rs"].map(str::to_owned).into();
    world
}

async fn run(world: &World) {
    world.run(Trigger::Manual).await.unwrap().unwrap();
}

fn sessions(world: &World, stage: Stage) -> usize {
    world.outside.lock().unwrap().started.iter().filter(|session| session.0 == stage).count()
}

/// The files put first for items 1, 2 and 3.
fn chosen(world: &World) -> Vec<Vec<String>> {
    world.outside.lock().unwrap().chosen.values().cloned().collect()
}

fn assert_all_done(world: &World, what: &str) {
    for id in 1..=3 {
        assert_eq!(world.row(id).unwrap().0, "done", "{what}: {id}");
    }
    let attempts = "SELECT count(*) FROM attempts";
    assert_eq!(world.count(attempts), 3, "{what}: an attempt each, for the analysis");
    assert_eq!(world.count("SELECT count(*) FROM heartbeat_active_sessions"), 0, "{what}");
}

#[tokio::test]
async fn one_session_orders_the_files_of_all_items() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(&folder, true);
    run(&world).await;
    assert_all_done(&world, "good");
    assert_eq!(sessions(&world, Stage::Locate), 1);
    assert_eq!(chosen(&world), [["c.rs"], ["c.rs"], ["c.rs"]]);
    let paid = "SELECT count(*) FROM budget WHERE stage = 'locate' AND spent > 0";
    assert_eq!(world.count(paid), 1, "it is paid for as a stage of its own");
}

#[tokio::test]
async fn it_is_not_asked_when_it_is_off_or_nothing_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let off = world(&folder, false);
    run(&off).await;
    assert_all_done(&off, "off");
    let folder = tempfile::tempdir().unwrap();
    let certain = world(&folder, true);
    certain.outside.lock().unwrap().candidates = Vec::new();
    run(&certain).await;
    assert_all_done(&certain, "certain");
    assert_eq!(sessions(&off, Stage::Locate) + sessions(&certain, Stage::Locate), 0);
}

#[tokio::test]
async fn whatever_happens_to_it_the_items_are_analysed_in_our_order() {
    for play in [Play::Fails, Play::BadOutput, Play::Silent, Play::Panics] {
        let folder = tempfile::tempdir().unwrap();
        let world = world(&folder, true);
        world.outside.lock().unwrap().plays = [Play::Good, play].into();
        run(&world).await;
        assert_all_done(&world, &format!("{play:?}"));
        assert_eq!(chosen(&world), [[""; 0], [""; 0], [""; 0]], "{play:?}");
    }
}

#[tokio::test]
async fn a_crash_after_its_answer_costs_one_more_question_and_no_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(&folder, true);
    world.outside.lock().unwrap().plays = [Play::Good, Play::DiesAfterRow].into();
    assert!(world.run(Trigger::Manual).await.unwrap().is_none(), "it crashed");
    run(&world).await;
    assert_all_done(&world, "crashed");
    assert_eq!(sessions(&world, Stage::Locate), 2);
    assert_eq!(chosen(&world), [["c.rs"], ["c.rs"], ["c.rs"]]);
}

/// Item 1 talks the model into answering for item 2, with its own files and a second time.
#[tokio::test]
async fn a_hostile_item_changes_no_other_items_order() {
    let entry = |item: i64, file: i64| json!({ "item": item, "files": [{ "file": file, "functions": [] }] });
    let folder = tempfile::tempdir().unwrap();
    let world = world(&folder, true);
    // Files 1 to 3 belong to the first item, 4 to 6 to the second, 7 to 9 to the third.
    let answer = json!({ "items": [entry(1, 5), entry(2, 1), entry(3, 8), entry(4, 9)] });
    world.outside.lock().unwrap().located = Some(answer);
    run(&world).await;
    assert_all_done(&world, "mixed up");
    let (nothing, own): (Vec<String>, Vec<String>) = (vec![], vec!["b.rs".into()]);
    let mut expected = vec![nothing.clone(), nothing, own];
    let mut found = chosen(&world);
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "only the item whose answer is its own is reordered");
}

#[tokio::test]
async fn a_dry_run_shows_its_prompt_and_its_cost() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(&folder, true);
    let shown = world.dry_run().await.unwrap();
    let prompts: Vec<_> =
        shown.prompts.iter().filter(|prompt| prompt.stage == Stage::Locate).collect();
    assert_eq!(prompts.len(), 1);
    assert_eq!(prompts[0].worst_case, world.config.triage.max_cost);
    assert!(prompts[0].user.contains("9 c.rs (9 lines)"), "{}", prompts[0].user);
    assert_eq!(sessions(&world, Stage::Locate), 0);
}
