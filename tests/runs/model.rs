//! Any sequence of edits, runs, failures and crashes against a simple model: nothing is lost,
//! nothing is paid for too often, nothing counts as done that is not.

use std::collections::{BTreeMap, HashMap};

use crate::world::{Play, World, config, is_deep};
use heartbeat::event::{RunSummary, Trigger};
use heartbeat::model::{ItemId, ItemKey, Phase, RetryClass, Stage, Usd};
use heartbeat::session::{StopHandle, StopReason};
use heartbeat::store::{Journal, Store};
use proptest::prelude::*;

const ITEMS: i64 = 3;
const MAX_ATTEMPTS: u32 = 2;
const PER_RUN: f64 = 3.0;

/// One step of a sequence.
#[derive(Debug, Clone)]
enum Step {
    Edit(i64, u32),
    Tag(i64),
    Close(i64),
    Open(i64),
    Delete(i64),
    Retry(i64),
    Wait(i64),
    Run(Vec<Play>, Option<u32>),
    /// A run whose first sessions end like this, and that is shut down in the next one.
    Shutdown(Vec<Play>),
}

fn play() -> impl Strategy<Value = Play> {
    prop_oneof![
        6 => Just(Play::Good),
        5 => Just(Play::Fails),
        2 => Just(Play::Outage),
        1 => Just(Play::Limited),
        1 => Just(Play::BadOutput),
        1 => Just(Play::Silent),
        1 => Just(Play::DiesBeforeRow),
        1 => Just(Play::DiesWithRow),
        1 => Just(Play::DiesAfterRow),
    ]
}

/// How sessions before a shutdown end.
fn before_shutdown() -> impl Strategy<Value = Play> {
    prop_oneof![3 => Just(Play::Good), 1 => Just(Play::Fails)]
}

fn step() -> impl Strategy<Value = Step> {
    let item = || 1..=ITEMS;
    prop_oneof![
        4 => (item(), 1_u32..4).prop_map(|(id, version)| Step::Edit(id, version)),
        1 => item().prop_map(Step::Tag),
        1 => item().prop_map(Step::Close),
        1 => item().prop_map(Step::Open),
        1 => item().prop_map(Step::Delete),
        1 => item().prop_map(Step::Retry),
        3 => prop_oneof![Just(-86_400_000_i64), Just(600_000), Just(3_600_000), Just(86_400_000)]
            .prop_map(Step::Wait),
        7 => (prop::collection::vec(play(), 0..6), prop::option::weighted(0.15, 0_u32..3))
            .prop_map(|(plays, failure)| Step::Run(plays, failure)),
        2 => prop::collection::vec(before_shutdown(), 0..4).prop_map(Step::Shutdown),
    ]
}

/// Expected facts about the past, in simple maps.
#[derive(Debug, Default)]
struct Model {
    /// How often a user reset an item's attempts.
    retries: BTreeMap<i64, u32>,
}

impl Model {
    async fn apply(&mut self, world: &World, step: &Step) {
        match step {
            Step::Edit(id, version) => {
                let known = world.outside.lock().unwrap().items.contains_key(id);
                if known {
                    world.edit(*id, |item| item.version = *version);
                } else {
                    world.add(*id, *version, 1 + *id % 4);
                }
            }
            Step::Tag(id) => world.edit(*id, |_| {}),
            Step::Close(id) => world.edit(*id, |item| item.open = false),
            Step::Open(id) => world.edit(*id, |item| item.open = true),
            Step::Delete(id) => drop(world.outside.lock().unwrap().items.remove(id)),
            Step::Retry(id) => self.retry(world, *id).await,
            Step::Wait(ms) => world.clock.advance_ms(*ms),
            Step::Shutdown(plays) => self.shut_down(world, plays).await,
            Step::Run(plays, failure) => {
                {
                    let mut outside = world.outside.lock().unwrap();
                    outside.plays = plays.iter().copied().collect();
                    outside.pages_until_failure = *failure;
                }
                let ended = world.run(Trigger::Manual).await.unwrap();
                if let Some(ended) = &ended {
                    adds_up(&ended.summary);
                }
                self.hold(world, ended.is_some_and(|ended| ended.error.is_none()));
            }
        }
    }

