//! The circuit breaker of a source.

use std::sync::Arc;

use super::tracker::Client;
use super::{FailureClass, FetchError, Notebook};
use crate::breaker::{Admission, Signal, TRACKER};
use crate::clock::Clock;
use crate::event::{Event, Sink};
use crate::model::{BreakerState, SourceRecord};

/// The circuit breaker of one source: checks it and the server's "not before" first and records the
/// result of each read. Every change of the breaker is an event.
pub(super) struct Guard {
    pub notebook: Arc<Notebook>,
    pub clock: Clock,
    pub sink: Arc<dyn Sink>,
}

/// Closes a source's breaker and drops "not before", on a user's request.
pub async fn close_breaker(
    notebook: Arc<Notebook>,
    clock: Clock,
    sink: Arc<dyn Sink>,
) -> Result<(), FetchError> {
    let guard = Guard { notebook, clock, sink };
    let close = |remembered: &mut SourceRecord| {
        remembered.not_before = None;
        remembered.breaker.close();
        ((), "closed by hand")
    };
    guard.change(close).await
}

impl Guard {
    /// Changes and stores what is remembered; emits an event if the breaker's state changed. The
    /// change also returns its reason.
    async fn change<'a, T>(
        &self,
        change: impl FnOnce(&mut SourceRecord) -> (T, &'a str) + Send,
    ) -> Result<T, FetchError> {
        let ((result, reason), from, to) = self
            .notebook
            .update(|remembered| {
                let from = remembered.breaker.state.clone();
                let result = change(remembered);
                (result, from, remembered.breaker.state.clone())
            })
            .await?;
        if from != to {
            self.sink.emit(Event::BreakerChanged {
                source: self.notebook.name().to_owned(),
                from: from.into_str().to_owned(),
                to: to.into_str().to_owned(),
                until: to.until(),
                reason: reason.to_owned(),
            });
        }
        Ok(result)
    }

    async fn record(&self, signal: Signal, reason: &str) -> Result<(), FetchError> {
        let now = self.clock.now();
        let record = |remembered: &mut SourceRecord| {
            remembered.breaker.record(signal, now, &TRACKER);
            ((), reason)
        };
        self.change(record).await
    }

    /// Records a failure and returns it, with the error of recording if there was one.
    async fn failed(&self, error: FetchError, setting: Option<String>) -> FetchError {
        if error.is_state_failure() {
            return error;
        }
        let (now, class) = (self.clock.now(), error.class);
        let record = |remembered: &mut SourceRecord| {
            if class.needs_a_person() {
                remembered.opened_with = setting;
            }
            remembered.breaker.record(Signal::Failed(class), now, &TRACKER);
            ((), class.into_str())
        };
        match self.change(record).await {
            Ok(()) => error,
            Err(memory) => FetchError {
                message: format!("{}; also: {}", error.message, memory.message),
                cause: memory.cause,
                ..error
            },
        }
    }

    async fn admit(&self, setting: Option<&String>) -> Result<Admission, FetchError> {
        let now = self.clock.now();
        let ask = |remembered: &mut SourceRecord| {
            if let Some(not_before) = remembered.not_before.filter(|at| *at > now) {
                return (Err(self.too_early(not_before)), "");
            }
            let opened_by = match remembered.breaker.state {
                BreakerState::Open { class, .. } => Some(class),
                _ => None,
            };
            let changed = opened_by.is_some_and(FailureClass::needs_a_person)
                && setting.is_some()
                && remembered.opened_with.as_ref() != setting;
            let (admission, reason) = match changed {
                true => (
                    remembered.breaker.admit_changed(now, &TRACKER),
                    "configuration or credential changed",
                ),
                false => (remembered.breaker.admit(now, &TRACKER), "the hold has expired"),
            };
            match admission {
                Admission::Refused { until } => (Err(self.refused(until, opened_by)), reason),
                admission => (Ok(admission), reason),
            }
        };
        self.change(ask).await?
    }

