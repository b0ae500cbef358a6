//! What a session needs: program, environment, limits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::agent::Task;
use super::confinement::Confinement;
use super::keeper::launch::agent_environment;
use super::keeper::protocol::Order;
use super::mark;
use super::sessions::Examiner;
use crate::gateway::Gateway;
use crate::model::{SessionRef, Usd, milliseconds};
use crate::settings::Price;

/// Everything needed to start one session. The environment is complete: nothing is inherited.
#[derive(Debug, Clone)]
pub struct SessionSpec {
    pub session: SessionRef,
    pub task: Box<Task>,
    /// Resolved path of the executable.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    /// Written to standard input, which is then closed.
    pub stdin: Vec<u8>,
    /// The session's private folder, created before and removed after it. The agent may write only
    /// its own folder inside, that of its task, which is a new one for every start.
    pub scratch: PathBuf,
    /// What it may access; `None`: whatever this user can.
    pub confinement: Option<Confinement>,
    pub limits: SessionLimits,
    /// The way to the provider; `None`: the agent connects itself. Open as long as this exists.
    pub gateway: Option<Arc<Gateway>>,
    /// The model's price, for an estimate if the agent reports no cost.
    pub price: Option<Price>,
    /// Upper bound of the cost, for display.
    pub worst_case: Usd,
    /// Looks at the answer before the session ends.
    pub examiner: Option<Arc<dyn Examiner>>,
}

impl SessionSpec {
    /// The name of the file in the private folder that becomes standard input.
    pub(super) fn stdin_name(&self) -> PathBuf {
        format!(".prompt-{}", self.task.session).into()
    }

    /// What the keeper has to start, and the limits that it enforces itself.
    pub(super) fn order(&self, lease: Duration) -> Order {
        let (limits, session) = (&self.limits, self.session.id);
        Order {
            program: self.program.clone().into_os_string(),
            args: self.args.clone(),
            env: agent_environment(&self.env, session.0),
            cwd: self.cwd.clone(),
            stdin: self.scratch.join(self.stdin_name()),
            hard_ms: milliseconds(limits.hard),
            grace_ms: milliseconds(limits.grace),
            lease_ms: milliseconds(lease),
            nice: limits.nice,
            mark: mark::limit(session.0),
            confinement: self.confinement.clone(),
            max_tasks: None,
            max_processes: limits.max_processes,
            max_memory: limits.max_memory,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionLimits {
    /// Time until the first decoded line.
    pub init: Duration,
    /// Total time; the keeper enforces it too.
    pub hard: Duration,
    /// Time without progress, with idle tools and no new process.
    pub stall: Duration,
    /// Between SIGINT and SIGKILL; SIGTERM follows after half of it.
    pub grace: Duration,
    /// Between the result line and the sweep.
    pub drain: Duration,
    /// Interval of liveness events.
    pub liveness: Duration,
    /// Live processes in the tree.
    pub max_processes: u32,
    /// Resident memory of the tree, in bytes.
    pub max_memory: u64,
    /// Longest line of output, in bytes.
    pub max_line: usize,
    /// Distinct files the agent may read; `None`: no limit.
    pub max_reads: Option<u32>,
    /// Turns of the model; `None`: no limit.
    pub max_turns: Option<u32>,
    /// `None`: no limit.
    pub max_tool_calls: Option<u32>,
    /// Added to the niceness; 0 changes nothing.
    pub nice: i32,
}
