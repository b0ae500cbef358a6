//! One set of figures: whatever happened to the sessions, every place that shows money, sessions or
//! what is left says the same.

use heartbeat::clock::Clock;
use heartbeat::event::Trigger;
use heartbeat::model::Usd;
use heartbeat::report::digest::{Report, Scope};
use heartbeat::store::{Spending, Store, close_crashed_runs};
use heartbeat::web::{facts, health, metrics};

use crate::world::sessions::endings;
use crate::world::{Play, World, config};

/// What the table itself says, independent of the functions under test.
#[derive(Debug, PartialEq)]
struct Booked {
    sessions: i64,
    billed: i64,
    assumed: i64,
    reserved: i64,
}

impl Booked {
    fn where_(world: &World, condition: &str) -> Self {
        let sum = |what: &str| {
            world.count(&format!("SELECT coalesce(sum({what}), 0) FROM budget WHERE {condition}"))
        };
        Self {
            sessions: sum("1"),
            billed: sum("iif(assumed, 0, coalesce(spent, 0))"),
            assumed: sum("iif(assumed, spent, 0)"),
            reserved: sum("iif(spent IS NULL, reserved, 0)"),
        }
    }

    fn of(money: Spending) -> Self {
        Self {
            sessions: money.sessions.into(),
            billed: money.billed.micros(),
            assumed: money.assumed.micros(),
            reserved: money.reserved.micros(),
        }
    }
}

/// A sample of `/metrics` without labels, or the sum over its labels, in micro-dollars. Each sample is
/// rounded by itself: a sum of large amounts in binary fractions is off by a micro-dollar.
fn metric(text: &str, name: &str) -> i64 {
    let values = text
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    let micros =
        |line: &str| Some(Usd::from_dollars(line.rsplit(' ').next()?.parse().ok()?).micros());
    values.filter_map(micros).sum()
}

#[tokio::test]
async fn every_place_shows_the_same_figures_whatever_happened() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(
        folder.path(),
        config(|config| {
            config.budget.per_run = Usd::from_dollars(1e7);
            config.budget.per_day = Usd::from_dollars(1e8);
            config.limits.max_deep_per_run = 6;
        }),
    );
    (1..=30).for_each(|id| world.add(id, 1, 2));
    let others = [
        Play::Good,
        Play::BadOutput,
        Play::Silent,
        Play::DiesWithRow,
        Play::DiesAfterRow,
        Play::DiesBeforeRow,
        Play::NoKeeper,
    ];
    let (mut next, kinds) = (0, endings().len() + others.len());
    for run in 0..24 {
        // Triage works, so that there is something to analyse; then whatever comes next.
        let mut plays = vec![Play::Good];
        for _ in 0..6 {
            plays.push(others.get(next % kinds).copied().unwrap_or(Play::Ends(next % kinds)));
            next += 1;
        }
        world.outside.lock().unwrap().plays = plays.into();
        let ended = world.run(Trigger::Manual).await.unwrap();
        if let Some(ended) = ended {
            let of_run = "run = (SELECT run FROM runs ORDER BY rowid DESC LIMIT 1)";
            let booked = Booked::where_(&world, of_run);
            assert_eq!(ended.summary.cost.micros(), booked.billed, "run {run}");
            assert_eq!(ended.summary.cost_at_worst.micros(), booked.assumed, "run {run}");
            assert_eq!(i64::try_from(ended.summary.sessions).unwrap(), booked.sessions);
            for (phase, left) in [
                ("pending", ended.summary.deferred),
                ("waiting", ended.summary.waiting),
                ("parked", ended.summary.parked),
            ] {
                let sql = format!("SELECT count(*) FROM heartbeat_state WHERE phase = '{phase}'");
                assert_eq!(world.count(&sql), i64::try_from(left).unwrap(), "{phase}, run {run}");
            }
        }
        // New texts keep it going; a third of the runs are on another day.
        world.edit(run % 30 + 1, |item| item.version += 1);
        world.clock.advance_ms(8 * 3_600_000);
    }
    assert!(next >= kinds, "only {next} of {kinds} endings were played");
    let all = Booked::where_(&world, "1");
    assert!(all.sessions > 60 && all.billed > 0 && all.assumed > 0, "{all:?}");
    agree(&world, true).await;
}

#[tokio::test]
async fn a_claim_that_a_crash_left_unstarted_is_no_session_of_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    world.outside.lock().unwrap().plays = [Play::DiesBeforeRow].into();
    assert!(world.run(Trigger::Manual).await.unwrap().is_none());
    // As each run does before it begins.
    let store = Store::open(&world.state).unwrap();
    close_crashed_runs(&store, &world.clock).await.unwrap();
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(world.row(1).unwrap().0, "done");
    agree(&world, true).await;
}

