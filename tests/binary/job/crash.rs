//! Ended at random moments, by kill -9 or a shutdown: nothing lost, nothing counted twice, nothing
//! left alive.

use nix::sys::signal::Signal;

use super::world::{Running, World};
use support::eventually;

/// How many times heartbeat is killed; one run between two kills makes progress.
const KILLS: u64 = 30;
const SHUTDOWNS: u64 = 15;

/// A small seeded generator, so that a failing sequence can be repeated.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[test]
fn killed_thirty_times_every_item_ends_once_or_waits_visibly() {
    end_at_random_moments(Signal::SIGKILL, KILLS, |world| {
        eventually("the end of every process", || world.session_processes().is_empty());
    });
}

/// What a kill leaves to the next start, a shutdown has completed before the process exits.
#[test]
fn after_each_shutdown_no_process_is_left_and_every_item_is_in_one_visible_state() {
    end_at_random_moments(Signal::SIGTERM, SHUTDOWNS, |world| {
        assert_eq!(world.session_processes(), Vec::<u32>::new());
        if stored_events(world) == 0 {
            return;
        }
        let open = [
            "heartbeat_active_sessions",
            "runs WHERE ended_at IS NULL",
            "budget WHERE spent IS NULL",
            "heartbeat_state WHERE phase = 'claimed'",
        ];
        for table in open {
            assert_eq!(world.figure(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
        }
    });
}

/// Ends `heartbeat --once` `times` times with `signal`, and checks the result each time.
fn end_at_random_moments(signal: Signal, times: u64, look: impl Fn(&World)) {
    let seed = std::env::var("HEARTBEAT_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(7);
    eprintln!("HEARTBEAT_TEST_SEED={seed}");
    let mut chance = Chance(seed);
    let mut world = World::new(40);
    for end in 0..times {
        // A new state every few times, so that something is always in flight.
        if end % 5 == 0 {
            finish_and_check(&world, end > 0);
            world = World::new(40);
        }
        let mut run = Running::start(world.demo(&["--once", "--set", "dedupe.retry_delay=0s"]));
        let events = chance.next(120);
        eventually("the moment to end it", || run.ended() || stored_events(&world) >= events);
        if !run.ended() {
            run.signal(signal);
        }
        run.output();
        look(&world);
    }
    finish_and_check(&world, true);
}

/// Number of events of the newest run: a clock that advances with the work, not with time.
fn stored_events(world: &World) -> u64 {
    if !world.state().join("heartbeat.db").exists() {
        return 0;
    }
    let count = world.database().query_row(
        "SELECT count(*) FROM events WHERE run = (SELECT run FROM runs ORDER BY started_at DESC LIMIT 1)",
        [],
        |row| row.get::<_, i64>(0),
    );
    count.map_or(0, |count| u64::try_from(count).unwrap())
}

/// Runs until nothing is left to do, then checks the state.
fn finish_and_check(world: &World, used: bool) {
    if !used {
        return;
    }
    for _ in 0..8 {
        let (_, report) = world.run_once(&["--set", "dedupe.retry_delay=0s"]);
        if report["outcome"] == "nothing_new" {
            break;
        }
    }
    let count = |sql: &str| world.figure(sql);
    assert_eq!(count("SELECT count(*) FROM heartbeat_active_sessions"), 0);
    assert_eq!(
        count("SELECT count(*) FROM heartbeat_state WHERE phase IN ('claimed', 'pending')"),
        0
    );
    let visible =
        "SELECT count(*) FROM heartbeat_state WHERE phase IN ('done', 'waiting', 'parked')";
    assert_eq!(count(visible), count("SELECT count(*) FROM heartbeat_state"));
    assert!(count(visible) >= 19, "every item was seen");
    let doubled = "SELECT count(*) FROM (SELECT key FROM findings GROUP BY key, fingerprint HAVING count(*) > 1)";
    assert_eq!(count(doubled), 0, "no item was processed twice");
    let unfinished = "SELECT count(*) FROM sessions WHERE ended_at IS NULL OR applied = 0";
    assert_eq!(count(unfinished), 0, "every session has one end, and it was used");
    let too_often = "SELECT count(*) FROM (SELECT key FROM attempts WHERE counted = 1 GROUP BY key, fingerprint HAVING count(*) > 3)";
    assert_eq!(count(too_often), 0, "never more attempts than allowed");
    let unsettled = "SELECT count(*) FROM budget WHERE spent IS NULL";
    assert_eq!(count(unsettled), 0, "no money is reserved for ever");
    assert_eq!(world.session_processes(), Vec::<u32>::new());
    let scratch = std::fs::read_dir(world.state().join("scratch")).map_or(0, Iterator::count);
    assert_eq!(scratch, 0, "no private folder is left");
}

#[test]
fn after_a_kill_nothing_dead_is_reported_as_alive() {
    let world = World::new(1_500);
    let run = Running::start(world.demo(&["--once"]));
    eventually("an agent", || !world.live_agents().is_empty());
    let deep = "SELECT count(*) FROM heartbeat_active_sessions WHERE item IS NOT NULL";
    eventually("an item under analysis", || world.figure(deep) >= 1);
    run.signal(Signal::SIGKILL);
    run.output();
    eventually("the end of every process", || world.session_processes().is_empty());
    let say = |args: &[&str]| super::world::text(&world.heartbeat(args).output().unwrap());
    let crashed = "crashed; the next start cleans up";
    let status = say(&["status"]);
    assert!(!status.contains("in progress") && !status.contains(" s of "), "{status}");
    assert!(status.contains(crashed), "{status}");
    for list in [say(&["runs"]), say(&["sessions"])] {
        assert!(list.contains(crashed), "{list}");
        assert!(!list.contains("alive") && !list.contains("in progress"), "{list}");
    }
    let output = world.heartbeat(&["status", "--json"]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["sessions"][0]["alive"], false, "{status}");
    assert_eq!(status["running"], serde_json::Value::Null, "{status}");
    let item = world
        .figure("SELECT item_id FROM heartbeat_state JOIN heartbeat_active_sessions ON item = key");
    let refused = say(&["retry", &item.to_string()]);
    assert!(refused.contains(crashed) && !refused.contains("is running"), "{refused}");
    let unknown = say(&["retry", "999999"]);
    assert!(unknown.contains("not among the items") && !unknown.contains("session"), "{unknown}");
}
