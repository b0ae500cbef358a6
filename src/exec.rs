//! Short helper commands (git, a token command): bounded in time and output, never an agent.
//!
//! A helper gets exactly the environment it is given, nothing to read, and a process group of its
//! own, which is killed when its leader ends, when its time is over, and when nobody waits for it
//! any more. The group is signalled only while its leader is not yet reaped, so its number cannot
//! have passed to a stranger.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use crate::model::Foreign;

/// A command to run. `Debug` shows neither arguments nor values of variables.
#[derive(Clone)]
pub struct HelperCommand {
    /// A path, or a name to look up in the `PATH` of `env`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// After this it is killed.
    pub timeout: Duration,
    /// More bytes than this on standard output are an error; standard error is cut there.
    pub max_output: usize,
}

impl fmt::Debug for HelperCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperCommand").field("program", &self.program).finish_non_exhaustive()
    }
}

/// What a helper left behind. `Debug` does not show its output, which may be a secret.
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Foreign,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("status", &self.status)
            .field("stdout_bytes", &self.stdout.len())
            .field("stderr", &self.stderr)
            .finish()
    }
}

impl Output {
    /// Standard output if the command says that it went well.
    pub fn success(self, program: &HelperCommand) -> Result<Vec<u8>, ExecError> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        Err(ExecError::Failed {
            program: program.name(),
            status: self.status.to_string(),
            stderr: self.stderr,
        })
    }
}

