//! The words between heartbeat and a keeper: frames of JSON with their length in front.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::model::{FailureKind, ProcessIdentity};
use crate::session::agent::Exit;
use crate::session::confinement::Confinement;
use crate::session::containment::Tier;

/// No honest frame is longer.
pub const MAX_FRAME: usize = 16 << 20;

/// From heartbeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToKeeper {
    /// The row is committed: start the agent.
    Go(Box<Order>),
    /// Heartbeat is alive.
    Beat(u64),
    /// End it: SIGINT to the agent, SIGTERM after half of the grace, sweep after all of it.
    Stop,
    /// To a namespace's init only: SIGTERM to the agent.
    Terminate,
    /// End it at once.
    Kill,
}

/// What to start, and the bounds that the keeper holds by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The executable.
    pub program: OsString,
    /// Its arguments, without the program.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// File that is its standard input; unlinked once open.
    pub stdin: PathBuf,
    /// In all.
    pub hard_ms: u64,
    /// Between SIGINT and SIGKILL; SIGTERM comes after half of it.
    pub grace_ms: u64,
    /// Longest silence of heartbeat.
    pub lease_ms: u64,
    /// Niceness added.
    pub nice: i32,
    /// Value of the limit that marks the session.
    pub mark: u64,
    /// What the agent may touch; none: whatever this user can.
    pub confinement: Option<Confinement>,
    /// Processes and threads of its user namespace, where it has one.
    pub max_tasks: Option<u64>,
    /// For the control group, where there is one.
    pub max_processes: u32,
    /// For the control group, where there is one.
    pub max_memory: u64,
}

/// From a keeper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromKeeper {
    /// It waits for the word.
    Ready {
        /// Who it is.
        keeper: ProcessIdentity,
        /// What it has built around the agent to come.
        tier: Tier,
        /// The control group, if there is one.
        cgroup: Option<PathBuf>,
        /// A process of its own below it that is no part of the session.
        watcher: Option<u32>,
    },
    /// All session slots of this machine are in use; it leaves.
    NoSlot { in_use: u32 },
    /// The session slots cannot be used; it leaves.
    SlotsFailed { error: String },
    /// The agent runs.
    Started {
        /// Its process id as heartbeat sees it.
        pid: u32,
    },
    /// The agent could not be started.
    NotStarted(StartFailure),
    /// The agent ended.
    Exited(Ending),
    /// The keeper ends it by itself.
    Stopping(OwnReason),
    /// Nothing of it is left.
    Swept {
        /// Processes that the sweep ended.
        killed: u32,
    },
    /// Something cannot be killed; the keeper goes on trying.
    Unkillable {
        /// How many.
        left: u32,
        /// Process ids, states and where they wait.
        detail: String,
    },
    /// Answer to a beat.
    Beat(u64),
}

/// How the agent's process ended, in a form that can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl From<Ending> for Exit {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Code(code) => Self::Code(code),
            Ending::Signal(signal) => Self::Signal(signal),
        }
    }
}

/// Why a keeper ends its agent without being told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnReason {
    /// The hard limit.
    Deadline,
    /// Heartbeat was silent for too long.
    LeaseMissed,
    /// Somebody sent it a signal.
    Signalled,
}

/// Which step of a start failed, and the error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFailure {
    /// The step.
    pub step: StartStep,
    /// As in `errno`.
    pub errno: i32,
}

impl StartFailure {
    /// As the detail of an outcome.
    pub fn kind(self) -> FailureKind {
        match (self.step, self.errno) {
            (StartStep::Program, libc::ENOENT | libc::ENOTDIR) => FailureKind::NotFound,
            (StartStep::Program, libc::EACCES | libc::EPERM) => FailureKind::NotExecutable,
            _ => FailureKind::ExecFailed,
        }
    }
}

impl std::fmt::Display for StartFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {}", self.step, io::Error::from_raw_os_error(self.errno))
    }
}

/// The steps of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartStep {
    /// Opening its standard input.
    Input,
    /// Creating the process.
    Fork,
    /// Entering the working folder.
    Folder,
    /// Confining it.
    Confinement,
    /// Executing the program.
    Program,
}

/// Puts a message into a frame.
pub fn encode<M: Serialize>(message: &M) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Collects bytes and gives back whole messages.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, if there is one.
    pub fn take<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let Some(head) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*head)).map_err(io::Error::other)?;
        if length > MAX_FRAME {
            return Err(io::Error::other("a frame beyond the limit"));
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
