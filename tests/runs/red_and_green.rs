//! Every fault is visible within two runs, by the run's outcome or by health, and after the cure
//! everything is green again without a person.

use std::collections::BTreeSet;

use heartbeat::event::{RunOutcome, Trigger};
use heartbeat::model::{FailureKind, Outcome, Stage, Usd};
use heartbeat::settings::{Config, FirstRun};
use heartbeat::store::Store;
use heartbeat::web::{facts, health};

use crate::world::{Outside, Play, World, config};

const TICK_MS: i64 = 30 * 60_000;

/// What is wrong: the row of the audit, its name, and how it begins. It is over when everything is as
/// it was before.
type Case = (&'static str, &'static str, fn(&mut Outside), fn(&mut Config));

const CASES: [Case; 11] = [
    (
        "S1b",
        "the agent's program is broken",
        |outside| outside.broken_agent = Some((Outcome::ExitCode { code: 1 }, "no such module")),
        |_| {},
    ),
    (
        "S2",
        "every triage is refused",
        |outside| {
            let refused = Outcome::AgentError { why: FailureKind::SchemaExhausted };
            outside.poison = (1..100).map(|id| (id, refused.clone())).collect();
        },
        |_| {},
    ),
    ("S4", "a brown-out", |outside| outside.brown_out = Some((85, 1)), |_| {}),
    ("S5", "analyses fail by the provider", |outside| outside.outage = vec![Stage::Deep], |_| {}),
    (
        "S5",
        "the provider is down",
        |outside| outside.outage = vec![Stage::Triage, Stage::Deep],
        |_| {},
    ),
    (
        "S6",
        "the machine is full",
        |outside| outside.plays = vec![Play::MachineFull; 99].into(),
        |_| {},
    ),
    ("S6", "no process starts", |outside| outside.plays = vec![Play::NoKeeper; 99].into(), |_| {}),
    (
        "S5",
        "the provider states a limit",
        |outside| outside.plays = vec![Play::Limited; 9].into(),
        |_| {},
    ),
    ("S19", "the tracker fails", |outside| outside.pages_until_failure = Some(0), |_| {}),
    ("S20", "the tracker answers with nothing", |outside| outside.answers_empty = true, |_| {}),
    (
        "S10",
        "the day's money is spent",
        |_| {},
        |config| config.budget.per_day = Usd::from_dollars(0.3),
    ),
];

fn healthy(change: impl FnOnce(&mut Config)) -> std::sync::Arc<Config> {
    config(|config| {
        config.schedule.first_run = FirstRun::Process;
        config.limits.max_deep_per_run = 4;
        change(config);
    })
}

/// What health says, except about the machine on which the test runs.
async fn reasons(world: &World) -> BTreeSet<&'static str> {
    let store = Store::open(&world.state).unwrap();
    let facts = facts::gather(&store, &world.config, &world.clock).await;
    let judged = health::judge(&facts, std::time::Duration::ZERO);
    let codes = judged.reasons.iter().map(|reason| reason.code);
    codes.filter(|code| !["load", "agent"].contains(code)).collect()
}

/// Red: the run did not do its work, or health says why the next one will not.
async fn tick(world: &World) -> (bool, String) {
    let ended = world.run(Trigger::Schedule).await.unwrap().unwrap();
    let good = matches!(ended.outcome, RunOutcome::Completed | RunOutcome::NothingNew);
    let reasons = reasons(world).await;
    world.clock.advance_ms(TICK_MS);
    (!good || !reasons.is_empty(), format!("{:?} {reasons:?}", ended.outcome))
}

#[tokio::test]
async fn every_fault_is_red_within_two_runs_and_green_after_the_cure_without_a_person() {
    let mut failed = Vec::new();
    for (row, name, begins, configured) in CASES {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::new(folder.path(), healthy(|_| {}));
        (1..=12).for_each(|id| world.add(id, 1, 2));
        let (red, said) = tick(&world).await;
        assert!(!red, "{name}: before it {said}");
        (21..=26).for_each(|id| world.add(id, 1, 2));
        world.config = healthy(configured);
        let mut seen = Vec::new();
        for _ in 0..2 {
            begins(&mut world.outside.lock().unwrap());
            seen.push(tick(&world).await);
        }
        if !seen.iter().any(|(red, _)| *red) {
            failed.push(format!("{row} {name}: not red: {seen:?}"));
        }
        // The cure.
        world.config = healthy(|_| {});
        {
            let mut outside = world.outside.lock().unwrap();
            outside.broken_agent = None;
            outside.poison.clear();
            outside.brown_out = None;
            outside.outage.clear();
            outside.plays.clear();
            outside.pages_until_failure = None;
            outside.answers_empty = false;
        }
        // A stated limit names its end.
        world.clock.advance_ms(24 * 3_600_000);
        let mut after = Vec::new();
        for _ in 0..6 {
            after.push(tick(&world).await);
        }
        println!("{row:4} {name:32} {:60} then {}", seen[0].1, after[0].1);
        let parked = world.count("SELECT count(*) FROM heartbeat_state WHERE phase <> 'done'");
        if after[1..].iter().any(|(red, _)| *red) || parked > 0 {
            failed.push(format!("{row} {name}: not green: {after:?}, {parked} not done"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
