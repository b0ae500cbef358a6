//! What containment costs, side by side in one run: `cargo bench --bench session`.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has failed")]
#![expect(clippy::disallowed_methods, reason = "the benchmark starts what it measures")]
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use heartbeat::app::selftest::Rig;
use heartbeat::model::SessionId;
use heartbeat::process;
use heartbeat::session::confinement::Confinement;
use heartbeat::session::keeper::launch::{self, Keeper};
use heartbeat::session::keeper::protocol::{FromKeeper, Order, ToKeeper};
use heartbeat::session::{StopHandle, StopReason, mark};
use heartbeat::settings::Containment;
use heartbeat::simulate::hostile::Misbehaviour;
use heartbeat::simulate::hostile::oracle::Oracle;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;

const PROGRAM: &str = env!("CARGO_BIN_EXE_heartbeat");
const BAZEL: &str = "__bazel_style_loop";
const PROCESSES: u32 = 31;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == BAZEL) {
        bazel_style(&args[2]);
        return;
    }
    let number = |name: &str, default: usize| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        sweeps(number("HEARTBEAT_BENCH_ROUNDS", 40)).await;
        spawns(number("HEARTBEAT_BENCH_ROUNDS", 40)).await;
        Box::pin(supervision(number("HEARTBEAT_BENCH_SECONDS", 20))).await;
    });
}

fn percentile(times: &mut [Duration], share: usize) -> f64 {
    times.sort();
    times[(times.len() - 1) * share / 100].as_secs_f64() * 1_000.0
}

struct Place {
    folder: tempfile::TempDir,
    oracle: Oracle,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let oracle = Oracle::new(&folder.path().join("canary")).unwrap();
        Self { folder, oracle }
    }

    fn canary(&self) -> PathBuf {
        self.folder.path().join("canary")
    }

    fn agent_args(&self, misbehaviour: &str) -> Vec<String> {
        let count = PROCESSES.to_string();
        let canary = self.canary().to_str().unwrap().to_owned();
        [
            "simulate",
            "agent",
            "--misbehave",
            misbehaviour,
            "--seed",
            "42",
            "--count",
            &count,
            "--canary",
        ]
        .iter()
        .map(|arg| (*arg).to_owned())
        .chain([canary])
        .collect()
    }

    /// From now until nobody holds the canary.
    fn until_silent(&mut self) -> Duration {
        let start = Instant::now();
        assert!(self.oracle.wait_closely(Duration::from_secs(20)), "somebody survived");
        start.elapsed()
    }
}

/// The walls of a session behind the gateway, with the folder of this place.
fn walls(place: &Place) -> Confinement {
    let mut walls = Confinement::for_program(Path::new(PROGRAM), &[], &[]);
    walls.write.push(place.folder.path().to_owned());
    walls.only_gateway = true;
    walls
}

async fn keep(place: &Place, tier: Containment, misbehaviour: &str, session: SessionId) -> Keeper {
    keep_within(None, place, tier, misbehaviour, session).await
}

async fn keep_within(
    confinement: Option<Confinement>,
    place: &Place,
    tier: Containment,
    misbehaviour: &str,
    session: SessionId,
) -> Keeper {
    let mut keeper = launch::launch(Path::new(PROGRAM), session.0, tier, None).await.unwrap();
    let stdin = place.folder.path().join("stdin");
    std::fs::write(&stdin, "").unwrap();
    let order = Order {
        confinement,
        max_tasks: None,
        program: PROGRAM.into(),
        args: place.agent_args(misbehaviour).into_iter().map(Into::into).collect(),
        env: vec![(mark::VARIABLE.into(), session.to_string().into())],
        cwd: "/".into(),
        stdin,
        hard_ms: 600_000,
        grace_ms: 1_000,
        lease_ms: 600_000,
        nice: 0,
        mark: mark::limit(session.0),
        max_processes: 1_000,
        max_memory: 1 << 40,
    };
    keeper.to.send(&ToKeeper::Go(Box::new(order))).await;
    keeper
}

fn new_session() -> SessionId {
    SessionId(uuid::Uuid::now_v7())
}

/// Waits for the line that says that the tree has grown.
async fn grown(keeper: &mut Keeper) {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("assistant") {
        let mut chunk = [0; 1024];
        let read = keeper.stdout.read(&mut chunk).await.unwrap();
        assert!(read > 0, "the agent left");
        text.extend_from_slice(&chunk[..read]);
    }
    settle();
}

/// The last children still have to detach; all candidates get the same moment.
fn settle() {
    std::thread::sleep(Duration::from_millis(60));
}

