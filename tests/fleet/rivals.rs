//! Two of everything: the same id at once, two coordinators of one state, an old copy of a state,
//! two workers with one name.

use std::time::{Duration, Instant};

use heartbeat::fleet::engine::{Engine, Start, Started};
use heartbeat::fleet::order::Task;
use heartbeat::settings::Environment;
use nix::sys::signal::Signal;
use support::conformance;
use support::eventually;

use crate::world::{LEASE, Process, Watch, World, tail};

pub fn engine(world: &World) -> Engine {
    let mut config = conformance::config(&world.agent);
    config.fleet.address = world.address();
    config.fleet.key_file = world.key();
    config.fleet.workers = world.workers();
    Engine::new(&config.fleet, &Environment::new(std::env::vars_os()), "test").unwrap()
}

/// Hosts that poll the server.
pub fn waiting_hosts(world: &World) -> Vec<String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pollers = runtime.block_on(async { engine(world).pollers("heartbeat-default-w1").await });
    pollers.unwrap_or_default().into_iter().map(|poller| poller.host).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_eight_starts_of_one_id_one_is_taken() {
    let Some(world) = World::new(24) else { return };
    let engine = engine(&world);
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let engine = engine.clone();
        starts.spawn(async move {
            let second = Duration::from_secs(1);
            let start = Start {
                id: "hb/rivals/one",
                queue: "nobody",
                task: &Task::Void,
                wait: second,
                limit: second,
                heartbeat_timeout: None,
                again: false,
            };
            engine.start(start).await.unwrap()
        });
    }
    let all = starts.join_all().await;
    assert_eq!(all.iter().filter(|one| **one == Started::New).count(), 1, "{all:?}");
    let second = Duration::from_secs(1);
    let late = Start {
        id: "hb/rivals/one",
        queue: "nobody",
        task: &Task::Void,
        wait: second,
        limit: second,
        heartbeat_timeout: None,
        again: false,
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        engine.start(late).await.unwrap(),
        Started::Known,
        "refused for ever, also after its end"
    );
}

fn copy_state(world: &World, to: &str) {
    let (from, to) = (world.path().join("coordinator"), world.path().join(to));
    std::fs::create_dir_all(&to).unwrap();
    for name in ["heartbeat.db", "heartbeat.db-wal"] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

fn rival(world: &World, host: &str) -> Process {
    let config = world.coordinator_config(host, 2);
    Process::start(&mut world.command(&config, host, &["--once", "--quiet", "--json"]))
}

/// Contract rows: a second coordinator waits; the holder's death frees the right after the
/// heartbeat timeout; a copy of the state from before the last run is refused.
#[test]
fn of_two_coordinators_one_works_and_an_old_copy_never_does() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(30_000);
    let _worker = world.ready_worker("w0", 4);
    let mut holder = world.once(2);
    eventually("a session", || {
        world.figure("SELECT count(*) FROM heartbeat_active_sessions WHERE host <> ''") > 0
    });
    copy_state(&world, "rival");
    copy_state(&world, "old");
    let mut second = rival(&world, "rival");
    assert_eq!(second.wait(), Some(75), "{}", tail(&world.said("rival")));
    assert!(world.said("rival").contains("another coordinator of this state is running"));
    holder.kill();
    let died = Instant::now();
    world.agent.set_pace(50);
    let took = loop {
        let code = rival(&world, "rival").wait();
        if code != Some(75) {
            break died.elapsed();
        }
        assert!(died.elapsed() < LEASE * 6, "{}", tail(&world.said("rival")));
    };
    println!(
        "another host took over {took:?} after the holder's death; heartbeat timeout {LEASE:?}"
    );
    let mut late = rival(&world, "old");
    assert_eq!(late.wait(), Some(74), "{}", tail(&world.said("old")));
    assert!(
        world.said("old").contains("this state is an old copy"),
        "{}",
        tail(&world.said("old"))
    );
}

/// The same state on the same host does not have to wait for the heartbeat timeout.
#[test]
fn a_coordinator_that_restarts_on_its_host_goes_on_at_once() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(2_000);
    let _worker = world.ready_worker("w0", 4);
    let mut first = world.once(2);
    eventually("a session", || world.live_agents() > 0);
    first.kill();
    world.agent.set_pace(50);
    let code = world.once(2).wait();
    assert_ne!(code, Some(75), "{}", tail(&world.said("coordinator")));
}

/// A worker with this name and another state, as on another machine.
fn namesake(world: &World) -> Process {
    let config = world.config("w0", 4, "");
    Process::start(&mut world.command(&config, "w0-too", &["worker"]))
}

/// Each would be asked about the other's sessions without knowing them.
#[test]
fn of_two_workers_of_one_name_the_second_is_refused() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(50);
    let watch = Watch::over(&world);
    let mut first = world.ready_worker("w0", 4);
    assert_eq!(namesake(&world).wait(), Some(75), "{}", tail(&world.said("w0-too")));
    let said = world.said("w0-too");
    for word in ["another worker is named w0", "set [fleet] host", "stop the other worker"] {
        assert!(said.contains(word), "{word:?} is not in:\n{}", tail(&said));
    }
    assert!(said.contains(&format!("process {}", first.pid())), "{}", tail(&said));
    world.run_until_done(2, 3);
    world.assert_whole(&watch, 2);
    // Its name is free at once when it exits, and after the heartbeat timeout when it is killed.
    first.signal(Signal::SIGTERM);
    first.wait();
    let mut second = namesake(&world);
    let waits = || world.said("w0-too").contains("worker waits for sessions");
    eventually("the second one's turn", waits);
    second.kill();
    let died = Instant::now();
    let took = loop {
        let mut third = world.worker("w0", 4);
        let before = world.said("w0").matches("worker waits for sessions").count();
        eventually("a word", || {
            let turns = world.said("w0").matches("worker waits for sessions").count();
            third.has_ended() || turns > before
        });
        if !third.has_ended() {
            break died.elapsed();
        }
        assert!(died.elapsed() < LEASE * 6, "{}", tail(&world.said("w0")));
    };
    println!("the name of a dead worker was free after {took:?}; heartbeat timeout {LEASE:?}");
}

/// It was stopped for so long that the server freed its name.
#[test]
fn a_worker_that_lost_its_name_asks_for_nothing() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(50);
    let watch = Watch::over(&world);
    let first = world.ready_worker("w0", 4);
    first.signal(Signal::SIGSTOP);
    let waits = || world.said("w0-too").contains("worker waits for sessions");
    let mut second = namesake(&world);
    eventually("the other's turn", || {
        if second.has_ended() {
            second = namesake(&world);
        }
        waits()
    });
    first.signal(Signal::SIGCONT);
    eventually("its word", || world.said("w0").contains("another worker is named w0"));
    world.run_until_done(2, 3);
    world.assert_whole(&watch, 2);
    let ran = |state: &str| {
        let sql = "SELECT count(*) FROM sessions";
        world.database(state).query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert!(ran("w0-too") > 0 && ran("w0") == 0, "{} {}", ran("w0-too"), ran("w0"));
}
