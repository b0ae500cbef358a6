//! The only place that starts `git`: to read history, and for the work tree of a backtest.
//!
//! The repository is not trusted. Its configuration could name programs to run, so every such
//! setting is overridden, lazy fetching is off, no protocol is allowed, and neither the user's nor
//! the system's configuration is read. Time and output are bounded; git is killed when it exceeds
//! them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

pub(crate) mod history;
pub(crate) mod objects;
pub use objects::Objects;
pub mod tree;

/// Limits of a git process.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Time after which it is killed.
    pub time: Duration,
    /// Bytes of output; git is killed when it writes more.
    pub output: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("cannot run git: {0}")]
    Io(#[from] std::io::Error),
    #[error("git failed")]
    Failed,
    #[error("git timed out")]
    TimedOut,
}

/// Settings that could start a program or use the network, each disabled.
const HARMLESS: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.sshCommand=false",
    "credential.helper=",
    "diff.external=",
    "gpg.program=false",
    "log.showSignature=false",
    "protocol.allow=never",
    // Nothing the repository names is started; it is only read, and only our own work trees are
    // written.
    "safe.directory=*",
];

/// The pids of the git processes alive now. A program that reaps stray children must skip them:
/// list the children first and call this second, because a process is registered from before it is
/// visible until after it is reaped.
pub fn processes() -> BTreeSet<u32> {
    registry().clone()
}

static ALIVE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn registry() -> MutexGuard<'static, BTreeSet<u32>> {
    // A set of pids stays valid if the thread that held the lock panicked.
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a process until dropped.
#[derive(Debug)]
struct Registered(u32);

impl Drop for Registered {
    fn drop(&mut self) {
        registry().remove(&self.0);
    }
}

fn spawn(command: &mut Command) -> std::io::Result<(std::process::Child, Registered)> {
    // Held during the spawn, so that the child is never visible before it is registered.
    let mut registry = registry();
    let child = command.spawn()?;
    registry.insert(child.id());
    let known = Registered(child.id());
    Ok((child, known))
}

/// Runs git in `repository` and returns its output.
pub fn output(repository: &Path, arguments: &[&str], bounds: Bounds) -> Result<Vec<u8>, GitError> {
    output_for(repository, arguments, String::new(), bounds)
}

/// The same with standard input for git.
pub fn output_for(
    repository: &Path,
    arguments: &[&str],
    input: String,
    bounds: Bounds,
) -> Result<Vec<u8>, GitError> {
    let mut command = command(repository, arguments);
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let (mut child, _known) = spawn(&mut command)?;
    let Some(stdout) = child.stdout.take() else { return Err(GitError::Failed) };
    let writer = child.stdin.take().map(|stdin| write_in_background(stdin, input));
    let (send, receive) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let result = stdout.take(bounds.output).read_to_end(&mut bytes).map(|_| bytes);
        // The receiver is gone only after the time limit.
        let _receiver_gone = send.send(result);
    });
    let received = receive.recv_timeout(bounds.time);
    let complete = matches!(&received, Ok(Ok(bytes)) if (bytes.len() as u64) < bounds.output);
    if !complete {
        child.kill()?;
    }
    let status = child.wait()?;
    // The pipe is closed now, so the reader ends.
    let _reader_panicked = reader.join();
    let _writer_panicked = writer.map(std::thread::JoinHandle::join);
    match received {
        Ok(bytes) if status.success() || !complete => Ok(bytes?),
        Ok(_) => Err(GitError::Failed),
        Err(_) => Err(GitError::TimedOut),
    }
}

/// Git writes while it reads, so neither side may wait for the other.
fn write_in_background(
    mut stdin: std::process::ChildStdin,
    input: String,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        // Git did not need what it did not read.
        let _git_ended = stdin.write_all(input.as_bytes());
    })
}

