//! The area of an item, which is missing in a state of an older version.

use crate::world::{Play, World, config};
use heartbeat::event::Trigger;

#[tokio::test]
async fn the_areas_of_parked_items_are_filled_in_by_the_next_runs_and_nothing_else_changes() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(
        folder.path(),
        config(|config| {
            config.limits.max_attempts = 1;
            config.limits.max_items_per_run = 2;
            config.source.overlap = std::time::Duration::ZERO;
        }),
    );
    for id in 1..=10 {
        world.add(id, 1, 2);
    }
    for _ in 0..8 {
        let fails = [Play::Good, Play::Fails, Play::Fails];
        world.outside.lock().unwrap().plays = fails.into_iter().collect();
        world.run(Trigger::Manual).await.unwrap().unwrap();
        world.clock.advance_ms(86_400_000);
    }
    let parked = "SELECT count(*) FROM heartbeat_state WHERE phase = 'parked'";
    assert_eq!(world.count(parked), 10);
    let unknown = "SELECT count(*) FROM heartbeat_state WHERE area_path IS NULL";
    assert_eq!(world.count(unknown), 0);

    // As the previous version left it.
    world.open_database().execute("UPDATE heartbeat_state SET area_path = NULL", []).unwrap();
    let sessions = world.outside.lock().unwrap().started.len();
    // Four per run, and the newest one, with which every query begins.
    for left in [5, 1, 0] {
        world.run(Trigger::Manual).await.unwrap().unwrap();
        assert_eq!(world.count(unknown), left);
    }
    assert_eq!(world.count(parked), 10);
    assert_eq!(world.outside.lock().unwrap().started.len(), sessions);
    let teams = r"SELECT count(*) FROM heartbeat_state WHERE area_path = 'Shop\Team 1'";
    assert_eq!(world.count(teams), 5);

    // Renaming an area does not change the revision.
    world.open_database().execute("UPDATE heartbeat_state SET area_path = 'Old'", []).unwrap();
    world.edit(1, |_| {});
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(world.count(teams), 1);
}
