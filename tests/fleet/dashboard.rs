//! The service of a coordinator, by HTTP: where sessions run is told, and one of them is ended.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use heartbeat::fleet::lease::LeaseTimes;
use nix::sys::signal::Signal;
use support::eventually;

use crate::cut_off::DEEP_ON;
use crate::world::{GRACE, LEASE, Process, World, free_port, tail};

struct Dashboard {
    port: u16,
    token: String,
}

impl Dashboard {
    /// The whole answer; none: nobody answers.
    fn ask(&self, method: &str, path: &str) -> Option<String> {
        let Self { port, token } = self;
        let mut stream = TcpStream::connect(("127.0.0.1", *port)).ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\n\
             connection: close\r\ncontent-length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// A coordinator's service that runs when it is told to.
fn service(world: &World) -> (Process, Dashboard) {
    let port = free_port();
    let config = world.coordinator_config("coordinator", 3);
    let text = std::fs::read_to_string(&config).unwrap();
    let more = format!(
        "[http]\nlisten = \"127.0.0.1:{port}\"\n\
         [schedule]\ncron = \"0 0 1 1 *\"\nfirst_run = \"process\"\n"
    );
    std::fs::write(&config, text + &more).unwrap();
    let service = Process::start(&mut world.command(&config, "coordinator", &[]));
    let mut dashboard = Dashboard { port, token: String::new() };
    eventually("the dashboard", || dashboard.ask("GET", "/livez").is_some());
    let file = world.path().join("coordinator/dashboard-token");
    dashboard.token = std::fs::read_to_string(file).unwrap().trim().to_owned();
    (service, dashboard)
}

#[test]
fn the_dashboard_names_hosts_and_ends_a_session_on_one() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(100);
    let began = Instant::now();
    let _worker = world.ready_worker("w0", 4);
    // How long a process needs on this machine now.
    let slow = began.elapsed();
    let (mut service, dashboard) = service(&world);
    let run = dashboard.ask("POST", "/api/run").unwrap();
    assert!(run.starts_with("HTTP/1.1 2"), "{run}");
    eventually("triage", || world.figure("SELECT count(*) FROM sessions WHERE stage = 'deep'") > 0);
    world.agent.set_pace(60_000);
    eventually("sessions on it", || world.figure(DEEP_ON) == 3);
    eventually("their agents", || world.live_agents() >= 3);
    eventually("the hosts in its figures", || {
        let figures = dashboard.ask("GET", "/metrics").unwrap();
        figures.contains("heartbeat_host_sessions_running{host=\"w0\"} 3")
    });
    let state = dashboard.ask("GET", "/api/state").unwrap();
    assert_eq!(state.matches("\"host\":\"w0\"").count(), 3, "{state}");

    let id: String = world
        .database("coordinator")
        .query_row("SELECT session FROM heartbeat_active_sessions LIMIT 1", [], |row| row.get(0))
        .unwrap();
    let live = format!("SELECT count(*) FROM heartbeat_active_sessions WHERE session = '{id}'");
    let (asked, path) = (Instant::now(), format!("/api/sessions/{id}/stop"));
    let stopped = dashboard.ask("POST", &path).unwrap();
    assert!(stopped.starts_with("HTTP/1.1 2"), "{stopped}");
    eventually("its end", || world.figure(&live) == 0);
    let (took, beat) = (asked.elapsed(), LeaseTimes::new(LEASE, GRACE).beat);
    println!("ended {took:?} after Stop; beat {beat:?}, grace {GRACE:?}, a start {slow:?}");
    assert!(took <= beat + GRACE + Duration::from_secs(1) + slow, "{took:?}, {slow:?}");
    let by_hand = format!(
        "SELECT count(*) FROM sessions WHERE session = '{id}' AND outcome LIKE '%operator%'"
    );
    assert_eq!(world.figure(&by_hand), 1, "{}", tail(&world.said("coordinator")));
    service.signal(Signal::SIGTERM);
    service.wait();
    eventually("every session's end", || world.session_processes().is_empty());
}
