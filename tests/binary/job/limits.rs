//! Concurrency limits, and never two runs on one state.

use super::world::{Running, World, code, text};
use support::eventually;

#[test]
fn never_more_agents_alive_than_allowed() {
    let world = World::new(300);
    let mut run = Running::start(world.demo(&["--once", "--set", "limits.max_live_sessions=3"]));
    let (mut most, mut samples) = (0, 0_u64);
    while !run.ended() {
        most = most.max(world.live_agents().len());
        samples += 1;
    }
    assert_eq!(code(&run.output()), 0);
    assert!(samples > 20, "only {samples} looks at /proc: too few to say anything");
    assert_eq!(most, 3, "three are allowed, and ten items use them");
    let analysed = world.figure("SELECT count(*) FROM findings");
    assert_eq!(analysed, 10);
}

#[test]
fn of_two_simultaneous_runs_one_runs_and_the_other_reports_why_not() {
    let world = World::new(400);
    let mut first = Running::start(world.demo(&["--once"]));
    eventually("a session of the first run", || !world.live_agents().is_empty());
    let second = world.demo(&["--once"]).output().unwrap();
    assert!(!first.ended(), "the first run is still at work");
    assert_eq!(code(&second), 75, "{}", text(&second));
    let told = text(&second);
    let holder = format!("process {} (--once), since ", first.pid());
    assert!(told.contains(&holder) && told.contains("alive"), "{told}");
    let status = world.heartbeat(&["status"]).output().unwrap();
    assert!(text(&status).contains(&format!("(process {})", first.pid())), "{}", text(&status));
    assert_eq!(code(&first.output()), 0);
}

#[test]
fn a_stopped_holder_is_reported_as_hung_and_after_its_end_the_next_run_works() {
    use nix::sys::signal::Signal;
    let world = World::new(400);
    let first = Running::start(world.demo(&["--once"]));
    eventually("a session of the first run", || !world.live_agents().is_empty());
    first.signal(Signal::SIGSTOP);
    // Instead of waiting two minutes, the heartbeat in the lock is set back.
    let lock = world.state().join("run.lock");
    let old = std::fs::read_to_string(&lock).unwrap();
    let mut holder: serde_json::Value = serde_json::from_str(old.trim()).unwrap();
    holder["heartbeat"] = "2020-01-01T00:00:00Z".into();
    holder["heartbeat_awake_ms"] = serde_json::Value::Null;
    std::fs::write(&lock, format!("{holder}\n")).unwrap();
    let second = world.demo(&["--once"]).output().unwrap();
    assert_eq!(code(&second), 75);
    assert!(text(&second).contains("is hung"), "{}", text(&second));
    first.signal(Signal::SIGKILL);
    first.output();
    let (code, report) = world.run_once(&[]);
    assert_eq!(code, 0, "{report:#}");
}

/// The maximum number of live agents while three runs with separate states share the slots in one
/// folder, and how many of the runs recorded that they waited for the machine.
fn most_agents_of_three_states(per_machine: u32) -> (usize, usize) {
    let shared = tempfile::tempdir().unwrap();
    let worlds = [World::new(700), World::new(700), World::new(700)];
    let slots = format!("limits.slots_dir={}", shared.path().join("slots").display());
    let limit = format!("limits.max_live_sessions_per_machine={per_machine}");
    let args = ["--once", "--quiet", "--set", &slots, "--set", &limit];
    let few = ["--set", "limits.max_live_sessions=2", "--set", "limits.max_deep_per_run=3"];
    let mut runs: Vec<Running> = worlds
        .iter()
        .map(|world| Running::start(world.demo(&[&args[..], &few[..]].concat())))
        .collect();
    let mut most = 0;
    while !runs.iter_mut().all(Running::ended) {
        most = most.max(worlds.iter().map(|world| world.live_agents().len()).sum());
    }
    for run in runs {
        let output = run.output();
        assert_eq!(code(&output), 0, "{}", text(&output));
    }
    let waited = "SELECT count(*) FROM events WHERE body LIKE '%machine_sessions%'";
    (most, worlds.iter().filter(|world| world.figure(waited) > 0).count())
}

#[test]
fn three_daemons_share_the_session_slots_of_the_machine_and_get_all_their_work_done() {
    use nix::sys::signal::Signal;
    const LIMIT: usize = 2;
    let shared = tempfile::tempdir().unwrap();
    let worlds = [World::new(150), World::new(150), World::new(150)];
    let slots = format!("limits.slots_dir={}", shared.path().join("slots").display());
    let limit = format!("limits.max_live_sessions_per_machine={LIMIT}");
    let args = ["--set", "schedule.cron=* * * * * *", "--set", &slots, "--set", &limit];
    let more = ["--set", "limits.max_live_sessions=3", "--set", "limits.run_deadline=30m"];
    let start = |world: &World| Running::start(world.demo(&[&args[..], &more[..]].concat()));
    let mut daemons: Vec<Running> = worlds.iter().map(start).collect();
    let is_done = |world: &World| {
        let figure = |sql| world.database().query_row(sql, [], |row| row.get::<_, i64>(0)).ok();
        let open = "SELECT count(*) FROM heartbeat_state WHERE phase IN ('pending', 'claimed')";
        world.state().join("heartbeat.db").exists()
            && figure("SELECT count(*) FROM findings").is_some_and(|findings| findings > 0)
            && figure(open) == Some(0)
    };
    let (mut done, mut most, mut samples) = ([false; 3], 0, 0_u32);
    let began = std::time::Instant::now();
    while done != [true; 3] {
        let live: usize = worlds.iter().map(|world| world.live_agents().len()).sum();
        assert!(live <= LIMIT, "{live} agents at once");
        most = most.max(live);
        samples += 1;
        for (done, world) in done.iter_mut().zip(&worlds) {
            *done = *done || is_done(world);
        }
        assert!(!daemons.iter_mut().any(Running::ended), "a daemon ended");
        assert!(
            began.elapsed() < support::EVENTUALLY_TIMEOUT,
            "done: {done:?} after {samples} samples"
        );
    }
    assert_eq!(most, LIMIT, "the limit is used, in {samples} samples");
    for daemon in &daemons {
        daemon.signal(Signal::SIGTERM);
    }
    for daemon in daemons {
        let output = daemon.output();
        assert_eq!(code(&output), 143, "{}", text(&output));
    }
    let processes = |world: &World| world.session_processes();
    assert_eq!(worlds.iter().flat_map(processes).collect::<Vec<_>>(), Vec::<u32>::new());
    let live = "SELECT count(*) FROM heartbeat_active_sessions";
    assert_eq!(worlds.iter().map(|world| world.figure(live)).sum::<i64>(), 0);
    println!("three daemons: at most {most} agents at once in {samples} samples");
}

#[test]
fn three_states_share_the_session_slots_of_the_machine() {
    let (most, _) = most_agents_of_three_states(100);
    assert!(most > 2, "without the shared limit the samples see only {most} agents at once");
    let (most, waited) = most_agents_of_three_states(0);
    assert!((1..=2).contains(&most), "{most} agents at once");
    assert!(waited > 0, "nobody recorded the reason");
}
