//! Hosts on separate networks, each a network namespace, disconnected by taking its link down. The
//! kernel counts the processes left on a host.

use std::time::{Duration, Instant};

use support::eventually;

use crate::cut_off::DEEP_ON;
use crate::hosts::Hosts;
use crate::world::{GRACE, LEASE, OPEN_ITEMS, Process, Watch, World, tail};

/// Only the worker itself is left on its host.
fn assert_only_the_worker(hosts: &Hosts, host: &str, worker: &Process) {
    eventually("the end of every session on the host", || hosts.processes(host) == [worker.pid()]);
}

fn finish(world: &World, watch: &Watch, mut run: Process) {
    run.wait();
    world.agent.set_pace(50);
    if world.figure(OPEN_ITEMS) > 0 {
        world.run_until_done(3, 8);
    }
    world.assert_whole(watch, 3);
}

#[test]
fn a_host_whose_cable_is_pulled_ends_its_sessions_first() {
    let Some(world) = World::with_network(40) else { return };
    let hosts = world.hosts.as_ref().unwrap();
    world.agent.set_pace(100);
    let watch = Watch::over(&world);
    let worker = world.ready_worker("w0", 4);
    let run = world.once(3);
    eventually("triage", || world.figure("SELECT count(*) FROM sessions WHERE stage = 'deep'") > 0);
    world.agent.set_pace(60_000);
    eventually("sessions on it", || world.figure(DEEP_ON) >= 3);
    eventually("their agents", || world.live_agents() >= 3);
    let began = Instant::now();
    let other = world.ready_worker("w1", 4);
    // How long starting a process takes on this machine now.
    let slow = began.elapsed();
    world.agent.set_pace(50);
    hosts.cut("w0");
    let (cut, starts) = (Instant::now(), world.agent.starts());
    assert_only_the_worker(hosts, "w0", &worker);
    let gone = cut.elapsed();
    assert_eq!(world.figure(DEEP_ON), 3, "the server has not given them up yet: {gone:?}");
    eventually("their end at the coordinator", || world.figure(DEEP_ON) == 0);
    let given_up = cut.elapsed();
    eventually("sessions elsewhere", || world.agent.starts() > starts);
    let elsewhere = cut.elapsed();
    println!(
        "gone after {gone:?}, given up after {given_up:?}, sessions elsewhere after {elsewhere:?}, \
         heartbeat timeout {LEASE:?}, grace {GRACE:?}, a start {slow:?}"
    );
    assert!(gone < given_up);
    // A request that the lost host does not answer costs no additional time.
    assert!(given_up <= LEASE + Duration::from_secs(2) + slow, "{given_up:?}, {slow:?}");
    hosts.mend("w0");
    finish(&world, &watch, run);
    assert_only_the_worker(hosts, "w0", &worker);
    assert_only_the_worker(hosts, "w1", &other);
}

/// Shorter than the lease: a host, and then the coordinator.
#[test]
fn a_cable_that_is_pulled_for_a_moment_costs_nothing() {
    let Some(world) = World::with_network(40) else { return };
    let hosts = world.hosts.as_ref().unwrap();
    world.agent.set_pace(5_000);
    let watch = Watch::over(&world);
    let worker = world.ready_worker("w0", 4);
    let run = world.once(3);
    eventually("sessions on it", || world.figure(DEEP_ON) >= 3);
    for (host, time) in [("w0", 2), ("co", 5)] {
        hosts.cut(host);
        // The length of the cut is the subject of this test.
        std::thread::sleep(Duration::from_secs(time));
        hosts.mend(host);
        world.agent.set_pace(2_000);
        eventually("beats again", || {
            world.figure("SELECT count(*) FROM findings") > 0 || world.figure(OPEN_ITEMS) == 0
        });
    }
    finish(&world, &watch, run);
    let counted = world.figure("SELECT count(*) FROM attempts WHERE counted = 1");
    let findings = world.figure("SELECT count(*) FROM findings");
    assert_eq!(counted, findings, "{}", tail(&world.said("coordinator")));
    assert_only_the_worker(hosts, "w0", &worker);
}
