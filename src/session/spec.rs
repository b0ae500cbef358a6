//! What goes into a session: its program, its bounds, and an environment without doors to other
//! services.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::agent::Task;
use super::confinement::Confinement;
use super::keeper::protocol::Order;
use super::mark;
use super::supervisor::milliseconds;
use crate::model::{SessionId, SessionRef, Usd};
use crate::settings::Price;

/// Everything needed to start one session. The environment is complete: nothing is inherited.
#[derive(Debug, Clone)]
pub struct SessionSpec {
    /// Which session.
    pub session: SessionRef,
    /// What the agent is asked to do.
    pub task: Box<Task>,
    /// The executable, resolved.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Written to its standard input, which is then closed.
    pub stdin: Vec<u8>,
    /// A private folder for HOME and temporary files, made before and removed after.
    pub scratch: PathBuf,
    /// What it may touch; none: whatever this user can.
    pub confinement: Option<Confinement>,
    /// Its bounds.
    pub limits: SessionLimits,
    /// What its model costs, to estimate with where the agent reports no cost.
    pub price: Option<Price>,
    /// The most it may cost, for those who watch it.
    pub worst_case: Usd,
}

impl SessionSpec {
    /// What the keeper is told to start, and the bounds it holds by itself.
    pub(super) fn order(&self, lease: Duration) -> Order {
        Order {
            program: self.program.clone().into_os_string(),
            args: self.args.clone(),
            env: scrub(&self.env, self.session.id),
            cwd: self.cwd.clone(),
            stdin: stdin_file(&self.scratch),
            hard_ms: milliseconds(self.limits.hard),
            grace_ms: milliseconds(self.limits.grace),
            lease_ms: milliseconds(lease),
            nice: self.limits.nice,
            mark: mark::limit(self.session.id),
            confinement: self.confinement.clone(),
            max_tasks: None,
            max_processes: self.limits.max_processes,
            max_memory: self.limits.max_memory,
        }
    }
}

/// The file in the private folder that becomes the agent's standard input.
pub(super) fn stdin_file(scratch: &Path) -> PathBuf {
    scratch.join(".prompt")
}

/// The bounds of one session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionLimits {
    /// Until the first decoded line.
    pub init: Duration,
    /// In all; the keeper holds it too.
    pub hard: Duration,
    /// Without progress, with idle tools and no new process.
    pub stall: Duration,
    /// Between SIGINT and SIGKILL; SIGTERM comes after half of it.
    pub grace: Duration,
    /// Between the result line and the sweep.
    pub drain: Duration,
    /// Between two signs of life.
    pub liveness: Duration,
    /// Live processes in the tree.
    pub max_processes: u32,
    /// Resident memory of the tree, in bytes.
    pub max_memory: u64,
    /// Longest line of output, in bytes.
    pub max_line: usize,
    /// Distinct files the agent may read before it is ended; none: no limit.
    pub max_reads: Option<u32>,
    /// Turns of the model; none: no limit.
    pub max_turns: Option<u32>,
    /// Tool calls; none: no limit.
    pub max_tool_calls: Option<u32>,
    /// Niceness added; 0 leaves it.
    pub nice: i32,
}

/// Variables by which work could be handed to a service outside of the tree, where no sweep
/// reaches: service managers, container engines, terminal multiplexers, message buses, agents of
/// other logins.
const DOORS: [&str; 22] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "MANAGERPID",
    "SYSTEMD_EXEC_PID",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "TMUX",
    "TMUX_PANE",
    "TMUX_TMPDIR",
    "STY",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_CONNECTION",
];

/// What the agent gets: the given environment without the doors, with the session's mark.
fn scrub(given: &[(OsString, OsString)], session: SessionId) -> Vec<(OsString, OsString)> {
    let is_door = |name: &OsStr| {
        name == OsStr::new(mark::VARIABLE) || DOORS.iter().any(|door| name == OsStr::new(door))
    };
    let mut kept: Vec<_> = given.iter().filter(|(name, _)| !is_door(name)).cloned().collect();
    kept.push((mark::VARIABLE.into(), session.to_string().into()));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_are_closed_and_the_mark_is_ours() {
        let session = SessionId(uuid::Uuid::from_u128(5));
        let given = [("PATH", "/bin"), ("TMUX", "x"), ("HEARTBEAT_SESSION", "forged")]
            .map(|(name, value)| (name.into(), value.into()));
        let kept = scrub(&given, session);
        let expected = [("PATH", "/bin"), (mark::VARIABLE, &session.to_string())]
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        assert_eq!(kept, expected);
    }
}
