//! Comments that cannot be delivered at once: delivered later, once, or given up with a report.

use heartbeat::event::Trigger;

use crate::world::{Post, World, config};

fn world(folder: &std::path::Path, posts: &[Post]) -> World {
    let world = World::new(folder, config(|_| {}));
    {
        let mut outside = world.outside.lock().unwrap();
        outside.published = Some(Vec::new());
        outside.deliveries.extend(posts);
    }
    world.add(1, 1, 2);
    world
}

async fn run(world: &World) {
    world.run(Trigger::Manual).await.unwrap().unwrap();
    world.clock.advance_ms(86_400_000);
}

fn comments(world: &World) -> usize {
    world.outside.lock().unwrap().published.as_ref().unwrap().len()
}

fn messages(world: &World, state: &str) -> i64 {
    world.count(&format!("SELECT count(*) FROM outbox WHERE state = '{state}'"))
}

#[tokio::test]
async fn a_comment_that_was_not_taken_is_delivered_by_a_later_run_and_does_not_requeue_the_item() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), &[Post::Fails, Post::Denied]);
    run(&world).await;
    assert_eq!((comments(&world), messages(&world, "pending")), (0, 1));
    run(&world).await;
    assert_eq!((comments(&world), messages(&world, "pending")), (0, 1));
    run(&world).await;
    assert_eq!((comments(&world), messages(&world, "delivered")), (1, 1));
    run(&world).await;
    assert_eq!(comments(&world), 1);
    assert_eq!(world.count("SELECT count(*) FROM findings"), 1, "it is not analysed again");
}

#[tokio::test]
async fn a_comment_whose_answer_was_lost_is_not_written_twice() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), &[Post::AnswerLost]);
    run(&world).await;
    assert_eq!((comments(&world), messages(&world, "pending")), (1, 1));
    run(&world).await;
    assert_eq!((comments(&world), messages(&world, "delivered")), (1, 1));
}

#[tokio::test]
async fn an_undeliverable_comment_is_given_up_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), &[Post::Denied; 20]);
    for _ in 0..12 {
        run(&world).await;
    }
    assert_eq!(messages(&world, "failed"), 1);
    let tried = world.count("SELECT attempts FROM outbox");
    assert_eq!(tried, i64::from(heartbeat::store::MAX_DELIVERIES));
    let told =
        "SELECT count(*) FROM events WHERE event = 'publish_failed' AND body LIKE '%given up%'";
    assert_eq!(world.count(told), 1);
}
