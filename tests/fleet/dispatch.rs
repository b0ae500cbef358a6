//! A fleet without faults: every host works, the limit is fleet-wide, others cannot read any data.

use std::time::Duration;

use heartbeat::fleet::lease::LeaseTimes;
use support::eventually;

use crate::world::{GRACE, HEARTBEAT, LEASE, OPEN_ITEMS, Process, Watch, World, tail};

/// Contract row: none. Three hosts with four slots each, limit six.
#[test]
fn thirty_items_run_once_each_on_several_hosts_below_the_cap() {
    let Some(world) = World::new(60) else { return };
    // Longer than a busy machine needs to start four of them.
    world.agent.set_pace(1_500);
    let watch = Watch::over(&world);
    let workers: Vec<_> = ["w0", "w1", "w2"].map(|host| world.ready_worker(host, 4)).into();
    let runs = world.run_until_done(6, 3);
    world.assert_whole(&watch, 6);
    let findings = world.figure("SELECT count(*) FROM findings");
    let starts = world.agent.starts();
    let hosts = world.figure("SELECT count(DISTINCT host) FROM sessions WHERE host <> ''");
    println!(
        "{findings} findings, {starts} starts, {runs} runs, {hosts} hosts, at most {} at once",
        watch.most_agents()
    );
    assert!(findings >= 20, "{findings}");
    assert_eq!(runs, 1, "one run is enough");
    assert_eq!(hosts, 3, "every host worked");
    assert!(watch.most_agents() >= 4, "side by side: {}", watch.most_agents());
    for worker in &workers {
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid())).unwrap();
        let of =
            |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        println!("worker {} {}", of("RssAnon"), of("VmRSS"));
        // Without the pages of the program itself, which an optimised build has far fewer of.
        let kib: u64 = of("RssAnon").split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(kib <= 40 * 1024, "{kib} KiB");
    }
    assert_no_text_at_the_server(&world);
}

/// Users' texts and the agent's credential are not in the server's files.
fn assert_no_text_at_the_server(world: &World) {
    let titles: Vec<String> = {
        let database = world.database("coordinator");
        let mut rows = database.prepare("SELECT title FROM heartbeat_state").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let mut stored = Vec::new();
    for end in ["", "-wal"] {
        let path = format!("{}{end}", world.server_database().display());
        stored.extend(std::fs::read(path).unwrap_or_default());
    }
    let holds = |word: &str| stored.windows(word.len()).any(|window| window == word.as_bytes());
    assert!(
        holds("heartbeat-default-w1"),
        "the queue's name is there, so this looks at the right place"
    );
    for word in ["test-key-of-the-agent", "You are", "src/cart.rs", "likely_causes", "verdicts"] {
        assert!(!holds(word), "{word:?} can be read in the server's database");
    }
    let read: Vec<_> = titles.iter().filter(|title| title.len() > 12 && holds(title)).collect();
    assert!(titles.len() > 20 && read.is_empty(), "{read:?}");
}

/// Contract row: cancel. Received with the next heartbeat, ended within the grace period.
#[test]
fn a_session_on_another_host_is_ended_by_kill() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(60_000);
    let _worker = world.ready_worker("w0", 4);
    let mut run = world.once(2);
    eventually("a session on a host", || {
        world.figure("SELECT count(*) FROM heartbeat_active_sessions WHERE host = 'w0'") > 0
    });
    eventually("its agent", || world.agent.starts() > 0);
    let config = world.coordinator_config("coordinator", 2);
    let timed = |args: &[&str]| {
        let began = std::time::Instant::now();
        let done = world.command(&config, "coordinator", args).status().unwrap();
        assert!(done.success(), "{}", tail(&world.said("coordinator")));
        began.elapsed()
    };
    // How long a trivial command takes on this machine now.
    let slow = timed(&["status"]);
    let took = timed(&["kill", "--all", "--yes"]);
    let said = world.said("coordinator");
    assert!(said.contains("no process of it is left"), "it was ended by this: {}", tail(&said));
    let beat = LeaseTimes::new(LEASE, GRACE).beat;
    println!("kill took {took:?}; beat {beat:?}, grace {GRACE:?}, a command alone {slow:?}");
    assert!(took <= beat + GRACE + Duration::from_secs(1) + slow * 2, "{took:?}, {slow:?}");
    run.signal(nix::sys::signal::Signal::SIGTERM);
    run.wait();
    eventually("nothing left", || world.session_processes().is_empty());
    assert_eq!(world.figure("SELECT count(*) FROM heartbeat_active_sessions"), 0);
}