#[tokio::test]
async fn a_session_that_is_not_proven_to_be_over_is_booked_at_what_it_used() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), config(|_| {}));
    world.add(1, 1, 2);
    world.outside.lock().unwrap().plays = [Play::Good, Play::LosesKeeper].into();
    for _ in 0..2 {
        world.run(Trigger::Manual).await.unwrap().unwrap();
        let served = world.outside.lock().unwrap().served.values().sum::<i64>();
        assert_eq!(world.count("SELECT sum(spent) FROM budget"), served);
        agree(&world, true).await;
    }
    assert_eq!(world.row(1).unwrap(), ("done".into(), "same_fingerprint".into(), 1));
}

/// At one moment, after everything has ended: the same in every place. With `each` also run by run
/// and session by session.
pub async fn agree(world: &World, each: bool) {
    let store = Store::open(&world.state).unwrap();
    let all = Booked::where_(world, "1");
    if each {
        assert_eq!(by_run(world, &store).await, all, "the runs");
        assert_eq!(by_session(&store).await, all, "the sessions");
    }
    // By day and stage, as `status` and the report show it.
    let total = |rows: Vec<Spending>| {
        let add = |sum: i64, amount: Usd| sum + amount.micros();
        Booked {
            sessions: rows.iter().map(|row| i64::from(row.sessions)).sum(),
            billed: rows.iter().fold(0, |sum, row| add(sum, row.billed)),
            assumed: rows.iter().fold(0, |sum, row| add(sum, row.assumed)),
            reserved: rows.iter().fold(0, |sum, row| add(sum, row.reserved)),
        }
    };
    let days = store.budget().by_stage_since("2026-01-01".into()).await.unwrap();
    assert_eq!(total(days.iter().map(|row| row.money).collect()), all, "the days");
    let now = world.clock.now();
    // A clock that was ahead has written times after now.
    let scope = Scope::Period { from: jiff::Timestamp::UNIX_EPOCH, to: jiff::Timestamp::MAX };
    let report = Report::gather(&store, scope, "a project", now).await.unwrap();
    assert_eq!(report.totals.cost.micros(), all.billed, "the report");
    assert_eq!(report.totals.cost_at_worst.micros(), all.assumed);
    assert_eq!(i64::try_from(report.totals.sessions).unwrap(), all.sessions);
    // As the dashboard and the metrics show it.
    let facts = facts::gather(&store, &world.config, &Clock::manual(now)).await;
    assert_eq!(total(facts.spent_by_stage.iter().map(|(_, money)| *money).collect()), all);
    assert_eq!(facts.spending.today, facts.today);
    let text = metrics::render(&facts, &health::judge(&facts, std::time::Duration::ZERO));
    assert_eq!(metric(&text, "heartbeat_cost_usd_total"), all.billed + all.assumed, "{text}");
    assert_eq!(metric(&text, "heartbeat_cost_assumed_usd_total"), all.assumed);
}

/// As `runs`, `status`, the dashboard and --json show it.
async fn by_run(world: &World, store: &Store) -> Booked {
    let mut sum = Booked { sessions: 0, billed: 0, assumed: 0, reserved: 0 };
    let runs = store.runs().newest(10_000).await.unwrap();
    for row in &runs {
        let booked = Booked::where_(world, &format!("run = '{}'", row.run));
        assert_eq!(Booked::of(store.budget().in_run(row.run).await.unwrap()), booked);
        sum.sessions += booked.sessions;
        sum.reserved += booked.reserved;
        if let Some(summary) = row.summary {
            assert_eq!(summary.cost.micros(), booked.billed, "{}", row.run);
            assert_eq!(summary.cost_at_worst.micros(), booked.assumed, "{}", row.run);
            assert_eq!(i64::try_from(summary.sessions).unwrap(), booked.sessions);
        }
        sum.billed += booked.billed;
        sum.assumed += booked.assumed;
    }
    sum
}

/// As `sessions` and the session page show it.
async fn by_session(store: &Store) -> Booked {
    let mut sum = Booked { sessions: 0, billed: 0, assumed: 0, reserved: 0 };
    for row in store.sessions().newest(100_000).await.unwrap() {
        let one = Booked::of(row.money);
        sum.sessions += 1;
        sum.billed += one.billed;
        sum.assumed += one.assumed;
        sum.reserved += one.reserved;
    }
    sum
}