    /// A run that is stopped as by SIGTERM.
    async fn shut_down(&self, world: &World, plays: &[Play]) {
        let stopped = World { stop: StopHandle::new(), ..world.clone() };
        let before = {
            let mut outside = world.outside.lock().unwrap();
            // Sessions beyond the script hang until they are stopped.
            outside.plays = plays.iter().copied().chain([Play::Hangs; 8]).collect();
            outside.hanging
        };
        let stop = async {
            while world.outside.lock().unwrap().hanging == before {
                tokio::task::yield_now().await;
            }
            stopped.stop.stop(StopReason::Shutdown);
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = stopped.run(Trigger::Manual) => ended.unwrap().unwrap(),
            () = stop => unreachable!("it waits for ever"),
        };
        world.outside.lock().unwrap().plays.clear();
        adds_up(&ended.summary);
        self.hold(world, false);
        self.everything_is_visible(world).await;
    }

    /// Nothing is alive, and `status`, `show` and the dashboard agree about each item.
    async fn everything_is_visible(&self, world: &World) {
        for table in ["heartbeat_active_sessions", "budget WHERE spent IS NULL"] {
            assert_eq!(world.count(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
        }
        let store = Store::open(&world.state).unwrap();
        assert!(store.sessions().active().await.unwrap().is_empty());
        let open = store.items().open(u32::MAX).await.unwrap();
        let counts: HashMap<Phase, u32> =
            store.items().phase_counts().await.unwrap().into_iter().collect();
        assert!(!counts.contains_key(&Phase::Claimed), "{counts:?}");
        let finished = |phase: Phase| matches!(phase, Phase::Done | Phase::Vanished);
        let unfinished: u32 =
            counts.iter().filter(|(phase, _)| !finished(**phase)).map(|(_, count)| count).sum();
        assert_eq!((open.total, open.first.len()), (unfinished, unfinished as usize));
        for id in 1..=ITEMS {
            let key = ItemKey::new("ado", ItemId(id));
            let shown = store.items().get(key.clone()).await.unwrap();
            let listed = open.first.iter().filter(|item| item.key == key).count();
            let expected = usize::from(shown.is_some_and(|item| !finished(item.phase)));
            assert_eq!(listed, expected, "{key}");
        }
    }

    async fn retry(&mut self, world: &World, id: i64) {
        let store = Store::open(&world.state).unwrap();
        let journal = Journal::open(store, world.clock.clone(), None).unwrap();
        let key = heartbeat::model::ItemKey::new("ado", heartbeat::model::ItemId(id));
        if journal.items().requeue(key).await.unwrap() {
            *self.retries.entry(id).or_default() += 1;
        }
    }

    /// Everything that must hold at every instant.
    fn hold(&self, world: &World, finished: bool) {
        let outside = world.outside.lock().unwrap();
        assert!(outside.most_live <= world.config.limits.max_live_sessions, "I1");
        let mut tried: BTreeMap<(i64, u32), u32> = BTreeMap::new();
        for (stage, id, version, outcome) in &outside.started {
            if *stage == Stage::Deep && outcome.retry_class() != RetryClass::DoesNotCount {
                *tried.entry((*id, *version)).or_default() += 1;
            }
        }
        for ((id, version), tries) in tried {
            let allowed = MAX_ATTEMPTS * (1 + self.retries.get(&id).copied().unwrap_or(0));
            // What failed for everybody alike was given back.
            let given_back = format!(
                "SELECT count(*) FROM events WHERE event = 'item_deferred' AND item = 'ado/{id}'
                 AND json_extract(body, '$.reason') = 'fails_alike'"
            );
            let allowed = allowed + u32::try_from(world.count(&given_back)).unwrap();
            assert!(tries <= allowed, "I2: {id} version {version}: {tries} of {allowed}");
        }
        drop(outside);
        let none = |sql: &str, what: &str| assert_eq!(world.count(sql), 0, "{what}");
        none(
            "SELECT count(*) FROM heartbeat_state s WHERE processed_fingerprint IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM findings f
                 WHERE f.key = s.key AND f.fingerprint = s.processed_fingerprint)
             AND NOT EXISTS (SELECT 1 FROM events e WHERE e.item = s.key AND e.event = 'item_settled')",
            "I4: done without a stored result",
        );
        none(
            "SELECT count(*) FROM heartbeat_state
             WHERE (phase = 'done') <> (phase = 'done' AND processed_fingerprint = fingerprint)
                OR (phase = 'waiting') <> (next_attempt IS NOT NULL)",
            "a standing that contradicts itself",
        );
        let budget = format!(
            "SELECT count(*) FROM (SELECT sum(coalesce(spent, reserved)) AS taken FROM budget
             GROUP BY run) WHERE taken > {}",
            Usd::from_dollars(PER_RUN).micros()
        );
        none(&budget, "I6: over the budget of a run");
        none(
            "SELECT count(*) FROM (
                 SELECT sum(b.spent) AS booked, sum(CASE WHEN json_extract(s.usage, '$.reported')
                     THEN CAST(round(json_extract(s.usage, '$.cost') * 1e6) AS INTEGER)
                     ELSE b.reserved END) AS allowed
                 FROM budget b JOIN sessions s USING (session) WHERE b.spent IS NOT NULL)
             WHERE booked > allowed",
            "more is booked than was reported or, where nothing was reported, reserved",
        );
        if finished {
            none(
                "SELECT count(*) FROM heartbeat_state WHERE phase = 'claimed'",
                "claimed by nobody",
            );
            none("SELECT count(*) FROM heartbeat_active_sessions", "a row without a session");
            none("SELECT count(*) FROM budget WHERE spent IS NULL", "reserved by nobody");
            self.nothing_lost(world);
        }
    }

    /// After a complete read, each item of the tracker is known with its current text.
    fn nothing_lost(&self, world: &World) {
        let outside = world.outside.lock().unwrap();
        for (id, item) in outside.items.iter().filter(|(_, item)| item.open) {
            let row = world.row(*id);
            let row = row.unwrap_or_else(|| panic!("I5: {id} {item:?} was lost"));
            let visible = ["pending", "waiting", "parked", "done"].contains(&row.0.as_str());
            assert!(visible, "I5: {id} {item:?} is {row:?}");
        }
    }

    /// With good sessions and enough runs, every item is finished.
    async fn settle(&self, world: &World) {
        let mut good = 0;
        for _ in 0..12 {
            world.outside.lock().unwrap().plays.clear();
            let ended = world.run(Trigger::Manual).await.unwrap().unwrap();
            assert!(ended.error.is_none(), "{:?}", ended.error);
            self.hold(world, true);
            world.clock.advance_ms(2 * 86_400_000);
            good += 1;
            let open = "SELECT count(*) FROM heartbeat_state WHERE phase IN ('pending', 'waiting')";
            if world.count(open) == 0 && good > 1 {
                break;
            }
        }
        let outside = world.outside.lock().unwrap();
        for (id, item) in outside.items.iter().filter(|(_, item)| item.open) {
            let (phase, reason, attempts) = world.row(*id).unwrap();
            let deep = is_deep(item.version);
            match phase.as_str() {
                "done" => {}
                // Out of attempts, or its triage failed too often: both are listed for users.
                "parked" => assert!(
                    (deep && attempts >= MAX_ATTEMPTS)
                        || ["for_a_person", "fails_triage"].contains(&reason.as_str()),
                    "{id} {item:?} {reason} {attempts}"
                ),
                other => panic!("{id} {item:?} is {other} ({reason}) for ever"),
            }
        }
    }
}

