//! What is remembered about a source across requests, runs and restarts.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::FetchError;
use crate::model::{BoxFuture, SourceRecord};
use crate::ports::{SourceMemory, StateError};

/// A memory in the process only: for tests and one-off checks.
#[derive(Debug, Default)]
pub struct InMemory(std::sync::Mutex<HashMap<String, SourceRecord>>);

impl InMemory {
    /// Empty, ready to share.
    pub fn shared() -> Arc<Self> {
        Arc::new(Self::default())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, SourceRecord>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl SourceMemory for InMemory {
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SourceRecord, StateError>> {
        Box::pin(async move { Ok(self.lock().get(name).cloned().unwrap_or_default()) })
    }

    fn save<'a>(
        &'a self,
        name: &'a str,
        value: &'a SourceRecord,
    ) -> BoxFuture<'a, Result<(), StateError>> {
        Box::pin(async move {
            self.lock().insert(name.to_owned(), value.clone());
            Ok(())
        })
    }
}

/// One source's record. Updates are serialised, so that the breaker and the client do not overwrite
/// each other's changes.
pub struct Notebook {
    memory: Arc<dyn SourceMemory>,
    name: String,
    turn: Mutex<()>,
}

impl Notebook {
    /// The record of the source called `name`.
    pub fn new(memory: Arc<dyn SourceMemory>, name: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { memory, name: name.into(), turn: Mutex::new(()) })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The current record.
    pub async fn read(&self) -> Result<SourceRecord, FetchError> {
        Ok(self.memory.load(&self.name).await?)
    }

    /// Updates the record; writes only if it changed.
    pub async fn update<T>(
        &self,
        change: impl FnOnce(&mut SourceRecord) -> T + Send,
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
