//! Nothing starves: items that wait for deep analysis do not reduce triage, and later items do not
//! overtake earlier ones.

use heartbeat::event::{RunSummary, Trigger};
use heartbeat::settings::Config;
use proptest::prelude::*;

use crate::world::{World, config};

/// A version that triage sends to deep analysis, and one that it does not.
const DEEP: u32 = 1;
const SETTLED_BY_TRIAGE: u32 = 3;

async fn run(world: &World) -> RunSummary {
    let ended = world.run(Trigger::Manual).await.unwrap().unwrap();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    ended.summary
}

/// Number of items without a triage so far.
fn untriaged(world: &World) -> i64 {
    world.count("SELECT count(*) FROM heartbeat_state WHERE phase = 'pending' AND verdict IS NULL")
}

fn is_triaged(world: &World, id: i64) -> bool {
    let sql =
        format!("SELECT count(*) FROM events WHERE event = 'item_triaged' AND item = 'ado/{id}'");
    world.count(&sql) > 0
}

#[tokio::test]
async fn a_backlog_of_two_thousand_is_triaged_in_ten_runs_whatever_waits_for_deep_analysis() {
    let folder = tempfile::tempdir().unwrap();
    // The limits of the default configuration.
    let limits = |config: &mut Config| {
        config.limits.max_items_per_run = 200;
        config.limits.max_deep_per_run = 10;
    };
    let world = World::new(folder.path(), config(limits));
    world.outside.lock().unwrap().page_size = 200;
    for id in 1..=1996 {
        let version = if id % 4 == 0 { DEEP } else { SETTLED_BY_TRIAGE };
        world.add(id, version, 2 + id % 3);
    }
    println!("run  triaged  analysed  untriaged  waiting for deep analysis");
    let mut urgent = Vec::new();
    for number in 1..=20 {
        if number == 5 {
            urgent = (3001..=3004).collect();
            urgent.iter().for_each(|id| world.add(*id, DEEP, 1));
        }
        let summary = run(&world).await;
        let waiting = world.count(
            "SELECT count(*) FROM heartbeat_state WHERE phase = 'pending' AND verdict IS NOT NULL",
        );
        println!(
            "{number:3}  {:7}  {:8}  {:9}  {waiting:25}",
            summary.triaged,
            summary.analysed,
            untriaged(&world)
        );
        assert_eq!(summary.analysed, 10, "run {number}");
        if number <= 10 {
            assert_eq!(summary.triaged, 200, "run {number}");
        }
        if number == 5 {
            assert!(urgent.iter().all(|id| is_triaged(&world, *id)), "urgent items come next");
        }
        if number == 10 {
            assert_eq!(untriaged(&world), 0, "2,000 items at 200 per run");
        }
    }
}

#[derive(Debug, Clone)]
struct Backlog {
    triage_limit: u32,
    deep_limit: u32,
    /// Priority and version of the items from before.
    before: Vec<(i64, u32)>,
    runs_before: usize,
    own: (i64, u32),
    /// Those that arrive after it, run by run.
    after: Vec<Vec<(i64, u32)>>,
}

fn item() -> impl Strategy<Value = (i64, u32)> {
    (2_i64..5, prop_oneof![Just(DEEP), Just(SETTLED_BY_TRIAGE)])
}

fn backlog() -> impl Strategy<Value = Backlog> {
    (
        1_u32..4,
        1_u32..3,
        prop::collection::vec(item(), 0..14),
        0_usize..4,
        item(),
        prop::collection::vec(prop::collection::vec(item(), 0..4), 20),
    )
        .prop_map(|(triage_limit, deep_limit, before, runs_before, own, after)| Backlog {
            triage_limit,
            deep_limit,
            before,
            runs_before,
            own,
            after,
        })
}

async fn is_triaged_in_time(backlog: Backlog) {
    let folder = tempfile::tempdir().unwrap();
    let limits = |config: &mut Config| {
        config.limits.max_items_per_run = backlog.triage_limit;
        config.limits.max_deep_per_run = backlog.deep_limit;
    };
    let world = World::new(folder.path(), config(limits));
    for (id, (priority, version)) in (1..).zip(&backlog.before) {
        world.add(id, *version, *priority);
    }
    for _ in 0..backlog.runs_before {
        run(&world).await;
    }
    let before = i64::try_from(backlog.before.len()).unwrap();
    let ahead = if backlog.runs_before == 0 { before } else { untriaged(&world) };
    let own = 1000;
    world.add(own, backlog.own.1, backlog.own.0);
    let allowed = u64::try_from(ahead + 1).unwrap().div_ceil(u64::from(backlog.triage_limit));
    let mut next = 2000;
    for later in backlog.after.iter().take(usize::try_from(allowed).unwrap()) {
        run(&world).await;
        for (priority, version) in later {
            world.add(next, *version, *priority);
            next += 1;
        }
    }
    assert!(is_triaged(&world, own), "{ahead} ahead of it, {allowed} runs, {backlog:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn an_item_is_triaged_as_soon_as_those_ahead_of_it_are(backlog in backlog()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(is_triaged_in_time(backlog));
    }
}