    fn too_early(&self, not_before: jiff::Timestamp) -> FetchError {
        let message = format!(
            "source {:?} asked not to be called before {}; the next run after that tries again",
            self.notebook.name(),
            self.clock.local_time(not_before)
        );
        let error = FetchError::new(FailureClass::BreakerOpen, message);
        FetchError { not_before: Some(not_before), ..error }
    }

    fn refused(&self, until: jiff::Timestamp, opened_by: Option<FailureClass>) -> FetchError {
        let (name, at) = (self.notebook.name(), self.clock.local_time(until));
        let cause = match opened_by {
            Some(class) => {
                format!("is open until {at} after failures of class {}", class.into_str())
            }
            None => format!("is half-open and waits for its probe until {at}"),
        };
        let message = format!(
            "the circuit breaker of source {name:?} {cause}; no request was sent. Once the cause \
             is fixed, `heartbeat retry --source {name}` closes it at once; a changed credential \
             or configuration closes it automatically"
        );
        let error = FetchError::new(FailureClass::BreakerOpen, message);
        FetchError { not_before: Some(until), ..error }
    }
}

impl Guard {
    /// Passes the breaker, with a probe if it requires one; returns the source's configuration
    /// fingerprint.
    pub async fn pass(&self, client: &Client) -> Result<Option<String>, FetchError> {
        let setting = client.configuration_fingerprint().await;
        if self.admit(setting.as_ref()).await? == Admission::Probe {
            self.probe(client, setting.clone()).await?;
        }
        Ok(setting)
    }

    async fn probe(&self, client: &Client, setting: Option<String>) -> Result<(), FetchError> {
        match client.check().await {
            Ok(()) => self.record(Signal::ProbeSucceeded, "the probe succeeded").await,
            Err(error) => Err(self.failed(error, setting).await),
        }
    }

    /// Sends a probe if the breaker admits anything at all.
    pub async fn check(&self, client: &Client) -> Result<(), FetchError> {
        let setting = client.configuration_fingerprint().await;
        self.admit(setting.as_ref()).await?;
        self.probe(client, setting).await
    }

    /// Records the result of a complete query.
    pub async fn record_result<T>(
        &self,
        result: Result<T, FetchError>,
        setting: Option<String>,
    ) -> Result<T, FetchError> {
        match result {
            Ok(answer) => {
                self.record(Signal::Succeeded, "the source was read").await?;
                Ok(answer)
            }
            Err(error) => Err(self.failed(error, setting).await),
        }
    }
}

/// Records the result of one read with its breaker.
pub(super) struct Watch {
    guard: Arc<Guard>,
    setting: Option<String>,
    delivered: u64,
    recorded: bool,
}

impl Watch {
    pub fn new(guard: Arc<Guard>, setting: Option<String>) -> Self {
        Self { guard, setting, delivered: 0, recorded: false }
    }

    /// Takes a page, the end, or a failure.
    pub async fn saw<T>(
        &mut self,
        read: Result<Option<T>, FetchError>,
    ) -> Result<Option<T>, FetchError> {
        match read {
            Ok(Some(page)) => {
                self.delivered += 1;
                Ok(Some(page))
            }
            Ok(None) => {
                self.succeeded().await?;
                Ok(None)
            }
            Err(error) if self.recorded => Err(error),
            Err(error) => {
                self.recorded = true;
                Err(self.guard.failed(error, self.setting.clone()).await)
            }
        }
    }

    /// A run that stops before the last page has read without a failure so far.
    pub async fn stored(&mut self) -> Result<(), FetchError> {
        if self.delivered > 0 { self.succeeded().await } else { Ok(()) }
    }

    async fn succeeded(&mut self) -> Result<(), FetchError> {
        if self.recorded {
            return Ok(());
        }
        self.recorded = true;
        self.guard.record(Signal::Succeeded, "the source was read").await
    }
}