/// Every fetched item is counted exactly once.
fn adds_up(s: &RunSummary) {
    let shares = &s.shares;
    let known = shares.new + shares.changed + shares.carried_over + shares.unchanged;
    let others = shares.baseline + shares.over_limit + shares.resting;
    assert_eq!(known + others, s.fetched, "{s:?}");
}

/// More of them in a long run: `MEMORY_CASES=500`.
#[expect(clippy::disallowed_methods, reason = "how much to test is not heartbeat's configuration")]
fn cases() -> u32 {
    std::env::var("MEMORY_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(48)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_nothing_is_lost_and_nothing_is_paid_for_too_often(
        first in prop::collection::vec((1..=ITEMS, 1_u32..5), 1..5),
        steps in prop::collection::vec(step(), 1..28),
        live in 1_u32..3,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(folder.path(), config(|config| {
            config.limits.max_live_sessions = live;
            config.limits.max_attempts = MAX_ATTEMPTS;
            config.limits.max_deep_per_run = 3;
            config.limits.max_items_per_run = 4;
            config.budget.per_run = Usd::from_dollars(PER_RUN);
        }));
        for (id, version) in first {
            world.add(id, version, 1 + id % 4);
        }
        runtime().block_on(async {
            let mut model = Model::default();
            for step in &steps {
                model.apply(&world, step).await;
            }
            model.settle(&world).await;
        });
    }
}
