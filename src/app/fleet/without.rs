//! A build for one machine.

use super::{FleetCheck, NOT_BUILT};
use crate::app::error::CommandError;
use crate::app::exit::Code;
use crate::app::{Setting, StartOptions};
use crate::clock::Clock;
use crate::model::SessionId;
use crate::run::Edges;
use crate::session::StopHandle;
use crate::settings::{Config, Environment};
use crate::store::Journal;

pub struct FleetRun;

impl FleetRun {
    pub fn new(
        setting: &Setting,
        _journal: &Journal,
        _stop: &StopHandle,
    ) -> Result<Self, CommandError> {
        match setting.config.fleet.is_on() {
            true => Err(CommandError::Usage(NOT_BUILT.to_owned())),
            false => Ok(Self),
        }
    }

    #[expect(clippy::unused_async, reason = "the same as with the feature")]
    pub async fn begin(&self) -> Result<(), CommandError> {
        Ok(())
    }

    #[expect(clippy::unused_async, reason = "the same as with the feature")]
    pub async fn end(&self) {}

    pub fn over(&self, edges: Edges) -> Edges {
        edges
    }
}

/// Asks the host of a session to end it.
pub async fn cancel(
    _config: &Config,
    _environment: &Environment,
    _journal: &Journal,
    _session: SessionId,
) -> Result<(), String> {
    Err(NOT_BUILT.to_owned())
}

pub async fn check_fleet(
    _config: &Config,
    _environment: &Environment,
    _clock: &Clock,
) -> Vec<FleetCheck> {
    Vec::new()
}

/// Reports that there are no keys in this build.
pub fn public_key(_options: &StartOptions) -> Result<String, CommandError> {
    Err(CommandError::Usage(NOT_BUILT.to_owned()))
}

/// Reports that there are no workers in this build.
pub async fn worker(_options: &StartOptions) -> Result<Code, CommandError> {
    Err(CommandError::Usage(NOT_BUILT.to_owned()))
}
