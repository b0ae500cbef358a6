//! Hosts, server and coordinator are killed in the middle: nothing lost, nothing applied twice,
//! never above the limit.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use support::eventually;

use crate::world::{LEASE, OPEN_ITEMS, Process, Watch, World, tail};

const ACTIVE: &str = "SELECT * FROM heartbeat_active_sessions WHERE host <> ''";
const ON_HOSTS: &str = "SELECT count(*) FROM heartbeat_active_sessions WHERE host <> ''";

/// Waits until this many deep sessions run on hosts.
fn under_way(world: &World, sessions: i64) {
    let sql = "SELECT count(*) FROM heartbeat_active_sessions WHERE host <> '' AND stage = 'deep'";
    eventually("sessions on hosts", || world.figure(sql) >= sessions);
}

fn finish(world: &World, watch: &Watch, cap: u32) {
    world.agent.set_pace(50);
    if world.figure(OPEN_ITEMS) > 0 {
        world.run_until_done(cap, 6);
    }
    world.assert_whole(watch, cap);
}

/// Repeated starts: agents in addition to one for each item and each triage.
fn re_runs(world: &World) -> i64 {
    let deep = "SELECT count(*) FROM sessions WHERE stage = 'deep'";
    world.figure(deep) - world.figure("SELECT count(*) FROM findings")
}

const ON_W0: &str = "SELECT count(*) FROM heartbeat_active_sessions WHERE host = 'w0'";

/// Contract: a lost host's sessions are given up within the lease and two seconds, and run again.
#[test]
fn sessions_of_a_host_that_dies_are_run_again_elsewhere() {
    let Some(world) = World::new(40) else { return };
    world.agent.set_pace(100);
    let watch = Watch::over(&world);
    let mut doomed = world.ready_worker("w0", 4);
    let mut run = world.once(3);
    eventually("triage", || world.figure("SELECT count(*) FROM sessions WHERE stage = 'deep'") > 0);
    world.agent.set_pace(30_000);
    under_way(&world, 2);
    let began = Instant::now();
    let other = world.ready_worker("w1", 4);
    // How long starting a process takes on this machine now.
    let slow = began.elapsed();
    doomed.kill();
    let (died, lost) = (Instant::now(), world.figure(ON_W0));
    world.agent.set_pace(50);
    eventually("the end of their rows", || world.figure(ON_W0) == 0);
    let told = died.elapsed();
    println!("{lost} sessions of a lost host were given up after {told:?}; lease {LEASE:?}");
    assert!(lost > 0 && told <= LEASE + Duration::from_secs(2) + slow, "{told:?}, {slow:?}");
    run.wait();
    finish(&world, &watch, 3);
    println!("{} re-runs after a lost host", re_runs(&world));
    assert!(re_runs(&world) >= 1, "they were run again");
    drop(other);
}

/// Contract: a restarted host reports its lost sessions within two seconds.
#[test]
fn a_host_that_comes_back_tells_at_once_what_it_lost() {
    tells_at_once(|world| {
        eventually("their agents", || world.deep_sessions_under_way() >= 2);
    });
}

/// The same if it had asked for its orders and nothing more.
#[test]
fn a_host_that_comes_back_tells_at_once_what_it_had_not_begun() {
    tells_at_once(|_| {});
}

fn tells_at_once(until: impl FnOnce(&World)) {
    let Some(world) = World::new(40) else { return };
    world.agent.set_pace(100);
    let watch = Watch::over(&world);
    let began = Instant::now();
    let mut worker = world.ready_worker("w0", 4);
    let slow = began.elapsed();
    let mut run = world.once(3);
    eventually("triage", || world.figure("SELECT count(*) FROM sessions WHERE stage = 'deep'") > 0);
    world.agent.set_pace(30_000);
    under_way(&world, 2);
    until(&world);
    worker.kill();
    world.agent.set_pace(50);
    let newest = format!("SELECT coalesce(max(started_at), 0) FROM ({ACTIVE})");
    let before =
        format!("SELECT count(*) FROM ({ACTIVE}) WHERE started_at <= {}", world.figure(&newest));
    let lost = world.figure(&before);
    let back = Instant::now();
    let _again = world.worker("w0", 4);
    eventually("their ends", || world.figure(&before) == 0);
    let took = back.elapsed();
    println!("{lost} lost sessions were told {took:?} after the restart; a start takes {slow:?}");
    // By the stored tokens, not by the heartbeat timeout.
    assert!(took <= Duration::from_secs(2) + slow * 2, "{took:?}, {slow:?}");
    run.wait();
    finish(&world, &watch, 3);
}

