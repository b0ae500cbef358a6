//! Messages between heartbeat and a keeper: JSON frames with a length prefix.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::ProcessIdentity;
use crate::confinement::Confinement;
use crate::containment::Tier;
use crate::in_force::Walls;

/// Longer frames are rejected.
pub const MAX_FRAME: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToKeeper {
    /// The row is committed: start the agent.
    Go(Box<Order>),
    /// Renews the lease.
    Beat(u64),
    /// Ends the session: SIGINT to the agent, SIGTERM after half of the grace period, sweep after
    /// all of it.
    Stop,
    /// To a namespace's init only: SIGTERM to the agent.
    Terminate,
    /// To a namespace's init only: the keeper knows the agent's pid, so that an agent that ended
    /// already may be collected.
    Noted,
    /// Ends the session without a grace period.
    Kill,
}

/// What to start, and the limits that the keeper enforces itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub program: OsString,
    /// Its arguments, without the program.
    pub args: Vec<OsString>,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    /// Becomes standard input; unlinked once open.
    pub stdin: PathBuf,
    /// Hard limit of the session.
    pub hard_ms: u64,
    /// Between SIGINT and SIGKILL; SIGTERM follows after half of it.
    pub grace_ms: u64,
    /// Longest silence of heartbeat.
    pub lease_ms: u64,
    /// Added to the niceness.
    pub nice: i32,
    /// Value of the resource limit that marks the session.
    pub mark: u64,
    /// What the agent may access; `None`: whatever this user can.
    pub confinement: Option<Confinement>,
    /// Limit of processes and threads in its user namespace, if it has one.
    pub max_tasks: Option<u64>,
    /// For the control group, if there is one.
    pub max_processes: u32,
    /// In bytes, for the control group, if there is one.
    pub max_memory: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromKeeper {
    /// It waits for `Go`.
    Ready {
        keeper: ProcessIdentity,
        /// The containment it has set up.
        tier: Tier,
        walls: Walls,
        /// The control group, if there is one.
        cgroup: Option<PathBuf>,
        /// A process below it that does not belong to the session.
        watcher: Option<u32>,
    },
    /// All session slots of this machine are in use; it exits.
    NoSlot {
        in_use: u32,
    },
    /// The session slots cannot be used; it exits.
    SlotsFailed {
        error: String,
    },
    /// The agent runs; its pid is as heartbeat sees it.
    Started {
        pid: u32,
    },
    /// The agent could not be started.
    NotStarted(StartFailure),
    Exited(Exit),
    /// The keeper ends the session on its own.
    Stopping(OwnReason),
    /// No process is left.
    Swept {
        /// Processes killed by the sweep.
        killed: u32,
    },
    /// A process cannot be killed; the keeper keeps trying.
    Unkillable {
        left: u32,
        /// Process ids, states and where they wait.
        detail: String,
    },
    /// Acknowledges a lease renewal.
    Beat(u64),
}

/// How the agent's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

/// Why a keeper ends its agent on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnReason {
    /// The hard limit.
    Deadline,
    /// Heartbeat was silent for longer than the lease.
    LeaseMissed,
    /// The keeper received a signal.
    Signalled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFailure {
    pub step: StartStep,
    pub errno: i32,
}

impl std::fmt::Display for StartFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.step == StartStep::NotInForce {
            return f.write_str(
                "the kernel accepted the confinement of the agent but does not enforce it; run \
                 `heartbeat selftest`",
            );
        }
        write!(f, "{:?}: {}", self.step, io::Error::from_raw_os_error(self.errno))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartStep {
    /// Opening its standard input.
    Input,
    Fork,
    /// Entering the working directory.
    Folder,
    Confinement,
    /// The confinement was applied, but is not in force.
    NotInForce,
    Program,
}

/// Encodes a message as a frame.
pub fn encode<M: Serialize>(message: &M) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Collects bytes and returns complete messages.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete message, if there is one.
    pub fn take<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let Some(head) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*head)).map_err(io::Error::other)?;
        if length > MAX_FRAME {
            return Err(io::Error::other("the frame exceeds the size limit"));
        }
        let end = 4 + length;
        let Some(body) = self.bytes.get(4..end) else { return Ok(None) };
        let message = serde_json::from_slice(body)?;
        self.bytes.drain(..end);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_any_cut() {
        let mut wire = encode(&ToKeeper::Beat(7)).unwrap();
        wire.extend(encode(&ToKeeper::Stop).unwrap());
        for cut in 0..wire.len() {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for part in [&wire[..cut], &wire[cut..]] {
                frames.push(part);
                while let Some(message) = frames.take::<ToKeeper>().unwrap() {
                    seen.push(message);
                }
            }
            assert_eq!(seen, [ToKeeper::Beat(7), ToKeeper::Stop]);
        }
    }

    #[test]
    fn a_huge_length_is_refused_before_it_is_believed() {
        let mut frames = Frames::default();
        frames.push(&[0xff; 8]);
        assert!(frames.take::<ToKeeper>().is_err());
    }
}
