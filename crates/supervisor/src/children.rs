//! Heartbeat as outer subreaper: processes that a killed keeper leaves become its children.
//!
//! Children that heartbeat starts (keepers, helper commands) are registered in the same critical
//! section in which they are started, and unregistered after they have been waited for. An
//! unregistered child is killed only with proof that it belongs to a session.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::evidence::{Evidence, Proof};
use crate::process;

/// A list of the process, since children belong to the process.
static REGISTERED: LazyLock<Mutex<HashSet<u32>>> = LazyLock::new(Mutex::default);
static IS_OUTER_REAPER: AtomicBool = AtomicBool::new(false);
/// Children that the program starts and collects by itself.
static OTHERS: OnceLock<fn() -> BTreeSet<u32>> = OnceLock::new();

fn other_children() -> BTreeSet<u32> {
    OTHERS.get().map_or_else(BTreeSet::new, |others| others())
}

/// Keeps a child registered; drop it after waiting for the child.
#[derive(Debug)]
pub struct Registration(u32);

impl Drop for Registration {
    fn drop(&mut self) {
        registered().remove(&self.0);
    }
}

fn registered() -> MutexGuard<'static, HashSet<u32>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child and registers it, so that it is not mistaken for an escaped process.
///
/// Every start of a process in heartbeat goes through here.
pub fn start_registered(
    command: &mut tokio::process::Command,
) -> io::Result<(tokio::process::Child, Registration)> {
    let mut known = registered();
    let child = command.spawn()?;
    let pid = child.id().unwrap_or_default();
    known.insert(pid);
    Ok((child, Registration(pid)))
}

/// Makes heartbeat the reaper of processes that its keepers leave. Call it once, early.
#[cfg(target_os = "linux")]
pub fn become_outer_reaper(others: fn() -> BTreeSet<u32>) -> io::Result<()> {
    OTHERS.get_or_init(|| others);
    nix::sys::prctl::set_child_subreaper(true)?;
    IS_OUTER_REAPER.store(true, Ordering::SeqCst);
    Ok(())
}

/// There is no subreaper here; processes of a dead keeper are found only by their marks.
#[cfg(not(target_os = "linux"))]
pub fn become_outer_reaper(_others: fn() -> BTreeSet<u32>) -> io::Result<()> {
    Ok(())
}

/// Whether [`become_outer_reaper`] was called.
pub fn is_outer_reaper() -> bool {
    IS_OUTER_REAPER.load(Ordering::SeqCst)
}

/// Unregistered children that are proven to belong to one of these sessions.
///
/// There may be others: children of a shell that replaced itself with heartbeat, and daemons of a
/// helper command. They are left alone.
fn escapees(sessions: &[Evidence], seen: &HashSet<(u32, u64)>) -> Vec<u32> {
    if !is_outer_reaper() {
        return Vec::new();
    }
    // Held while the kernel's list is read, so that no child is being started meanwhile.
    let known = registered();
    let children = process::children(std::process::id()).unwrap_or_default();
    // Read after the list: a helper is registered before it has a process id.
    let helpers = other_children();
    let was_seen = |pid: u32| {
        let start = process::stat(pid).map(|stat| stat.start_time);
        start.is_some_and(|start| seen.contains(&(pid, start)))
    };
    let is_ours = |pid: u32| {
        sessions.iter().any(|one| one.judge(pid) == Some(Proof::Proven)) || was_seen(pid)
    };
    let is_escapee =
        |child: &u32| !known.contains(child) && !helpers.contains(child) && is_ours(*child);
    children.into_iter().filter(is_escapee).collect()
}

/// Reaps unregistered children that have exited, such as a killed keeper's helper or daemons of a
/// helper command. No other process would; no signal is sent.
pub fn collect_dead_children() {
    if !is_outer_reaper() {
        return;
    }
    let known = registered();
    let children = process::children(std::process::id()).unwrap_or_default();
    let helpers = other_children();
    for child in children {
        let is_corpse = process::stat(child).is_some_and(|stat| stat.is_dead());
        if is_corpse && !known.contains(&child) && !helpers.contains(&child) {
            let pid = i32::try_from(child).map(Pid::from_raw);
            // If another thread reaped it meanwhile, it is gone too.
            pid.map(|pid| waitpid(pid, Some(WaitPidFlag::WNOHANG))).ok();
        }
    }
}

/// Result of [`catch_escapees`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caught {
    /// Killed and reaped.
    pub killed: u32,
    /// Still alive at the deadline.
    pub left: u32,
}

/// Kills and reaps the escaped processes of these sessions until none is left or the time is up.
/// `seen`: processes seen below their keepers.
pub async fn catch_escapees(
    sessions: &[Evidence],
    seen: &HashSet<(u32, u64)>,
    within: Duration,
) -> Caught {
    let until = Instant::now() + within;
    let mut caught = Caught::default();
    collect_dead_children();
    loop {
        let found = escapees(sessions, seen);
        if found.is_empty() {
            return Caught { left: 0, ..caught };
        }
        caught.left = 0;
        for child in found {
            if end_and_collect(child) { caught.killed += 1 } else { caught.left += 1 }
        }
        if Instant::now() >= until {
            return caught;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// An unregistered direct child keeps its pid until it is reaped here, so the signal cannot reach
/// another process.
fn end_and_collect(child: u32) -> bool {
    let Ok(number) = i32::try_from(child) else { return false };
    let pid = Pid::from_raw(number);
    kill(pid, Signal::SIGKILL).ok();
    match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
        Ok(status) => status.pid().is_some(),
        // Reaped elsewhere.
        Err(_) => true,
    }
}
