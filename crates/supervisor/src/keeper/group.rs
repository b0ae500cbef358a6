//! A control group for one session, where the machine delegates one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::sys::wait::waitpid;
use nix::time::{ClockId, clock_gettime};

use super::protocol::Order;
use crate::SessionId;
use crate::containment::delegated_group;
use crate::process::system::{self, SpawnTarget};

/// A session's group; removed on drop if it is empty.
#[derive(Debug)]
pub struct Group(PathBuf, File);

/// Prefix of the session's id in the name of its group.
const PREFIX: &str = "heartbeat-";

/// The kernel counts threads, we count processes. A limit this high never fails a legitimate fork,
/// but stops a fork storm that is faster than the samples.
const THREADS_PER_PROCESS: u64 = 8;
/// Minimum for current agents (8 is too few, 24 to 32 suffice), with a margin.
const MIN_TASKS: u64 = 128;

/// Limit of processes and threads of one session.
pub fn task_cap(max_processes: u32) -> u64 {
    (u64::from(max_processes) * THREADS_PER_PROCESS).max(MIN_TASKS)
}

impl Group {
    /// Creates one below the group that was delegated to us; `None` without one.
    pub fn create(session: &str) -> Option<Self> {
        let above = delegated_group()?;
        // Refused while the group above has members of its own: then the limits are sampled.
        fs::write(above.join("cgroup.subtree_control"), "+memory +pids").ok();
        let path = above.join(format!("{PREFIX}{session}"));
        fs::create_dir(&path).ok()?;
        let folder = File::open(&path).ok()?;
        let group = Self(path, folder);
        // A group is useless if it cannot be killed as a whole or used to spawn into.
        (group.0.join("cgroup.kill").exists() && group.is_birthplace()).then_some(group)
    }

    fn is_birthplace(&self) -> bool {
        let target = SpawnTarget { group: Some(&self.1), ..SpawnTarget::default() };
        let born = system::fork_into_target(target, || 0);
        born.is_ok_and(|child| waitpid(child, None).is_ok())
    }

    /// Whether its kernel limits processes and threads.
    pub fn limits_tasks(&self) -> bool {
        self.0.join("pids.max").exists()
    }

    pub fn limits_memory(&self) -> bool {
        self.0.join("memory.max").exists()
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The open folder, to spawn a process into.
    pub fn folder(&self) -> &File {
        &self.1
    }

    /// Number of members.
    pub fn population(&self) -> u32 {
        let members = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        u32::try_from(members.lines().count()).unwrap_or(u32::MAX)
    }

    /// Sets the limits for which there are controllers.
    pub fn bound(&self, order: &Order) {
        // Without a controller the limit is enforced by sampling.
        fs::write(self.0.join("pids.max"), task_cap(order.max_processes).to_string()).ok();
        fs::write(self.0.join("memory.max"), order.max_memory.to_string()).ok();
    }

    pub fn kill(&self) {
        kill(&self.0);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel refuses while it has members.
        fs::remove_dir(&self.0).ok();
    }
}

/// Kills every member of a group at once.
pub fn kill(path: &Path) {
    // A group that does not exist has no members.
    fs::write(path.join("cgroup.kill"), "1").ok();
}

/// Removes groups that a crash left empty, except those of sessions that are alive or may be about
/// to start.
pub fn remove_empty(alive: &[SessionId]) {
    let Some(entries) = delegated_group().and_then(|group| fs::read_dir(group).ok()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let session = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        if session.is_some_and(|session| !alive.contains(&session) && is_old(session)) {
            // The kernel refuses while it has members.
            fs::remove_dir(entry.path()).ok();
        }
    }
}

/// Whether the session is older than a keeper may take to start its agent.
fn is_old(session: SessionId) -> bool {
    const STARTING_SECONDS: u64 = 120;
    let made = session.get_timestamp().map(|stamp| stamp.to_unix());
    let now = clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, |now| now.tv_sec());
    made.is_some_and(|(seconds, _)| {
        u64::try_from(now).unwrap_or_default().saturating_sub(seconds) > STARTING_SECONDS
    })
}
