//! Every exit code, one by one.

use nix::sys::signal::Signal;

use super::world::{Running, World, code, text};
use support::eventually;

/// Runs it and returns the exit code with all output.
fn run(world: &World, args: &[&str]) -> (i32, String) {
    let output = world.demo(args).output().unwrap();
    (code(&output), text(&output))
}

#[test]
fn every_code_is_in_the_help() {
    let world = World::new(0);
    let output = world.heartbeat(&["--help"]).output().unwrap();
    let help = text(&output);
    for code in heartbeat::cli::exit::Code::ALL {
        let number = code.number();
        assert!(help.contains(&format!("\n  {number:>3}  ")), "{number} is missing in {help}");
    }
    let readme =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md"))
            .unwrap();
    for code in heartbeat::cli::exit::Code::ALL {
        let row = format!("| {} | {} |", code.number(), code.meaning());
        assert!(readme.contains(&row), "docs/operations.md lacks {row}");
    }
}

#[test]
fn code_0_done() {
    assert_eq!(run(&World::new(0), &["--once"]).0, 0);
}

#[test]
fn code_1_unexpected() {
    let world = World::new(0);
    world.run_once(&[]);
    let output = world.heartbeat(&["show", "999999"]).output().unwrap();
    assert_eq!(code(&output), 1, "{}", text(&output));
    assert!(text(&output).contains("#999999 is not among the items"));
}

#[test]
fn code_2_usage() {
    let (code, told) = run(&World::new(0), &["--onse"]);
    assert_eq!(code, 2);
    assert!(told.contains("--once"), "{told}");
}

/// An agent whose analyses or triage fail.
fn agent(extra: &str) -> String {
    format!("agent.command=[\"{}\", \"simulate\", \"agent\", {extra}]", super::world::HEARTBEAT)
}

/// A dry run that is stopped while it waits for the tracker removes its copy of the state.
#[test]
fn a_stopped_dry_run_leaves_nothing_behind() {
    let world = World::new(0);
    let tracker = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[source]\nbase_url = \"http://{}/x\"\nproject = \"P\"\n[repository]\npath = \"{}\"\n",
        tracker.local_addr().unwrap(),
        world.path().display()
    );
    std::fs::write(world.path().join("heartbeat.toml"), config).unwrap();
    let mut command = world.heartbeat(&["--dry-run"]);
    command.env("AZURE_DEVOPS_PAT", "x");
    let run = Running::start(command);
    let connection = tracker.accept().unwrap();
    run.signal(Signal::SIGINT);
    assert_eq!(code(&run.output()), 130);
    drop(connection);
    let left: Vec<_> =
        std::fs::read_dir(world.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["heartbeat.toml"]);
}

#[test]
fn code_10_some_analyses_failed() {
    let world = World::new(0);
    let failing = agent("\"--fail-rate\", \"1\"");
    let (code, told) = run(&world, &["--once", "--set", &failing]);
    assert_eq!(code, 10, "{told}");
    assert!(told.contains("ended alike"), "{told}");
    let counted = world.figure("SELECT count(*) FROM attempts WHERE counted = 1");
    assert_eq!(counted, 0, "what fails for every item is none of theirs");
}

