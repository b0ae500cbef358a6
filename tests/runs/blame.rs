//! Whose fault it was: what a broken agent, a brown-out, a crash or one poisonous item does costs
//! nobody else an attempt, and everything goes on by itself after the cure.

use heartbeat::event::{RunOutcome, Trigger};
use heartbeat::model::{FailureKind, Outcome, Stage, Usd};
use heartbeat::run::RunEnd;
use heartbeat::settings::{AgentKind, Config, FirstRun};
use heartbeat::store::Store;

use crate::world::{Outside, Play, World, config};

const TICK: i64 = 30 * 60_000;
const REFUSED: Outcome = Outcome::AgentError { why: FailureKind::Refused };
const TOO_LARGE: Outcome = Outcome::AgentError { why: FailureKind::InvalidRequest };
const OUTAGE: Outcome = Outcome::AgentError { why: FailureKind::ApiError };
const EXHAUSTED: Outcome = Outcome::AgentError { why: FailureKind::SchemaExhausted };

fn world(folder: &std::path::Path, items: i64) -> World {
    world_with(folder, items, |_| {})
}

fn world_with(folder: &std::path::Path, items: i64, change: impl FnOnce(&mut Config)) -> World {
    let config = config(|config| {
        config.schedule.first_run = FirstRun::Process;
        change(config);
    });
    let world = World::new(folder, config);
    (1..=items).for_each(|id| world.add(id, 1, 3));
    world
}

fn outside(world: &World, change: impl FnOnce(&mut Outside)) {
    change(&mut world.outside.lock().unwrap());
}

/// Every session with this item in its prompt ends like this.
fn poison(world: &World, item: i64, outcome: Outcome) {
    world.outside.lock().unwrap().poison.insert(item, outcome);
}

async fn tick(world: &World) -> RunEnd {
    let ended = world.run(Trigger::Schedule).await.unwrap().unwrap();
    world.clock.advance_ms(TICK);
    ended
}

fn phases(world: &World, phase: &str) -> i64 {
    world.count(&format!("SELECT count(*) FROM heartbeat_state WHERE phase = '{phase}'"))
}

fn spent(world: &World) -> i64 {
    world.count("SELECT coalesce(sum(spent), 0) FROM budget")
}

async fn agent_fault(world: &World) -> Option<String> {
    let store = Store::open(&world.state).unwrap();
    store.provider().all(vec![AgentKind::Claude]).await.unwrap().agent_fault()
}

#[tokio::test]
async fn a_broken_agent_program_is_nobodys_fault_and_comes_back_by_itself() {
    let ways = [
        Outcome::ExitCode { code: 1 },
        Outcome::Signal { signal: 11 },
        Outcome::Signal { signal: 9 },
        Outcome::BadOutput { why: FailureKind::NoJson },
        Outcome::BadOutput { why: FailureKind::NoResult },
        Outcome::TimedOut,
        Outcome::InitTimeout,
    ];
    for outcome in ways {
        for triaged_before in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let world = world(folder.path(), 11);
            if triaged_before {
                outside(&world, |outside| outside.outage = vec![Stage::Deep]);
                tick(&world).await;
                outside(&world, |outside| outside.outage.clear());
            }
            let before = if triaged_before { spent(&world) } else { 0 };
            outside(&world, |outside| {
                outside.broken_agent = Some((outcome.clone(), "GLIBC_2.38 not found"));
            });
            for _ in 0..6 {
                let ended = tick(&world).await;
                assert_eq!(ended.outcome, RunOutcome::NotNow, "{outcome}");
                let fault = agent_fault(&world).await.expect("it is red within two ticks");
                assert!(fault.contains("GLIBC_2.38 not found"), "{fault}");
            }
            assert_eq!(phases(&world, "pending"), 11, "{outcome}: nothing is parked");
            assert_eq!(world.count("SELECT sum(attempts) FROM heartbeat_state"), 0, "{outcome}");
            assert_eq!(spent(&world), before, "{outcome}: nothing was asked, nothing is booked");
            outside(&world, |outside| outside.broken_agent = None);
            assert_eq!(tick(&world).await.outcome, RunOutcome::Completed, "{outcome}");
            assert_eq!(phases(&world, "done"), 11, "{outcome}: without a person");
            assert_eq!(agent_fault(&world).await, None, "{outcome}");
        }
    }
}

