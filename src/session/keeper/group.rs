//! A control group of our own for one session, where the machine hands one out.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::sys::wait::waitpid;

use super::protocol::Order;
use crate::clock::Clock;
use crate::model::SessionId;
use crate::process::system::{self, Birthplace};
use crate::session::containment::delegated_group;

/// The group of one session; removed when it is dropped empty.
#[derive(Debug)]
pub struct Group(PathBuf, File);

/// Before the session's id in the name of its group.
const PREFIX: &str = "heartbeat-";

/// The kernel counts threads where we count processes. A wall this far out never makes an honest
/// fork fail, and still stops a storm that is faster than the samples.
const THREADS_PER_PROCESS: u64 = 8;
/// What the agents of today need for themselves (8 is too few, 24 to 32 suffice), with room.
const FEWEST_TASKS: u64 = 128;

/// The wall for processes and threads of one session.
pub fn task_cap(max_processes: u32) -> u64 {
    (u64::from(max_processes) * THREADS_PER_PROCESS).max(FEWEST_TASKS)
}

impl Group {
    /// Creates one below the group that was delegated to us; none if there is none.
    pub fn create(session: &str) -> Option<Self> {
        let path = delegated_group()?.join(format!("{PREFIX}{session}"));
        fs::create_dir(&path).ok()?;
        let folder = File::open(&path).ok()?;
        let group = Self(path, folder);
        // A group that cannot be killed as a whole, or be born in, is of no use for us.
        (group.0.join("cgroup.kill").exists() && group.is_birthplace()).then_some(group)
    }

    fn is_birthplace(&self) -> bool {
        let place = Birthplace { group: Some(&self.1), ..Birthplace::default() };
        let born = system::fork_into_place(place, || 0);
        born.is_ok_and(|child| waitpid(child, None).is_ok())
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its folder, open: the place in which a process can be born.
    pub fn folder(&self) -> &File {
        &self.1
    }

    /// Its members.
    pub fn population(&self) -> u32 {
        let members = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        u32::try_from(members.lines().count()).unwrap_or(u32::MAX)
    }

    /// Sets the bounds, as far as the controllers are there.
    pub fn bound(&self, order: &Order) {
        // Where a controller is missing the bound is held by sampling instead.
        fs::write(self.0.join("pids.max"), task_cap(order.max_processes).to_string()).ok();
        fs::write(self.0.join("memory.max"), order.max_memory.to_string()).ok();
    }

    /// Kills every member at once.
    pub fn kill(&self) {
        kill(&self.0);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Refused by the kernel as long as it has members.
        fs::remove_dir(&self.0).ok();
    }
}

/// Kills every member of a group at once.
pub fn kill(path: &Path) {
    // A group that is gone has no members.
    fs::write(path.join("cgroup.kill"), "1").ok();
}

/// Removes groups that a crash left empty. Those of sessions that are alive, or may be about to
/// start, are left.
pub fn remove_empty(alive: &[SessionId]) {
    let Some(entries) = delegated_group().and_then(|group| fs::read_dir(group).ok()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let session = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        if session.is_some_and(|session| !alive.contains(&session) && is_old(session)) {
            // Refused by the kernel as long as it has members.
            fs::remove_dir(entry.path()).ok();
        }
    }
}

/// Was the session made longer ago than a keeper may take to start its agent?
fn is_old(session: SessionId) -> bool {
    const STARTING_SECONDS: u64 = 120;
    let made = session.0.get_timestamp().map(|stamp| stamp.to_unix());
    let now = u64::try_from(Clock::system().now().as_second()).unwrap_or_default();
    made.is_some_and(|(seconds, _)| now.saturating_sub(seconds) > STARTING_SECONDS)
}
