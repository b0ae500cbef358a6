//! The GitHub Copilot CLI as a headless child.
//!
//! Built on its behaviour as measured on version 1.0.102: [`capability`] judges an installation,
//! [`command`] holds the command line, the environment and what goes to standard input, [`stream`]
//! reads the `--output-format json` output, [`outcome`] says what its end means. It has no flag for a
//! schema, a system prompt, turns or a budget, exits with 0 when it is interrupted, and tells its
//! tokens in a file.

pub mod capability;
pub mod command;
pub mod outcome;
pub mod stream;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::answer::told_in_one;
use super::outcome::provider_failure;
use super::{Agent, Decoder, Expected, Passed, Task, Transcript};
use crate::model::{Outcome, Stage, Usage};
use crate::session::SessionLimits;
use crate::session::confinement::Confinement;
use crate::settings::Config;

/// The first line came after up to 10.1 seconds on a loaded machine.
const INIT: Duration = Duration::from_secs(30);

/// The GitHub Copilot CLI, configured.
#[derive(Clone)]
pub struct Copilot {
    config: Config,
    passed: Passed,
    cache: PathBuf,
}

impl Copilot {
    /// The agent for this configuration. `lookup` answers for the variables of heartbeat's own
    /// environment; only those that the configuration names are asked for, and `PATH`. Below `kept`
    /// it unpacks itself once, for all sessions.
    pub fn new(config: &Config, kept: &Path, lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let passed = command::passed(config, &lookup);
        Self { config: config.clone(), passed, cache: command::cache(kept) }
    }
}

impl Agent for Copilot {
    fn args(&self, task: &Task) -> Vec<OsString> {
        command::args(&self.config, task)
    }

    fn env(&self, task: &Task) -> Vec<(OsString, OsString)> {
        command::env(&self.config, &self.passed, &self.cache, task)
    }

    fn stdin(&self, task: &Task) -> Vec<u8> {
        told_in_one(task).into_bytes()
    }

    fn kept_folders(&self) -> Vec<PathBuf> {
        vec![self.cache.clone()]
    }

    /// It starts programs out of its cache. It writes there only until it is unpacked: what one
    /// session can change, another one would run.
    fn confine(&self, task: &Task, confinement: &mut Confinement) {
        confinement.execute.push(self.cache.clone());
        if !command::is_unpacked(&self.cache, &task.program) {
            confinement.write.push(self.cache.clone());
        }
    }

    fn limits(&self, _stage: Stage, limits: &mut SessionLimits) {
        limits.init = limits.init.max(INIT).min(limits.hard);
    }

    fn decoder(&self, task: &Task) -> Box<dyn Decoder> {
        Box::new(stream::CopilotDecoder::new(task))
    }

    fn collect(&self, task: &Task) -> Option<Usage> {
        let text = crate::private::read_small(&task.scratch.join(command::USAGE_FILE), 1 << 20)?;
        stream::usage(&text)
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
