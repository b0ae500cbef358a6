//! One session of the real agent CLI, started as heartbeat starts it, without the supervisor.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use heartbeat::model::{Outcome, SessionId, Stage, Untrusted};
use heartbeat::prompt::Rendered;
use heartbeat::session::agent::claude::Claude;
use heartbeat::session::agent::{
    Agent, AgentEvent, AgentResult, Exit, StreamNotes, Task, Transcript,
};
use heartbeat::settings::Config;

/// A session in these tests that takes longer is broken.
const CLI_TIMEOUT: Duration = Duration::from_secs(90);

/// The CLI's path; `None`, with a message on standard error, if it is not installed.
pub fn installed() -> Option<PathBuf> {
    installed_at("HEARTBEAT_REAL_CLAUDE")
}

/// The path in this variable, such as `HEARTBEAT_REAL_CODEX`; `None`, with a message, if it is not
/// set.
#[expect(clippy::disallowed_methods, reason = "a test has no application to ask")]
pub fn installed_at(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        // Bypasses the test harness, which captures the output of passing tests.
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let word = format!("SKIPPED {test}: {variable} does not name the agent CLI\n");
        std::io::stderr().write_all(word.as_bytes()).ok();
    }
    path
}

/// The CLI's output for one flag.
#[expect(clippy::disallowed_methods, reason = "the test stands where `doctor` stands")]
pub fn output_of(program: &Path, flag: &str) -> String {
    let home = tempfile::tempdir().expect("a home");
    let output = Command::new(program).arg(flag).env_clear().env("HOME", home.path()).output();
    String::from_utf8_lossy(&output.expect("the agent CLI").stdout).into_owned()
}

/// Result of a session.
pub struct Ended {
    pub outcome: Outcome,
    pub result: Option<AgentResult>,
    pub events: Vec<AgentEvent>,
    pub reads: u32,
    /// Further facts of the stream.
    pub notes: StreamNotes,
    pub exit: Exit,
    /// Raw output, for messages.
    pub stdout: String,
    pub stderr: String,
}

/// A started session.
pub struct Running {
    claude: Claude,
    task: Task,
    child: Child,
    stdout: mpsc::Receiver<Vec<u8>>,
    stderr: mpsc::Receiver<Vec<u8>>,
    _scratch: tempfile::TempDir,
}

/// Starts a session in `folder`; `variables` are heartbeat's environment.
#[expect(clippy::disallowed_methods, reason = "the test stands where the supervisor stands")]
pub fn start(
    config: &Config,
    variables: &[(&str, String)],
    stage: Stage,
    rendered: &Rendered,
    folder: &Path,
) -> Running {
    let program = installed().expect("checked by the test");
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let claude = Claude::new(config, |name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    });
    let session = SessionId(uuid::Uuid::now_v7());
    let task = Task {
        system_prompt: rendered.system.clone(),
        schema: rendered.schema.clone(),
        ..Task::silent(session, stage, scratch.path().to_owned())
    };
    let command = claude.command(&task);
    for (path, content) in command.files {
        std::fs::write(path, content).expect("a file in the scratch folder");
    }
    let mut child = Command::new(program)
        .args(command.args)
        .env_clear()
        .envs(command.env)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the agent CLI");
    let mut stdin = child.stdin.take().expect("piped");
    let prompt = rendered.user.clone();
    // An agent that exits early closes its end of the pipe.
    std::thread::spawn(move || stdin.write_all(prompt.as_bytes()).ok());
    let stdout = collect(child.stdout.take().expect("piped"));
    let stderr = collect(child.stderr.take().expect("piped"));
    Running { claude, task, child, stdout, stderr, _scratch: scratch }
}

fn collect(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Bytes read before an error still count.
        pipe.read_to_end(&mut bytes).ok();
        sender.send(bytes).ok();
    });
    receiver
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end and classifies it.
    pub fn end(mut self) -> Ended {
        let stdout = match self.stdout.recv_timeout(CLI_TIMEOUT) {
            Ok(stdout) => stdout,
            Err(_) => {
                self.child.kill().expect("a child of ours");
                panic!("the agent did not end within {CLI_TIMEOUT:?}");
            }
        };
        let status = self.child.wait().expect("a child of ours");
        let stderr = self.stderr.recv_timeout(CLI_TIMEOUT).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        };
        let mut decoder = self.claude.decoder(&self.task);
        let lines = stdout.split(|byte| *byte == b'\n');
        let events: Vec<AgentEvent> = lines.flat_map(|line| decoder.line(line)).collect();
        let result = events.iter().rev().find_map(|event| match event {
            AgentEvent::Result(result) => Some((**result).clone()),
            _ => None,
        });
        let transcript = Transcript {
            exit,
            result: result.clone(),
            json_lines: events.len() as u64,
            last_error: decoder.last_error(),
            stderr_tail: Untrusted::new(stderr.clone()),
        };
        Ended {
            outcome: self.claude.classify(&transcript),
            result,
            reads: decoder.reads(),
            notes: decoder.notes(),
            exit,
            events,
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr,
        }
    }
}
