//! Measures the floor for "tools use the machine": idle tools stay far below it, working ones far
//! above.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use heartbeat::session::liveness::CPU_FLOOR;
use heartbeat::session::tree::TreeWatch;

/// Tools that wait, as agents run them.
const IDLE: [(&str, &str); 5] = [
    ("sleep", "sleep 60"),
    ("follows a file", "tail -f /dev/null"),
    ("reads a silent pipe", "sleep 60 | cat"),
    ("polls a file with tail", "tail -s 1 -f /dev/null"),
    ("eight sleepers", "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait"),
];

/// Tools that work silently on cached files: a tool that waits for a cold disk uses less of a core
/// than this test can distinguish.
const BUSY: [(&str, &str); 3] = [
    ("searches files", "while :; do grep -rc zzqqzz /etc >/dev/null 2>&1; done"),
    ("compresses", "gzip -c < /dev/zero > /dev/null"),
    ("lists folders", "while :; do find /etc -name zzqqzz > /dev/null 2>&1; done"),
];

/// Share of one core that the tools below a shell use.
fn share(command: &str) -> f64 {
    let mut shell = Command::new("sh")
        .args(["-c", &format!("({command}); :")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The shell represents the agent: its own use does not count.
    let mut watch = TreeWatch::new(shell.id(), shell.id(), false);
    let runs = || !heartbeat::process::descendants(shell.id()).is_empty();
    support::eventually("the command", runs);
    // Its start-up cost is not part of the share.
    std::thread::sleep(Duration::from_millis(500));
    watch.sample();
    let start = Instant::now();
    // The window in which the share is measured.
    std::thread::sleep(Duration::from_secs(2));
    let used = watch.sample().cpu_tools.as_secs_f64();
    let share = used / start.elapsed().as_secs_f64();
    let tree = heartbeat::process::descendants(shell.id());
    shell.kill().unwrap();
    shell.wait().unwrap();
    for stat in tree {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(stat.pid).unwrap());
        // Its own pid a moment ago, and not reaped since.
        if heartbeat::process::stat(stat.pid).map(|s| s.start_time) == Some(stat.start_time) {
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
        }
    }
    share
}

#[test]
fn the_floor_lies_between_idle_and_busy_tools() {
    let mut highest_idle = 0.0_f64;
    let mut lowest_busy = f64::INFINITY;
    for (name, command) in IDLE {
        let share = share(command);
        println!("idle  {name:<24} {:.3} %", share * 100.0);
        highest_idle = highest_idle.max(share);
    }
    for (name, command) in BUSY {
        let share = share(command);
        println!("busy  {name:<24} {:.3} %", share * 100.0);
        lowest_busy = lowest_busy.min(share);
    }
    assert!(highest_idle <= CPU_FLOOR / 2.0, "{highest_idle}");
    assert!(lowest_busy >= CPU_FLOOR * 5.0, "{lowest_busy}");
}
