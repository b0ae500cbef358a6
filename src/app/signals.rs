//! Signals: the first asks to stop, the second insists; SIGHUP asks for the configuration again.

use std::convert::Infallible;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::CommandError;
use super::exit::Code;
use crate::session::{StopHandle, StopReason};

/// The signals heartbeat listens to.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    stopped_by: Option<Code>,
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRequest {
    /// To stop; the second time at once.
    Stop,
    /// To read the configuration again.
    Reload,
}

impl Signals {
    /// Starts to listen.
    pub fn listen() -> Result<Self, CommandError> {
        let on = |kind| {
            signal(kind).map_err(CommandError::io(
                "cannot install the signal \
                                                               handlers",
            ))
        };
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
            stopped_by: None,
        })
    }

    /// The next one. Safe to drop and to call again.
    pub async fn next(&mut self) -> SignalRequest {
        let code = tokio::select! {
            _ = self.interrupt.recv() => Code::Interrupted,
            _ = self.terminate.recv() => Code::Terminated,
            _ = self.hangup.recv() => return SignalRequest::Reload,
        };
        self.stopped_by.get_or_insert(code);
        SignalRequest::Stop
    }

    /// Passes every request to stop on, for ever. For runs without a schedule, where SIGHUP means
    /// that cannot talk to the terminal.
    pub async fn pass_on(&mut self, stop: &StopHandle) -> Infallible {
        loop {
            self.next().await;
            self.stopped_by.get_or_insert(Code::Terminated);
            if stop.state().reason.is_some() {
                stop.stop_now(StopReason::Shutdown);
            } else {
                stop.stop(StopReason::Shutdown);
            }
        }
    }

    /// The exit code of the first signal that asked to stop.
    pub fn stopped_by(&self) -> Option<Code> {
        self.stopped_by
    }
}
