//! What is remembered about a source: its breaker, its "not before", its versions.

use rusqlite::{OptionalExtension, params};

use super::{Journal, Store, StoreError};
use crate::fetch::{FetchError, Remembered, SourceMemory, memory_failed};
use crate::model::BoxFuture;

impl Store {
    /// The memory of the source called `name`, as it was stored.
    pub async fn source_memory(&self, name: String) -> Result<Option<String>, StoreError> {
        self.read(move |connection| {
            connection
                .query_row("SELECT memory FROM breaker WHERE source = ?1", [name], |row| row.get(0))
                .optional()
        })
        .await
    }
}

impl SourceMemory for Journal {
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Remembered, FetchError>> {
        Box::pin(async move {
            let stored =
                self.store().source_memory(name.to_owned()).await.map_err(memory_failed)?;
            stored.map_or_else(
                || Ok(Remembered::default()),
                |text| serde_json::from_str(&text).map_err(memory_failed),
            )
        })
    }

    fn save<'a>(
        &'a self,
        name: &'a str,
        value: &'a Remembered,
    ) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(async move {
            let (name, text) =
                (name.to_owned(), serde_json::to_string(value).map_err(memory_failed)?);
            self.commit(move |transaction, _| {
                transaction
                    .execute(
                        "INSERT INTO breaker (source, memory) VALUES (?1, ?2)
                         ON CONFLICT (source) DO UPDATE SET memory = ?2",
                        params![name, text],
                    )
                    .map(drop)
            })
            .await
            .map_err(memory_failed)
        })
    }
}
