//! The Codex CLI as a headless child.
//!
//! Built on its behaviour as measured on version 0.166.0: [`capability`] judges an installation,
//! [`command`] holds the command line, the environment and the catalogue of models, [`stream`] reads
//! the `--json` output, [`outcome`] says what its end means. It has no limit of turns, cost or time,
//! never checks its answer, and reads by shell commands in a sandbox of its own; the limits are the
//! supervisor's.

pub mod capability;
pub mod command;
pub mod outcome;
pub mod stream;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::outcome::provider_failure;
use super::{Agent, Decoder, Expected, Passed, Task, Transcript, Trial};
use crate::model::{Outcome, Stage};
use crate::session::SessionLimits;
use crate::session::confinement::{Confinement, port_of_address};
use crate::settings::Config;

/// One command is four processes (the sandbox twice, a shell, the program), and ten commands at once
/// were 41.
const MOST_PROCESSES: u32 = 60;

/// The Codex CLI, configured.
#[derive(Clone)]
pub struct Codex {
    config: Config,
    passed: Passed,
}

impl Codex {
    /// The agent for this configuration. `lookup` answers for the variables of heartbeat's own
    /// environment; only those that the configuration names are asked for, and `PATH`.
    pub fn new(config: &Config, lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let credential = &config.codex.credential_env;
        let passed = Passed::collect(config, credential, &command::WITHHELD, &lookup);
        Self { config: config.clone(), passed }
    }
}

impl Agent for Codex {
    fn args(&self, task: &Task) -> Vec<OsString> {
        command::args(&self.config, task)
    }

    fn env(&self, task: &Task) -> Vec<(OsString, OsString)> {
        command::env(&self.passed, task)
    }

    fn files(&self, task: &Task) -> Vec<(PathBuf, Vec<u8>)> {
        command::files(&self.config, task)
    }

    /// Without its sandbox every command of an analysis fails, which the model pays no heed to.
    fn trial(&self, program: &Path, home: &Path, stage: Stage) -> Option<Trial> {
        (stage == Stage::Deep).then(|| capability::sandbox_trial(program, home))
    }

    /// Its sandbox needs user namespaces and mounts, which no Landlock rule about files leaves it;
    /// the provider's address is no variable.
    fn confine(&self, task: &Task, confinement: &mut Confinement) {
        confinement.makes_own_sandbox = task.stage == Stage::Deep;
        confinement.ports.extend(port_of_address(&self.config.codex.base_url));
    }

    fn limits(&self, stage: Stage, limits: &mut SessionLimits) {
        // It does not say how many turns there were; commands are counted.
        limits.max_turns = None;
        limits.max_reads = None;
        if stage == Stage::Deep && self.config.analyze.search {
            limits.max_processes = limits.max_processes.max(MOST_PROCESSES);
        }
    }

    fn decoder(&self, task: &Task) -> Box<dyn Decoder> {
        Box::new(stream::CodexDecoder::new(task, self.config.model_of(task.stage)))
    }

    fn enforces_schema(&self) -> bool {
        false
    }

    fn classify(&self, transcript: &Transcript) -> Outcome {
        outcome::classify(transcript, Expected::Structured)
    }

    fn classify_provider_failure(&self, last_error: Option<&str>) -> Outcome {
        provider_failure(&outcome::Words, last_error.unwrap_or_default())
    }
}
