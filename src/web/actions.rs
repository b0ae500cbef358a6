//! What a person can do from the dashboard; the application says how.

use crate::model::{BoxFuture, ItemKey, Opinion, RunId, SessionId};

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

/// The hands of the dashboard.
pub trait Actions: Send + Sync {
    /// Ends a session with its whole tree.
    fn stop_session(&self, session: SessionId) -> BoxFuture<'_, Result<(), ActionError>>;

    /// Puts an item back in line.
    fn retry_item(&self, item: ItemKey) -> BoxFuture<'_, Result<(), ActionError>>;

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
