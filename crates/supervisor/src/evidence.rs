//! Proof that a process belongs to a session. Only proven processes are killed.
//!
//! Any process of the same user can copy a mark, so a mark alone proves nothing:
//! - a process that was seen below the keeper, by pid and start time, belongs to the session;
//! - the resource-limit mark counts only if the process is not older than its keeper and, where the
//!   agent was confined, is confined too; the environment mark never counts alone;
//! - in a PID namespace the kernel kills the tree with its keeper, so a mark proves nothing there.
//!
//! Processes with an unproven mark are logged and left alone.

use crate::mark;
use crate::process;
use crate::{ProcessIdentity, SessionId};

/// What a session's row tells about its processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    pub session: SessionId,
    keeper_start: u64,
    in_namespace: bool,
    confined: bool,
}

/// What a mark on a process proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It belongs to the session.
    Proven,
    /// It has a mark that it may have copied.
    Unproven,
}

impl Evidence {
    pub fn new(session: SessionId, keeper: &ProcessIdentity, tier: &str) -> Self {
        Self {
            session,
            keeper_start: keeper.start_time,
            in_namespace: tier.starts_with("pidns"),
            confined: tier.ends_with("+landlock"),
        }
    }

    /// Checks a process; `None` if it has no mark.
    pub fn judge(&self, pid: u32) -> Option<Proof> {
        let limit = process::realtime_limit(pid);
        let by_limit = limit.is_some_and(|values| mark::is_in_limit(values, self.session));
        if !by_limit && !self.is_in_environment(pid) {
            return None;
        }
        let stat = process::stat(pid).filter(|stat| !stat.is_dead())?;
        // Where the limit cannot be read (macOS), the environment mark must suffice.
        let strong = by_limit || cfg!(not(target_os = "linux"));
        let proven = strong
            && !self.in_namespace
            && stat.start_time >= self.keeper_start
            && (!self.confined || process::is_confined(pid));
        Some(if proven { Proof::Proven } else { Proof::Unproven })
    }

    fn is_in_environment(&self, pid: u32) -> bool {
        process::environment(pid)
            .is_some_and(|environment| mark::is_in_environment(&environment, self.session))
    }
}

/// Logs the processes that were left alone.
pub fn warn_of_unproven(pids: &[u32]) {
    if !pids.is_empty() {
        tracing::warn!(
            ?pids,
            "found processes with a session's marker but no proof that they belong to it; they were not killed"
        );
    }
}
