//! Reads work items from a tracker.
//!
//! [`Tracker`] is one of a closed set of clients, each with its folder; files with the same job have
//! the same name. What they share is here once: `pages` reads item after item, and a `Listing` says
//! how a tracker lists its changes; `http` sends requests within limits, retries and sizes, and a
//! `Dialect` says how a tracker is signed in to and what its responses mean; `failure` classifies
//! what went wrong by a table per tracker. [`Source`] is what a run sees of a tracker. The circuit
//! breaker and the retry policy are pure; their state is in the store.

pub mod ado;
mod around;
mod client;
mod credential;
mod error;
mod failure;
mod field_write;
pub mod file;
pub mod filters;
pub mod github;
mod guarded;
mod http;
mod http_error;
pub mod jira;
mod json;
mod look_back;
pub mod memory;
mod pages;
pub mod retry;
mod text;
mod tracker;
mod write_back;

pub use credential::{Credential, FixedCredential};
pub use error::{Cause, FetchError};
pub use field_write::{FieldChange, FieldWrite};
pub use guarded::close_breaker;
pub use http::Turns;
pub use look_back::{AsOf, DevelopmentLink, FinishedItem, FinishedRequest, LinkedItem, PastText};
pub use memory::{InMemory, Notebook};
pub use tracker::{Connection, Probe, Tracker, connect};
pub use write_back::{WriteBack, Written};

use jiff::Timestamp;

use crate::model::{
    Attachment, BoxFuture, FailureClass, ItemId, LinkedChange, LinkedContent, WorkItem,
};

/// What a run requests from its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// Items changed at or after this instant (the overlap is already subtracted); `None`: the
    /// look-back.
    pub changed_since: Option<Timestamp>,
    /// Items to read regardless of their date: deferred, waiting, in progress.
    pub also: Vec<ItemId>,
}

/// A bounded part of the result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Ascending by change date within the query part of a read.
    pub items: Vec<WorkItem>,
    /// Requested ids that no longer exist.
    pub vanished: Vec<ItemId>,
    /// Ids that the query listed and the read did not deliver: they exist, so they are requested
    /// again.
    pub undelivered: Vec<ItemId>,
    /// Start of the next run, once this page's decisions are stored.
    pub cursor: Option<Timestamp>,
}

/// The pages of one read; dropped when the run has enough.
pub trait Pages: Send {
    /// The next page; `None` at the end.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, FetchError>>;

    /// Requests sent so far.
    fn requests(&self) -> u64;

    /// Called once every delivered page is stored, also when a run stops before the last page: the
    /// source may now save its position.
    fn commit(&mut self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Revision and workflow state of an item, from a light read without its texts. The revision is
/// opaque and compared for equality only: some trackers count, others use a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentState {
    pub id: ItemId,
    pub rev: i64,
    pub state: String,
    /// As in [`WorkItem::finished`].
    pub finished: Option<bool>,
    pub changed_at: Timestamp,
}

impl From<WorkItem> for CurrentState {
    fn from(item: WorkItem) -> Self {
        let WorkItem { id, rev, state, finished, changed_at, .. } = item;
        Self { id, rev, state, finished, changed_at }
    }
}

/// A file and the item it is attached to.
pub type ItemFile = (ItemId, Attachment);

/// What a run reads work items from: a [`Tracker`], or a script of a test.
pub trait Source: Send + Sync {
    /// Starts reading.
    fn open(&self, request: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>>;

    /// Finished items, ordered by number. `None` if the source cannot look back.
    fn finished(
        &self,
        _request: FinishedRequest,
    ) -> BoxFuture<'_, Result<Option<Vec<FinishedItem>>, FetchError>> {
        Box::pin(async { Ok(None) })
    }

    /// These items as of an instant; one that did not exist yet is omitted. `None` if the source
    /// cannot look back.
    fn as_of(
        &self,
        _ids: Vec<ItemId>,
        _at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Vec<AsOf>>, FetchError>> {
        Box::pin(async { Ok(None) })
    }

    /// The commits and pull requests that these items are linked to. `None` if the source has no
    /// such links.
    fn development_links(
        &self,
        _ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<LinkedItem>>, FetchError>> {
        Box::pin(async { Ok(None) })
    }

    // Light reads of single items. They bypass the circuit breaker: they tell nothing about the
    // source's health, and triage and analysis continue without them.

    /// The ids among these that the configured query still matches, regardless of their date.
    /// `None` if the source cannot check single items.
    fn still_matching(
        &self,
        _ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemId>>, FetchError>> {
        Box::pin(async { Ok(None) })
    }

    /// Current state of these items, in one light request; an id missing from the result was
    /// deleted. `None` if the source has no such request.
    fn current_states(
        &self,
        _ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<CurrentState>>, FetchError>> {
        Box::pin(async { Ok(None) })
    }

    /// Context of an item: linked items with their titles, code changes, attached files. Bounded,
    /// and read once for an item that is about to be analysed. `None` if the source has none.
    fn linked_content(
        &self,
        _id: ItemId,
    ) -> BoxFuture<'_, Result<Option<LinkedContent>, FetchError>> {
        Box::pin(async { Ok(None) })
    }

    /// Names and sizes of the files attached to these items, in a few light requests and without
    /// the files. `None` if the source has no such request.
    fn attached_files(
        &self,
        _ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemFile>>, FetchError>> {
        Box::pin(async { Ok(None) })
    }

    /// The number of the item with this name (`SHOP-12`, `contoso/shop#4`), whatever the query says;
    /// `None` if there is none, or items have no other name than their number.
    fn id_of(&self, _name: String) -> BoxFuture<'_, Result<Option<ItemId>, FetchError>> {
        Box::pin(async { Ok(None) })
    }

    /// Adds title, state and files to a linked change, as far as the tracker has them.
    fn change(&self, change: LinkedChange) -> BoxFuture<'_, Result<LinkedChange, FetchError>> {
        Box::pin(async { Ok(change) })
    }

    /// The bytes of an attached file, at most `limit`. The credential is sent only to the tracker's
    /// own address for files: any other address or redirect is an error that names it.
    fn attachment(
        &self,
        file: Attachment,
        _limit: u64,
    ) -> BoxFuture<'_, Result<Vec<u8>, FetchError>> {
        let message = format!("the source cannot read attached files, such as {:?}", file.name);
        Box::pin(async { Err(FetchError::new(FailureClass::Config, message)) })
    }
}
