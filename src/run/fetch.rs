//! Fetch: the tracker's items, a page at a time.

use jiff::SignedDuration;

use super::{RunContext, RunError};
use crate::event::Event;
use crate::fetch::{FetchError, FetchRequest, Page, Pages};
use crate::model::FailureClass;
use crate::store::Revisit;

/// The pages of one answer. Reading ends early when the run should end.
pub(super) struct Reader {
    /// None: the run was stopped before the tracker answered.
    pages: Option<Box<dyn Pages>>,
}

/// Asks for everything that changed since the last read, and for the items that earlier runs left.
pub(super) async fn changed_items(cx: &RunContext) -> Result<Reader, RunError> {
    cx.emit(Event::FetchStarted);
    let source = &cx.config.source;
    let overlap = SignedDuration::try_from(source.overlap).unwrap_or_default();
    let cursor = cx.store().sources().cursor(source.name.clone()).await?;
    let limits = &cx.config.limits;
    // Twice the limits: enough to fill the queues when half of what was left is no longer work.
    let revisit = Revisit {
        untriaged: limits.max_items_per_run.saturating_mul(2),
        triaged: limits.max_deep_per_run.saturating_mul(2),
        urgent_priority: cx.config.order.urgent_priority,
    };
    let mut also = cx.store().items().to_revisit(cx.now(), revisit).await?;
    let undelivered = cx.store().sources().undelivered(&source.name).await?;
    also.extend(undelivered.into_keys().filter(|id| !also.contains(id)).collect::<Vec<_>>());
    let request = FetchRequest {
        changed_since: cursor.map(|cursor| cursor.checked_sub(overlap).unwrap_or(cursor)),
        also,
    };
    Reader::open(cx, request).await
}

impl Reader {
    pub(super) async fn open(cx: &RunContext, request: FetchRequest) -> Result<Self, RunError> {
        let opened = cx.stop.unless_stopped(cx.edges.source.open(request)).await;
        let pages = opened.transpose().map_err(|error| failed(cx, error))?;
        Ok(Self { pages })
    }

    /// The next page; none at the end, or when the run should end.
    pub(super) async fn next(&mut self, cx: &RunContext) -> Result<Option<Page>, RunError> {
        let Some(pages) = &mut self.pages else { return Ok(None) };
        let next = cx.stop.unless_stopped(pages.next()).await.unwrap_or(Ok(None));
        next.map_err(|error| failed(cx, error))
    }

    /// Every page is stored: the source may remember where it was. Returns the requests sent.
    pub(super) async fn finish(mut self, cx: &RunContext) -> Result<u64, RunError> {
        let mut requests = 0;
        if let Some(pages) = &mut self.pages {
            pages.commit().await.map_err(|error| failed(cx, error))?;
            requests = pages.requests();
        }
        self.ensure_complete(cx)?;
        Ok(requests)
    }

    /// A read that the run's deadline cut short is an error, one that somebody stopped is not.
    pub(super) fn ensure_complete(&self, cx: &RunContext) -> Result<(), RunError> {
        let Some(limit) = cx.stop.deadline_passed() else { return Ok(()) };
        let message = format!(
            "the tracker could not be read completely within the run's time limit of {limit} \
             (limits.run_deadline). What was read is stored; the next run continues from there"
        );
        Err(failed(cx, FetchError::new(FailureClass::TooSlow, message)))
    }
}

fn failed(cx: &RunContext, error: FetchError) -> RunError {
    let (class, message) = (error.class.into_str().into(), error.message.clone());
    cx.emit(Event::FetchFailed { class, message });
    error.into()
}
