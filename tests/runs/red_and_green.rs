//! Every fault is visible within two runs, by the run's outcome or by health, and after the cure
//! everything is green again without a person.

use std::collections::BTreeSet;

use heartbeat::event::{RunOutcome, Trigger};
use heartbeat::model::{FailureKind, Outcome, Stage, Usd};
use heartbeat::settings::{Config, FirstRun};
use heartbeat::store::{Store, close_crashed_runs};
use heartbeat::web::{facts, health};
use jiff::SignedDuration;

use crate::world::{Outside, Play, World, config};

const TICK_MS: i64 = 30 * 60_000;

/// What is wrong: the row of the audit, its name, how it begins before each of two runs, what is
/// configured meanwhile, and how long its traces last at most, in hours.
type Case = (&'static str, &'static str, fn(&World), fn(&mut Config), i64);

fn outside(world: &World, change: impl FnOnce(&mut Outside)) {
    change(&mut world.outside.lock().unwrap());
}

fn always(world: &World, play: Play) {
    outside(world, |outside| outside.plays = vec![play; 99].into());
}

const AS_BEFORE: fn(&mut Config) = |_| {};
/// A stated limit, a budget and a wait are over by then.
const DAY: i64 = 24;
const TRACKER_AHEAD_S: i64 = 2 * 24 * 3600;

