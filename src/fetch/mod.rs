//! Reading work items from a tracker.
//!
//! [`Source`] is the seam: a tracker that delivers items in pages. `ado/` is the first real one.
//! The circuit breaker and the retry policy are pure; their state lives in the store.

pub mod ado;
pub mod breaker;
mod guarded;
pub mod memory;
pub mod retry;

pub use guarded::Guarded;
pub use memory::{InMemory, Notebook};

use jiff::Timestamp;

use crate::model::{BoxFuture, FailureClass, ItemId, WorkItem};
use crate::ports::StateError;

/// What a run asks of its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// Items changed at or after this instant (overlap already taken off); none: the look-back.
    pub changed_since: Option<Timestamp>,
    /// Items to read whatever their date: deferred, waiting, in flight.
    pub also: Vec<ItemId>,
}

/// A bounded part of the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Items, ascending by change date within the query part of an answer.
    pub items: Vec<WorkItem>,
    /// Ids that were asked for and are gone.
    pub vanished: Vec<ItemId>,
    /// Once this page's decisions are stored, the next run may begin here.
    pub cursor: Option<Timestamp>,
}

/// The pages of one answer; dropped when the run has enough.
pub trait Pages: Send {
    /// The next page, or none at the end.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, FetchError>>;

    /// Requests sent so far.
    fn requests(&self) -> u64;

    /// Every page delivered so far is stored: the place to go on from may be remembered. To be
    /// called also when the run has enough before the end.
    fn settle(&mut self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async { Ok(()) })
    }
}

/// How an item stands right now, by a light read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// Which.
    pub id: ItemId,
    /// Its revision.
    pub rev: i64,
    /// Its workflow state.
    pub state: String,
}

/// A tracker.
pub trait Source: Send + Sync {
    /// Starts to read. Nothing is fetched before the first [`Pages::next`].
    fn open(&self, request: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>>;

    /// One cheap request, never tried again: does the source answer our question? The circuit
    /// breaker's probe.
    fn check(&self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async { Ok(()) })
    }

    /// A mark of everything a person could change to make a refused source answer: configuration
    /// and credential. None: this source cannot tell.
    fn setting(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { None })
    }

    /// Which of these the configured question still asks for, whatever their date. None: this source
    /// cannot tell.
    fn asked_for(
        &self,
        _ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemId>>, FetchError>> {
        Box::pin(async { Ok(None) })
    }

    /// How these items stand right now, in one light request; an id that is not in the answer is
    /// gone. None: this source cannot tell.
    fn current(
        &self,
        _ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<Current>>, FetchError>> {
        Box::pin(async { Ok(None) })
    }
}

/// A failed read, told so that a person knows what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    /// The class.
    pub class: FailureClass,
    /// What happened, in one paragraph that names the fix.
    pub message: String,
    /// The tracker asked not to be called before.
    pub not_before: Option<Timestamp>,
}

impl FetchError {
    /// A failure without a stated time to come back.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), not_before: None }
    }
}

/// The state, not the source, is in trouble.
impl From<StateError> for FetchError {
    fn from(error: StateError) -> Self {
        let message =
            format!("the stored state of the source could not be read or written: {error}");
        Self::new(FailureClass::Transient, message)
    }
}
