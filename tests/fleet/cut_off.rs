//! Hosts that are disconnected from the server: by a relay that can block everything, and by a
//! separate network where root allows one (`namespaces`).

use std::time::{Duration, Instant};

use support::eventually;

use crate::relay::{Relay, behind};
use crate::rivals::waiting_hosts;
use crate::world::{GRACE, LEASE, OPEN_ITEMS, Process, Watch, World, tail};

fn worker_behind(world: &World, relay: &Relay, host: &str) -> Process {
    let config = world.config(host, 4, "");
    behind(world, &relay.address, &config);
    let worker = Process::start(&mut world.command(&config, host, &["worker"]));
    eventually("the worker's start", || world.said(host).contains("worker waits for sessions"));
    worker
}

pub const DEEP_ON: &str =
    "SELECT count(*) FROM heartbeat_active_sessions WHERE host = 'w0' AND stage = 'deep'";

#[test]
fn a_host_that_is_cut_off_ends_its_sessions_before_the_server_gives_them_up() {
    let Some(world) = World::new(40) else { return };
    world.agent.set_pace(100);
    let watch = Watch::over(&world);
    let relay = Relay::to(&world.address());
    let _worker = worker_behind(&world, &relay, "w0");
    let mut run = world.once(3);
    eventually("triage", || world.figure("SELECT count(*) FROM sessions WHERE stage = 'deep'") > 0);
    world.agent.set_pace(60_000);
    eventually("sessions on it", || world.figure(DEEP_ON) >= 3);
    eventually("their agents", || world.live_agents() >= 3);
    let began = Instant::now();
    let _other = world.ready_worker("w1", 4);
    // How long starting a process takes on this machine now.
    let slow = began.elapsed();
    world.agent.set_pace(50);
    relay.cut();
    let (cut, starts) = (Instant::now(), world.agent.starts());
    eventually("their end at the host", || world.live_agents() == 0);
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
    relay.mend();
    run.wait();
    if world.figure(OPEN_ITEMS) > 0 {
        world.run_until_done(3, 6);
    }
    world.assert_whole(&watch, 3);
}

#[test]
fn a_host_that_is_cut_off_for_a_moment_goes_on() {
    let Some(world) = World::new(40) else { return };
    world.agent.set_pace(4_000);
    let watch = Watch::over(&world);
    let relay = Relay::to(&world.address());
    let _worker = worker_behind(&world, &relay, "w0");
    let mut run = world.once(3);
    eventually("sessions on it", || world.figure(DEEP_ON) >= 3);
    relay.cut();
    std::thread::sleep(Duration::from_secs(3));
    relay.mend();
    run.wait();
    world.agent.set_pace(50);
    if world.figure(OPEN_ITEMS) > 0 {
        world.run_until_done(3, 6);
    }
    world.assert_whole(&watch, 3);
    let counted = world.figure("SELECT count(*) FROM attempts WHERE counted = 1");
    assert_eq!(counted, world.figure("SELECT count(*) FROM findings"), "no attempt was lost");
}

#[test]
fn a_coordinator_that_is_cut_off_waits_for_its_sessions() {
    let Some(world) = World::new(40) else { return };
    world.agent.set_pace(4_000);
    let watch = Watch::over(&world);
    let relay = Relay::to(&world.address());
    let _worker = world.ready_worker("w0", 6);
    let config = world.coordinator_config("coordinator", 3);
    behind(&world, &relay.address, &config);
    let args = ["--once", "--quiet", "--json"];
    let mut run = Process::start(&mut world.command(&config, "coordinator", &args));
    eventually("sessions", || world.figure(DEEP_ON) >= 3);
    relay.cut();
    std::thread::sleep(Duration::from_secs(6));
    relay.mend();
    run.wait();
    world.agent.set_pace(50);
    if world.figure(OPEN_ITEMS) > 0 {
        world.run_until_done(3, 6);
    }
    world.assert_whole(&watch, 3);
    let counted = world.figure("SELECT count(*) FROM attempts WHERE counted = 1");
    let findings = world.figure("SELECT count(*) FROM findings");
    assert_eq!(counted, findings, "{}", tail(&world.said("coordinator")));
}

/// A host that is disconnected while it waits for work is given a session that it never receives:
/// nothing was started, so it costs nothing, and another host runs it. When the host is back, it
/// starts nothing stale.
#[test]
fn a_session_that_a_lost_poll_swallowed_is_given_back_whole() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(50);
    let watch = Watch::over(&world);
    let relay = Relay::to(&world.address());
    let _lost = worker_behind(&world, &relay, "w0");
    // Its poll has reached the server.
    eventually("its poll", || waiting_hosts(&world).contains(&"w0".to_owned()));
    relay.cut();
    let mut run = world.once(2);
    let given = "SELECT count(*) FROM heartbeat_active_sessions";
    eventually("a session at the server", || world.figure(given) > 0);
    let began = Instant::now();
    let _other = world.ready_worker("w1", 4);
    eventually("its start elsewhere", || world.agent.starts() > 0);
    println!(
        "a swallowed session was started elsewhere {:?} later; heartbeat timeout {LEASE:?}",
        began.elapsed()
    );
    relay.mend();
    run.wait();
    if world.figure(OPEN_ITEMS) > 0 {
        world.run_until_done(2, 4);
    }
    world.assert_whole(&watch, 2);
    let findings = world.figure("SELECT count(*) FROM findings");
    assert_eq!(world.figure("SELECT count(*) FROM attempts WHERE counted = 1"), findings);
    let mut sessions: Vec<String> = world
        .agent
        .log()
        .into_iter()
        .filter(|line| line[0] == "start")
        .map(|line| line[1].clone())
        .collect();
    let starts = sessions.len();
    sessions.sort();
    sessions.dedup();
    assert_eq!(sessions.len(), starts, "no session was started twice");
}
