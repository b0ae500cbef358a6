//! The differences between agent CLIs: command line, output stream, meaning of the end.
//!
//! Each kind has a folder with the same files: `capability` checks an installation, `command`
//! builds the command line and the environment, `stream` decodes the output, `outcome` classifies
//! the end. To add an agent, add a folder with an implementation of [`Agent`] and [`Decoder`], a
//! variant in [`settings::AgentKind`](crate::settings::AgentKind) and a line in [`of_kind`]; the
//! rest of the program does not depend on the kind.

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
mod reading;
mod seen;
mod sparse;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub use event::{AgentEvent, AgentResult, Decoder, Ending, Exit, StreamNotes, Transcript};
pub use outcome::{Dialect, Expected};
pub use passed::Passed;

use super::confinement::Confinement;
use super::spec::SessionLimits;
use crate::gateway::{Door, Provider};
use crate::model::{Outcome, SessionId, Stage, Usage, Usd};
use crate::settings::{AgentKind, Config};

/// The agent's home, below the scratch folder.
pub const HOME_DIR: &str = "home";

/// For temporary files, below the scratch folder.
pub const TMP_DIR: &str = "tmp";

/// Files of the item, below the session's folder.
pub const ATTACHED_DIR: &str = "attached";

/// The work for one session.
#[derive(Debug, Clone)]
pub struct Task {
    /// Also passed to the agent as its session id.
    pub session: SessionId,
    pub stage: Stage,
    pub system_prompt: String,
    /// Most agents read it from standard input.
    pub prompt: String,
    pub schema: Value,
    /// The agent's own folder: new for every start, and the only one that it may write.
    pub scratch: PathBuf,
    /// The folder with files of the item, which it may read.
    pub attached: Option<PathBuf>,
    /// More code bases, which it may read.
    pub beside: Vec<PathBuf>,
    /// Resolved path of the executable.
    pub program: PathBuf,
    /// Working directory: the code base, or an empty folder.
    pub cwd: PathBuf,
    /// The gateway to the provider; `None`: the agent itself connects, with the credential.
    pub door: Option<Door>,
    /// What an earlier question of the same session cost.
    pub spent: Usd,
}

impl Task {
    /// A task with empty prompts, for the self-test's agents.
    pub fn silent(session: SessionId, stage: Stage, scratch: PathBuf) -> Self {
        Self {
            session,
            stage,
            system_prompt: String::new(),
            prompt: String::new(),
            schema: Value::Null,
            program: PathBuf::new(),
            cwd: scratch.clone(),
            attached: None,
            beside: Vec::new(),
            scratch,
            door: None,
            spent: Usd::ZERO,
        }
    }
}

/// How an agent is started for a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentCommand {
    /// After the configured command.
    pub args: Vec<OsString>,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// Written to standard input, which is then closed.
    pub stdin: Vec<u8>,
    /// Files to write into the scratch folder before the start.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// Links to create there, with their targets.
    pub links: Vec<(PathBuf, PathBuf)>,
}

/// A command of the agent's program that fills a folder which sessions then only read and execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacking {
    pub folder: PathBuf,
    pub question: capability::Question,
}

/// A short command of the agent's program that checks whether sessions can work here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    pub question: capability::Question,
    /// A line of the output if sessions can work.
    pub works: &'static str,
    /// Message if it fails: the consequence and the fix.
    pub otherwise: String,
}

/// Creates the agent of a kind. `lookup` returns variables of heartbeat's environment; files that
/// all sessions of a kind share are below `kept`.
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

/// The folder in the state directory for files that agents keep across sessions.
pub fn kept_folder(state: &Path) -> PathBuf {
    state.join("agents")
}

/// One kind of agent CLI.
pub trait Agent: Send + Sync {
    /// How to start it for a task.
    fn command(&self, task: &Task) -> AgentCommand;

    /// The provider that a gateway can stand in front of; `None`: the agent has to connect itself,
    /// because it uses a login of its own.
    fn provider(&self) -> Option<Provider> {
        None
    }

    /// Models besides the configured one that a gateway allows it to ask for.
    fn other_models(&self, stage: Stage) -> Vec<&str> {
        let _ = stage;
        Vec::new()
    }

    /// Calls of the model that a gateway allows for this many turns.
    fn max_calls(&self, max_turns: u32) -> u32 {
        max_turns
    }

    /// Checks this machine before the first session; `None` if no check is needed. The task has no
    /// prompt, and its folder is for the check only.
    fn trial(&self, task: &Task) -> Option<Trial> {
        let _ = task;
        None
    }

    /// What has to be unpacked before the first session; `None` if nothing has.
    fn unpacking(&self) -> Option<Unpacking> {
        None
    }

    /// Adapts the confinement to the agent's needs.
    fn confine(&self, task: &Task, confinement: &mut Confinement) {
        let _ = (task, confinement);
    }

    /// Adapts the configured limits to the agent.
    fn limits(&self, stage: Stage, limits: &mut SessionLimits) {
        let _ = (stage, limits);
    }

    /// Creates a decoder for this task's output.
    fn decoder(&self, task: &Task) -> Box<dyn Decoder>;

    /// Reads what the agent left in its folder, after it has ended: its usage, a renewed login.
    fn collect(&self, task: &Task) -> Option<Usage> {
        let _ = task;
        None
    }

    /// Whether the CLI enforces the schema. If not, an answer that does not fit is asked for once
    /// more.
    fn enforces_schema(&self) -> bool {
        true
    }

    /// How this CLI reports its ends.
    fn dialect(&self) -> &dyn Dialect;

    /// Classifies an agent that ended without the supervisor. Success requires all parts of the
    /// agent's success test.
    ///
    /// If the supervisor ended an agent that had already delivered its result, it passes
    /// `Exit::Code(0)`, so that the result decides.
    fn classify(&self, transcript: &Transcript) -> Outcome {
        outcome::classify(self.dialect(), transcript, Expected::Structured)
    }

    /// Classifies a session that was ended because the provider did not answer; `last_error` is the
    /// last error named in the stream.
    fn classify_provider_failure(&self, last_error: Option<&str>) -> Outcome {
        outcome::provider_failure(self.dialect(), last_error.unwrap_or_default())
    }
}
