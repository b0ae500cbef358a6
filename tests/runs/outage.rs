//! The model provider is down: no attempt is counted, and nothing is skipped because of it.

use heartbeat::event::{RunOutcome, Trigger};
use heartbeat::model::Stage;
use heartbeat::settings::{AgentKind, FirstRun};
use heartbeat::store::Store;

use crate::world::{Play, World, config};

const TICK: i64 = 30 * 60_000;
const ITEMS: i64 = 6;

fn world(folder: &std::path::Path) -> World {
    let world = World::new(folder, config(|config| config.schedule.first_run = FirstRun::Process));
    (1..=ITEMS).for_each(|id| world.add(id, 1, if id < 3 { 1 } else { 3 }));
    world
}

async fn tick(world: &World) -> RunOutcome {
    let ended = world.run(Trigger::Schedule).await.unwrap().unwrap();
    world.clock.advance_ms(TICK);
    ended.outcome
}

fn started(world: &World) -> usize {
    world.outside.lock().unwrap().started.len()
}

fn nobody_paid(world: &World) {
    for (sql, what) in [
        ("SELECT sum(attempts) FROM heartbeat_state", "attempts"),
        ("SELECT sum(triage_failures) FROM heartbeat_state", "failures of triage"),
        ("SELECT count(*) FROM heartbeat_state WHERE phase <> 'pending'", "not queued"),
        ("SELECT coalesce(sum(spent), 0) FROM budget WHERE stage = 'deep'", "money"),
    ] {
        assert_eq!(world.count(sql), 0, "{what}");
    }
}

async fn all_is_well(world: &World) {
    assert_eq!(tick(world).await, RunOutcome::Completed, "the first tick after the outage");
    let done = "SELECT count(*) FROM heartbeat_state WHERE phase = 'done' AND attempts = 1";
    assert_eq!(world.count(done), ITEMS);
    assert_eq!(world.count("SELECT count(*) FROM findings"), ITEMS);
    assert_eq!(world.count("SELECT count(*) FROM attempts WHERE counted = 1"), ITEMS);
    // Only reported costs are booked: one cent for every answered session.
    let answered = world.count("SELECT count(*) FROM sessions WHERE outcome LIKE '%completed%'");
    assert_eq!(world.count("SELECT sum(spent) FROM budget"), answered * 10_000);
    assert_eq!(world.count("SELECT sum(estimated) FROM budget"), 0);
}

#[tokio::test]
async fn an_outage_of_everything_leaves_the_queue_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path());
    world.outside.lock().unwrap().outage = vec![Stage::Triage, Stage::Deep];
    // A day of half-hourly ticks.
    for number in 1..=48 {
        assert_eq!(tick(&world).await, RunOutcome::NotNow);
        nobody_paid(&world);
        // One triage session in each of the first two runs, and one probe, open the breaker; then
        // one probe in each run.
        assert_eq!(started(&world), number + 1);
    }
    let store = Store::open(&world.state).unwrap();
    let record = store.provider().record(AgentKind::Claude).await.unwrap();
    assert_eq!(record.worst_breaker().failures, 49);
    world.outside.lock().unwrap().outage.clear();
    all_is_well(&world).await;
    let events =
        |name: &str| world.count(&format!("SELECT count(*) FROM events WHERE event = '{name}'"));
    // Opened once; each probe half-opens it and opens it again; the last one closes it.
    assert_eq!(events("provider_breaker_changed"), 1 + 2 * 46 + 2);
    assert_eq!(events("item_parked"), 0);
}

#[tokio::test]
async fn an_outage_of_the_deep_model_alone_costs_no_item_anything() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path());
    world.outside.lock().unwrap().outage = vec![Stage::Deep];
    for _ in 0..5 {
        let before = started(&world);
        tick(&world).await;
        nobody_paid(&world);
        let most = 1 + 3 + 2;
        assert!(started(&world) - before <= most, "a probe, three failures, two side by side");
    }
    assert_eq!(world.count("SELECT count(*) FROM heartbeat_state WHERE verdict IS NULL"), 0);
    world.outside.lock().unwrap().outage.clear();
    all_is_well(&world).await;
}

