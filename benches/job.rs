//! What heartbeat costs when it does nothing: start-up, idle service, size of the binary.
//!
//! Prints a table; asserts nothing, because times are the machine's.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark prints, and starts the binary it is about"
)]

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const HEARTBEAT: &str = env!("CARGO_BIN_EXE_heartbeat");

fn main() {
    println!("| what | figure | aim |");
    println!("|---|--:|---|");
    for argument in ["--version", "--help"] {
        let taken = median_start(argument);
        let bare = median_of(|| run(Command::new("/bin/true")));
        println!(
            "| `heartbeat {argument}`, median of 41 | {:.1} ms ({:.1}× /bin/true) | milliseconds |",
            taken.as_secs_f64() * 1e3,
            taken.as_secs_f64() / bare.as_secs_f64()
        );
    }
    let size = std::fs::metadata(HEARTBEAT).map_or(0, |data| data.len());
    println!("| binary | {:.1} MB | < 25 MB (release) |", size as f64 / 1e6);
    match idle_service() {
        Some(idle) => {
            println!(
                "| idle service, resident | {:.1} MB | < 20 MB |",
                idle.resident_kib as f64 / 1e3
            );
            println!(
                "| idle service, CPU over {:.0} s | {} ms | the tick source's |",
                idle.seconds, idle.cpu_ms
            );
            println!(
                "| idle service, wake-ups a second | {:.1} | the tick source's (2 a second) |",
                idle.wakeups as f64 / idle.seconds
            );
        }
        None => println!("| idle service | could not be started | |"),
    }
}

fn run(mut command: Command) -> Duration {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()));
    began.elapsed()
}

fn median_start(argument: &str) -> Duration {
    median_of(|| {
        let mut command = Command::new(HEARTBEAT);
        command.arg(argument);
        run(command)
    })
}

fn median_of(mut one: impl FnMut() -> Duration) -> Duration {
    let mut all: Vec<Duration> = (0..41).map(|_| one()).collect();
    all.sort();
    all[all.len() / 2]
}

struct Idle {
    resident_kib: u64,
    cpu_ms: u64,
    wakeups: u64,
    seconds: f64,
}

/// A service that has nothing to do for years, watched for ten seconds.
fn idle_service() -> Option<Idle> {
    let folder = tempfile::tempdir().ok()?;
    let mut service = Command::new(HEARTBEAT)
        .args(["--demo", "--set", "schedule.cron=0 0 29 2 *", "--set", "log.level=info"])
        .arg("--state-dir")
        .arg(folder.path().join("state"))
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    let pid = service.id();
    let began = Instant::now();
    while !folder.path().join("state/heartbeat.db").exists() && began.elapsed().as_secs() < 20 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let before = (cpu_ms(pid)?, switches(pid));
    let watched = Instant::now();
    std::thread::sleep(Duration::from_secs(10));
    let idle = Idle {
        resident_kib: status_field(pid, "VmRSS:")?,
        cpu_ms: cpu_ms(pid)? - before.0,
        wakeups: added(&before.1, &switches(pid)),
        seconds: watched.elapsed().as_secs_f64(),
    };
    service.kill().ok()?;
    if let Some(stderr) = service.stderr.take() {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            eprintln!("service: {line}");
        }
    }
    service.wait().ok()?;
    Some(idle)
}

fn status_field(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Voluntary switches of each thread: each is one wake-up.
fn switches(pid: u32) -> HashMap<OsString, u64> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return HashMap::new();
    };
    threads
        .flatten()
        .filter_map(|thread| {
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"))?;
            Some((thread.file_name(), line.split_ascii_whitespace().nth(1)?.parse().ok()?))
        })
        .collect()
}

/// What was added since. Threads that ended meanwhile took their counts with them, so a difference of
/// sums would be too low, or below zero.
fn added(before: &HashMap<OsString, u64>, now: &HashMap<OsString, u64>) -> u64 {
    now.iter().map(|(thread, count)| count - before.get(thread).unwrap_or(&0).min(count)).sum()
}

fn cpu_ms(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks * 10)
}
