//! Which process a number meant.

use serde::{Deserialize, Serialize};

/// Which process, for ever: a number alone is never enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot, from `/proc/PID/stat`.
    pub start_time: u64,
    /// Inode of its pidfd (Linux 6.9 and later); exact where it is known.
    pub pidfd_inode: Option<u64>,
    /// The boot it lives in.
    pub boot_id: String,
}
