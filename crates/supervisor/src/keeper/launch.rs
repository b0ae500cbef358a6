//! Heartbeat's side of a keeper: starts it and exchanges messages.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdout};

use super::ARGUMENT;
use super::protocol::{Frames, FromKeeper, ToKeeper, encode};
use crate::children::{self, Registration};
use crate::containment::Tier;
use crate::in_force::Walls;
use crate::mark;
use crate::process;
use crate::process::system::Pidfd;
use crate::slots::Slots;
use crate::{Containment, ProcessIdentity, SessionId};

/// Argument for the strongest containment the machine allows.
pub const STRONGEST: &str = "auto";
/// Argument for no namespaces and no control groups.
pub const SUBREAPER: &str = "subreaper";

/// Time limit for the keeper's `Ready` message.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A keeper that is ready to start its agent.
#[derive(Debug)]
pub struct Keeper {
    /// As the keeper reported it.
    pub identity: ProcessIdentity,
    pub tier: Tier,
    pub walls: Walls,
    pub cgroup: Option<std::path::PathBuf>,
    /// A process below it that does not belong to the session.
    pub watcher: Option<u32>,
    pub to: Sender,
    pub from: Receiver,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
    pub process: KeeperProcess,
}

/// The keeper as our child process.
#[derive(Debug)]
pub struct KeeperProcess {
    child: Child,
    // Dropped after the child.
    _registration: Registration,
}

impl KeeperProcess {
    pub async fn wait(&mut self) -> io::Result<std::process::ExitStatus> {
        self.child.wait().await
    }

    /// It is our child and not reaped yet, so the pid is still its own.
    pub fn kill(&mut self) {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            let pid = nix::unistd::Pid::from_raw(pid);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
        }
    }

    /// Sends SIGCONT, in case it was stopped.
    pub fn wake(&self) {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            let pid = nix::unistd::Pid::from_raw(pid);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).ok();
        }
    }
}

#[derive(Debug)]
pub struct Sender(OwnedWriteHalf);

impl Sender {
    /// Errors are ignored: the receiver detects a keeper that is gone.
    pub async fn send(&mut self, message: &ToKeeper) {
        send(&mut self.0, message).await;
    }
}

async fn send<M: Serialize>(to: &mut OwnedWriteHalf, message: &M) {
    let Ok(frame) = encode(message) else { return };
    // A stopped keeper with a full buffer must not block its session.
    tokio::time::timeout(Duration::from_secs(5), to.write_all(&frame)).await.ok();
}

#[derive(Debug)]
pub struct Receiver {
    half: OwnedReadHalf,
    frames: Frames,
}

impl Receiver {
    /// `None` when the keeper is gone. Cancel-safe.
    pub async fn next(&mut self) -> Option<FromKeeper> {
        next(&mut self.half, &mut self.frames).await
    }
}

