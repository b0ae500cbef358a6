//! Suggested values for fields: from earlier items, shown by their record, and compared with what
//! people do.

use crate::world::{Post, World, config};
use heartbeat::event::Trigger;
use heartbeat::model::{ChosenBy, Fate, Field, ItemId, ItemKey, TrackRecord};
use heartbeat::store::{Journal, Store, SuggestionRow};
use heartbeat::suggest::Figure;

fn figure(field: Field, right: u32) -> Figure {
    Figure {
        field,
        by: ChosenBy::History,
        area: String::new(),
        cutoff: 0.3,
        record: TrackRecord { right, of: 400 },
        needed: 400,
        covered: 300,
    }
}

/// Twenty carts of Ann, searches of Bob and exports of Cleo each, and what was measured on them.
async fn team(folder: &std::path::Path, figures: Vec<Figure>) -> World {
    let world = World::new(
        folder,
        config(|config| {
            config.source.write_back = false;
            config.suggest.write = vec![Field::Owner];
        }),
    );
    for id in 1..=60 {
        world.add(id, 1, 2);
        world.edit(id, |item| match id % 3 {
            0 => (item.title, item.owner) = (format!("cart coupon total {id}"), "Ann".into()),
            1 => (item.title, item.owner) = (format!("export sheet column {id}"), "Cleo".into()),
            _ => (item.title, item.owner) = (format!("search index query {id}"), "Bob".into()),
        });
    }
    world.run(Trigger::Manual).await.unwrap().unwrap();
    let journal =
        Journal::open(Store::open(&world.state).unwrap(), world.clock.clone(), None).unwrap();
    let by = ChosenBy::History;
    journal.suggestions().set_figures("ado".into(), by, figures).await.unwrap();
    world
}

async fn of_item(world: &World, id: i64) -> Vec<SuggestionRow> {
    let store = Store::open(&world.state).unwrap();
    store.suggestions().of_item(ItemKey::new("ado", ItemId(id))).await.unwrap()
}

async fn new_item(world: &World, id: i64, title: &str) -> Vec<SuggestionRow> {
    world.add(id, 1, 2);
    world.edit(id, |item| title.clone_into(&mut item.title));
    world.run(Trigger::Manual).await.unwrap().unwrap();
    of_item(world, id).await
}

#[tokio::test]
async fn the_owner_of_similar_items_is_suggested_with_how_often_that_was_right() {
    let folder = tempfile::tempdir().unwrap();
    let world = team(folder.path(), vec![figure(Field::Owner, 348)]).await;
    let rows = new_item(&world, 100, "coupon lowers the cart total twice").await;
    let owner = rows.iter().find(|row| row.suggestion.field == Field::Owner).unwrap();
    assert_eq!((owner.suggestion.value.as_str(), owner.suggestion.shown), ("Ann", true));
    let figure = owner.suggestion.figure().unwrap();
    assert_eq!(figure, "right in 87 % of your last 400 items");
    let unmeasured = rows.iter().filter(|row| row.suggestion.field != Field::Owner);
    assert_eq!(unmeasured.filter(|row| row.suggestion.shown).count(), 0, "{rows:?}");

    // A person agrees, on another item a person chooses otherwise.
    let other = new_item(&world, 101, "search query misses the index").await;
    assert!(other.iter().any(|row| row.suggestion.value == "Bob"), "{other:?}");
    world.edit(100, |item| item.owner = "Ann".into());
    world.edit(101, |item| item.owner = "Dora".into());
    world.run(Trigger::Manual).await.unwrap().unwrap();
    let fate = |rows: Vec<SuggestionRow>| {
        let owner = rows.into_iter().find(|row| row.suggestion.field == Field::Owner);
        owner.unwrap().suggestion.fate
    };
    assert_eq!(fate(of_item(&world, 100).await), Fate::Kept);
    assert_eq!(fate(of_item(&world, 101).await), Fate::Changed);
}

