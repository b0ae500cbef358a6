//! A control group of our own for one session, where the machine hands one out.

use std::fs;
use std::path::{Path, PathBuf};

use super::protocol::Order;
use crate::session::containment::delegated_group;

/// The group of one session; removed when it is dropped empty.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// Creates one below the group that was delegated to us; none if there is none.
    pub fn create(session: &str) -> Option<Self> {
        let path = delegated_group()?.join(format!("heartbeat-{session}"));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        // A group that cannot be killed as a whole is of no use for us.
        group.0.join("cgroup.kill").exists().then_some(group)
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file that a process joins it by.
    pub fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    /// Sets the bounds, as far as the controllers are there.
    pub fn bound(&self, order: &Order) {
        // Where a controller is missing the bound is held by sampling instead.
        fs::write(self.0.join("pids.max"), order.max_processes.to_string()).ok();
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