#[tokio::test]
async fn an_item_that_breaks_the_agent_alone_is_told_from_a_broken_agent() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), 6);
    poison(&world, 3, Outcome::ExitCode { code: 134 });
    for _ in 0..8 {
        tick(&world).await;
        world.clock.advance_ms(24 * 3_600_000);
    }
    assert_eq!(phases(&world, "done"), 5);
    let (phase, reason, _) = world.row(3).unwrap();
    assert_eq!((phase.as_str(), reason.as_str()), ("parked", "fails_triage"));
}

#[tokio::test]
async fn one_poisonous_item_is_isolated_and_everybody_else_is_judged() {
    for outcome in
        [REFUSED, TOO_LARGE, EXHAUSTED, OUTAGE, Outcome::TimedOut, Outcome::BudgetReached]
    {
        for (items, culprit) in [(19, 7), (19, 19), (2, 1), (33, 16)] {
            let folder = tempfile::tempdir().unwrap();
            let world = world(folder.path(), items);
            poison(&world, culprit, outcome.clone());
            tick(&world).await;
            assert_eq!(phases(&world, "done"), items - 1, "{outcome}: in the first run");
            assert_eq!(world.count("SELECT count(*) FROM findings"), items - 1, "{outcome}");
            for _ in 0..4 {
                tick(&world).await;
            }
            let (phase, reason, _) = world.row(culprit).unwrap();
            assert_eq!((phase.as_str(), reason.as_str()), ("parked", "fails_triage"), "{outcome}");
            let evidence = world.count(&format!(
                "SELECT count(*) FROM heartbeat_state WHERE item_id = {culprit}
                 AND verdict LIKE '%alone%the agent''s last words%'"
            ));
            assert_eq!(evidence, 1, "{outcome}: the evidence is kept with it");
            let sessions = world.outside.lock().unwrap().triaged.len();
            assert!(sessions <= 20, "{outcome}: {sessions} sessions of triage");
        }
    }
}

#[tokio::test]
async fn a_search_for_the_culprit_that_the_money_ends_is_continued_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let world = world_with(folder.path(), 32, |config| {
        // Two sessions of triage in each run, and nothing for analyses.
        config.budget.per_run = config.triage.max_cost + config.triage.max_cost;
        config.triage.max_cost = Usd::from_dollars(0.25);
        config.limits.max_deep_per_run = 0;
    });
    poison(&world, 20, REFUSED);
    for _ in 0..8 {
        tick(&world).await;
    }
    let judged = "SELECT count(*) FROM heartbeat_state WHERE verdict IS NOT NULL";
    assert_eq!(world.count(judged), 32, "each run goes on with smaller parts");
    assert_eq!(world.row(20).unwrap().1, "fails_triage");
}

#[tokio::test]
async fn a_new_item_does_not_wait_behind_suspects() {
    let folder = tempfile::tempdir().unwrap();
    let world = world_with(folder.path(), 16, |config| {
        config.budget.per_run = config.triage.max_cost;
        config.limits.max_deep_per_run = 0;
    });
    poison(&world, 5, OUTAGE);
    tick(&world).await;
    world.add(99, 1, 3);
    tick(&world).await;
    let triaged = world.outside.lock().unwrap().triaged.clone();
    assert_eq!(triaged[1], [99], "{triaged:?}");
}

#[tokio::test]
async fn where_everything_fails_alike_it_is_none_of_the_items() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), 12);
    outside(&world, |outside| {
        outside.poison.extend((1..=12).map(|id| (id, EXHAUSTED)));
    });
    let ended = tick(&world).await;
    assert_eq!(world.outside.lock().unwrap().triaged.len(), 3, "three alike stop the stage");
    let error = ended.error.unwrap().to_string();
    assert!(error.contains("schema exhausted") && error.contains("last words"), "{error}");
    assert!(agent_fault(&world).await.unwrap().contains("[triage] model"));
    for number in 1..=5 {
        tick(&world).await;
        let triaged = world.outside.lock().unwrap().triaged.clone();
        assert_eq!(triaged.len(), 3 + number, "then one item first");
        assert_eq!(triaged.last().unwrap().len(), 1);
    }
    assert_eq!(phases(&world, "pending"), 12, "nothing is parked");
    assert_eq!(world.count("SELECT sum(triage_failures) FROM heartbeat_state"), 0);
    outside(&world, |outside| outside.poison.clear());
    assert_eq!(tick(&world).await.outcome, RunOutcome::Completed);
    assert_eq!(phases(&world, "done"), 12);
    assert_eq!(agent_fault(&world).await, None);
}

