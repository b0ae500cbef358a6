//! What the state knows about an item reaches its next prompts.

use crate::world::{World, config};
use heartbeat::event::Trigger;
use heartbeat::model::{ItemId, ItemKey, Stage};

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
async fn items_like_a_new_one_are_named_as_candidates_and_duplicates_are_grouped() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| ()));
    let titles = ["Login page stays blank in Safari", "Invoice total is wrong by a cent"];
    for (id, title) in (117..).zip(titles) {
        world.add(id, 3, 2);
        world.edit(id, |item| item.title = title.to_owned());
    }
    world.run(Trigger::Manual).await.unwrap().unwrap();
    world.add(120, 1, 2);
    world.edit(120, |item| {
        item.title = "Totals of invoices are wrong: a cent is missing".to_owned();
    });
    world.outside.lock().unwrap().duplicates.insert(120, 118);
    let prompts = world.dry_run().await.unwrap().prompts;
    assert_eq!(prompts.len(), 2);
    for prompt in &prompts {
        let known = "\n118 | done | Invoice total is wrong by a cent\n";
        assert!(prompt.user.contains(known), "{}", prompt.user);
    }
    assert!(prompts[0].user.contains(" item=\"120\" near=\"118 "), "{}", prompts[0].user);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    let store = heartbeat::store::Store::open_for_reading(&world.state).unwrap().unwrap();
    for id in [118, 120] {
        let group = store.items().duplicates_of(ItemKey::new("ado", ItemId(id))).await.unwrap();
        let keys: Vec<_> = group.items.iter().map(|item| item.key.to_string()).collect();
        assert_eq!((keys, group.total), (vec!["ado/118".to_owned(), "ado/120".to_owned()], 2));
        assert_eq!(group.items[1].why, "Both say the same.");
    }
    // The words follow the item.
    world.edit(120, |item| (item.title, item.version) = ("Printer is on fire".to_owned(), 2));
    world.run(Trigger::Manual).await.unwrap().unwrap();
    world.add(121, 1, 2);
    world.edit(121, |item| item.title = "The printer caught fire".to_owned());
    let prompts = world.dry_run().await.unwrap().prompts;
    assert!(prompts[0].user.contains(" item=\"121\" near=\"120"), "{}", prompts[0].user);
}