#[test]
fn code_75_an_agent_that_exits_at_once_costs_nothing_and_is_shown_with_its_words() {
    let world = World::new(0);
    let shim = world.path().join("agent.sh");
    std::fs::write(&shim, "#!/bin/sh\necho 'Error: no such module yoga' >&2\nexit 1\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&shim, mode).unwrap();
    let broken = format!("agent.command=[\"{}\"]", shim.display());
    for _ in 0..2 {
        let (code, told) = run(&world, &["--once", "--set", &broken]);
        assert_eq!(code, 75, "{told}");
        assert!(told.contains("no such module yoga"), "{told}");
    }
    assert_eq!(world.figure("SELECT coalesce(sum(spent), 0) FROM budget"), 0);
    let status = text(&world.heartbeat(&["status"]).output().unwrap());
    assert!(status.contains("no such module yoga"), "{status}");
    let kept = world.figure("SELECT count(*) FROM heartbeat_state WHERE phase = 'pending'");
    assert_eq!(kept, 20, "nothing is lost");
}

#[test]
fn code_69_source_unavailable() {
    let world = World::new(0);
    let nobody = "source.base_url=http://127.0.0.1:1/nobody";
    let (code, told) = run(&world, &["--once", "--set", nobody]);
    assert_eq!(code, 69, "{told}");
}

#[test]
fn code_74_state_store() {
    let world = World::new(0);
    std::fs::create_dir_all(world.state()).unwrap();
    std::fs::write(world.state().join("heartbeat.db"), "this is no database, whatever it says")
        .unwrap();
    let (code, told) = run(&world, &["--once"]);
    assert_eq!(code, 74, "{told}");
    assert!(told.contains("is damaged") && told.contains("state rescue"), "{told}");
}

#[test]
fn code_75_not_now_by_budget() {
    let world = World::new(0);
    let broke = [
        "--once",
        "--set",
        "budget.per_day=0.1",
        "--set",
        "budget.per_run=0.1",
        "--set",
        "triage.max_cost=0.1",
        "--set",
        "analyze.max_cost=0.1",
    ];
    let (first, told) = run(&world, &broke);
    assert_eq!(first, 0, "triage fits the budget exactly: {told}");
    let mut again = vec![
        "--set",
        "budget.per_day=0.01",
        "--set",
        "budget.per_run=0.01",
        "--set",
        "triage.max_cost=0.01",
        "--set",
        "analyze.max_cost=0.01",
    ];
    again.insert(0, "--once");
    let (code, told) = run(&world, &again);
    assert_eq!(code, 75, "{told}");
    assert!(told.contains("budget"), "{told}");
}

#[test]
fn code_77_credential_refused() {
    let world = World::new(0);
    let simulator = Running::start(world.simulator(&["--token", "right"]));
    let address = simulator.first_line();
    let file = world.path().join("heartbeat.toml");
    std::fs::create_dir_all(world.path().join("code")).unwrap();
    std::fs::write(&file, format!(
        "[source]\nbase_url = \"{address}\"\nproject = \"Parcel\"\n[repository]\npath = \"code\"\n"
    )).unwrap();
    let mut command = world.heartbeat(&["--once"]);
    let output = command.env("AZURE_DEVOPS_PAT", "wrong").output().unwrap();
    assert_eq!(code(&output), 77, "{}", text(&output));
    assert!(text(&output).contains("AZURE_DEVOPS_PAT"), "{}", text(&output));
    assert!(!text(&output).contains("wrong"), "the credential is never shown");
}

#[test]
fn code_78_config() {
    let world = World::new(0);
    let (code, told) = run(&world, &["--once", "--set", "limits.max_live_session=2"]);
    assert_eq!(code, 78, "{told}");
    assert!(told.contains("max_live_sessions"), "{told}");
}

#[test]
fn codes_130_and_143_stopped_by_a_signal() {
    for (signal, expected) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let world = World::new(60_000);
        let running = Running::start(world.demo(&["--once"]));
        eventually("an agent", || !world.live_agents().is_empty());
        running.signal(signal);
        let output = running.output();
        assert_eq!(code(&output), expected, "{}", text(&output));
        assert_eq!(world.session_processes(), Vec::<u32>::new());
        assert!(text(&output).contains("interrupted"), "{}", text(&output));
    }
}

/// A tracker that accepts every connection and answers none.
fn silent_tracker() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("source.base_url=http://{}/nobody", listener.local_addr().unwrap());
    (listener, address)
}

#[test]
fn a_signal_is_heard_while_the_tracker_says_nothing() {
    for (signal, expected) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let world = World::new(0);
        let (listener, address) = silent_tracker();
        // Longer than this test runs.
        let args = ["--once", "--set", &address, "--set", "source.request_timeout=10m"];
        let mut running = Running::start(world.demo(&args));
        let connection = listener.accept().unwrap();
        running.signal(signal);
        eventually("the end of the run", || running.ended());
        let output = running.output();
        assert_eq!(code(&output), expected, "{}", text(&output));
        drop(connection);
        let failed =
            "SELECT count(*) FROM events WHERE event IN ('fetch_failed', 'breaker_changed')";
        assert_eq!(world.figure(failed), 0, "a stop is no failure of the source");
        let counted =
            "SELECT coalesce(sum(json_extract(memory, '$.breaker.failures')), 0) FROM breaker";
        assert_eq!(world.figure(counted), 0);
    }
}

#[test]
fn code_78_an_agent_that_is_not_there_costs_no_item_its_attempts() {
    let world = World::new(0);
    let nowhere = "agent.command=[\"/nonexistent/claude\"]";
    for _ in 0..5 {
        let (code, told) = run(&world, &["--once", "--set", nowhere]);
        assert_eq!(code, 78, "{told}");
        assert!(told.contains("/nonexistent/claude"), "{told}");
    }
    let waiting = "SELECT count(*) FROM heartbeat_state
                   WHERE phase = 'pending' AND attempts = 0 AND triage_failures = 0";
    assert_eq!(world.figure(waiting), 20, "everything is still queued");
    assert_eq!(run(&world, &["--once"]).0, 0, "and is worked on when the agent is there");
}
