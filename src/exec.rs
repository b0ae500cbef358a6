//! Short helper commands (git, a token command), bounded in time and output. Agents are not started
//! here.
//!
//! A helper gets exactly the given environment, empty standard input, and its own process group.
//! The group is killed when its leader exits, when the time is over, and when the future is
//! dropped. It is signalled only before its leader is reaped, so the number cannot have been
//! reused.

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

use crate::model::Untrusted;

/// A command to run. `Debug` hides arguments and values of variables.
#[derive(Clone)]
pub struct HelperCommand {
    /// A path, or a name to look up in the `PATH` of `env`.
    pub program: OsString,
    pub args: Vec<OsString>,
    pub cwd: PathBuf,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// The command is killed after this time.
    pub timeout: Duration,
    /// More bytes on standard output are an error; standard error is truncated.
    pub max_output: usize,
}

impl fmt::Debug for HelperCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperCommand").field("program", &self.program).finish_non_exhaustive()
    }
}

/// `Debug` hides the output, which may be a secret.
pub struct Output {
    pub status: ExitStatus,
    /// Complete.
    pub stdout: Vec<u8>,
    /// Truncated at the limit.
    pub stderr: Untrusted,
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
    /// Standard output if the command succeeded.
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

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("cannot start `{program}`: {source}")]
    Spawn { program: String, source: std::io::Error },
    #[error("`{program}` did not finish within {timeout:?} and was killed")]
    TimedOut { program: String, timeout: Duration },
    #[error("`{program}` wrote more than {limit} bytes and was killed")]
    TooMuchOutput {
        program: String,
        /// In bytes.
        limit: usize,
    },
    /// Its output could not be read, or waiting for it failed.
    #[error("cannot read the output of `{program}` or wait for its end: {source}")]
    Lost { program: String, source: std::io::Error },
    /// It exited with a failure.
    #[error("`{program}` failed ({status}): {}", stderr_text(.stderr))]
    Failed { program: String, status: String, stderr: Untrusted },
}

/// The end of standard error, in one line.
fn stderr_text(stderr: &Untrusted) -> String {
    const MAX_LEN: usize = 400;
    if stderr.is_empty() { "no output".to_owned() } else { stderr.tail_line(MAX_LEN) }
}

impl HelperCommand {
    fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    fn lost(&self, source: std::io::Error) -> ExecError {
        ExecError::Lost { program: self.name(), source }
    }
}

/// How long to wait for a killed helper; only a process stuck in the kernel takes longer.
const REAP_WAIT: Duration = Duration::from_secs(5);

/// How long to read output after the leader exited, in case another process holds the pipe open.
const DRAIN: Duration = Duration::from_secs(1);

/// Runs a helper until it exits. Dropping the future kills it.
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
    Ok(Output { status: status?, stdout, stderr: Untrusted::from_bytes(&stderr) })
}

/// The pids of the helpers alive now, so that the reaper of strays can skip them.
///
/// List the children first and call this second: a helper is registered from before its process is
/// visible until after it is reaped.
pub fn helpers() -> BTreeSet<u32> {
    let mut all = registry().clone();
    // The ranking reads histories with processes of its own.
    all.extend(code_context::git_processes());
    all
}

/// Starts a desktop program, which may outlive heartbeat, with one argument.
#[expect(clippy::disallowed_methods, reason = "the other place where processes start")]
pub fn start_detached(program: &str, argument: &std::path::Path) -> std::io::Result<()> {
    let mut command = std::process::Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn().map(drop)
}

static HELPERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn registry() -> MutexGuard<'static, BTreeSet<u32>> {
    // A set of pids stays valid if the thread that held the lock panicked.
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running helper: registered; dropped, it kills its group.
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
        // Held during the spawn, so that the child is never visible before it is registered.
        let mut registry = registry();
        let child = prepared
            .spawn()
            .map_err(|source| ExecError::Spawn { program: command.name(), source })?;
        let pid = child.id().unwrap_or_default();
        registry.insert(pid);
        Ok(Self { child, pid, reaped: false })
    }

    /// Reads until the leader has exited and its output is read, where possible without reaping it.
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
                // Processes left in the group would hold the pipes open.
                self.kill_group();
                if let Ok(rest) = tokio::time::timeout(DRAIN, read).await {
                    rest?;
                }
            }
        }
        Ok((stdout, stderr))
    }

    /// Returns when the leader has exited, without reaping it: until then its pid and process group
    /// cannot be reused.
    #[cfg(target_os = "linux")]
    async fn leader_end(&mut self) -> std::io::Result<()> {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        use tokio::signal::unix::{SignalKind, signal};

        // Subscribed before the first check, so that no exit is missed in between.
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

    /// On other systems only reaping detects the exit; the group is then not killed.
    #[cfg(not(target_os = "linux"))]
    async fn leader_end(&mut self) -> std::io::Result<()> {
        self.child.wait().await?;
        self.reaped = true;
        Ok(())
    }

    fn kill_group(&self) {
        if !self.reaped {
            // Fails if the group has already ended, which is fine.
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
    // Pids fit into i32; if one did not, i32::MAX names no group.
    Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX))
}

/// What to do with output beyond the limit.
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
    // On the heap: two of these would make the future large.
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