/// Why a helper gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It could not be started.
    #[error("cannot start `{program}`: {source}")]
    Spawn {
        /// Its name.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It took too long and was killed.
    #[error("`{program}` did not finish within {timeout:?} and was killed")]
    TimedOut {
        /// Its name.
        program: String,
        /// How long it had.
        timeout: Duration,
    },
    /// It wrote too much and was killed.
    #[error("`{program}` wrote more than {limit} bytes and was killed")]
    TooMuchOutput {
        /// Its name.
        program: String,
        /// How much it may write.
        limit: usize,
    },
    /// Its output could not be read, or it could not be waited for.
    #[error("lost control of `{program}`: {source}")]
    Lost {
        /// Its name.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It ran and said that it failed.
    #[error("`{program}` failed ({status}): {}", said(.stderr))]
    Failed {
        /// Its name.
        program: String,
        /// How it ended.
        status: String,
        /// What it said.
        stderr: Foreign,
    },
}

/// The end of what it said, in one line.
fn said(stderr: &Foreign) -> String {
    const LONGEST: usize = 400;
    if stderr.is_empty() { "no output".to_owned() } else { stderr.end(LONGEST) }
}

impl HelperCommand {
    fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    fn lost(&self, source: std::io::Error) -> ExecError {
        ExecError::Lost { program: self.name(), source }
    }
}

/// How long a killed helper is waited for; only a process stuck in the kernel takes longer.
const REAP_WAIT: Duration = Duration::from_secs(5);

/// How long output is read after the leader's end, in case somebody out of reach holds the pipe.
const DRAIN: Duration = Duration::from_secs(1);

/// Runs a helper to its end. Dropping the future kills it.
pub async fn run(command: &HelperCommand) -> Result<Output, ExecError> {
    let mut helper = Helper::spawn(command)?;
    let ended = tokio::time::timeout(command.timeout, helper.follow(command)).await;
    helper.kill_group();
    let status = match tokio::time::timeout(REAP_WAIT, helper.child.wait()).await {
        Ok(status) => {
            helper.reaped = true;
            status.map_err(|source| command.lost(source))
        }
        Err(elapsed) => Err(command.lost(elapsed.into())),
    };
    let timed_out = |_| ExecError::TimedOut { program: command.name(), timeout: command.timeout };
    let (stdout, stderr) = ended.map_err(timed_out)??;
    Ok(Output { status: status?, stdout, stderr: Foreign::from_bytes(&stderr) })
}

/// The process ids of the helpers alive now, for whoever reaps strays.
///
/// List the children first and take this snapshot second: a helper is in it from before anybody
/// can see its process until after it is reaped.
pub fn helpers() -> BTreeSet<u32> {
    registry().clone()
}

/// A helper that is started without the runtime, known for as long as this is kept.
#[derive(Debug)]
pub struct Known(u32);

impl Drop for Known {
    fn drop(&mut self) {
        registry().remove(&self.0);
    }
}

/// Starts a prepared command for a blocking caller, who bounds, ends and reaps it.
pub fn spawn_known(
    command: &mut std::process::Command,
) -> std::io::Result<(std::process::Child, Known)> {
    // Held over the spawn, so that nobody sees the child before it is registered.
    let mut registry = registry();
    let child = command.spawn()?;
    registry.insert(child.id());
    let known = Known(child.id());
    Ok((child, known))
}

/// Starts a program of the desktop, which may outlive us, with one argument.
#[expect(clippy::disallowed_methods, reason = "the other place where processes start")]
pub fn start_detached(program: &str, argument: &std::path::Path) -> std::io::Result<()> {
    let mut command = std::process::Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn().map(drop)
}

static HELPERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn registry() -> MutexGuard<'static, BTreeSet<u32>> {
    // A set of numbers is whole whatever happened to the thread that held it.
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A live helper: registered, and killed with its group when it is dropped.
struct Helper {
    child: Child,
    pid: u32,
    reaped: bool,
}

impl Helper {
    #[expect(clippy::disallowed_methods, reason = "this is the module that starts helpers")]
    fn spawn(command: &HelperCommand) -> Result<Self, ExecError> {
        let mut prepared = Command::new(&command.program);
        prepared
            .args(&command.args)
            .current_dir(&command.cwd)
            .env_clear()
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        // Held over the spawn, so that nobody sees the child before it is registered.
        let mut registry = registry();
        let child = prepared
            .spawn()
            .map_err(|source| ExecError::Spawn { program: command.name(), source })?;
        let pid = child.id().unwrap_or_default();
        registry.insert(pid);
        Ok(Self { child, pid, reaped: false })
    }

    /// Reads until the leader has ended and its output is read, where possible without reaping it.
    async fn follow(&mut self, command: &HelperCommand) -> Result<(Vec<u8>, Vec<u8>), ExecError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        {
            let mut read = std::pin::pin!(async {
                tokio::try_join!(
                    read_up_to(out, &mut stdout, AtLimit::Fail, command),
                    read_up_to(err, &mut stderr, AtLimit::Discard, command),
                )
            });
            let whole = tokio::select! {
                whole = &mut read => Some(whole?),
                ended = self.leader_end() => {
                    ended.map_err(|source| command.lost(source))?;
                    None
                }
            };
            if whole.is_some() {
                self.leader_end().await.map_err(|source| command.lost(source))?;
            } else {
                // Whoever is left in the group would hold the pipes open; this closes them.
                self.kill_group();
                if let Ok(rest) = tokio::time::timeout(DRAIN, read).await {
                    rest?;
                }
            }
        }
        Ok((stdout, stderr))
    }

    /// Returns when the leader has ended, and leaves it to be reaped: until then its number, and
    /// that of its group, belong to nobody else.
    #[cfg(target_os = "linux")]
    async fn leader_end(&mut self) -> std::io::Result<()> {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        use tokio::signal::unix::{SignalKind, signal};

        // Listened for before the first look, so that no end is missed in between.
        let mut child_signals = signal(SignalKind::child())?;
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
        loop {
            match waitid(Id::Pid(group_of(self.pid)), flags) {
                Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            child_signals.recv().await;
        }
    }

    /// Elsewhere the end is only known by reaping; then the group is left alone.
    #[cfg(not(target_os = "linux"))]
    async fn leader_end(&mut self) -> std::io::Result<()> {
        self.child.wait().await?;
        self.reaped = true;
        Ok(())
    }

    fn kill_group(&self) {
        if !self.reaped {
            // It fails if the group has ended by itself, which is what is wanted.
            killpg(group_of(self.pid), Signal::SIGKILL).ok();
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.kill_group();
        registry().remove(&self.pid);
    }
}

fn group_of(pid: u32) -> Pid {
    // Process ids are positive and small; were one not, the largest names no group.
    Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX))
}

/// What happens to output beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtLimit {
    Fail,
    Discard,
}

async fn read_up_to(
    pipe: Option<impl AsyncRead + Unpin>,
    kept: &mut Vec<u8>,
    at_limit: AtLimit,
    command: &HelperCommand,
) -> Result<(), ExecError> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    // On the heap: two of them in the future would make it large.
    let mut buffer = vec![0_u8; 8192];
    loop {
        let count = pipe.read(&mut buffer).await.map_err(|source| command.lost(source))?;
        if count == 0 {
            return Ok(());
        }
        let room = command.max_output - kept.len();
        if count > room && at_limit == AtLimit::Fail {
            let limit = command.max_output;
            return Err(ExecError::TooMuchOutput { program: command.name(), limit });
        }
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
}
