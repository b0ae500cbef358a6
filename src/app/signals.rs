//! Signals: the first requests a stop, the second forces it; SIGHUP reloads the configuration.

use std::convert::Infallible;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::CommandError;
use super::exit::Code;
use crate::session::{StopHandle, StopReason};

#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    stopped_by: Option<Code>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRequest {
    /// The second request stops at once.
    Stop,
    Reload,
}

impl Signals {
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

    /// Cancel-safe.
    pub async fn next(&mut self) -> SignalRequest {
        let code = tokio::select! {
            _ = self.interrupt.recv() => Code::Interrupted,
            _ = self.terminate.recv() => Code::Terminated,
            _ = self.hangup.recv() => return SignalRequest::Reload,
        };
        self.stopped_by.get_or_insert(code);
        SignalRequest::Stop
    }

    /// Forwards every signal as a stop request, forever. For runs without a schedule, where SIGHUP
    /// means that the terminal is gone.
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

    /// The exit code of the first stop signal.
    pub fn stopped_by(&self) -> Option<Code> {
        self.stopped_by
    }
}
