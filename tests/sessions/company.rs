//! Sessions next to each other, compared with a plain group kill, and as another user.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use heartbeat::app::selftest::{HostileAgent, Rig};
use heartbeat::event::Event;
use heartbeat::model::{FailureKind, Outcome, SessionId};
use heartbeat::session::{StopHandle, StopReason, mark};
use heartbeat::settings::Containment;
use heartbeat::simulate::hostile::Misbehaviour;
use heartbeat::simulate::hostile::oracle::Oracle;

use support::eventually;

const PROGRAM: &str = env!("CARGO_BIN_EXE_heartbeat");

fn rounds() -> usize {
    if std::env::var_os("HEARTBEAT_TEST_FULL").is_some() { 30 } else { 3 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_sessions_one_is_killed_and_the_others_lose_nothing() {
    for tier in [Containment::Subreaper, Containment::Auto] {
        for _ in 0..rounds() {
            one_of_three(tier).await;
        }
    }
}

async fn one_of_three(tier: Containment) {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(Path::new(PROGRAM), folder.path(), tier).unwrap();
    let stops = [StopHandle::new(), StopHandle::new(), StopHandle::new()];
    let mut oracles = Vec::new();
    let mut runs = Vec::new();
    for stop in &stops {
        let mut spec = rig.spec(Misbehaviour::OwnSessions, 5, 10);
        spec.limits.hard = Duration::from_secs(60);
        oracles.push(rig.oracle(spec.session.id).unwrap());
        runs.push(rig.supervisor.run(spec, &HostileAgent, stop.signal()));
    }
    let [first, second, third] = <[_; 3]>::try_from(runs).ok().unwrap();
    let killing = async {
        rig.events.saw(3, |event| matches!(event, Event::SessionProgressed { .. })).await;
        stops[1].stop_now(StopReason::Operator);
        rig.events.saw(1, |event| matches!(event, Event::SessionEnded { .. })).await;
        let alive: Vec<usize> = oracles.iter_mut().map(|oracle| oracle.holders().len()).collect();
        assert_eq!(alive, [11, 0, 11], "{tier:?}");
        stops[0].stop_now(StopReason::Shutdown);
        stops[2].stop_now(StopReason::Shutdown);
    };
    let (a, b, c, ()) = tokio::join!(first, second, third, killing);
    assert_eq!(b.unwrap().outcome, Outcome::Cancelled { why: FailureKind::Operator });
    assert_eq!((a.unwrap().survivors, c.unwrap().survivors), (0, 0));
    assert!(oracles.iter_mut().all(Oracle::is_silent));
}

/// A control: the observer must see that a process-group kill fails.
#[tokio::test]
async fn a_group_kill_is_seen_to_fail_by_the_same_observer() {
    let folder = tempfile::tempdir().unwrap();
    let mut oracle = Oracle::new(&folder.path().join("canary")).unwrap();
    let session = SessionId(uuid::Uuid::now_v7());
    let mut agent = Command::new(PROGRAM)
        .args(["simulate", "agent", "--misbehave", "own-sessions", "--count", "12", "--canary"])
        .arg(folder.path().join("canary"))
        .env(mark::VARIABLE, session.to_string())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let group = nix::unistd::Pid::from_raw(i32::try_from(agent.id()).unwrap());
    let has_left = |pid: &u32| {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(*pid).unwrap());
        nix::unistd::getpgid(Some(pid)).is_ok_and(|theirs| theirs != group)
    };
    eventually("twelve processes, half of them in groups of their own", || {
        oracle.births() >= 13 && oracle.holders().iter().filter(|pid| has_left(pid)).count() >= 6
    });
    nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL).unwrap();
    agent.wait().unwrap();
    let survivors = oracle.survivors();
    assert!(survivors >= 6, "{survivors}");
    for pid in oracle.holders() {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
    }
    eventually("the test's own processes are gone", || oracle.survivors() == 0);
    println!("a group kill left {survivors} of 13");
}

/// The self-test as this user and, if this is root, as an unprivileged one; in both tiers.
#[test]
fn the_selftest_finds_nothing_alive() {
    const NOBODY: u32 = 65_534;
    let folder = tempfile::Builder::new().prefix("heartbeat-selftest-").tempdir_in("/tmp").unwrap();
    let program = folder.path().join("heartbeat");
    std::fs::copy(PROGRAM, &program).unwrap();
    open_for_all(folder.path());
    let users =
        if nix::unistd::getuid().is_root() { &[None, Some(NOBODY)][..] } else { &[None][..] };
    for user in users {
        for tier in ["auto", "subreaper"] {
            let mut command = Command::new(&program);
            command.args(["selftest", "--json", "--tier", tier]).current_dir("/tmp");
            if let Some(user) = user {
                command.uid(*user).gid(*user);
            }
            let output = command.stderr(Stdio::inherit()).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{user:?} {tier}: {text}");
            let report: serde_json::Value = serde_json::from_str(&text).unwrap();
            let rows = |name: &str| report[name].as_array().unwrap().clone();
            assert!(rows("scenarios").len() >= 25 && rows("attacks").len() >= 6, "{text}");
            assert!(rows("scenarios").iter().all(|row| row["survivors"] == 0), "{text}");
            assert_eq!((&report["survivors"], &report["held"]), (&0.into(), &true.into()));
            let promises = rows("promises");
            let is_broken =
                |row: &&serde_json::Value| row["claimed"] == true && row["held"] == false;
            assert_eq!(promises.iter().filter(is_broken).count(), 0, "{text}");
            assert!(promises.len() >= 150, "{}", promises.len());
            for promise in heartbeat::cli::selftest::promises::PROMISES {
                let is_tried = promises.iter().any(|row| row["promise"] == promise);
                assert!(is_tried, "{user:?} {tier}: {promise}");
            }
            let confined = rows("scenarios").iter().filter(|row| row["confined"] == true).count();
            assert!(confined >= 23, "misbehaving agents run like real ones: {confined}");
            for attack in rows("attacks") {
                println!("{user:?} {tier}: {}: {}", attack["attack"], attack["happened"]);
            }
        }
    }
}

fn open_for_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}
