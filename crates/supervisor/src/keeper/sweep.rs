//! The sweep: kills everything below this process and proves that nothing is left.
//!
//! This process is a child subreaper, so whatever a descendant does (setsid, double fork, cleared
//! environment), it becomes a direct child when its parent exits. A direct child keeps its pid
//! until it is reaped, so a signal cannot reach another process. Killing all direct children
//! repeatedly therefore reaches everything, and the kernel's ECHILD is the proof that nothing is
//! left.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::signals::Signals;
use crate::process;

/// Between two passes, unless a child exits earlier.
const PAUSE: Duration = Duration::from_micros(200);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// Children that this sweep killed.
    pub killed: u32,
    /// How the leader ended, if it was reaped here.
    pub leader: Option<WaitStatus>,
    /// False if the time was up before the kernel reported ECHILD.
    pub empty: bool,
}

/// Kills and reaps until no child is left or the time is up.
///
/// `spared` is a child started with [`process::system::fork_detached`]: the kernel's answer does not
/// count it.
pub fn sweep(
    leader: Option<Pid>,
    spared: Option<Pid>,
    signals: &Signals,
    within: Duration,
) -> Swept {
    let spared = spared.and_then(|pid| u32::try_from(pid.as_raw()).ok());
    let until = Instant::now() + within;
    let mut swept = Swept { killed: 0, leader: None, empty: false };
    // A child keeps its pid until it is reaped, so one signal each suffices.
    let mut signalled = BTreeSet::new();
    if let Some(leader) = leader {
        // The group exists until the leader is reaped; this kills most of a tree at once.
        killpg(leader, Signal::SIGKILL).ok();
    }
    loop {
        for child in process::own_children().into_iter().filter(|child| Some(*child) != spared) {
            if signalled.insert(child)
                && let Ok(number) = i32::try_from(child)
            {
                kill(Pid::from_raw(number), Signal::SIGKILL).ok();
            }
        }
        if collect(leader, &mut swept, &mut signalled) {
            swept.empty = true;
            return swept;
        }
        if Instant::now() >= until {
            return swept;
        }
        signals.wait_for_child(PAUSE);
    }
}

/// Reaps every dead child; true when none is left, dead or alive.
fn collect(leader: Option<Pid>, swept: &mut Swept, signalled: &mut BTreeSet<u32>) -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return false,
            Ok(status) => {
                // The pid may be reused by another child.
                if let Some(child) = status.pid().and_then(|pid| u32::try_from(pid.as_raw()).ok()) {
                    signalled.remove(&child);
                }
                if matches!(status, WaitStatus::Signaled(_, Signal::SIGKILL, _)) {
                    swept.killed += 1;
                }
                if leader.is_some() && status.pid() == leader {
                    swept.leader = Some(status);
                }
            }
            Err(Errno::ECHILD) => return true,
            Err(_) => return false,
        }
    }
}

/// What is left, for messages: process ids, states and where the kernel blocks them.
pub fn describe_left(spared: Option<Pid>) -> (u32, String) {
    let spared = spared.and_then(|pid| u32::try_from(pid.as_raw()).ok());
    let mut left = process::descendants(std::process::id());
    left.retain(|stat| !stat.is_dead() && Some(stat.pid) != spared);
    let detail: Vec<String> = left
        .iter()
        .map(|stat| format!("{} {} {}", stat.pid, stat.state, process::waits_in(stat.pid)))
        .collect();
    (u32::try_from(left.len()).unwrap_or(u32::MAX).max(1), detail.join(", "))
}
