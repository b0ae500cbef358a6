//! Never more at once than allowed, never two runs on one state.

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
fn of_two_runs_at_the_same_moment_one_works_and_one_is_told_why_not() {
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
fn a_stopped_holder_is_told_as_hung_and_after_its_end_the_next_run_works() {
    use nix::sys::signal::Signal;
    let world = World::new(400);
    let first = Running::start(world.demo(&["--once"]));
    eventually("a session of the first run", || !world.live_agents().is_empty());
    first.signal(Signal::SIGSTOP);
    // Nobody waits two minutes here: the heartbeat in the lock is set back instead.
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
