//! A bad month: outages, restarts, kills and refusals against a provider that keeps its own account
//! of what it served. The ledger says the same, to the micro-dollar, except where it says "assumed".

use std::collections::BTreeMap;

use heartbeat::event::Trigger;
use heartbeat::model::{Outcome, Stage, Usd};
use heartbeat::schedule::date_in;
use heartbeat::settings::FirstRun;
use heartbeat::store::Store;

use crate::world::sessions::endings;
use crate::world::{Play, World, config};

const HOURS: i64 = 30 * 24;
/// Hours between two runs.
const EVERY: usize = 2;

/// A fixed sequence, so that a failure can be seen again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % sides
    }

    /// Most sessions are good; the others end in every way that a month can have.
    fn play(&mut self) -> Play {
        let kinds = endings().len() as u64;
        match self.roll(40) {
            0 => Play::Fails,
            1 => Play::Outage,
            2 => Play::Limited,
            3 => Play::BadOutput,
            4 => Play::Silent,
            5 => Play::DiesBeforeRow,
            6 => Play::DiesWithRow,
            7 => Play::DiesAfterRow,
            8 => Play::NoKeeper,
            9 => Play::MachineFull,
            10 => Play::Invented,
            11..=14 => match self.roll(kinds) {
                // Figures that no provider can have served.
                absurd if absurd % 5 == 4 => Play::Fails,
                which => Play::Ends(usize::try_from(which).unwrap()),
            },
            _ => Play::Good,
        }
    }
}

/// What is wrong outside at this hour.
fn weather(world: &World, dice: &mut Dice, hour: i64) {
    let (day, hour) = (hour / 24, hour % 24);
    let mut outside = world.outside.lock().unwrap();
    outside.outage = match day {
        3 => vec![Stage::Triage, Stage::Locate, Stage::Deep],
        9 => vec![Stage::Deep],
        _ => Vec::new(),
    };
    let cut = day == 6 || (day == 21 && hour > 12);
    outside.unreachable = cut.then_some("the provider: no route; check the network");
    let broken = (Outcome::ExitCode { code: 1 }, "Error: Cannot find module 'yoga-layout'");
    outside.broken_agent = ((14..16).contains(&day)).then_some(broken);
    outside.brown_out = (day == 18).then_some((40, 7));
    outside.pages_until_failure = (day == 24 && hour < 6).then_some(0);
    outside.plays = (0..12).map(|_| dice.play()).collect();
}

fn ledger(world: &World) -> BTreeMap<String, (i64, bool)> {
    let database = world.open_database();
    let mut rows = database.prepare("SELECT session, spent, assumed FROM budget").unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        let spent: Option<i64> = row.get(1)?;
        Ok((row.get(0)?, (spent.unwrap_or(i64::MIN), row.get(2)?)))
    };
    rows.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// Returns how many runs crashed.
async fn live_through(world: &World) -> i64 {
    let (mut dice, mut crashes, mut next) = (Dice(36), 0, 1);
    for hour in (0..HOURS).step_by(EVERY) {
        for _ in (8..18).filter(|work| *work == hour % 24 || *work == hour % 24 + 1) {
            world.add(next, 1, 1 + next % 4);
            next += 1;
        }
        if dice.roll(4) == 0 {
            let old = i64::try_from(dice.roll(next.unsigned_abs())).unwrap();
            world.edit(old, |item| item.version += 1);
        }
        weather(world, &mut dice, hour);
        let trigger = if dice.roll(8) == 0 { Trigger::Manual } else { Trigger::Schedule };
        crashes += i64::from(world.run(trigger).await.unwrap().is_none());
        world.clock.advance_ms(7_199_000);
    }
    // What the last crash left is settled by the next start.
    world.outside.lock().unwrap().plays.clear();
    world.run(Trigger::Manual).await.unwrap().unwrap();
    crashes
}

#[tokio::test]
async fn the_ledger_of_a_bad_month_is_the_providers_account() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(
        folder.path(),
        config(|config| {
            config.schedule.first_run = FirstRun::Process;
            config.budget.per_day = Usd::from_dollars(1000.0);
            config.limits.max_deep_per_run = 6;
        }),
    );
    let crashes = live_through(&world).await;

    let served = world.outside.lock().unwrap().served.clone();
    let ledger = ledger(&world);
    let (mut billed, mut assumed, mut behind_assumed) = (0, 0, 0);
    for (session, (spent, is_assumed)) in &ledger {
        let real = served.get(session).copied().unwrap_or_default();
        if *is_assumed {
            assert!(*spent >= real, "{session}: assumed {spent}, served {real}");
            (assumed, behind_assumed) = (assumed + spent, behind_assumed + real);
        } else {
            assert_eq!(*spent, real, "session {session}");
            billed += spent;
        }
    }
    assert_eq!(billed + behind_assumed, served.values().sum::<i64>(), "nothing is forgotten");
    let never_booked = served.keys().filter(|session| !ledger.contains_key(*session)).count();
    assert_eq!(never_booked, 0);
    println!(
        "FIGURES bad month: {} sessions, {crashes} crashes, served {} billed {billed} assumed \
         {assumed} for {behind_assumed} (micro-dollars)",
        ledger.len(),
        served.values().sum::<i64>()
    );
    assert!(ledger.len() > 200 && crashes > 8 && assumed > 0, "a bad month");
    // What people read is the same.
    let store = Store::open(&world.state).unwrap();
    let days = store.budget().by_stage_since("2026-01-01".into()).await.unwrap();
    assert_eq!(days.iter().map(|row| row.money.billed.micros()).sum::<i64>(), billed);
    assert_eq!(days.iter().map(|row| row.money.assumed.micros()).sum::<i64>(), assumed);
    assert!(days.iter().all(|row| row.money.reserved == Usd::ZERO), "nothing stays reserved");
    let today = date_in(&world.config.schedule.timezone, world.clock.now());
    let totals = store.budget().totals_on(today).await.unwrap();
    let of_month = format!(
        "SELECT coalesce(sum(spent), 0) FROM budget WHERE assumed = 0 AND day LIKE '{:04}-{:02}-%'",
        today.year(),
        today.month()
    );
    assert_eq!(totals.month.billed.micros(), world.count(&of_month));
}
