//! Heartbeat itself is killed at any moment, with and without its keeper. No process may be left.
//!
//! The test binary starts itself again as the heartbeat to be killed (the test `driver`). Short by
//! default; `HEARTBEAT_TEST_FULL=1` runs the long form.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use heartbeat::app::selftest::{EventRecorder, FolderLedger, HostileAgent, Rig};
use heartbeat::event::{Event, Sink};
use heartbeat::model::SessionId;
use heartbeat::process;
use heartbeat::session::{StopHandle, become_outer_reaper, mark, orphans};
use heartbeat::settings::Containment;
use heartbeat::simulate::hostile::Misbehaviour;
use heartbeat::simulate::hostile::oracle::Oracle;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const ROLE: &str = "HEARTBEAT_TEST_ROLE";
const FOLDER: &str = "HEARTBEAT_TEST_FOLDER";
const TIER: &str = "HEARTBEAT_TEST_TIER";
const TIERS: [&str; 2] = ["auto", "subreaper"];

fn full() -> bool {
    std::env::var_os("HEARTBEAT_TEST_FULL").is_some()
}

fn rounds(short: usize, long: usize) -> usize {
    if full() { long } else { short }
}

/// How long processes may take to die after a kill: one second when it is measured, more when the
/// machine is shared with the rest of the suite.
fn bound() -> Duration {
    Duration::from_secs(if full() { 1 } else { 10 })
}

fn containment(tier: &str) -> Containment {
    if tier == "auto" { Containment::Auto } else { Containment::Subreaper }
}

fn rig(folder: &Path, tier: &str) -> Rig {
    Rig::new(Path::new(env!("CARGO_BIN_EXE_heartbeat")), folder, containment(tier)).unwrap()
}

/// Not a test: the heartbeat that other tests start and kill.
#[test]
fn driver() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let tier = std::env::var(TIER).unwrap();
    become_outer_reaper().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match role.to_str().unwrap() {
            "run" => drive(&folder, &tier, Misbehaviour::Mix).await,
            "short" => drive_for(&folder, &tier, Misbehaviour::Mix, SHORT).await,
            "kills-keeper" => drive(&folder, &tier, Misbehaviour::KillsKeeper).await,
            "stops-keeper" => drive(&folder, &tier, Misbehaviour::StopsKeeper).await,
            "restart" => restart(&folder).await,
            other => panic!("{other}"),
        }
    });
}

