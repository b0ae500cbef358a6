//! Actions of the dashboard; the application implements them.

use crate::model::{BoxFuture, ItemKey, Opinion, RunId, SessionId};
use crate::report::digest::Scope;
use crate::settings::ReportFormat;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    #[error("{0}")]
    NotFound(String),
    /// Not possible in the current state.
    #[error("{0}")]
    NotNow(String),
    #[error("{0}")]
    Failed(String),
}

pub trait Actions: Send + Sync {
    /// Ends a session with its process tree.
    fn stop_session(&self, session: SessionId) -> BoxFuture<'_, Result<(), ActionError>>;

    fn retry_item(&self, item: ItemKey) -> BoxFuture<'_, Result<(), ActionError>>;

    /// Returns the number of items that are queued now.
    fn retry_items(&self, items: Vec<ItemKey>) -> BoxFuture<'_, Result<u32, ActionError>>;

    /// Stops starting scheduled runs.
    fn pause(&self, note: String) -> BoxFuture<'_, Result<(), ActionError>>;

    fn resume(&self) -> BoxFuture<'_, Result<(), ActionError>>;

    /// As text, without secrets.
    fn report(
        &self,
        scope: Scope,
        format: ReportFormat,
    ) -> BoxFuture<'_, Result<String, ActionError>>;

    /// The finding of this session as a task for a coding agent, without secrets.
    fn brief(&self, session: SessionId) -> BoxFuture<'_, Result<String, ActionError>>;

    /// Stores a person's rating of an item's newest finding.
    fn give_feedback(
        &self,
        item: ItemKey,
        opinion: Opinion,
        note: String,
    ) -> BoxFuture<'_, Result<(), ActionError>>;

    fn run_now(&self) -> BoxFuture<'_, Result<RunId, ActionError>>;
}
