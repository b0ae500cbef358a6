//! What a person can do from the dashboard; the application says how.

use crate::model::{BoxFuture, ItemKey, Opinion, RunId, SessionId};
use crate::report::digest::Scope;
use crate::settings::ReportFormat;

/// Why an action was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// Not in this situation.
    #[error("{0}")]
    NotNow(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

/// What the dashboard can do beyond reading.
pub trait Actions: Send + Sync {
    /// Ends a session with its whole tree.
    fn stop_session(&self, session: SessionId) -> BoxFuture<'_, Result<(), ActionError>>;

    /// Requeues an item.
    fn retry_item(&self, item: ItemKey) -> BoxFuture<'_, Result<(), ActionError>>;

    /// Requeues many items; the number of those that are queued now.
    fn retry_items(&self, items: Vec<ItemKey>) -> BoxFuture<'_, Result<u32, ActionError>>;

    /// Starts no further scheduled run.
    fn pause(&self, note: String) -> BoxFuture<'_, Result<(), ActionError>>;

    /// Follows the schedule again.
    fn resume(&self) -> BoxFuture<'_, Result<(), ActionError>>;

    /// A report as text, without secrets.
    fn report(
        &self,
        scope: Scope,
        format: ReportFormat,
    ) -> BoxFuture<'_, Result<String, ActionError>>;

    /// Stores what a person thinks of an item's newest finding.
    fn give_feedback(
        &self,
        item: ItemKey,
        opinion: Opinion,
        note: String,
    ) -> BoxFuture<'_, Result<(), ActionError>>;

    /// Starts a run.
    fn run_now(&self) -> BoxFuture<'_, Result<RunId, ActionError>>;
}
