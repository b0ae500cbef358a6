//! Hosts that the network parts from the server, by a relay that can hold everything back. (Network
//! namespaces would need root; a relay needs nothing.)

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::eventually;

use crate::world::{GRACE, LEASE, OPEN_ITEMS, Process, Watch, World, tail};

/// Between one host and the server.
struct Relay {
    address: String,
    cut: Arc<AtomicBool>,
}

impl Relay {
    fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (cut, server) = (Arc::new(AtomicBool::new(false)), server.replace("http://", ""));
        let held = Arc::clone(&cut);
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(to) = TcpStream::connect(&server) else { continue };
                let pairs = [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)];
                for (from, to) in pairs {
                    let held = Arc::clone(&held);
                    std::thread::spawn(move || pass_on(from, to, &held));
                }
            }
        });
        Self { address, cut }
    }

    fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    fn mend(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, held: &AtomicBool) {
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut buffer = [0; 16 * 1024];
    loop {
        if held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                while held.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                if to.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) => {}
            Err(_) => break,
        }
    }
    to.shutdown(std::net::Shutdown::Both).ok();
}

/// A worker or coordinator that reaches the server by the relay only.
fn behind(world: &World, relay: &Relay, config: &std::path::Path) {
    let text = std::fs::read_to_string(config).unwrap();
    std::fs::write(config, text.replace(&world.address(), &relay.address)).unwrap();
}

fn worker_behind(world: &World, relay: &Relay, host: &str) -> Process {
    let config = world.config(host, 4, "");
    behind(world, relay, &config);
    let worker = Process::start(&mut world.command(&config, host, &["worker"]));
    eventually("the worker's start", || world.said(host).contains("worker waits for sessions"));
    worker
}

const DEEP_ON: &str =
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
    relay.cut();
    let cut = Instant::now();
    eventually("their end at the host", || world.live_agents() == 0);
    let gone = cut.elapsed();
    assert_eq!(world.figure(DEEP_ON), 3, "the server has not given them up yet: {gone:?}");
    eventually("their end at the coordinator", || world.figure(DEEP_ON) == 0);
    let given_up = cut.elapsed();
    println!(
        "gone after {gone:?}, given up after {given_up:?}, patience {LEASE:?}, grace {GRACE:?}"
    );
    assert!(gone < given_up);
    let _other = world.ready_worker("w1", 4);
    world.agent.set_pace(50);
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
    behind(&world, &relay, &config);
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