#[tokio::test]
async fn a_triage_that_stops_does_not_stop_the_analyses() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), 4);
    outside(&world, |outside| outside.outage = vec![Stage::Deep]);
    tick(&world).await;
    (11..=14).for_each(|id| world.add(id, 1, 3));
    outside(&world, |outside| {
        outside.outage.clear();
        outside.poison.extend((11..=14).map(|id| (id, EXHAUSTED)));
    });
    assert_eq!(tick(&world).await.outcome, RunOutcome::TriageFailed);
    assert_eq!(phases(&world, "done"), 4, "what was triaged before is analysed");
}

#[tokio::test]
async fn analyses_that_fail_alike_are_paid_for_three_times_and_not_thirty() {
    let folder = tempfile::tempdir().unwrap();
    let world = world_with(folder.path(), 10, |config| config.limits.max_live_sessions = 1);
    outside(&world, |outside| outside.deep_ends = Some(EXHAUSTED));
    let ended = tick(&world).await;
    let deep = |world: &World| {
        let started = world.outside.lock().unwrap().started.clone();
        started.iter().filter(|(stage, ..)| *stage == Stage::Deep).count()
    };
    assert_eq!(deep(&world), 3, "three alike stop the stage");
    assert_eq!(ended.outcome, RunOutcome::SomeFailed);
    let error = ended.error.unwrap().to_string();
    assert!(error.contains("schema exhausted") && error.contains("[analyze]"), "{error}");
    assert!(error.contains("the agent's last words"), "{error}");
    for number in 1..=4 {
        tick(&world).await;
        assert_eq!(deep(&world), 3 + number, "then one in each run");
    }
    assert_eq!(phases(&world, "pending"), 10, "nothing is parked");
    assert_eq!(world.count("SELECT sum(attempts) FROM heartbeat_state"), 0);
    outside(&world, |outside| outside.deep_ends = None);
    assert_eq!(tick(&world).await.outcome, RunOutcome::Completed);
    assert_eq!(phases(&world, "done"), 10);
    assert_eq!(agent_fault(&world).await, None);
}

#[tokio::test]
async fn an_item_that_is_left_out_gets_the_default_alone() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), 8);
    outside(&world, |outside| outside.left_out = Some(4));
    tick(&world).await;
    assert_eq!(world.outside.lock().unwrap().triaged, [(1..=8).collect(), vec![4]]);
    assert_eq!(phases(&world, "done"), 7);
    assert_eq!(world.row(4).unwrap().1, "for_a_person");
}

#[tokio::test]
async fn a_brown_out_parks_nobody() {
    for seed in 1..=6_u64 {
        let folder = tempfile::tempdir().unwrap();
        let world = world_with(folder.path(), 40, |config| config.limits.max_live_sessions = 4);
        outside(&world, |outside| outside.brown_out = Some((85, seed)));
        for _ in 0..30 {
            tick(&world).await;
        }
        assert_eq!(phases(&world, "parked"), 0, "seed {seed}");
        let counted = "SELECT count(*) FROM attempts WHERE counted = 1 AND outcome LIKE '%failed%'";
        assert_eq!(world.count(counted), 0, "seed {seed}: not one counts");
        outside(&world, |outside| outside.brown_out = None);
        for _ in 0..3 {
            tick(&world).await;
        }
        assert_eq!(phases(&world, "done"), 40, "seed {seed}");
    }
}

