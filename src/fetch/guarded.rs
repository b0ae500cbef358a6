//! A source behind its circuit breaker.

use std::sync::Arc;

use super::{
    AsOf, Details, FailureClass, FetchError, FetchRequest, FinishedItem, FinishedRequest,
    LinkedItem, Notebook, Page, Pages, Source,
};
use crate::breaker::{Admission, Signal, TRACKER};
use crate::clock::Clock;
use crate::event::{Event, Sink};
use crate::model::{BoxFuture, BreakerState, ItemId, SourceRecord};

/// Wraps a [`Source`]: checks the breaker and the server's "not before" first and records the
/// result of each read. Every change of the breaker is an event.
#[derive(Clone)]
pub struct Guarded {
    inner: Arc<dyn Source>,
    guard: Arc<Guard>,
}

struct Guard {
    notebook: Arc<Notebook>,
    clock: Clock,
    sink: Arc<dyn Sink>,
}

impl Guarded {
    /// Guards `inner` with the breaker stored in `notebook`.
    pub fn new(
        inner: Arc<dyn Source>,
        notebook: Arc<Notebook>,
        clock: Clock,
        sink: Arc<dyn Sink>,
    ) -> Self {
        Self { inner, guard: Arc::new(Guard { notebook, clock, sink }) }
    }
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

/// A source whose configuration cannot be used: every read returns the reason.
pub struct Unusable(pub FetchError);

impl Source for Unusable {
    fn open(&self, _: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>> {
        Box::pin(async { Err(self.0.clone()) })
    }
}

impl Details for Unusable {}

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

impl Guarded {
    /// Runs a complete query if the breaker admits it, and records its result.
    async fn ask<T>(
        &self,
        question: BoxFuture<'_, Result<T, FetchError>>,
    ) -> Result<T, FetchError> {
        let setting = self.admit().await?;
        match question.await {
            Ok(answer) => {
                self.guard.record(Signal::Succeeded, "the source was read").await?;
                Ok(answer)
            }
            Err(error) => Err(self.guard.failed(error, setting).await),
        }
    }

    /// Passes the breaker, with a probe if it requires one; returns the source's configuration
    /// fingerprint.
    async fn admit(&self) -> Result<Option<String>, FetchError> {
        let setting = self.inner.configuration_fingerprint().await;
        if self.guard.admit(setting.as_ref()).await? == Admission::Probe {
            if let Err(error) = self.inner.check().await {
                return Err(self.guard.failed(error, setting).await);
            }
            self.guard.record(Signal::ProbeSucceeded, "the probe succeeded").await?;
        }
        Ok(setting)
    }
}

impl Source for Guarded {
    fn finished(
        &self,
        request: FinishedRequest,
    ) -> BoxFuture<'_, Result<Option<Vec<FinishedItem>>, FetchError>> {
        Box::pin(self.ask(self.inner.finished(request)))
    }

    fn as_of(
        &self,
        ids: Vec<ItemId>,
        at: jiff::Timestamp,
    ) -> BoxFuture<'_, Result<Option<Vec<AsOf>>, FetchError>> {
        Box::pin(self.ask(self.inner.as_of(ids, at)))
    }

    fn development_links(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<LinkedItem>>, FetchError>> {
        Box::pin(self.ask(self.inner.development_links(ids)))
    }

    fn open(&self, request: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>> {
        Box::pin(async move {
            let setting = self.admit().await?;
            let pages = match self.inner.open(request).await {
                Ok(pages) => pages,
                Err(error) => return Err(self.guard.failed(error, setting).await),
            };
            let guard = Arc::clone(&self.guard);
            let pages = GuardedPages { pages, guard, setting, delivered: 0, recorded: false };
            Ok(Box::new(pages) as Box<dyn Pages>)
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async move {
            let setting = self.inner.configuration_fingerprint().await;
            self.guard.admit(setting.as_ref()).await?;
            match self.inner.check().await {
                Ok(()) => self.guard.record(Signal::ProbeSucceeded, "the probe succeeded").await,
                Err(error) => Err(self.guard.failed(error, setting).await),
            }
        })
    }
}

struct GuardedPages {
    pages: Box<dyn Pages>,
    guard: Arc<Guard>,
    setting: Option<String>,
    delivered: u64,
    recorded: bool,
}

impl GuardedPages {
    async fn succeeded(&mut self) -> Result<(), FetchError> {
        if self.recorded {
            return Ok(());
        }
        self.recorded = true;
        self.guard.record(Signal::Succeeded, "the source was read").await
    }
}

impl Pages for GuardedPages {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, FetchError>> {
        Box::pin(async move {
            match self.pages.next().await {
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
        })
    }

    fn requests(&self) -> u64 {
        self.pages.requests()
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async move {
            self.pages.commit().await?;
            // A run that stops before the last page has read without a failure so far.
            if self.delivered > 0 { self.succeeded().await } else { Ok(()) }
        })
    }
}
