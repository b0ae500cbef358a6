//! What is remembered about a source: its breaker and versions, how far it was read, and how the
//! first run on this state went.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::rows::{Ms, to_json};
use super::subjects::{Reader, Sources};
use super::{Journal, Sql, StoreError};
use crate::model::{BoxFuture, ItemId, SourceRecord};
use crate::ports::{SourceMemory, StateError};

/// How far the first run on a state came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstRunFact {
    /// The present is being recorded as seen; a run that was cut short goes on with it.
    Baseline,
    /// Over: from now on, what is new is work.
    Over,
}

impl FirstRunFact {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Over => "over",
        }
    }
}

impl<R: Reader> Sources<'_, R> {
    /// The memory of the source called `name`, as it was stored.
    pub async fn memory(self, name: String) -> Result<Option<String>, StoreError> {
        self.read(move |connection| {
            connection
                .query_row("SELECT memory FROM breaker WHERE source = ?1", [name], |row| row.get(0))
                .optional()
        })
        .await
    }

    /// Where the next query of this source begins; none before the first run.
    pub async fn cursor(self, source: String) -> Result<Option<Timestamp>, StoreError> {
        self.read(move |connection| cursor(connection, &source)).await
    }

    /// How far the first run on this state came; none: there was none yet.
    pub async fn first_run(self) -> Result<Option<FirstRunFact>, StoreError> {
        self.read(first_run).await
    }

    /// How many items the backlog had when it was last counted, and when that was.
    pub async fn backlog(self) -> Result<Option<(u64, Timestamp)>, StoreError> {
        self.read(|connection| {
            let value: Option<String> = connection
                .query_row("SELECT value FROM facts WHERE name = 'backlog'", [], |row| row.get(0))
                .optional()?;
            Ok(value.and_then(|value| serde_json::from_str(&value).ok()))
        })
        .await
    }
}

impl Sources<'_, Journal> {
    /// The backlog was counted, before anybody said what to do with it.
    pub async fn note_backlog(self, items: u64, at: Timestamp) -> Result<(), StoreError> {
        self.0
            .commit(move |transaction, _| {
                let value = to_json(&(items, at))?;
                transaction
                    .execute(
                        "INSERT INTO facts (name, value) VALUES ('backlog', ?1)
                     ON CONFLICT (name) DO UPDATE SET value = ?1",
                        [value],
                    )
                    .map(drop)
            })
            .await
    }

    /// The first run on this state came this far.
    pub async fn note_first_run(self, fact: FirstRunFact) -> Result<(), StoreError> {
        self.0.commit(move |transaction, _| set_first_run(transaction, fact)).await
    }
}

impl SourceMemory for Journal {
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SourceRecord, StateError>> {
        Box::pin(async move {
            let stored = self.sources().memory(name.to_owned()).await.map_err(StateError::new)?;
            stored.map_or_else(
                || Ok(SourceRecord::default()),
                |text| serde_json::from_str(&text).map_err(StateError::new),
            )
        })
    }

    fn save<'a>(
        &'a self,
        name: &'a str,
        value: &'a SourceRecord,
    ) -> BoxFuture<'a, Result<(), StateError>> {
        Box::pin(async move {
            let (name, text) =
                (name.to_owned(), serde_json::to_string(value).map_err(StateError::new)?);
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
            .map_err(StateError::new)
        })
    }
}

pub(super) fn first_run(connection: &Connection) -> Sql<Option<FirstRunFact>> {
    let value: Option<String> = connection
        .query_row("SELECT value FROM facts WHERE name = 'first_run'", [], |row| row.get(0))
        .optional()?;
    Ok(value.map(|value| match value.as_str() {
        "baseline" => FirstRunFact::Baseline,
        _ => FirstRunFact::Over,
    }))
}

pub(super) fn cursor(connection: &Connection, source: &str) -> Sql<Option<Timestamp>> {
    connection
        .query_row("SELECT changed_since FROM cursors WHERE source = ?1", [source], |row| {
            row.get::<_, Ms>(0).map(|ms| ms.0)
        })
        .optional()
}

pub(super) fn undelivered(connection: &Connection, source: &str) -> Sql<BTreeMap<ItemId, u32>> {
    let value: Option<String> = connection
        .query_row("SELECT value FROM facts WHERE name = 'undelivered/' || ?1", [source], |row| {
            row.get(0)
        })
        .optional()?;
    let stored: BTreeMap<i64, u32> =
        value.and_then(|value| serde_json::from_str(&value).ok()).unwrap_or_default();
    Ok(stored.into_iter().map(|(id, runs)| (ItemId(id), runs)).collect())
}

/// Remembers and forgets undelivered items.
pub(super) fn remember_undelivered(
    transaction: &Transaction<'_>,
    source: &str,
    missing: &[(ItemId, u32)],
    delivered: &[ItemId],
) -> Sql<()> {
    if missing.is_empty() && delivered.is_empty() {
        return Ok(());
    }
    let mut known = undelivered(transaction, source)?;
    known.extend(missing.iter().copied());
    known.retain(|id, _| !delivered.contains(id));
    let known: BTreeMap<i64, u32> = known.into_iter().map(|(id, runs)| (id.0, runs)).collect();
    transaction
        .execute(
            "INSERT INTO facts (name, value) VALUES ('undelivered/' || ?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = ?2",
            params![source, to_json(&known)?],
        )
        .map(drop)
}

pub(super) fn set_first_run(transaction: &Transaction<'_>, fact: FirstRunFact) -> Sql<()> {
    transaction
        .execute(
            "INSERT INTO facts (name, value) VALUES ('first_run', ?1)
             ON CONFLICT (name) DO UPDATE SET value = ?1 WHERE value <> 'over'",
            [fact.as_str()],
        )
        .map(drop)
}

/// Forward only: a clock that was set back cannot make us read everything again.
pub(super) fn move_cursor(
    transaction: &Transaction<'_>,
    source: &str,
    to: Option<Timestamp>,
) -> Sql<()> {
    let Some(to) = to else { return Ok(()) };
    transaction
        .execute(
            "INSERT INTO cursors (source, changed_since) VALUES (?1, ?2)
             ON CONFLICT (source) DO UPDATE SET changed_since = max(changed_since, ?2)
             WHERE changed_since < ?2",
            params![source, Ms(to)],
        )
        .map(drop)
}
