//! Kinds of processes that a sweep has to handle.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{getpid, pause, setpgid, setsid};

use crate::process::system;

/// The open write end of the named pipe.
#[derive(Debug)]
pub struct PipeCanary(Option<File>);

impl PipeCanary {
    pub fn new(file: Option<File>) -> Self {
        Self(file)
    }

    /// Writes one byte per process; lost if the pipe is full, which only hoppers cause.
    pub fn record_start(&self) {
        if let Some(mut file) = self.0.as_ref() {
            file.write_all(b".").ok();
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeShape {
    /// A plain child.
    Plain,
    /// In its own process group.
    OwnGroup,
    /// In its own session.
    OwnSession,
    /// Double-forked, in its own session.
    Daemon,
    /// A daemon with an empty environment that cannot be inspected.
    ScrubbedDaemon,
    /// Ignores every signal that can be ignored.
    TermIgnoring,
    Stopped,
    /// A subreaper with two daemons below it.
    NestedSubreaper,
    /// Restarts its child whenever it dies.
    Respawner,
    /// Lives for a moment and leaves a successor.
    Hopper,
    /// Uses CPU.
    Busy,
    /// Walks folders forever, in its own session.
    Searcher,
}

const MIXED: [TreeShape; 10] = [
    TreeShape::Plain,
    TreeShape::OwnGroup,
    TreeShape::OwnSession,
    TreeShape::Daemon,
    TreeShape::ScrubbedDaemon,
    TreeShape::TermIgnoring,
    TreeShape::Stopped,
    TreeShape::NestedSubreaper,
    TreeShape::Respawner,
    TreeShape::Hopper,
];

/// A selection of kinds by seed; at most two hoppers, because they multiply.
pub fn mix(seed: u64, count: u32, canary: &PipeCanary) {
    let mut state = seed;
    let mut hoppers = 0;
    for _ in 0..count {
        // A linear congruential generator, reproducible from the seed.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let index = usize::try_from(state >> 33).unwrap_or_default() % MIXED.len();
        let mut shape = MIXED[index];
        if shape == TreeShape::Hopper {
            hoppers += 1;
            if hoppers > 2 {
                shape = TreeShape::Daemon;
            }
        }
        shape.grow(canary);
    }
}

/// Allocates and touches this much memory.
pub fn hog(bytes: usize) {
    let memory = vec![1_u8; bytes];
    std::mem::forget(memory);
}

impl TreeShape {
    /// Starts one process of this kind; false if the system refuses.
    pub fn grow(self, canary: &PipeCanary) -> bool {
        let born = system::fork_into(|| {
            self.live(canary);
            0
        });
        // A system that refuses more processes only makes the test easier.
        if born.is_ok() {
            canary.record_start();
        }
        born.is_ok()
    }

    fn live(self, canary: &PipeCanary) {
        match self {
            Self::Plain => {}
            Self::OwnGroup => {
                setpgid(getpid(), getpid()).ok();
            }
            Self::OwnSession => {
                setsid().ok();
            }
            Self::Daemon => {
                setsid().ok();
                Self::Plain.grow(canary);
                return;
            }
            Self::ScrubbedDaemon => {
                setsid().ok();
                let born = system::fork_into(|| {
                    scrub();
                    1
                });
                if born.is_ok() {
                    canary.record_start();
                }
                return;
            }
            Self::TermIgnoring => {
                for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
                    system::set_handler(signal, SigHandler::SigIgn);
                }
            }
            Self::Stopped => {
                setsid().ok();
                kill(getpid(), Signal::SIGSTOP).ok();
            }
            Self::NestedSubreaper => {
                become_subreaper();
                Self::Daemon.grow(canary);
                Self::Daemon.grow(canary);
            }
            Self::Respawner => respawn(canary),
            Self::Hopper => return hop(canary),
            Self::Busy => spin(),
            Self::Searcher => search(),
        }
        sleep();
    }
}

fn sleep() -> ! {
    loop {
        pause();
    }
}

fn spin() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

fn search() -> ! {
    setsid().ok();
    loop {
        let names = std::fs::read_dir("/usr/lib").map_or(0, Iterator::count);
        std::thread::sleep(Duration::from_millis(u64::from(names == 0) + 5));
    }
}

fn respawn(canary: &PipeCanary) -> ! {
    setsid().ok();
    loop {
        let child = system::fork_into(|| {
            setsid().ok();
            sleep()
        });
        match child {
            Ok(child) => {
                canary.record_start();
                waitpid(child, None).ok();
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Leaves a successor in another session and exits: never at the same place in two scans.
fn hop(canary: &PipeCanary) {
    setsid().ok();
    std::thread::sleep(Duration::from_millis(2));
    TreeShape::Hopper.grow(canary);
}

/// Executes a program without environment, then hides.
fn scrub() {
    let args = ["heartbeat", "simulate", "agent", "--misbehave", "sleeper"];
    let args: Vec<CString> = args.iter().filter_map(|arg| CString::new(*arg).ok()).collect();
    let program = std::env::current_exe().unwrap_or_default();
    system::execute(OsStr::from_bytes(program.as_os_str().as_bytes()), &args, &[]);
}

#[cfg(target_os = "linux")]
fn become_subreaper() {
    nix::sys::prctl::set_child_subreaper(true).ok();
}

#[cfg(not(target_os = "linux"))]
fn become_subreaper() {}

/// Hides this process from inspection by other processes of the user.
#[cfg(target_os = "linux")]
pub fn hide() {
    nix::sys::prctl::set_dumpable(false).ok();
}

#[cfg(not(target_os = "linux"))]
pub fn hide() {}
