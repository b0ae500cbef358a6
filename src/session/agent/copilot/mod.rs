//! The GitHub Copilot CLI as a headless child.
//!
//! Based on behaviour measured with version 1.0.102: [`capability`] checks an installation,
//! [`command`] builds the command line, the environment and standard input, [`stream`] decodes the
//! `--output-format json` output, [`outcome`] classifies the end. It has no flag for a schema, a
//! system prompt, turns or a budget, exits with 0 when it is interrupted, and reports its tokens in
//! a file.

pub mod capability;
pub mod command;
pub mod outcome;
pub mod stream;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Agent, AgentCommand, Decoder, Dialect, Passed, Task, Unpacking};
use crate::gateway::Provider;
use crate::model::{Stage, Usage};
use crate::session::SessionLimits;
use crate::session::confinement::Confinement;
use crate::settings::Config;

/// On a loaded machine the first line took up to 10.1 seconds.
const INIT: Duration = Duration::from_secs(30);

/// The configured GitHub Copilot CLI.
#[derive(Clone)]
pub struct Copilot {
    config: Config,
    passed: Passed,
    cache: PathBuf,
}

impl Copilot {
    /// `lookup` returns variables of heartbeat's environment; only those named in the configuration
    /// and `PATH` are looked up. The CLI unpacks itself below `kept` once, for all sessions.
    pub fn new(config: &Config, kept: &Path, lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let passed = command::passed(config, &lookup);
        Self { config: config.clone(), passed, cache: command::cache(kept) }
    }
}

impl Agent for Copilot {
    fn command(&self, task: &Task) -> AgentCommand {
        command::command(&self.config, &self.passed, &self.cache, task)
    }

    fn other_models(&self, _stage: Stage) -> Vec<&str> {
        self.passed.models()
    }

    fn provider(&self) -> Option<Provider> {
        command::gateway_provider(&self.config, &self.passed)
    }

    /// It executes programs in its cache, which no session can write: otherwise one could change
    /// what another one executes.
    fn confine(&self, _task: &Task, confinement: &mut Confinement) {
        confinement.execute.push(self.cache.clone());
    }

    fn unpacking(&self) -> Option<Unpacking> {
        let question = capability::warming(&self.cache, "--version");
        Some(Unpacking { folder: self.cache.clone(), question })
    }

    fn limits(&self, _stage: Stage, limits: &mut SessionLimits) {
        limits.init = limits.init.max(INIT).min(limits.hard);
    }

    fn decoder(&self, task: &Task) -> Box<dyn Decoder> {
        Box::new(stream::CopilotDecoder::new(task))
    }

    fn collect(&self, task: &Task) -> Option<Usage> {
        let file = Path::new(command::USAGE_FILE);
        let text = crate::private::beneath::read_text(&task.scratch, file, 1 << 20).ok()?;
        stream::usage(&text)
    }

    fn enforces_schema(&self) -> bool {
        false
    }

    fn dialect(&self) -> &dyn Dialect {
        &outcome::CopilotDialect
    }
}
