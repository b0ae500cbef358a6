//! The Codex CLI as a headless child.
//!
//! Based on behaviour measured with version 0.166.0: [`capability`] checks an installation,
//! [`command`] builds the command line, the environment and the model catalogue, [`stream`] decodes
//! the `--json` output, [`outcome`] classifies the end. It has no limits on turns, cost or time,
//! does not validate its answer, and reads by shell commands in its own sandbox; the supervisor
//! enforces the limits.

pub mod capability;
pub mod command;
pub mod outcome;
pub mod stream;

use std::ffi::OsString;

use super::{Agent, AgentCommand, Decoder, Dialect, Passed, Task, Trial};
use crate::gateway::Provider;
use crate::model::Stage;
use crate::session::SessionLimits;
use crate::session::confinement::{Confinement, port_of_address};
use crate::settings::Config;

/// One command is four processes (the sandbox twice, a shell, the program); ten concurrent commands
/// were 41.
const MAX_PROCESSES: u32 = 60;

/// The configured Codex CLI.
#[derive(Clone)]
pub struct Codex {
    config: Config,
    passed: Passed,
}

impl Codex {
    /// `lookup` returns variables of heartbeat's environment; only those named in the configuration
    /// and `PATH` are looked up.
    pub fn new(config: &Config, lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let credential = &config.codex.credential_env;
        let passed = Passed::collect(config, credential, &command::WITHHELD, &lookup);
        Self { config: config.clone(), passed }
    }
}

impl Agent for Codex {
    fn command(&self, task: &Task) -> AgentCommand {
        command::command(&self.config, &self.passed, task)
    }

    fn provider(&self) -> Option<Provider> {
        command::gateway_provider(&self.config, &self.passed)
    }

    /// Without its sandbox every command of an analysis fails, which the model ignores.
    fn trial(&self, task: &Task) -> Option<Trial> {
        (task.stage == Stage::Deep).then(|| capability::sandbox_trial(task))
    }

    /// Its sandbox needs user namespaces and mounts, which Landlock's file rules forbid: its files are
    /// restricted by mounts instead. The provider's address is not a variable.
    fn confine(&self, task: &Task, confinement: &mut Confinement) {
        confinement.makes_own_sandbox = task.stage == Stage::Deep;
        if confinement.makes_own_sandbox {
            confinement.execute.push(command::package(&task.program));
        }
        if task.door.is_none() {
            confinement.ports.extend(port_of_address(&self.config.codex.base_url));
        }
    }

    fn limits(&self, stage: Stage, limits: &mut SessionLimits) {
        // It does not report turns; commands are counted instead.
        limits.max_turns = None;
        limits.max_reads = None;
        if stage == Stage::Deep && self.config.analyze.search {
            limits.max_processes = limits.max_processes.max(MAX_PROCESSES);
        }
    }

    fn decoder(&self, task: &Task) -> Box<dyn Decoder> {
        Box::new(stream::CodexDecoder::new(task, self.config.model_of(task.stage)))
    }

    fn enforces_schema(&self) -> bool {
        false
    }

    fn dialect(&self) -> &dyn Dialect {
        &outcome::CodexDialect
    }
}