/// A rolling update: sessions that run end where they run, and none is started twice.
#[test]
fn a_worker_that_is_asked_to_stop_lets_its_sessions_end() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(1_500);
    let watch = Watch::over(&world);
    let mut first = world.ready_worker("w0", 4);
    let mut run = world.once(3);
    eventually("agents on it", || world.agent.starts() >= 1);
    first.signal(nix::sys::signal::Signal::SIGTERM);
    let _second = world.ready_worker("w1", 4);
    assert_eq!(first.wait(), Some(143));
    assert!(world.said("w0").contains("all sessions ended"), "{}", world.said("w0"));
    world.agent.set_pace(100);
    run.wait();
    if world.figure(OPEN_ITEMS) > 0 {
        world.run_until_done(3, 4);
    }
    world.assert_whole(&watch, 3);
    let lost = "SELECT count(*) FROM sessions WHERE outcome LIKE '%cancelled%'";
    assert_eq!(world.figure(lost), 0);
}

/// A worker that may not wait ends its sessions, and no attempt is counted.
#[test]
fn a_stopped_worker_gives_its_sessions_back() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(2_500);
    let watch = Watch::over(&world);
    let mut first = world.worker_with("w0", 4, "drain = \"0s\"\n");
    eventually("its start", || world.said("w0").contains("worker waits for sessions"));
    let mut run = world.once(3);
    eventually("agents on it", || world.agent.starts() >= 1);
    first.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(first.wait(), Some(143));
    let _second = world.ready_worker("w1", 4);
    world.agent.set_pace(100);
    run.wait();
    if world.figure(OPEN_ITEMS) > 0 {
        world.run_until_done(3, 4);
    }
    world.assert_whole(&watch, 3);
    let counted = world.figure("SELECT count(*) FROM attempts WHERE counted = 1");
    assert_eq!(counted, world.figure("SELECT count(*) FROM findings"), "one attempt each");
}

/// The real program on a worker's state shows where sessions run.
#[test]
fn status_names_the_host() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(5_000);
    let _worker = world.ready_worker("w0", 4);
    let mut run = world.once(2);
    eventually("a session on a host", || {
        world.figure("SELECT count(*) FROM heartbeat_active_sessions WHERE host = 'w0'") > 0
    });
    let config = world.coordinator_config("coordinator", 2);
    let status = std::process::Command::new(HEARTBEAT)
        .args(["status", "--config"])
        .arg(&config)
        .arg("--state-dir")
        .arg(world.path().join("coordinator"))
        .env("TRACKER_TOKEN", "t")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(text.contains("on w0"), "{text}");
    run.signal(nix::sys::signal::Signal::SIGTERM);
    run.wait();
}

/// As shipped, a host beats every five seconds and the coordinator tells signs of life less often;
/// where a session runs is told sooner than that.
#[test]
fn where_a_short_session_runs_is_reported_while_it_runs() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(3_000);
    let as_shipped = |config: &std::path::Path| {
        let text = std::fs::read_to_string(config).unwrap();
        assert!(text.contains("lease = \"8s\"") && text.contains("liveness = \"1s\"\n"));
        let text = text.replace("lease = \"8s\"", "lease = \"2m\"");
        let text = text.replace("liveness = \"1s\"\n", "");
        std::fs::write(config, text.replace("max_deep_per_run = 200", "max_deep_per_run = 4"))
            .unwrap();
    };
    let config = world.config("w0", 4, "");
    as_shipped(&config);
    let _worker = Process::start(&mut world.command(&config, "w0", &["worker"]));
    eventually("the worker's start", || world.said("w0").contains("worker waits for sessions"));
    let config = world.coordinator_config("coordinator", 4);
    as_shipped(&config);
    let mut run = Process::start(&mut world.command(&config, "coordinator", &["--once"]));
    assert_eq!(run.wait(), Some(0), "{}", tail(&world.said("coordinator")));
    let said = world.said("coordinator");
    let (sessions, told) = (
        world.figure("SELECT count(*) FROM sessions"),
        i64::try_from(said.matches("runs on w0").count()).unwrap(),
    );
    assert!(sessions == 5 && told == sessions, "{told} of {sessions}: {}", tail(&said));
    let first =
        "SELECT count(*) FROM events WHERE event = 'session_liveness' AND body LIKE '%w0: %'";
    assert!(world.figure(first) >= sessions, "each has shown a sign of life on its host");
}
