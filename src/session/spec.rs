//! What goes into a session: its program, its environment, its bounds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::agent::Task;
use super::confinement::Confinement;
use crate::model::{SessionRef, Usd};
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
