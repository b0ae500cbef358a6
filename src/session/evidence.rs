//! Which processes are proven to belong to a session. Only those are ever killed.
//!
//! A mark can be copied by any process of the same user, so it proves nothing by itself:
//! - a process that was seen below the keeper, by number and start time, is the session's;
//! - the limit's mark counts only if the process is not older than its keeper and, where the agent
//!   was confined, is confined too; the variable's mark never counts alone;
//! - in a PID namespace the kernel ends the tree with its keeper: there a mark proves nothing.
//!
//! What carries a mark without proof is named in the log and left alone.

use crate::model::SessionId;
use crate::ports::LedgerRow;
use crate::process;
use crate::session::mark;

/// What a session's row says about its processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Which session.
    pub session: SessionId,
    keeper_start: u64,
    in_namespace: bool,
    confined: bool,
}

/// What a mark on a process means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It belongs to the session.
    Proven,
    /// It carries a mark that it may have copied.
    Unproven,
}

impl Evidence {
    /// From a session's row.
    pub fn of(row: &LedgerRow) -> Self {
        Self {
            session: row.session.id,
            keeper_start: row.keeper.start_time,
            in_namespace: row.tier.starts_with("pidns"),
            confined: row.tier.ends_with("+landlock"),
        }
    }

    /// Does a process belong to the session? None: it carries no mark.
    pub fn judge(&self, pid: u32) -> Option<Proof> {
        let limit = process::realtime_limit(pid);
        let by_limit = limit.is_some_and(|values| mark::is_in_limit(values, self.session));
        if !by_limit && !self.is_in_environment(pid) {
            return None;
        }
        let stat = process::stat(pid).filter(|stat| !stat.is_dead())?;
        // Without limits that show a mark (macOS) the variable is all there is.
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

/// Says which processes were left alone.
pub fn warn_of_unproven(pids: &[u32]) {
    if !pids.is_empty() {
        tracing::warn!(
            ?pids,
            "these processes carry a session's mark without proof that they belong to it; they were \
             left alone"
        );
    }
}