#[tokio::test]
async fn a_provider_failure_that_follows_one_item_is_the_items_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), 1);
    tick(&world).await;
    assert_eq!(phases(&world, "done"), 1);
    // Triage knows it; its analysis makes the provider fail, others are answered.
    let cursed = 2;
    world.add(cursed, 1, 3);
    outside(&world, |outside| outside.plays.extend([Play::Good, Play::Outage]));
    tick(&world).await;
    assert_eq!(world.row(cursed).unwrap().2, 0, "once is not the item's");
    for number in 3..20 {
        world.add(number, 1, 1);
        world.add(number + 100, 1, 1);
        // The cursed one is the first in the queue.
        outside(&world, |outside| {
            outside.plays.clear();
            outside.poison.insert(cursed, OUTAGE);
        });
        tick(&world).await;
        world.clock.advance_ms(24 * 3_600_000);
    }
    let (phase, reason, attempts) = world.row(cursed).unwrap();
    assert_eq!((phase.as_str(), reason.as_str(), attempts), ("parked", "attempts_exhausted", 3));
    assert_eq!(phases(&world, "done"), 1 + 2 * 17);
}

#[tokio::test]
async fn crashes_of_ours_count_for_nobody_who_was_not_there_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let world = world_with(folder.path(), 5, |config| config.limits.max_live_sessions = 1);
    for _ in 0..2 {
        let plays = [Play::Good, Play::Good, Play::DiesWithRow];
        outside(&world, |outside| outside.plays = plays.into());
        world.run(Trigger::Manual).await.unwrap();
        outside(&world, |outside| outside.plays = [Play::DiesWithRow].into());
        world.run(Trigger::Manual).await.unwrap();
    }
    outside(&world, |outside| outside.plays.clear());
    tick(&world).await;
    assert_eq!(phases(&world, "done"), 5);
    let at_most_once = "SELECT max(attempts) FROM heartbeat_state";
    assert_eq!(world.count(at_most_once), 1);
    let crashes = world.count("SELECT count(*) FROM sessions WHERE outcome LIKE '%orphaned%'");
    let answered = world.count("SELECT count(*) FROM sessions WHERE outcome LIKE '%completed%'");
    assert!(crashes >= 4, "{crashes}");
    assert_eq!(spent(&world), crashes * 20_000 + answered * 10_000, "what was used by then");
}

#[tokio::test]
async fn an_item_that_crashes_us_each_time_is_parked_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let world = world_with(folder.path(), 1, |config| config.limits.max_live_sessions = 1);
    outside(&world, |outside| outside.plays = [Play::Good, Play::DiesWithRow].into());
    world.run(Trigger::Manual).await.unwrap();
    for _ in 0..16 {
        world.clock.advance_ms(2 * 24 * 3_600_000);
        outside(&world, |outside| outside.plays = [Play::DiesWithRow].into());
        world.run(Trigger::Manual).await.unwrap();
    }
    outside(&world, |outside| outside.plays.clear());
    tick(&world).await;
    let (phase, reason, attempts) = world.row(1).unwrap();
    assert_eq!((phase.as_str(), reason.as_str(), attempts), ("parked", "attempts_exhausted", 3));
}

/// The first of the queue run again after each crash, whatever caused it.
#[tokio::test]
async fn five_crashes_in_a_row_cost_nobody_an_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), 1);
    outside(&world, |outside| outside.plays = [Play::Good, Play::DiesWithRow].into());
    world.run(Trigger::Manual).await.unwrap();
    for _ in 0..4 {
        world.clock.advance_ms(2 * 24 * 3_600_000);
        outside(&world, |outside| outside.plays = [Play::DiesWithRow].into());
        assert!(world.run(Trigger::Manual).await.unwrap().is_none(), "it crashes");
    }
    outside(&world, |outside| outside.plays.clear());
    world.clock.advance_ms(2 * 24 * 3_600_000);
    tick(&world).await;
    let (phase, _, attempts) = world.row(1).unwrap();
    assert_eq!((phase.as_str(), attempts), ("done", 1));
}

#[tokio::test]
async fn a_provider_that_fails_every_analysis_is_not_a_completed_run() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), 6);
    outside(&world, |outside| outside.outage = vec![Stage::Deep]);
    for _ in 0..3 {
        let ended = tick(&world).await;
        assert_eq!(ended.outcome, RunOutcome::NotNow);
        assert!(ended.summary.failed_sessions > 0, "{:?}", ended.summary);
    }
    assert_eq!(world.outside.lock().unwrap().probed.first().unwrap(), "sonnet", "as it failed");
}

