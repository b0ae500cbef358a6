//! What differs from one agent CLI to the next: command line, stream, meaning of its end.
//!
//! Each kind has one folder with the same files: `capability` judges an installation, `command`
//! holds the command line and the environment, `stream` reads the output, `outcome` says what an end
//! means. Another agent is another folder with an implementation of [`Agent`] and [`Decoder`], a
//! word in [`settings::AgentKind`](crate::settings::AgentKind) and a line in [`of_kind`]; nothing
//! else in the program knows which one runs.

mod answer;
pub mod capability;
pub mod claude;
pub mod codex;
pub mod copilot;
pub mod event;
mod fields;
pub mod outcome;
mod passed;
mod paths;
mod prose;
mod sparse;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub use event::{AgentEvent, AgentResult, Decoder, Ending, Exit, StreamNotes, Transcript};
pub use outcome::Expected;
pub use passed::Passed;

use super::confinement::Confinement;
use super::spec::SessionLimits;
use crate::model::{FailureKind, Outcome, SessionId, Stage, Usage};
use crate::settings::{AgentKind, Config};

/// The folder below the scratch folder that an agent takes for its home.
pub const HOME_DIR: &str = "home";

/// The folder below the scratch folder for temporary files.
pub const TMP_DIR: &str = "tmp";

/// The folder below the scratch folder with files of the item. A prompt that names it may be answered
/// with them.
pub const ATTACHED_DIR: &str = "attached";

/// What an agent is asked to do.
#[derive(Debug, Clone)]
pub struct Task {
    /// Id of the session, also for the agent.
    pub session: SessionId,
    /// What for.
    pub stage: Stage,
    /// System prompt.
    pub system_prompt: String,
    /// The question, which most agents take as their standard input.
    pub prompt: String,
    /// JSON schema of the answer.
    pub schema: Value,
    /// The private folder.
    pub scratch: PathBuf,
    /// The executable, resolved.
    pub program: PathBuf,
    /// Where it starts: the code base, or an empty folder.
    pub cwd: PathBuf,
}

impl Task {
    /// The folder with files of the item, if the prompt names it.
    pub fn attached(&self) -> Option<PathBuf> {
        let folder = self.scratch.join(ATTACHED_DIR);
        self.prompt.contains(&folder.display().to_string()).then_some(folder)
    }

    /// A task without words, which the self-test's agents do not need.
    pub fn silent(session: SessionId, stage: Stage, scratch: PathBuf) -> Self {
        Self {
            session,
            stage,
            system_prompt: String::new(),
            prompt: String::new(),
            schema: Value::Null,
            program: PathBuf::new(),
            cwd: scratch.clone(),
            scratch,
        }
    }
}

/// One short command of the agent's program that shows whether sessions could work here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    pub question: capability::Question,
    /// A line that it writes if they could.
    pub works: &'static str,
    /// What it means if it does not, and what to do.
    pub otherwise: String,
}

/// The agent of a kind, for this configuration. `lookup` answers for the variables of heartbeat's own
/// environment; what a kind keeps for all its sessions goes below `kept`.
pub fn of_kind(
    kind: AgentKind,
    config: &Config,
    kept: &Path,
    lookup: impl Fn(&str) -> Option<OsString>,
) -> Box<dyn Agent> {
    match kind {
        AgentKind::Claude => Box::new(claude::Claude::new(config, lookup)),
        AgentKind::Codex => Box::new(codex::Codex::new(config, lookup)),
        AgentKind::Copilot => Box::new(copilot::Copilot::new(config, kept, lookup)),
    }
}

/// The folder of a state for what agents keep beyond a session.
pub fn kept_folder(state: &Path) -> PathBuf {
    state.join("agents")
}

/// One kind of agent CLI.
pub trait Agent: Send + Sync {
    /// Arguments after the configured command, for this task.
    fn args(&self, task: &Task) -> Vec<OsString>;

    /// The whole environment, for this task.
    fn env(&self, task: &Task) -> Vec<(OsString, OsString)>;

    /// What is written to its standard input, which is then closed.
    fn stdin(&self, task: &Task) -> Vec<u8> {
        task.prompt.clone().into_bytes()
    }

    /// Files to write into the scratch folder before the start, private to the session.
    fn files(&self, task: &Task) -> Vec<(PathBuf, Vec<u8>)> {
        let _ = task;
        Vec::new()
    }

    /// Folders beside the scratch folder that it must be able to write, such as that of its login.
    fn own_folders(&self, task: &Task) -> Vec<PathBuf> {
        let _ = task;
        Vec::new()
    }

    /// Folders that are made before the first session and kept after it, such as a cache of its own
    /// program. It may execute what is there.
    fn kept_folders(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// What must work on this machine before its first session; none: nothing is tried. `home` is a
    /// folder for the trial alone.
    fn trial(&self, program: &Path, home: &Path, stage: Stage) -> Option<Trial> {
        let _ = (program, home, stage);
        None
    }

    /// What it needs beyond, or cannot live with, in its confinement.
    fn confine(&self, task: &Task, confinement: &mut Confinement) {
        let _ = (task, confinement);
    }

    /// Bounds of its own, made of the configured ones.
    fn limits(&self, stage: Stage, limits: &mut SessionLimits) {
        let _ = (stage, limits);
    }

    /// A fresh decoder for this task's output.
    fn decoder(&self, task: &Task) -> Box<dyn Decoder>;

    /// What it used, from files that it left in the scratch folder; asked for after its end.
    fn collect(&self, task: &Task) -> Option<Usage> {
        let _ = task;
        None
    }

    /// Does the CLI itself see to it that the answer fits the schema? Where it does not, a misfit is
    /// answered with one more question.
    fn enforces_schema(&self) -> bool {
        true
    }

    /// What the end means. Success needs all parts of the agent's success test.
    ///
    /// It judges an agent that ended by itself. A supervisor that had to end an agent which had
    /// already delivered its result passes `Exit::Code(0)`: the result then speaks for itself.
    fn classify(&self, transcript: &Transcript) -> Outcome;

    /// What it means that the provider kept an agent waiting until it had to be ended; `last_error`
    /// is what the stream named last.
    fn classify_provider_failure(&self, last_error: Option<&str>) -> Outcome {
        let _ = last_error;
        Outcome::AgentError { why: FailureKind::ApiError }
    }
}