/// A line to the test, not mixed with output of the test harness.
fn tell(line: &str) {
    let mut out = std::io::stderr().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// The time limit of a session that is stopped for longer than that.
const SHORT: Duration = Duration::from_secs(12);

async fn drive(folder: &Path, tier: &str, misbehaviour: Misbehaviour) {
    drive_for(folder, tier, misbehaviour, Duration::from_secs(120)).await;
}

async fn drive_for(folder: &Path, tier: &str, misbehaviour: Misbehaviour, hard: Duration) {
    let rig = rig(folder, tier);
    let mut spec = rig.spec(misbehaviour, u64::from(std::process::id()), 16);
    *spec.args.last_mut().unwrap() = folder.join("canary").into_os_string();
    spec.limits.hard = hard;
    tell(&format!("session {}", spec.session.id));
    let told = async {
        let mut seen = 0;
        loop {
            for event in rig.events.after(seen).await {
                seen += 1;
                match event {
                    Event::SessionRegistered { .. } => tell("registered"),
                    Event::SessionSpawned { .. } => tell("spawned"),
                    Event::SessionProgressed { what, .. } if what.starts_with("was stopped") => {
                        tell(&format!("noticed {what}"));
                    }
                    Event::SessionProgressed { .. } => tell("grown"),
                    _ => {}
                }
            }
        }
    };
    let stop = StopHandle::new();
    let end = tokio::select! {
        end = rig.supervisor.run(spec, &HostileAgent, stop.signal()) => end.unwrap(),
        () = told => unreachable!(),
    };
    tell(&format!("ended {} {}", end.outcome.into_str(), end.survivors));
}

async fn restart(folder: &Path) {
    let ledger = FolderLedger::open(&folder.join("ledger")).unwrap();
    let sink = EventRecorder::default();
    let none = HashSet::new();
    let resolved = orphans::resolve(&ledger, &sink, &none, Duration::from_secs(10)).await.unwrap();
    tell(&format!("resolved {} stuck {}", resolved.closed.len(), resolved.stuck.len()));
    let _: &dyn Sink = &sink;
}

/// A running driver.
struct Driver {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
    _out: Option<ChildStdout>,
}

impl Driver {
    fn start(folder: &Path, tier: &str, role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::driver", "--nocapture"])
            .env(ROLE, role)
            .env(FOLDER, folder)
            .env(TIER, tier)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Self { child, lines, _out: None }
    }

    /// Reads until a line with this prefix, and returns the rest of it.
    fn wait_for(&mut self, beginning: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "no {beginning:?} line came");
            if let Some(rest) = line.trim_end().strip_prefix(beginning) {
                return rest.trim().to_owned();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().unwrap();
    }
}

/// Waits until no process has a mark of the session or the folder's name in its environment, and
/// none holds the canary. Returns how long it took.
fn wait_until_clean(folder: &Path, session: SessionId, oracle: &mut Oracle) -> Duration {
    let start = Instant::now();
    let mut clean = 0;
    loop {
        let left = traces(folder, session);
        clean = if left.is_empty() && oracle.is_silent() { clean + 1 } else { 0 };
        if clean >= 2 {
            return start.elapsed();
        }
        assert!(start.elapsed() < bound(), "left: {left:?}, holders: {:?}", oracle.holders());
        // Between two samples.
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn traces(folder: &Path, session: SessionId) -> Vec<u32> {
    let name = folder.file_name().unwrap().to_str().unwrap().as_bytes().to_vec();
    let own = std::process::id();
    let carries = |pid: &u32| {
        let marked = process::realtime_limit(*pid)
            .is_some_and(|values| mark::is_in_limit(values, session.0));
        let environment = process::environment(*pid).unwrap_or_default();
        let named = environment.windows(name.len()).any(|window| window == name);
        let alive = process::stat(*pid).is_some_and(|stat| !stat.is_dead());
        alive && (marked || named || mark::is_in_environment(&environment, session.0))
    };
    process::all().into_iter().filter(|pid| *pid != own).filter(carries).collect()
}

fn setup() -> (tempfile::TempDir, Oracle) {
    let folder = tempfile::Builder::new().prefix("heartbeat-crash-").tempdir().unwrap();
    let oracle = Oracle::new(&folder.path().join("canary")).unwrap();
    (folder, oracle)
}

fn report(what: &str, tier: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!(
        "{what}, {tier}: {} rounds, nothing left; gone after p50 {:?}, max {:?}",
        times.len(),
        at(50),
        at(100)
    );
}

#[test]
fn heartbeat_killed_after_the_start_leaves_nothing() {
    for tier in TIERS {
        let times = (0..rounds(8, 200)).map(|_| {
            let (folder, mut oracle) = setup();
            let mut driver = Driver::start(folder.path(), tier, "run");
            let session: SessionId = driver.wait_for("session").parse().unwrap();
            driver.wait_for("grown");
            assert!(oracle.births() > 16);
            driver.kill();
            wait_until_clean(folder.path(), session, &mut oracle)
        });
        report("SIGKILL after start", tier, times.collect());
    }
}

#[test]
fn heartbeat_killed_within_milliseconds_of_a_spawn_leaves_nothing() {
    let mut random = 1_u64;
    for tier in TIERS {
        let times = (0..rounds(24, 200)).map(|round| {
            let (folder, mut oracle) = setup();
            let mut driver = Driver::start(folder.path(), tier, "run");
            let session: SessionId = driver.wait_for("session").parse().unwrap();
            // Half of them while the keeper starts, half of them around `Go`.
            if round % 2 == 1 {
                driver.wait_for("registered");
            }
            // A random moment: when the process is killed is the subject.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            std::thread::sleep(Duration::from_micros((random >> 33) % 12_000));
            driver.kill();
            wait_until_clean(folder.path(), session, &mut oracle)
        });
        report("SIGKILL 0-12 ms after spawn", tier, times.collect());
    }
}

#[test]
fn heartbeat_and_keeper_killed_leave_nothing_after_a_restart() {
    for tier in TIERS {
        let times = (0..rounds(6, 100)).map(|_| {
            let (folder, mut oracle) = setup();
            let mut driver = Driver::start(folder.path(), tier, "run");
            let session: SessionId = driver.wait_for("session").parse().unwrap();
            driver.wait_for("grown");
            // Stopped first, so that it cannot catch what its dead keeper leaves.
            driver.signal(Signal::SIGSTOP);
            let ledger = FolderLedger::open(&folder.path().join("ledger")).unwrap();
            let rows = ledger.rows().unwrap();
            assert_eq!(rows.len(), 1);
            process::open_verified(&rows[0].keeper).unwrap().signal(Signal::SIGKILL).unwrap();
            driver.kill();
            let mut restarted = Driver::start(folder.path(), tier, "restart");
            assert_eq!(restarted.wait_for("resolved"), "1 stuck 0");
            restarted.child.wait().unwrap();
            assert!(ledger.rows().unwrap().is_empty());
            wait_until_clean(folder.path(), session, &mut oracle)
        });
        report("SIGKILL of heartbeat and keeper, restart", tier, times.collect());
    }
}

#[test]
fn a_keeper_attacked_by_its_agent_leaves_nothing() {
    for (role, tier) in
        [("kills-keeper", "subreaper"), ("stops-keeper", "subreaper"), ("kills-keeper", "auto")]
    {
        let times = (0..rounds(3, 100)).map(|_| {
            let (folder, mut oracle) = setup();
            let mut driver = Driver::start(folder.path(), tier, role);
            let session: SessionId = driver.wait_for("session").parse().unwrap();
            if tier == "auto" {
                // In its namespace it cannot reach the keeper: the session simply continues.
                driver.wait_for("grown");
                driver.kill();
            } else {
                assert_eq!(driver.wait_for("ended"), "agent_error 0");
                driver.child.wait().unwrap();
            }
            wait_until_clean(folder.path(), session, &mut oracle)
        });
        report(role, tier, times.collect());
    }
}

/// The kernel wakes stopped processes whose last relative in their session ends. This test adopts
/// the keeper, so that it stays stopped.
#[test]
fn a_stopped_keeper_of_a_killed_heartbeat_is_woken_by_a_restart() {
    let name = "crash::a_stopped_keeper_of_a_killed_heartbeat_is_woken_by_a_restart";
    if support::ran_alone(name) {
        return;
    }
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    for _ in 0..rounds(3, 20) {
        let (folder, mut oracle) = setup();
        let mut driver = Driver::start(folder.path(), "subreaper", "run");
        let session: SessionId = driver.wait_for("session").parse().unwrap();
        driver.wait_for("grown");
        driver.signal(Signal::SIGSTOP);
        let ledger = FolderLedger::open(&folder.path().join("ledger")).unwrap();
        let row = ledger.rows().unwrap().remove(0);
        process::open_verified(&row.keeper).unwrap().signal(Signal::SIGSTOP).unwrap();
        // The signal is delivered in its own time: a keeper that still runs would sweep.
        while !is_stopped(row.keeper.pid) {
            std::thread::yield_now();
        }
        driver.kill();
        assert!(!oracle.is_silent(), "a stopped keeper cannot have swept");
        let mut restarted = Driver::start(folder.path(), "subreaper", "restart");
        assert_eq!(restarted.wait_for("resolved"), "1 stuck 0");
        restarted.child.wait().unwrap();
        wait_until_clean(folder.path(), session, &mut oracle);
    }
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('T')
}

/// A process and all its descendants, the deepest last.
fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        found.extend(process::children(parent).unwrap_or_default());
    }
    found
}

fn signal_all(pids: impl Iterator<Item = u32>, signal: Signal) {
    for pid in pids.filter_map(|pid| i32::try_from(pid).ok()) {
        kill(Pid::from_raw(pid), signal).ok();
    }
}

/// A laptop asleep, a paused virtual machine: nobody's time limit counts it.
#[test]
fn time_in_which_everything_is_stopped_counts_for_no_limit() {
    let (folder, mut oracle) = setup();
    let mut driver = Driver::start(folder.path(), "subreaper", "short");
    let session: SessionId = driver.wait_for("session").parse().unwrap();
    driver.wait_for("grown");
    let all = tree(driver.child.id());
    signal_all(all.iter().copied(), Signal::SIGSTOP);
    // Longer than the session may run, and than a keeper waits for its heartbeat's beats.
    std::thread::sleep(SHORT + Duration::from_secs(33));
    let resumed = Instant::now();
    signal_all(all.iter().rev().copied(), Signal::SIGCONT);
    driver.wait_for("noticed was stopped for");
    assert_eq!(driver.wait_for("ended"), "timed_out 0", "by its own time in the end");
    assert!(resumed.elapsed() > SHORT / 3, "it had the rest of its time: {:?}", resumed.elapsed());
    driver.child.wait().unwrap();
    wait_until_clean(folder.path(), session, &mut oracle);
}
