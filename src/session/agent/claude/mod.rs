//! The Claude Code CLI as a headless child.
//!
//! Built on its behaviour as measured on version 2.1.325: [`capability`] judges an installation,
//! [`command`] holds the command line and the environment, [`stream`] reads the `stream-json`
//! output, [`outcome`] says what its end means. Exit code 0 alone means nothing; see
//! [`outcome::classify`].

pub mod capability;
pub mod command;
pub mod outcome;
pub mod stream;

use std::ffi::OsString;
use std::path::PathBuf;

use super::outcome::provider_failure;
use super::{Agent, Decoder, Expected, Passed, Task, Transcript};
use crate::model::{Outcome, Stage};
use crate::session::SessionLimits;
use crate::settings::Config;

pub use command::SYSTEM_PROMPT_FILE;

/// The Claude Code CLI, configured.
#[derive(Clone)]
pub struct Claude {
    config: Config,
    passed: Passed,
}

impl Claude {
    /// The agent for this configuration. `lookup` answers for the variables of heartbeat's own
    /// environment; only those that the configuration names are asked for, and `PATH`.
    pub fn new(config: &Config, lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        Self { config: config.clone(), passed: command::passed(config, &lookup) }
    }
}

impl Agent for Claude {
    fn args(&self, task: &Task) -> Vec<OsString> {
        command::args(&self.config, task)
    }

    fn own_folders(&self, task: &Task) -> Vec<PathBuf> {
        let folder = self.env(task).into_iter().find(|(name, _)| name == "CLAUDE_CONFIG_DIR");
        folder.map(|(_, value)| PathBuf::from(value)).into_iter().collect()
    }

    fn env(&self, task: &Task) -> Vec<(OsString, OsString)> {
        command::env(&self.config, &self.passed, task)
    }

    fn files(&self, task: &Task) -> Vec<(PathBuf, Vec<u8>)> {
        vec![(task.scratch.join(SYSTEM_PROMPT_FILE), task.system_prompt.clone().into_bytes())]
    }

    /// Its own limit ends it in better order, with a bill; ours holds if that one does not.
    fn limits(&self, _stage: Stage, limits: &mut SessionLimits) {
        limits.max_turns = limits.max_turns.map(|turns| turns.saturating_mul(2));
    }

    fn decoder(&self, _task: &Task) -> Box<dyn Decoder> {
        Box::new(stream::ClaudeDecoder::default())
    }

    fn classify(&self, transcript: &Transcript) -> Outcome {
        outcome::classify(transcript, Expected::Structured)
    }

    fn classify_provider_failure(&self, last_error: Option<&str>) -> Outcome {
        provider_failure(&outcome::Words, last_error.unwrap_or_default())
    }
}
