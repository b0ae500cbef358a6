//! Identity of a process.

use serde::{Deserialize, Serialize};

/// Identifies a process permanently: a pid alone can be reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// Start time in clock ticks since boot, from `/proc/PID/stat`.
    pub start_time: u64,
    /// Inode of its pidfd (Linux 6.9 and later); unambiguous where present.
    pub pidfd_inode: Option<u64>,
    /// The boot in which it runs.
    pub boot_id: String,
}
