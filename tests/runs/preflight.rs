//! Before anything is paid for, a run knows whether there is a way to the model provider.

use heartbeat::breaker::provider::HoldKind;
use heartbeat::event::{RunOutcome, Trigger};
use heartbeat::model::Outcome;
use heartbeat::settings::{AgentKind, FirstRun};
use heartbeat::store::Store;
use heartbeat::web::{facts, health};

use crate::world::{World, config};

const NO_ROUTE: &str = "https://api.example.com/v1/messages: the provider: Network is unreachable \
                        (os error 101); check the network";

fn world(folder: &std::path::Path) -> World {
    let world = World::new(folder, config(|config| config.schedule.first_run = FirstRun::Process));
    (1..=6).for_each(|id| world.add(id, 1, 2));
    world
}

async fn run_after(world: &World, minutes: i64, trigger: Trigger) -> RunOutcome {
    world.clock.advance_ms(minutes * 60_000);
    world.run(trigger).await.unwrap().unwrap().outcome
}

fn greeted(world: &World) -> u32 {
    std::mem::take(&mut world.outside.lock().unwrap().greeted)
}

fn reach(world: &World, unreachable: Option<&'static str>) {
    world.outside.lock().unwrap().unreachable = unreachable;
}

/// Nothing booked, nobody blamed, and what the run found out is what everybody says.
async fn assert_nothing_happened(world: &World, items: i64) {
    assert_eq!(world.count("SELECT count(*) FROM budget"), 0, "nothing is booked");
    assert_eq!(world.count("SELECT count(*) FROM sessions"), 0, "nothing was started");
    assert_eq!(world.count("SELECT sum(attempts + triage_failures) FROM heartbeat_state"), 0);
    let waits = "SELECT count(*) FROM heartbeat_state WHERE phase = 'pending'";
    assert_eq!(world.count(waits), items);
    let store = Store::open(&world.state).unwrap();
    let providers = store.provider().all(vec![AgentKind::Claude]).await.unwrap();
    let hold = providers.holds(world.clock.now()).next().unwrap();
    assert_eq!((hold.kind, hold.reason.as_str()), (HoldKind::Outage, NO_ROUTE), "as status says");
    assert_eq!(providers.agent_fault(), None, "the program is not suspected");
    let facts = facts::gather(&store, &world.config, &world.clock).await;
    let health = health::judge(&facts, std::time::Duration::ZERO);
    assert!(health.reasons.iter().any(|reason| reason.code == "provider_down"), "{health:?}");
    let told = "SELECT count(*) FROM events WHERE event = 'admission_refused' \
                AND body LIKE '%Network is unreachable%'";
    assert!(world.count(told) > 0, "the run says why");
}

#[tokio::test]
async fn without_a_way_to_the_provider_nothing_is_started_and_everybody_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path());
    reach(&world, Some(NO_ROUTE));
    for _ in 0..3 {
        assert_eq!(run_after(&world, 0, Trigger::Manual).await, RunOutcome::NotNow);
        assert_eq!(greeted(&world), 1, "a person's run asks once, however many items wait");
        assert_nothing_happened(&world, 6).await;
    }
    assert_eq!(run_after(&world, 0, Trigger::Schedule).await, RunOutcome::NotNow);
    assert_eq!(greeted(&world), 0, "the hold is respected");
    // A day of half-hourly ticks.
    for _ in 0..48 {
        assert_eq!(run_after(&world, 30, Trigger::Schedule).await, RunOutcome::NotNow);
        assert_eq!(greeted(&world), 1);
        assert_nothing_happened(&world, 6).await;
    }
    reach(&world, None);
    assert_eq!(run_after(&world, 30, Trigger::Schedule).await, RunOutcome::Completed);
    let done = "SELECT count(*) FROM heartbeat_state WHERE phase = 'done' AND attempts = 1";
    assert_eq!(world.count(done), 6);
}

#[tokio::test]
async fn a_healthy_start_asks_at_most_once_and_not_if_the_provider_answered_lately() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path());
    assert_eq!(run_after(&world, 0, Trigger::Schedule).await, RunOutcome::Completed);
    assert_eq!(greeted(&world), 1, "the first run");
    for (minutes, item, asked) in [(5, 7, 0), (16, 8, 1), (14, 9, 0), (600, 10, 1)] {
        world.add(item, 1, 2);
        assert_eq!(run_after(&world, minutes, Trigger::Schedule).await, RunOutcome::Completed);
        assert_eq!(greeted(&world), asked, "item {item}");
    }
    assert_eq!(run_after(&world, 600, Trigger::Schedule).await, RunOutcome::NothingNew);
    assert_eq!(greeted(&world), 0, "without work nobody is asked");
    assert_eq!(world.outside.lock().unwrap().probed.len(), 0, "no paid probe");
}

/// The CLI says its first word only after its own attempts to connect, which is after
/// `timeouts.init`: that is the network's fault and not the program's.
#[tokio::test]
async fn an_agent_that_says_nothing_without_a_network_is_not_called_broken() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path());
    assert_eq!(run_after(&world, 0, Trigger::Schedule).await, RunOutcome::Completed);
    let before = world.count("SELECT sum(spent) FROM budget");
    (11..=14).for_each(|id| world.add(id, 1, 2));
    reach(&world, Some(NO_ROUTE));
    world.outside.lock().unwrap().broken_agent = Some((Outcome::InitTimeout, ""));
    // The provider answered a minute ago, so the run begins, and its first session is silent.
    assert_eq!(run_after(&world, 1, Trigger::Schedule).await, RunOutcome::NotNow);
    assert_eq!(world.count("SELECT sum(spent) FROM budget"), before, "nothing is booked");
    let waits = "SELECT count(*) FROM heartbeat_state WHERE phase = 'pending' AND attempts = 0 \
                 AND triage_failures = 0";
    assert_eq!(world.count(waits), 4, "nobody is blamed");
    let store = Store::open(&world.state).unwrap();
    let providers = store.provider().all(vec![AgentKind::Claude]).await.unwrap();
    assert_eq!(providers.agent_fault(), None);
    let hold = providers.holds(world.clock.now()).next().unwrap();
    assert_eq!((hold.kind, hold.reason.as_str()), (HoldKind::Outage, NO_ROUTE));
}