#[test]
fn a_host_that_stood_still_has_ended_its_sessions_and_starts_nothing_stale() {
    let Some(world) = World::new(40) else { return };
    world.agent.set_pace(100);
    let watch = Watch::over(&world);
    let worker = world.ready_worker("w0", 4);
    let mut run = world.once(3);
    eventually("triage", || world.figure("SELECT count(*) FROM sessions WHERE stage = 'deep'") > 0);
    world.agent.set_pace(60_000);
    under_way(&world, 2);
    worker.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    eventually("the keepers' own end", || world.live_agents() == 0);
    let took = stopped.elapsed();
    println!("agents of a frozen host were gone after {took:?}, heartbeat timeout {LEASE:?}");
    let _other = world.ready_worker("w1", 4);
    world.agent.set_pace(50);
    run.wait();
    worker.signal(Signal::SIGCONT);
    finish(&world, &watch, 3);
}

#[test]
fn a_short_outage_of_the_server_costs_nothing() {
    let Some(mut world) = World::new(40) else { return };
    world.agent.set_pace(2_500);
    let watch = Watch::over(&world);
    let _worker = world.ready_worker("w0", 6);
    let mut run = world.once(4);
    under_way(&world, 3);
    world.kill_server();
    std::thread::sleep(Duration::from_secs(2));
    world.start_server();
    run.wait();
    finish(&world, &watch, 4);
    assert_eq!(re_runs(&world), 0, "{}", tail(&world.said("coordinator")));
}

/// Longer than the heartbeat timeout: hosts are asked for sessions that ended meanwhile.
#[test]
fn what_ended_during_a_long_outage_is_reported_and_not_run_again() {
    let Some(mut world) = World::new(40) else { return };
    world.agent.set_pace(3_000);
    let watch = Watch::over(&world);
    let _worker = world.ready_worker("w0", 6);
    let mut run = world.once(4);
    under_way(&world, 4);
    eventually("triage and their agents", || world.agent.starts() >= 5);
    world.kill_server();
    let starts = world.agent.starts();
    std::thread::sleep(LEASE + Duration::from_secs(2));
    world.start_server();
    run.wait();
    finish(&world, &watch, 4);
    println!(
        "{} re-runs of {starts} starts after an outage beyond the heartbeat timeout",
        re_runs(&world)
    );
    assert_eq!(re_runs(&world), 0, "{}", tail(&world.said("coordinator")));
}

#[test]
fn a_coordinator_that_dies_takes_its_sessions_up_again() {
    let Some(world) = World::new(40) else { return };
    world.agent.set_pace(4_000);
    let watch = Watch::over(&world);
    let _worker = world.ready_worker("w0", 6);
    let mut run = world.once(4);
    under_way(&world, 3);
    run.kill();
    assert!(world.figure(ON_HOSTS) >= 3, "its rows stay");
    let mut again = world.once(4);
    again.wait();
    finish(&world, &watch, 4);
    assert_eq!(re_runs(&world), 0, "{}", tail(&world.said("coordinator")));
}

/// Restarts the coordinator whenever it ends, until this many more agents were started.
fn go_on_until_started(world: &World, run: &mut Process, more: usize) {
    let wanted = world.agent.starts() + more;
    eventually("more sessions", || {
        if run.has_ended() {
            *run = world.once(CAP);
        }
        world.agent.starts() >= wanted
    });
}

const CAP: u32 = 8;

/// Both hosts and the coordinator are killed in turn, each while sessions are running, and
/// restarted.
#[test]
fn a_storm_over_hosts_and_coordinator_loses_nothing() {
    let Some(world) = World::new(90) else { return };
    world.agent.set_pace(1_500);
    let watch = Watch::over(&world);
    let mut w0 = world.ready_worker("w0", 6);
    let mut w1 = world.ready_worker("w1", 6);
    let mut run = world.once(CAP);
    under_way(&world, 5);
    w0.kill();
    go_on_until_started(&world, &mut run, 1);
    run.kill();
    run = world.once(CAP);
    let _w0 = world.worker("w0", 6);
    go_on_until_started(&world, &mut run, 3);
    w1.kill();
    let _w1 = world.worker("w1", 6);
    run.wait();
    finish(&world, &watch, CAP);
    println!(
        "{} starts, {} findings, at most {} agents at once",
        world.agent.starts(),
        world.figure("SELECT count(*) FROM findings"),
        watch.most_agents()
    );
    for host in ["w0", "w1"] {
        let said = world.said(host);
        assert!(!said.contains("asks for no work for a while"), "{}", tail(&said));
    }
}