#[tokio::test]
async fn a_full_machine_during_a_probe_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), 3);
    outside(&world, |outside| outside.outage = vec![Stage::Triage]);
    for _ in 0..3 {
        tick(&world).await;
    }
    outside(&world, |outside| {
        outside.outage.clear();
        outside.plays = [Play::MachineFull, Play::MachineFull].into();
    });
    let ended = tick(&world).await;
    assert_eq!(ended.outcome, RunOutcome::NotNow, "{:?}", ended.error);
    assert_eq!(world.count("SELECT count(*) FROM budget WHERE spent IS NULL"), 0);
    outside(&world, |outside| outside.plays.clear());
    assert_eq!(tick(&world).await.outcome, RunOutcome::Completed);
}

#[tokio::test]
async fn a_fallback_model_is_what_a_finding_is_made_with() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), 1);
    outside(&world, |outside| outside.fell_back_to = Some("haiku-of-last-year".into()));
    tick(&world).await;
    let made = "SELECT count(*) FROM findings WHERE model = 'haiku-of-last-year'";
    assert_eq!(world.count(made), 1);
}

/// Provider down on Tuesday, the agent's automatic update breaks it on Friday evening, a person
/// mends it on Monday.
#[tokio::test]
async fn a_bad_week_parks_nothing_and_ends_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), 0);
    let (mut next, mut red) = (1, Vec::new());
    for half_hour in 0..7 * 48 {
        let (day, hour) = (half_hour / 48, half_hour % 48 / 2);
        if (8..18).contains(&hour) && day < 5 {
            world.add(next, 1, 1 + next % 4);
            next += 1;
        }
        let update = (day == 4 && hour >= 19) || day > 4;
        outside(&world, |outside| {
            outside.outage = if day == 1 { vec![Stage::Triage, Stage::Deep] } else { vec![] };
            let words = "Error: Cannot find module 'yoga-layout'";
            outside.broken_agent = update.then_some((Outcome::ExitCode { code: 1 }, words));
        });
        let ended = tick(&world).await;
        let bad = matches!(ended.outcome, RunOutcome::NotNow);
        if bad {
            red.push(half_hour);
        }
        assert_eq!(phases(&world, "parked"), 0, "half-hour {half_hour}");
        if day == 4 && hour == 20 && half_hour % 2 == 0 {
            world.add(10_000, 1, 1);
        }
    }
    assert_eq!(red.iter().filter(|at| **at / 48 == 1).count(), 48 - 16, "from the first item on");
    assert!(red.contains(&(4 * 48 + 41)) && red.contains(&(7 * 48 - 1)), "{red:?}");
    assert!(agent_fault(&world).await.unwrap().contains("yoga-layout"));
    outside(&world, |outside| outside.broken_agent = None);
    assert_eq!(tick(&world).await.outcome, RunOutcome::Completed, "Monday, after the cure");
    assert_eq!(agent_fault(&world).await, None);
    assert_eq!(phases(&world, "done"), next - 1 + 1);
    assert_eq!(world.count("SELECT max(attempts) FROM heartbeat_state"), 1);
    let paid = world.count("SELECT count(*) FROM sessions WHERE outcome LIKE '%completed%'");
    assert_eq!(spent(&world), paid * 10_000, "only what was answered");
}

#[tokio::test]
async fn one_of_few_that_was_parked_while_nobody_succeeded_gets_one_more_attempt() {
    for cursed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let world = world(folder.path(), 1);
        outside(&world, |outside| outside.deep_ends = Some(EXHAUSTED));
        for _ in 0..6 {
            tick(&world).await;
            world.clock.advance_ms(24 * 3_600_000);
        }
        assert_eq!(world.row(1).unwrap().0, "parked", "nobody else was there to compare with");
        outside(&world, |outside| {
            outside.deep_ends = None;
            outside.cursed = cursed.then_some(1);
        });
        world.add(2, 1, 3);
        for _ in 0..6 {
            tick(&world).await;
            world.clock.advance_ms(24 * 3_600_000);
        }
        assert_eq!(world.row(2).unwrap().0, "done");
        let (phase, _, attempts) = world.row(1).unwrap();
        let expected = if cursed { "parked" } else { "done" };
        assert_eq!((phase.as_str(), attempts), (expected, 3), "cursed: {cursed}");
        let tried = world.outside.lock().unwrap().started.clone();
        let tried = tried.iter().filter(|(stage, id, ..)| (*stage, *id) == (Stage::Deep, 1));
        assert_eq!(tried.count(), 4, "once more, and not for ever");
    }
}