/// Runs git and passes on its output, split at each `separator`, as it arrives: memory does not
/// grow with the history. Git is killed when it writes nothing for `silence`.
pub fn records(
    repository: &Path,
    arguments: &[&str],
    input: String,
    (separator, silence): (u8, Duration),
    mut each: impl FnMut(&[u8]),
) -> Result<(), GitError> {
    let mut command = command(repository, arguments);
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let (mut child, _known) = spawn(&mut command)?;
    let Some(mut stdout) = child.stdout.take() else { return Err(GitError::Failed) };
    let writer = child.stdin.take().map(|stdin| write_in_background(stdin, input));
    let (send, receive) = mpsc::sync_channel::<std::io::Result<Vec<u8>>>(8);
    let reader = std::thread::spawn(move || {
        loop {
            let mut chunk = vec![0; 1 << 16];
            let read = stdout.read(&mut chunk).map(|count| chunk[..count].to_vec());
            let over = !matches!(&read, Ok(chunk) if !chunk.is_empty());
            if send.send(read).is_err() || over {
                break;
            }
        }
    });
    let mut pending: Vec<u8> = Vec::new();
    let end = loop {
        match receive.recv_timeout(silence) {
            Ok(Ok(chunk)) if chunk.is_empty() => break Ok(()),
            Ok(Ok(chunk)) => {
                pending.extend_from_slice(&chunk);
                let Some(last) = memchr::memrchr(separator, &pending) else { continue };
                pending[..last].split(|byte| *byte == separator).for_each(&mut each);
                pending.drain(..=last);
            }
            Ok(Err(error)) => break Err(GitError::Io(error)),
            Err(_) => break Err(GitError::TimedOut),
        }
    };
    if end.is_err() {
        child.kill()?;
    }
    drop(receive);
    let status = child.wait()?;
    // The pipes are closed now, so both end.
    let _reader_panicked = reader.join();
    let _writer_panicked = writer.map(std::thread::JoinHandle::join);
    end?;
    if !status.success() {
        return Err(GitError::Failed);
    }
    if !pending.is_empty() {
        each(&pending);
    }
    Ok(())
}

/// A git process that answers several requests. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct GitConversation {
    child: std::process::Child,
    questions: std::process::ChildStdin,
    answers: BufReader<Answers>,
    _known: Registered,
}

impl GitConversation {
    /// Starts git; an answer that takes longer than `silence` is an error.
    pub(crate) fn start(
        repository: &Path,
        arguments: &[&str],
        silence: Duration,
    ) -> Result<Self, GitError> {
        let mut command = command(repository, arguments);
        command.stdin(Stdio::piped());
        let (mut child, known) = spawn(&mut command)?;
        let (Some(questions), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(GitError::Failed);
        };
        let answers = BufReader::with_capacity(1 << 16, Answers { stdout, silence });
        Ok(Self { child, questions, answers, _known: known })
    }

    /// Sends requests. Those sent without reading an answer must fit into a pipe.
    pub(crate) fn ask(&mut self, questions: &str) -> Result<(), GitError> {
        Ok(self.questions.write_all(questions.as_bytes())?)
    }

    /// Git's output.
    pub(crate) fn answers(&mut self) -> &mut impl BufRead {
        &mut self.answers
    }
}

impl Drop for GitConversation {
    fn drop(&mut self) {
        // It only reads, so it may be killed at any point.
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

/// Output that is read with a time limit.
#[derive(Debug)]
struct Answers {
    stdout: std::process::ChildStdout,
    silence: Duration,
}

impl std::io::Read for Answers {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut waiting = [PollFd::new(self.stdout.as_fd(), PollFlags::POLLIN)];
        let silence = PollTimeout::try_from(self.silence).unwrap_or(PollTimeout::MAX);
        loop {
            match poll(&mut waiting, silence) {
                Ok(0) => return Err(std::io::ErrorKind::TimedOut.into()),
                Ok(_) => return self.stdout.read(buffer),
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "git is started here alone; the search path decides which git"
)]
fn command(repository: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_ALLOW_PROTOCOL", "")
        .arg("--no-pager");
    for setting in HARMLESS {
        command.args(["-c", setting]);
    }
    command
        .arg("-C")
        .arg(repository)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}