/// Nothing in the text tells who will own it, only who reported it; and no prompt names that person.
#[tokio::test]
async fn who_reported_an_item_tells_who_owns_it_and_stands_in_no_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let world = team(folder.path(), vec![figure(Field::Owner, 348)]).await;
    for id in 61..=66 {
        world.add(id, 1, 2);
        world.edit(id, |item| {
            item.title = format!("cart coupon total {id}");
            (item.owner, item.reporter) = ("Cleo".into(), "Zoe Reporter".into());
        });
    }
    world.run(Trigger::Manual).await.unwrap().unwrap();
    let owner = |rows: Vec<SuggestionRow>| {
        let owner = rows.into_iter().find(|row| row.suggestion.field == Field::Owner);
        owner.map(|row| row.suggestion.value)
    };
    assert_eq!(owner(new_item(&world, 100, "unheard words").await).as_deref(), None);
    world.add(101, 1, 2);
    world.edit(101, |item| {
        (item.title, item.reporter) = ("unheard words again".into(), "Zoe Reporter".into());
    });
    let shown = world.dry_run().await.unwrap();
    assert!(!shown.prompts.is_empty());
    for prompt in &shown.prompts {
        assert!(!prompt.user.contains("Zoe") && !prompt.system.contains("Zoe"), "{}", prompt.user);
    }
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(owner(of_item(&world, 101).await).as_deref(), Some("Cleo"));
}

#[tokio::test]
async fn what_is_wrong_too_often_or_was_never_measured_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let world = team(folder.path(), vec![figure(Field::Owner, 300)]).await;
    let rows = new_item(&world, 100, "coupon lowers the cart total twice").await;
    assert!(rows.iter().any(|row| row.suggestion.field == Field::Owner), "{rows:?}");
    assert!(rows.iter().all(|row| !row.suggestion.shown), "75 % is below 80 %: {rows:?}");
}

#[tokio::test]
async fn two_hundred_corrections_in_one_area_silence_it_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let world = team(folder.path(), vec![figure(Field::Owner, 348)]).await;
    let shown = |rows: Vec<SuggestionRow>| rows.iter().filter(|row| row.suggestion.shown).count();
    // Areas alternate with the number of the item.
    assert_eq!(shown(new_item(&world, 200, "coupon of the cart").await), 1);
    assert_eq!(shown(new_item(&world, 201, "coupon of the cart again").await), 1);
    let database = world.open_database();
    let insert = "INSERT INTO suggestions (key, source, field, value, area, before, chosen_by, score,
                      shown, fate, made_at, decided_at)
                  VALUES ('ado/x' || ?1, 'ado', 'owner', 'Ann', 'Shop\\Team 0', '', 'history', 0.9, 1,
                      'changed', 1, 99999999999999)";
    for number in 0..200 {
        database.execute(insert, [number]).unwrap();
    }
    drop(database);
    assert_eq!(shown(new_item(&world, 202, "cart coupon is gone").await), 0);
    assert_eq!(shown(new_item(&world, 203, "cart coupon is lost").await), 1);
}

/// Whatever happens at the write, also a crash before and after it: once, only into an empty field,
/// and it wakes nothing.
#[tokio::test]
async fn an_owner_is_written_once_into_an_empty_field_and_wakes_nothing() {
    for (post, dies) in [
        (None, None),
        (Some(Post::Fails), None),
        (Some(Post::AnswerLost), None),
        (None, Some(false)),
        (None, Some(true)),
    ] {
        let what = format!("{post:?}, dies: {dies:?}");
        let folder = tempfile::tempdir().unwrap();
        let world = team(folder.path(), vec![figure(Field::Owner, 348)]).await;
        {
            let mut outside = world.outside.lock().unwrap();
            outside.written = Some(Vec::new());
            outside.deliveries.extend(post);
            outside.dies_at_write = dies;
        }
        for (id, owner) in [(100, ""), (101, "Dora")] {
            world.add(id, 1, 2);
            world.edit(id, |item| {
                (item.title, item.owner) = (format!("coupon of the cart {id}"), owner.into());
            });
        }
        let ended = world.run(Trigger::Manual).await.unwrap();
        assert_eq!(ended.is_none(), dies.is_some(), "{what}");
        world.clock.advance_ms(86_400_000);
        world.run(Trigger::Manual).await.unwrap().unwrap();
        let sessions = world.outside.lock().unwrap().started.len();
        for _ in 0..50 {
            world.clock.advance_ms(3_600_000);
            world.run(Trigger::Manual).await.unwrap().unwrap();
        }
        let outside = world.outside.lock().unwrap();
        assert_eq!(outside.written.as_deref(), Some(&[100][..]), "{what}");
        let owners = [100, 101].map(|id| outside.items[&id].owner.as_str());
        assert_eq!(owners, ["Ann", "Dora"], "{what}");
        assert_eq!(outside.started.len(), sessions, "{what}: an own write woke an item");
    }
}