const CASES: [Case; 19] = [
    (
        "S1b",
        "the agent's program is broken",
        |world| {
            let broken = (Outcome::ExitCode { code: 1 }, "no such module");
            outside(world, |outside| outside.broken_agent = Some(broken));
        },
        AS_BEFORE,
        DAY,
    ),
    (
        "S2",
        "every triage is refused",
        |world| {
            let refused = Outcome::AgentError { why: FailureKind::SchemaExhausted };
            let all = (1..100).map(|id| (id, refused.clone())).collect();
            outside(world, |outside| outside.poison = all);
        },
        AS_BEFORE,
        DAY,
    ),
    (
        "S4",
        "a brown-out",
        |world| outside(world, |outside| outside.brown_out = Some((85, 1))),
        AS_BEFORE,
        DAY,
    ),
    (
        "S5",
        "analyses fail by the provider",
        |world| outside(world, |outside| outside.outage = vec![Stage::Deep]),
        AS_BEFORE,
        DAY,
    ),
    (
        "S5",
        "the provider is down",
        |world| outside(world, |outside| outside.outage = vec![Stage::Triage, Stage::Deep]),
        AS_BEFORE,
        DAY,
    ),
    ("S5", "the provider states a limit", |world| always(world, Play::Limited), AS_BEFORE, DAY),
    (
        "36.1",
        "there is no way to the provider",
        |world| outside(world, |outside| outside.unreachable = Some("no route; check the network")),
        AS_BEFORE,
        DAY,
    ),
    ("S6", "the machine is full", |world| always(world, Play::MachineFull), AS_BEFORE, DAY),
    ("S6", "no process starts", |world| always(world, Play::NoKeeper), AS_BEFORE, DAY),
    ("S7", "the clock goes back", |world| world.clock.advance_ms(-5 * 3_600_000), AS_BEFORE, DAY),
    (
        "S10",
        "the day's money is spent",
        |_| {},
        |config| config.budget.per_day = Usd::from_dollars(0.3),
        DAY,
    ),
    ("S12", "absurd figures", |world| always(world, Play::Ends(4)), AS_BEFORE, DAY),
    (
        "S13",
        "another model answers",
        |world| outside(world, |outside| outside.fell_back_to = Some("an-older-one".into())),
        AS_BEFORE,
        0,
    ),
    (
        "S17",
        "crashes",
        |world| outside(world, |outside| outside.plays = [Play::Good, Play::DiesWithRow].into()),
        AS_BEFORE,
        0,
    ),
    (
        "S18",
        "folders that grow without bound",
        |world| outside(world, |outside| outside.deep_ends = Some(Outcome::TooMuchDisk)),
        AS_BEFORE,
        DAY,
    ),
    (
        "S19",
        "the tracker fails",
        |world| outside(world, |outside| outside.pages_until_failure = Some(0)),
        AS_BEFORE,
        DAY,
    ),
    (
        "S19",
        "one item cannot be read",
        |world| outside(world, |outside| outside.undelivered = [(21, 99)].into()),
        AS_BEFORE,
        DAY,
    ),
    (
        "S20",
        "the tracker answers with nothing",
        |world| outside(world, |outside| outside.answers_empty = true),
        AS_BEFORE,
        DAY,
    ),
    (
        "S21",
        "the tracker's clock is ahead",
        |world| {
            outside(world, |outside| outside.seconds += TRACKER_AHEAD_S);
            world.edit(22, |item| item.version += 3);
            outside(world, |outside| outside.seconds -= TRACKER_AHEAD_S);
        },
        AS_BEFORE,
        3 * DAY,
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

/// Red: the run did not do its work, or health says before or after it why the next one will not.
async fn tick(world: &World) -> (bool, String) {
    let before = reasons(world).await;
    let store = Store::open(&world.state).unwrap();
    // As each run does before it begins.
    close_crashed_runs(&store, &world.clock).await.unwrap();
    let ended = world.run(Trigger::Schedule).await.unwrap();
    let outcome = ended.map(|ended| ended.outcome);
    let good = matches!(outcome, Some(RunOutcome::Completed | RunOutcome::NothingNew));
    let after = reasons(world).await;
    world.clock.advance_ms(TICK_MS);
    let is_red = !good || !before.is_empty() || !after.is_empty();
    (is_red, format!("{before:?} {outcome:?} {after:?}"))
}

#[tokio::test]
async fn every_fault_is_red_within_two_runs_and_green_after_the_cure_without_a_person() {
    let mut failed = Vec::new();
    for (row, name, begins, configured, lasts_hours) in CASES {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::new(folder.path(), healthy(|_| {}));
        (1..=12).for_each(|id| world.add(id, 1, 2));
        let (red, said) = tick(&world).await;
        assert!(!red, "{name}: before it {said}");
        (21..=26).for_each(|id| world.add(id, 1, 2));
        world.config = healthy(configured);
        let began = world.clock.now();
        let mut seen = Vec::new();
        for _ in 0..2 {
            begins(&world);
            seen.push(tick(&world).await);
        }
        if !seen.iter().any(|(red, _)| *red) {
            failed.push(format!("{row} {name}: not red: {seen:?}"));
        }
        // The cure: everything is as it was before, and so is the clock.
        world.config = healthy(|_| {});
        outside(&world, |outside| {
            outside.broken_agent = None;
            outside.poison.clear();
            outside.brown_out = None;
            outside.outage.clear();
            outside.plays.clear();
            outside.unreachable = None;
            outside.fell_back_to = None;
            outside.deep_ends = None;
            outside.pages_until_failure = None;
            outside.undelivered.clear();
            outside.answers_empty = false;
        });
        let now = began + SignedDuration::from_millis(2 * TICK_MS);
        let wrong_by = now.duration_since(world.clock.now()).as_millis().max(0);
        world.clock.advance_ms(i64::try_from(wrong_by).unwrap() + lasts_hours * 3_600_000);
        let mut after = Vec::new();
        for _ in 0..6 {
            after.push(tick(&world).await);
        }
        println!("{row:4} {name:32} {:60} then {}", seen[0].1, after[0].1);
        let left = world.count("SELECT count(*) FROM heartbeat_state WHERE phase <> 'done'");
        let analysed = world.count("SELECT count(DISTINCT key) FROM findings");
        if after[1..].iter().any(|(red, _)| *red) || left > 0 || analysed < 18 {
            failed.push(format!("{row} {name}: not green: {after:?}, {left} not done, {analysed}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