async fn next<M: DeserializeOwned>(half: &mut OwnedReadHalf, frames: &mut Frames) -> Option<M> {
    loop {
        if let Some(message) = frames.take().ok()? {
            return Some(message);
        }
        let mut chunk = [0; 512];
        match half.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => frames.push(&chunk[..read]),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("all session slots of this machine are in use ({in_use})")]
    NoSlot { in_use: u32 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The program that keepers run: that of this process. On Linux it is named by the kernel's own link,
/// because an upgrade replaces the file while a service runs: then the name leads nowhere, or to another
/// version that may not understand this one's messages.
pub fn own_program() -> io::Result<PathBuf> {
    match cfg!(target_os = "linux") {
        true => Ok("/proc/self/exe".into()),
        false => std::env::current_exe(),
    }
}

/// Starts a keeper, in a slot if there are slots, and waits until it is ready.
pub async fn launch(
    program: &Path,
    session: SessionId,
    containment: Containment,
    slots: Option<&Slots>,
) -> Result<Keeper, LaunchError> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let (half, to) = UnixStream::from_std(ours)?.into_split();
    let (mut child, registration) = start(program, session, containment, slots, theirs.into())?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("the keeper has no pipes").into());
    };
    let process = KeeperProcess { child, _registration: registration };
    let mut from = Receiver { half, frames: Frames::default() };
    match tokio::time::timeout(READY_WITHIN, from.next()).await {
        Ok(Some(FromKeeper::Ready { keeper, tier, walls, cgroup, watcher })) => Ok(Keeper {
            identity: keeper,
            tier,
            walls,
            cgroup,
            watcher,
            to: Sender(to),
            from,
            stdout,
            stderr,
            process,
        }),
        Ok(Some(FromKeeper::NoSlot { in_use })) => Err(LaunchError::NoSlot { in_use }),
        Ok(Some(FromKeeper::SlotsFailed { error })) => Err(io::Error::other(error).into()),
        // Dropping our end of the socket makes it exit, if it exists.
        Ok(_) => Err(io::Error::other("the keeper exited before it was ready").into()),
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the module that starts keepers")]
fn start(
    program: &Path,
    session: SessionId,
    containment: Containment,
    slots: Option<&Slots>,
    control: OwnedFd,
) -> io::Result<(Child, Registration)> {
    let owner = std::process::id();
    let owner_start = process::stat(owner).map_or(0, |stat| stat.start_time);
    let mut command = tokio::process::Command::new(program);
    command
        .arg0("heartbeat")
        .arg(ARGUMENT)
        .arg(session.to_string())
        .arg(match containment {
            Containment::Auto | Containment::Strict => STRONGEST,
            Containment::Subreaper => SUBREAPER,
        })
        .arg(owner.to_string())
        .arg(owner_start.to_string())
        .args(slots.map(Slots::to_arguments).into_iter().flatten())
        .env_clear()
        .env(mark::VARIABLE, session.to_string())
        .current_dir("/")
        .stdin(Stdio::from(control))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Closing the socket ends it with its tree; a kill would orphan the tree.
        .kill_on_drop(false);
    children::start_registered(&mut command)
}

/// Opens a handle on a session's keeper; `None` if it is gone, even if the pid was reused.
///
/// Its command line must name the session too: on kernels without exact process handles a pid and a
/// start time can coincide within one clock tick.
pub fn open_keeper(identity: &ProcessIdentity, session: SessionId) -> Option<Pidfd> {
    let pidfd = process::open_verified(identity)?;
    let line = process::command_line(identity.pid);
    let at = line.iter().position(|part| part == ARGUMENT)?;
    (line.get(at + 1)? == &session.to_string()).then_some(pidfd)
}

/// Whether the heartbeat process that started this keeper is alive.
pub fn owner_is_alive(keeper_pid: u32) -> bool {
    let line = process::command_line(keeper_pid);
    let Some(at) = line.iter().position(|part| part == ARGUMENT) else { return false };
    let number = |index: usize| line.get(at + index).and_then(|part| part.parse::<u64>().ok());
    let (Some(owner), Some(start)) = (number(3), number(4)) else { return false };
    u32::try_from(owner)
        .ok()
        .and_then(process::stat)
        .is_some_and(|stat| stat.start_time == start && !stat.is_dead())
}

/// Variables that give access to a service outside the tree, which a sweep does not reach: service
/// managers, container engines, terminal multiplexers, message buses, login agents.
const ESCAPE_VARIABLES: [&str; 22] = [
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

/// The agent's environment: the given one without `ESCAPE_VARIABLES`, with the session's mark.
pub fn agent_environment(
    given: &[(OsString, OsString)],
    session: SessionId,
) -> Vec<(OsString, OsString)> {
    let is_door = |name: &OsStr| {
        name == OsStr::new(mark::VARIABLE)
            || ESCAPE_VARIABLES.iter().any(|variable| name == OsStr::new(variable))
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
        let session = uuid::Uuid::from_u128(5);
        let given = [("PATH", "/bin"), ("TMUX", "x"), ("HEARTBEAT_SESSION", "forged")]
            .map(|(name, value)| (name.into(), value.into()));
        let kept = agent_environment(&given, session);
        let expected = [("PATH", "/bin"), (mark::VARIABLE, &session.to_string())]
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        assert_eq!(kept, expected);
    }
}
