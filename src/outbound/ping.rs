//! Pings a monitor that raises an alarm when it hears nothing, in the protocol of healthchecks.io:
//! `ADDRESS/start`, `ADDRESS` for success, `ADDRESS/EXITCODE` for a failure, each with the run's id.
//! A run that is killed, and a machine that is off, send no end: that is what the monitor is for.

use std::time::Duration;

use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{Body, OutboundError, SecretAddress, post};
use crate::model::text::clip;
use crate::settings::Environment;

const FIRST_WAIT: Duration = Duration::from_secs(1);
const TRIES: usize = 3;
/// Of the text that goes with a ping.
const MAX_TEXT_LEN: usize = 4000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A run begins.
    Start,
    Success,
    /// With the exit code.
    Failure(u8),
    /// Recorded by the monitor, without an effect on its state.
    Log,
}

impl Signal {
    fn segment(self) -> String {
        match self {
            Self::Start => "start".to_owned(),
            Self::Success => String::new(),
            Self::Failure(0) => "fail".to_owned(),
            Self::Failure(code) => code.to_string(),
            Self::Log => "log".to_owned(),
        }
    }
}

/// The monitor that a configuration names.
#[derive(Debug, Clone)]
pub struct Monitor(SecretAddress);

impl Monitor {
    /// `None` if the name is empty. The variable is read now, so a service that was started with
    /// another value keeps that one.
    pub fn named(variable: &str, environment: &Environment) -> Result<Option<Self>, OutboundError> {
        if variable.is_empty() {
            return Ok(None);
        }
        let address = environment.text(variable).ok_or(OutboundError::Address)?;
        SecretAddress::parse(address).map(|address| Some(Self(address)))
    }

    /// Returns the monitor's answer.
    pub async fn send(
        &self,
        signal: Signal,
        run: Option<Uuid>,
        text: &str,
    ) -> Result<String, OutboundError> {
        let run = run.map(|run| run.to_string());
        let rid = run.as_deref().map(|run| ("rid", run));
        let address = self.0.with(&signal.segment(), rid);
        post(&address, Body::Text(&clip(text, MAX_TEXT_LEN)), FIRST_WAIT, TRIES).await
    }

    /// Sends and logs a failure to send: a monitor changes nothing about a run.
    pub async fn tell(&self, signal: Signal, run: Option<Uuid>, text: &str) {
        match self.send(signal, run, text).await {
            Ok(_) => tracing::debug!(?signal, ?run, "the monitor was pinged"),
            Err(error) => tracing::error!(?signal, %error, "could not ping the monitor"),
        }
    }
}

/// The pings of one run. The start is sent at once, in the background.
pub struct RunPings {
    monitor: Option<Monitor>,
    run: Uuid,
    started: Option<JoinHandle<()>>,
}

impl RunPings {
    pub fn begin(monitor: Option<Monitor>, run: Uuid) -> Self {
        let started = monitor.clone().map(|monitor| {
            tokio::spawn(async move { monitor.tell(Signal::Start, Some(run), "").await })
        });
        Self { monitor, run, started }
    }

    /// Sends the end after the start.
    pub async fn end(self, signal: Signal, text: String) {
        let Some(monitor) = self.monitor else { return };
        if let Some(started) = self.started {
            // Its failure is logged.
            started.await.ok();
        }
        monitor.tell(signal, Some(self.run), &text).await;
    }
}