#[tokio::test]
async fn while_the_breaker_is_open_nothing_starts_and_a_person_may_probe() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path());
    world.outside.lock().unwrap().outage = vec![Stage::Triage];
    for _ in 0..3 {
        tick(&world).await;
    }
    let before = started(&world);
    // The hold began at the end of the last run: set the clock back into it.
    world.clock.advance_ms(-TICK);
    for _ in 0..4 {
        world.run(Trigger::Schedule).await.unwrap().unwrap();
    }
    assert_eq!(started(&world), before, "four runs within the hold");
    assert_eq!(world.row(1).unwrap(), ("pending".into(), "provider_down".into(), 0));
    world.outside.lock().unwrap().outage.clear();
    let ended = world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(ended.outcome, RunOutcome::Completed, "a person does not wait for the hold");
}

/// The agents of the sessions started since the last call.
fn agents(world: &World) -> Vec<AgentKind> {
    std::mem::take(&mut world.outside.lock().unwrap().agents)
}

fn down(world: &World, agents: &[AgentKind]) {
    world.outside.lock().unwrap().agents_down = agents.to_vec();
}

#[tokio::test]
async fn the_outage_of_one_agents_provider_does_not_hold_up_the_other_agent() {
    use AgentKind::{Claude, Copilot};
    let folder = tempfile::tempdir().unwrap();
    let config = config(|config| {
        config.schedule.first_run = FirstRun::Process;
        config.triage.agent = Some(Copilot);
        config.analyze.agent = Some(Claude);
    });
    let world = World::new(folder.path(), config);
    (1..=ITEMS).for_each(|id| world.add(id, 1, 3));

    // Analyses fail: triage continues with its own provider, and pays for no probe of the other
    // one.
    down(&world, &[Claude]);
    tick(&world).await;
    assert_eq!(agents(&world)[..4], [Copilot, Claude, Claude, Claude]);
    world.add(7, 1, 3);
    tick(&world).await;
    assert_eq!(agents(&world), [Claude, Copilot], "a probe of the one, new work for the other");
    nobody_paid(&world);
    let untriaged = "SELECT count(*) FROM heartbeat_state WHERE verdict IS NULL";
    assert_eq!(world.count(untriaged), 0);

    // The other way round: triaged items are analysed, new ones wait at no cost.
    down(&world, &[Copilot]);
    for id in 8..=12 {
        world.add(id, 1, 3);
        tick(&world).await;
    }
    let started = agents(&world);
    assert_eq!(started.iter().filter(|agent| **agent == Claude).count(), 1 + 7, "{started:?}");
    assert_eq!(
        started.iter().filter(|agent| **agent == Copilot).count(),
        6,
        "one for each tick, and a probe"
    );
    assert_eq!(world.count("SELECT count(*) FROM findings"), 7);
    assert_eq!(world.count(untriaged), 5);
    assert_eq!(world.row(12).unwrap(), ("pending".into(), "provider_down".into(), 0));
    let store = Store::open(&world.state).unwrap();
    let records = store.provider().all(vec![Copilot, Claude]).await.unwrap();
    let holds: Vec<_> = records.holds(world.clock.now()).collect();
    assert!(holds.is_empty() || holds[0].reason.starts_with("GitHub Copilot: "), "{holds:?}");
    assert_eq!(
        (records.0[0].1.worst_breaker().failures, records.0[1].1.worst_breaker().failures),
        (6, 0)
    );
    let told = "SELECT count(*) FROM events WHERE event = 'provider_breaker_changed'
                AND json_extract(body, '$.agent') = 'copilot'";
    assert!(world.count(told) > 0, "the event names the agent");

    down(&world, &[]);
    assert_eq!(tick(&world).await, RunOutcome::Completed);
    assert_eq!(world.count("SELECT count(*) FROM findings"), 12);
}

#[tokio::test]
async fn the_limit_of_one_agents_account_does_not_suspend_the_other() {
    use AgentKind::{Claude, Copilot};
    let folder = tempfile::tempdir().unwrap();
    let config = config(|config| {
        config.schedule.first_run = FirstRun::Process;
        config.triage.agent = Some(Copilot);
        config.analyze.agent = Some(Claude);
    });
    let world = World::new(folder.path(), config);
    world.add(1, 1, 3);
    world.outside.lock().unwrap().plays.extend([Play::Good, Play::Limited]);
    tick(&world).await;
    agents(&world);
    world.clock.advance_ms(-TICK);
    (4..=6).for_each(|id| world.add(id, 1, 3));
    tick(&world).await;
    assert_eq!(agents(&world), [Copilot], "triage goes on while analyses are suspended");
    assert_eq!(tick(&world).await, RunOutcome::Completed, "the limit is over");
    assert_eq!(world.count("SELECT count(*) FROM findings"), 4);
}
