//! The Claude Code CLI as a headless child.
//!
//! Based on behaviour measured with version 2.1.325: [`capability`] checks an installation,
//! [`command`] builds the command line and the environment, [`stream`] decodes the `stream-json`
//! output, [`outcome`] classifies the end. Exit code 0 alone means nothing; see
//! [`outcome::ClaudeDialect`].

pub mod capability;
pub mod command;
mod login;
pub mod outcome;
pub mod stream;

use std::ffi::OsString;

use super::{Agent, AgentCommand, Decoder, Dialect, Passed, Task};
use crate::gateway::Provider;
use crate::model::{Stage, Usage};
use crate::session::SessionLimits;
use crate::settings::Config;

pub use command::SYSTEM_PROMPT_FILE;

/// The configured Claude Code CLI.
#[derive(Clone)]
pub struct Claude {
    config: Config,
    passed: Passed,
    login: Option<login::Login>,
}

impl Claude {
    /// `lookup` returns variables of heartbeat's environment; only those named in the configuration
    /// and `PATH` are looked up.
    pub fn new(config: &Config, lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        Self {
            config: config.clone(),
            passed: command::passed(config, &lookup),
            login: login::Login::of(config, &lookup),
        }
    }
}

impl Agent for Claude {
    fn command(&self, task: &Task) -> AgentCommand {
        command::command(&self.config, &self.passed, self.login.as_ref(), task)
    }

    fn other_models(&self, stage: Stage) -> Vec<&str> {
        let mut models = self.passed.models();
        if stage == Stage::Deep {
            models.push(&self.config.analyze.fallback_model);
        }
        models
    }

    fn provider(&self) -> Option<Provider> {
        command::provider(&self.config, &self.passed)
    }

    /// Its own limit ends it with a report; this one is the fallback.
    fn max_calls(&self, max_turns: u32) -> u32 {
        max_turns.saturating_mul(2)
    }

    /// The CLI's own limit ends it cleanly and reports the cost; ours is twice as high and is the
    /// fallback.
    fn limits(&self, _stage: Stage, limits: &mut SessionLimits) {
        limits.max_turns = limits.max_turns.map(|turns| turns.saturating_mul(2));
    }

    fn decoder(&self, _task: &Task) -> Box<dyn Decoder> {
        Box::new(stream::ClaudeDecoder::default())
    }

    /// Claude reports its usage in its stream; a login that it renewed is taken back.
    fn collect(&self, task: &Task) -> Option<Usage> {
        if let Some(login) = &self.login {
            login.take_back(task);
        }
        None
    }

    fn dialect(&self) -> &dyn Dialect {
        &outcome::ClaudeDialect
    }
}
