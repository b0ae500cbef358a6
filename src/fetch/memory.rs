//! What is remembered about a source between requests, runs and restarts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::breaker::Breaker;
use super::{FailureClass, FetchError};
use crate::model::BoxFuture;

/// Everything remembered about one source; small, and stored as one JSON value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    /// The circuit breaker.
    pub breaker: Breaker,
    /// The source's [`setting`](super::Source::setting) when a failure opened the breaker that only
    /// a person can help.
    pub opened_with: Option<String>,
    /// The source asked not to be called before.
    pub not_before: Option<Timestamp>,
    /// Newest change whose decisions are stored.
    pub cursor: Option<Timestamp>,
    /// Where the revision stream goes on, in reporting mode.
    pub continuation_token: Option<String>,
    /// API versions agreed with the server, by resource; empty: the configured one.
    pub api_versions: BTreeMap<String, String>,
    /// What the source last said about its limits.
    pub rate_limit: Option<RateLimit>,
}

/// The `X-RateLimit-*` headers as last seen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RateLimit {
    /// Which resource is limited.
    pub resource: Option<String>,
    /// Units allowed in the window.
    pub limit: Option<i64>,
    /// Units left.
    pub remaining: Option<i64>,
    /// When the window ends.
    pub reset: Option<Timestamp>,
    /// Milliseconds the request was held back.
    pub delay_ms: Option<i64>,
    /// When the headers were seen.
    pub seen_at: Option<Timestamp>,
}

impl RateLimit {
    /// Is less than a tenth left, in a window that has not ended?
    pub fn is_low(&self, now: Timestamp) -> bool {
        let ended = self.reset.is_some_and(|reset| reset <= now);
        match (self.remaining, self.limit) {
            (Some(remaining), Some(limit)) if !ended => remaining.saturating_mul(10) < limit,
            _ => false,
        }
    }
}

/// Where the memories of sources are kept.
pub trait SourceMemory: Send + Sync {
    /// What is remembered of the source called `name`; nothing yet: the default.
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Remembered, FetchError>>;

    /// Keeps `value` for the source called `name`.
    fn save<'a>(
        &'a self,
        name: &'a str,
        value: &'a Remembered,
    ) -> BoxFuture<'a, Result<(), FetchError>>;
}

/// A memory that lasts as long as the process: for tests and one-off checks.
#[derive(Debug, Default)]
pub struct InMemory(std::sync::Mutex<HashMap<String, Remembered>>);

impl InMemory {
    /// Empty, ready to share.
    pub fn shared() -> Arc<Self> {
        Arc::new(Self::default())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Remembered>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl SourceMemory for InMemory {
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Remembered, FetchError>> {
        Box::pin(async move { Ok(self.lock().get(name).cloned().unwrap_or_default()) })
    }

    fn save<'a>(
        &'a self,
        name: &'a str,
        value: &'a Remembered,
    ) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(async move {
            self.lock().insert(name.to_owned(), value.clone());
            Ok(())
        })
    }
}

/// One source's page in its memory: changes are read, made and written one after another, so that
/// the breaker and the client never undo each other's notes.
pub struct Notebook {
    memory: Arc<dyn SourceMemory>,
    name: String,
    turn: Mutex<()>,
}

impl Notebook {
    /// The page of the source called `name`.
    pub fn new(memory: Arc<dyn SourceMemory>, name: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { memory, name: name.into(), turn: Mutex::new(()) })
    }

    /// The source's configured name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is remembered now.
    pub async fn read(&self) -> Result<Remembered, FetchError> {
        self.memory.load(&self.name).await
    }

    /// Changes what is remembered; writes only if something changed.
    pub async fn update<T>(
        &self,
        change: impl FnOnce(&mut Remembered) -> T + Send,
    ) -> Result<T, FetchError> {
        let _turn = self.turn.lock().await;
        let before = self.memory.load(&self.name).await?;
        let mut after = before.clone();
        let result = change(&mut after);
        if after != before {
            self.memory.save(&self.name, &after).await?;
        }
        Ok(result)
    }
}

impl std::fmt::Debug for Notebook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notebook").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The failure of a memory, for implementations: the state, not the source, is in trouble.
pub fn memory_failed(what: impl std::fmt::Display) -> FetchError {
    FetchError::new(
        FailureClass::Transient,
        format!("the stored state of the source could not be read or written: {what}"),
    )
}
