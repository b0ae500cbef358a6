//! What the state knows about an item reaches its next prompts.

use crate::world::{World, config};
use heartbeat::event::Trigger;
use heartbeat::model::Stage;

#[tokio::test]
async fn an_edited_item_comes_with_what_was_said_before_and_what_changed() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| ()));
    world.add(1, 1, 2);
    let first = world.dry_run().await.unwrap();
    assert!(first.prompts.iter().all(|prompt| !prompt.user.contains("changed since")));
    world.run(Trigger::Manual).await.unwrap().unwrap();
    world.edit(1, |item| (item.version, item.priority) = (2, 1));
    let again = world.dry_run().await.unwrap();
    for stage in [Stage::Triage, Stage::Deep] {
        let prompt = again.prompts.iter().find(|prompt| prompt.stage == stage).unwrap();
        for said in [
            "verdict: analysis, simple: It says so in its text.",
            "finding: The cause is known. (confidence high)",
            "changed since: priority was \"2\"; Description edited",
        ] {
            assert!(prompt.user.contains(said), "{stage}: {said}\n{}", prompt.user);
        }
    }
    // The verdict on the new text is no earlier one.
    world.run(Trigger::Manual).await.unwrap().unwrap();
    world.edit(1, |item| item.version = 4);
    let third = world.dry_run().await.unwrap();
    let changes = "changed since: Description edited\n";
    assert!(third.prompts.iter().all(|prompt| prompt.user.contains(changes)));
    let readings = world.count("SELECT count(*) FROM readings");
    assert_eq!(readings, 2, "the older ones are gone");
}

#[tokio::test]
async fn items_with_the_same_title_are_named_as_candidates() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| ()));
    world.add(117, 3, 2);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    world.open_database().execute("UPDATE heartbeat_state SET title = 'Item 118'", []).unwrap();
    world.add(118, 1, 2);
    let prompts = world.dry_run().await.unwrap().prompts;
    assert_eq!(prompts.len(), 2);
    assert!(prompts.iter().all(|prompt| prompt.user.contains("\n117 | done | Item 118\n")));
}
