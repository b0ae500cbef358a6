//! The sweep: ends everything below this process and proves that nothing is left.
//!
//! This process is a child subreaper, so whatever a descendant does (own session, double fork,
//! dropped environment), it becomes a direct child as soon as its parent is gone. A direct child
//! keeps its number until it is collected, so a signal can never reach a stranger. Killing all
//! direct children over and over therefore reaches everything, and the kernel's answer "no child
//! left" (ECHILD) is the certificate.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::signals::Signals;
use crate::process;

/// Between two passes, unless a child ends before.
const PAUSE: Duration = Duration::from_micros(200);

/// How a sweep went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// Children that this sweep ended.
    pub killed: u32,
    /// How the leader ended, if it was collected here.
    pub leader: Option<WaitStatus>,
    /// False if the time was up before the kernel said that nothing is left.
    pub empty: bool,
}

/// Kills and collects until nothing is left or the time is up.
///
/// `spared` is a child that stands aside (see [`process::system::fork_aside`]): the kernel's answer leaves it
/// out.
pub fn sweep(
    leader: Option<Pid>,
    spared: Option<Pid>,
    signals: &Signals,
    within: Duration,
) -> Swept {
    let spared = spared.and_then(|pid| u32::try_from(pid.as_raw()).ok());
    let until = Instant::now() + within;
    let mut swept = Swept { killed: 0, leader: None, empty: false };
    // A child keeps its number until it is collected, and needs only one signal.
    let mut signalled = BTreeSet::new();
    if let Some(leader) = leader {
        // Its group exists as long as the leader is not collected; most of a tree goes at once.
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

/// Collects every dead child; true when there is none left, dead or alive.
fn collect(leader: Option<Pid>, swept: &mut Swept, signalled: &mut BTreeSet<u32>) -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return false,
            Ok(status) => {
                // Its number may come back as another child.
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

/// What is left, for people: process ids, states and where the kernel holds them.
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