async fn sweep_by_keeper(tier: Containment) -> Duration {
    let mut place = Place::new();
    let mut keeper = keep(&place, tier, "mix", new_session()).await;
    grown(&mut keeper).await;
    place.oracle.births();
    let start = Instant::now();
    keeper.to.send(&ToKeeper::Kill).await;
    while let Some(message) = keeper.from.next().await {
        if matches!(message, FromKeeper::Swept { .. }) {
            break;
        }
    }
    let certified = start.elapsed();
    assert!(place.oracle.is_silent(), "certified with somebody alive");
    drop((keeper.to, keeper.from));
    keeper.process.wait().await.unwrap();
    certified
}

fn sweep_by_group(group: &Path) -> Duration {
    let mut place = Place::new();
    let folder = group.join(format!("heartbeat-bench-{}", uuid::Uuid::now_v7()));
    std::fs::create_dir(&folder).unwrap();
    let script = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", folder.display());
    let mut agent = Command::new("sh")
        .args(["-c", &script, "sh", PROGRAM])
        .args(place.agent_args("mix"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    read_until_grown(agent.stdout.as_mut().unwrap());
    place.oracle.births();
    let start = Instant::now();
    std::fs::write(folder.join("cgroup.kill"), "1").unwrap();
    place.until_silent();
    while std::fs::read_to_string(folder.join("cgroup.events")).unwrap().contains("populated 1") {
        std::thread::sleep(Duration::from_micros(50));
    }
    let elapsed = start.elapsed();
    agent.wait().unwrap();
    // Zombies of daemons may keep it busy for a moment more.
    for _ in 0..100 {
        if std::fs::remove_dir(&folder).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    elapsed
}

fn read_until_grown(from: &mut impl Read) {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("assistant") {
        let mut chunk = [0; 1024];
        let read = from.read(&mut chunk).unwrap();
        assert!(read > 0, "the agent left");
        text.extend_from_slice(&chunk[..read]);
    }
    settle();
}

fn sweep_by_bazel_loop() -> Duration {
    let mut place = Place::new();
    let mut reaper = Command::new(std::env::current_exe().unwrap())
        .args([BAZEL, place.canary().to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    read_until_grown(reaper.stdout.as_mut().unwrap());
    place.oracle.births();
    let start = Instant::now();
    reaper.stdin.as_mut().unwrap().write_all(b"k").unwrap();
    reaper.wait().unwrap();
    let elapsed = start.elapsed();
    assert!(place.oracle.is_silent());
    elapsed
}

#[expect(clippy::zombie_processes, reason = "every child is waited for by its number")]
/// A subreaper that kills its children one after the other with a pause, as a known build tool does.
fn bazel_style(canary: &str) {
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    let agent = Command::new(PROGRAM)
        .args(["simulate", "agent", "--misbehave", "mix", "--seed", "42", "--count"])
        .args([&PROCESSES.to_string(), "--canary", canary])
        .spawn()
        .unwrap();
    std::io::stdin().read_exact(&mut [0]).unwrap();
    killpg(Pid::from_raw(i32::try_from(agent.id()).unwrap()), Signal::SIGKILL).ok();
    loop {
        for child in process::children(std::process::id()).unwrap() {
            let pid = Pid::from_raw(i32::try_from(child).unwrap());
            kill(pid, Signal::SIGKILL).ok();
            while waitpid(pid, Some(WaitPidFlag::WNOHANG))
                .is_ok_and(|status| status.pid().is_none())
            {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        if waitpid(None, Some(WaitPidFlag::WNOHANG)) == Err(nix::errno::Errno::ECHILD) {
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

async fn sweeps(rounds: usize) {
    let group = heartbeat::session::containment::delegated_group();
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..rounds {
        times[0].push(sweep_by_keeper(Containment::Subreaper).await);
        times[1].push(sweep_by_keeper(Containment::Auto).await);
        times[2].push(tokio::task::spawn_blocking(sweep_by_bazel_loop).await.unwrap());
        if let Some(group) = group.clone() {
            let swept = tokio::task::spawn_blocking(move || sweep_by_group(&group));
            times[3].push(swept.await.unwrap());
        }
    }
    println!("sweep of a 32-process hostile tree, {rounds} rounds each, interleaved");
    let names =
        ["keeper (subreaper)", "keeper (strongest here)", "Bazel-style loop", "cgroup.kill"];
    let reference = times[3].clone();
    for (name, mut times) in names.iter().zip(times) {
        if times.is_empty() {
            println!("  {name:<24} skipped: no control group can be made here");
            continue;
        }
        let (middle, late) = (percentile(&mut times, 50), percentile(&mut times, 99));
        let ratio = if reference.is_empty() {
            String::new()
        } else {
            format!("  {:.2} x cgroup.kill", middle / percentile(&mut reference.clone(), 50))
        };
        println!("  {name:<24} p50 {middle:7.2} ms  p99 {late:7.2} ms{ratio}");
    }
}

async fn spawns(rounds: usize) {
    let mut bare = Vec::new();
    let mut kept: [Vec<Duration>; 3] = Default::default();
    for _ in 0..rounds {
        let place = Place::new();
        let start = Instant::now();
        let mut agent = tokio::process::Command::new(PROGRAM)
            .args(place.agent_args("silent-sleeper"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        agent.stdout.as_mut().unwrap().read_u8().await.unwrap();
        bare.push(start.elapsed());
        agent.kill().await.unwrap();
        let kinds = [
            (Containment::Subreaper, false),
            (Containment::Auto, false),
            (Containment::Auto, true),
        ];
        for ((tier, has_walls), times) in kinds.into_iter().zip(&mut kept) {
            let place = Place::new();
            let confinement = has_walls.then(|| walls(&place));
            let start = Instant::now();
            let (what, session) = ("silent-sleeper", new_session());
            let mut keeper = keep_within(confinement, &place, tier, what, session).await;
            keeper.stdout.read_u8().await.unwrap();
            times.push(start.elapsed());
            drop((keeper.to, keeper.from));
            keeper.process.wait().await.unwrap();
        }
    }
    let base = percentile(&mut bare, 50);
    println!("spawn to first byte, {rounds} rounds each, interleaved");
    println!("  bare                     p50 {base:7.2} ms");
    let names = ["with keeper (subreaper)", "with keeper (strongest)", "the same with walls"];
    for (name, mut times) in names.iter().zip(kept) {
        let middle = percentile(&mut times, 50);
        println!("  {name:<24} p50 {middle:7.2} ms  (+{:.2} ms)", middle - base);
    }
    idle_keeper().await;
}

async fn idle_keeper() {
    for tier in [Containment::Subreaper, Containment::Auto] {
        let place = Place::new();
        let mut keeper = keep(&place, tier, "silent-sleeper", new_session()).await;
        keeper.stdout.read_u8().await.unwrap();
        let pid = keeper.identity.pid;
        let ticks = |pid| process::stat(pid).map_or(0, |stat| stat.own_ticks);
        let before = ticks(pid);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let spent = ticks(pid) - before;
        println!("  idle keeper ({}): {spent} ticks in 5 s", keeper.tier);
        print_memory(pid);
        drop((keeper.to, keeper.from));
        keeper.process.wait().await.unwrap();
    }
}

/// The keeper and its own processes below it, which share most of their pages: their sum is what a
/// session costs beside its agent. `anonymous` is what no file can give back.
fn print_memory(keeper: u32) {
    let below = process::descendants(keeper).into_iter().map(|stat| stat.pid);
    let name_of = |pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let (mut all, mut anonymous) = (0, 0);
    for pid in std::iter::once(keeper).chain(below) {
        let name = name_of(pid);
        if !name.starts_with("heartbeat-") {
            continue;
        }
        let path = format!("/proc/{pid}/smaps_rollup");
        let rollup = std::fs::read_to_string(path).unwrap_or_default();
        let of = |key: &str| {
            let value = rollup.lines().find_map(|line| line.strip_prefix(key));
            value.and_then(|value| value.trim().trim_end_matches(" kB").parse::<u64>().ok())
        };
        let (pss, anon) = (of("Pss:").unwrap_or(0), of("Pss_Anon:").unwrap_or(0));
        println!("    {:<16} PSS {pss:5} kB, anonymous {anon:5} kB", name.trim());
        (all, anonymous) = (all + pss, anonymous + anon);
    }
    println!("    {:<16} PSS {all:5} kB, anonymous {anonymous:5} kB", "together");
}

async fn supervision(seconds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut settings =
        heartbeat::session::SupervisorSettings::new(PROGRAM.into(), Containment::Subreaper, 3);
    settings.check_every = Duration::from_secs(1);
    let rig = Rig::with_settings(folder.path(), settings).unwrap();
    let stop = StopHandle::new();
    let runs = (0..3).map(|_| {
        let mut spec = rig.spec(Misbehaviour::StuckTool, 1, 4);
        spec.limits.hard = Duration::from_secs(600);
        spec.limits.stall = Duration::from_secs(600);
        spec.limits.liveness = Duration::from_secs(15);
        rig.observe(spec, &stop)
    });
    let [a, b, c] = <[_; 3]>::try_from(runs.collect::<Vec<_>>()).ok().unwrap();
    let measure = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = own_time();
        let start = Instant::now();
        tokio::time::sleep(Duration::from_secs(u64::try_from(seconds).unwrap())).await;
        let share = (own_time() - before).as_secs_f64() / start.elapsed().as_secs_f64();
        stop.stop_now(StopReason::Operator);
        share
    };
    let (share, ..) = tokio::join!(measure, a, b, c);
    println!(
        "supervisor, 3 live sessions with 20 lines a second each, {seconds} s: {:.3} % of a core",
        share * 100.0
    );
}

fn own_time() -> Duration {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    let of = |time: nix::sys::time::TimeVal| {
        Duration::from_micros(u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap())
    };
    of(usage.user_time()) + of(usage.system_time())
}
