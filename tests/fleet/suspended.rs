//! A host that is suspended with everything on it, like a laptop or a virtual machine, for longer
//! than the server waits. While it sleeps nothing on it can end its sessions, so agents above the
//! limit exist until it wakes; they do nothing in that time.

use std::time::{Duration, Instant};

use heartbeat::fleet::lease::LeaseTimes;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use support::eventually;

use crate::cut_off::DEEP_ON;
use crate::world::{GRACE, LEASE, OPEN_ITEMS, Process, Watch, World, tail};

const CAP: u32 = 3;

/// A process and all its descendants.
fn tree(root: u32) -> Vec<u32> {
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    let pairs: Vec<(u32, u32)> = all.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&pid) = found.get(at) {
        found.extend(pairs.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child));
        at += 1;
    }
    found
}

fn signal(pid: u32, signal: Signal) {
    // A process that has just exited needs no signal.
    nix::sys::signal::kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).ok();
}

/// Everything on the host, top down, until nothing new appears.
fn suspend(worker: &Process) -> Vec<u32> {
    let mut asleep = Vec::new();
    loop {
        let awake: Vec<u32> =
            tree(worker.pid()).into_iter().filter(|pid| !asleep.contains(pid)).collect();
        if awake.is_empty() {
            return asleep;
        }
        for pid in awake {
            signal(pid, Signal::SIGSTOP);
            asleep.push(pid);
        }
    }
}

/// Three agents with this pace are suspended until everything was done elsewhere.
fn sleeps_through(pace: u64) {
    let Some(world) = World::new(40) else { return };
    world.agent.set_pace(100);
    let watch = Watch::over(&world);
    let worker = world.ready_worker("w0", 4);
    let mut run = world.once(CAP);
    eventually("triage", || world.figure("SELECT count(*) FROM sessions WHERE stage = 'deep'") > 0);
    world.agent.set_pace(pace);
    eventually("sessions on it", || world.deep_sessions_under_way() >= 3);
    let asleep = suspend(&worker);
    assert!(asleep.len() >= 7, "worker, keepers and agents: {asleep:?}");
    let began = Instant::now();
    let _other = world.ready_worker("w1", 4);
    // How long starting a process takes on this machine now.
    let slow = began.elapsed();
    world.agent.set_pace(50);
    eventually("their end at the coordinator", || world.figure(DEEP_ON) == 0);
    run.wait();
    if world.figure(OPEN_ITEMS) > 0 {
        world.run_until_done(CAP, 6);
    }
    let findings = world.figure("SELECT count(*) FROM findings");
    let sleepers = world.session_processes().len();
    assert!(sleepers >= 3, "they are still there, and asleep: {sleepers}");

    let woken = Instant::now();
    for pid in asleep {
        signal(pid, Signal::SIGCONT);
    }
    eventually("the end of what slept", || world.session_processes().is_empty());
    let took = woken.elapsed();
    let beat = LeaseTimes::new(LEASE, GRACE).beat;
    println!("ended {took:?} after waking; a beat {beat:?}, grace {GRACE:?}, a start {slow:?}");
    assert!(took <= beat + GRACE + Duration::from_secs(1) + slow, "{took:?}, {slow:?}");
    // The host has reported everything, and the server no longer wants it.
    let untold = "SELECT count(*) FROM sessions WHERE token IS NOT NULL";
    eventually("its word on them", || {
        world.database("w0").query_row(untold, [], |row| row.get::<_, i64>(0)).unwrap() == 0
    });
    world.once(CAP).wait();
    assert_eq!(world.figure("SELECT count(*) FROM findings"), findings, "nothing is applied late");
    world.assert_done();
    assert!(watch.most_rows() <= i64::from(CAP) && watch.over_budget() == 0);
    let agents = watch.most_agents();
    println!("at most {agents} agents at once with cap {CAP}, of which 3 slept");
    assert!(agents <= i64::from(CAP) + 3, "{}", tail(&world.said("w0")));
}

#[test]
fn a_suspended_host_ends_its_sessions_within_a_beat_of_waking() {
    sleeps_through(60_000);
}

/// The agents answer as soon as they wake.
#[test]
fn what_a_suspended_host_finds_out_late_is_not_applied() {
    sleeps_through(4_000);
}
