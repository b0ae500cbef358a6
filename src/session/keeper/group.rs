//! A control group of our own for one session, where the machine hands one out.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::sys::wait::waitpid;

use super::protocol::Order;
use crate::process::system::{self, Birthplace};
use crate::session::containment::delegated_group;

/// The group of one session; removed when it is dropped empty.
#[derive(Debug)]
pub struct Group(PathBuf, File);

/// The kernel counts threads where we count processes. A wall this far out never makes an honest
/// fork fail, and still stops a storm that is faster than the samples.
const THREADS_PER_PROCESS: u32 = 32;

impl Group {
    /// Creates one below the group that was delegated to us; none if there is none.
    pub fn create(session: &str) -> Option<Self> {
        let path = delegated_group()?.join(format!("heartbeat-{session}"));
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
        let tasks = order.max_processes.saturating_mul(THREADS_PER_PROCESS);
        fs::write(self.0.join("pids.max"), tasks.to_string()).ok();
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
