//! A finding about code that is not there.

use heartbeat::event::Trigger;
use heartbeat::model::{Confidence, Rung};
use heartbeat::report::worth;

use crate::world::{Play, World, config};

async fn world_after(folder: &std::path::Path, write_back: bool) -> World {
    let settings = config(|config| config.verify.write_back_unproven = write_back);
    let world = World::new(folder, settings);
    world.outside.lock().unwrap().published = Some(Vec::new());
    world.outside.lock().unwrap().plays = [Play::Good, Play::Invented].into();
    world.add(1, 1, 2);
    world.run(Trigger::Manual).await.unwrap();
    world
}

#[tokio::test]
async fn an_invented_finding_is_unproven_and_not_written_back_unless_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let world = world_after(folder.path(), false).await;
    assert_eq!(world.outside.lock().unwrap().published, Some(Vec::new()));
    let store = heartbeat::store::Store::open_for_reading(&world.state).unwrap().unwrap();
    let row = store.findings().newest(1).await.unwrap().remove(0);
    let finding = &row.finding;
    assert_eq!(finding.rung(), Some(Rung::Unproven));
    assert_eq!(finding.confidence, Confidence::Low);
    let page = heartbeat::analyze::markdown(finding);
    assert!(page.contains("proof **unproven**"), "{page}");
    assert!(page.contains("confidence of the agent **high**"), "{page}");
    let (before, struck) = page.split_once("#### Could not be confirmed").unwrap();
    assert!(!before.contains("frobnicate") && struck.contains("frobnicateLedger"), "{page}");
    // Of the highest risk, and still behind a finding of the lowest that the code supports.
    world.outside.lock().unwrap().plays.clear();
    world.add(2, 1, 4);
    world.run(Trigger::Manual).await.unwrap();
    let mut rows = store.findings().newest(9).await.unwrap();
    worth::sort(&mut rows);
    let rungs: Vec<_> = rows.iter().map(|row| row.finding.rung().unwrap()).collect();
    assert_eq!(rungs, [Rung::Cited, Rung::Unproven]);

    let folder = tempfile::tempdir().unwrap();
    let world = world_after(folder.path(), true).await;
    assert_eq!(world.outside.lock().unwrap().published, Some(vec![(1, 1)]));
}
