//! The state of a source: breaker and versions, how far it was read, and how its first run went.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::rows::{Ms, to_json};
use super::subjects::{Reader, Sources};
use super::{Journal, Sql, StoreError};
use crate::model::{BoxFuture, ItemId, ItemKey, SourceRecord};
use crate::ports::{SourceMemory, StateError};

/// Steps of the clock that the overlap of two reads makes up for.
const CLOCK_STEP: SignedDuration = SignedDuration::from_mins(1);

/// Progress of the first run on a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstRunFact {
    /// Existing items are being recorded as seen; an interrupted run continues with it.
    Baseline,
    /// Over: new items are work from now on.
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

/// How many queued items a run reads again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revisit {
    /// Items without a verdict; as many urgent ones in addition.
    pub untriaged: u32,
    /// Items that wait for deep analysis; as many urgent ones in addition.
    pub triaged: u32,
    /// This priority and higher ones are urgent.
    pub urgent_priority: i64,
}

/// What a run reads from a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToRead {
    /// Start of the query; `None` before the first run.
    pub cursor: Option<Timestamp>,
    /// Items to read regardless of their date: queued work, attempts that are due, and open items
    /// whose area is unknown because an older version stored them.
    pub revisit: Vec<ItemId>,
    /// Items that the query listed but no read delivered, with the number of runs that tried.
    pub undelivered: BTreeMap<ItemId, u32>,
    /// Progress of the first run on this state; `None` if there was none yet.
    pub first_run: Option<FirstRunFact>,
}

/// Earlier versions had one source and one fact for the whole state. It applies to a source that
/// was read then, and to every source while none was read.
const FIRST_RUN: &str = "SELECT value FROM facts WHERE name = 'first_run/' || ?1
    UNION ALL
    SELECT value FROM facts WHERE name = 'first_run' AND (
        EXISTS (SELECT 1 FROM cursors WHERE source = ?1)
        OR EXISTS (SELECT 1 FROM heartbeat_state WHERE key > ?1 || '/' AND key < ?1 || '0')
        OR NOT EXISTS (SELECT 1 FROM cursors UNION ALL SELECT 1 FROM heartbeat_state))
    LIMIT 1";

impl<R: Reader> Sources<'_, R> {
    /// What a run reads from this source.
    pub async fn to_read(
        self,
        source: String,
        now: Timestamp,
        limits: Revisit,
    ) -> Result<ToRead, StoreError> {
        self.read(move |connection| {
            Ok(ToRead {
                cursor: usable(cursor(connection, &source)?, now),
                revisit: to_revisit(connection, &source, now, limits)?,
                undelivered: undelivered(connection, &source)?,
                first_run: first_run(connection, &source)?,
            })
        })
        .await
    }

    /// The stored memory of the source called `name`.
    pub async fn memory(self, name: String) -> Result<Option<String>, StoreError> {
        self.read(move |connection| {
            connection
                .query_row("SELECT memory FROM breaker WHERE source = ?1", [name], |row| row.get(0))
                .optional()
        })
        .await
    }

    /// Where the next query of this source begins; `None` before the first run.
    pub async fn cursor(self, source: String) -> Result<Option<Timestamp>, StoreError> {
        self.read(move |connection| cursor(connection, &source)).await
    }

    /// Progress of the first run on this source; `None` if there was none yet.
    pub async fn first_run(self, source: String) -> Result<Option<FirstRunFact>, StoreError> {
        self.read(move |connection| first_run(connection, &source)).await
    }

    /// Size of a source's backlog at the last count, and the time of the count.
    pub async fn backlog(self, source: &str) -> Result<Option<(u64, Timestamp)>, StoreError> {
        let name = format!("backlog/{source}");
        self.read(move |connection| {
            Ok(fact(connection, &name)?.and_then(|value| serde_json::from_str(&value).ok()))
        })
        .await
    }

    /// When a source that is not read by every run was last read completely.
    pub async fn last_read(self, source: &str) -> Result<Option<Timestamp>, StoreError> {
        let name = format!("last_read/{source}");
        self.read(move |connection| {
            Ok(fact(connection, &name)?.and_then(|value| value.parse().ok()))
        })
        .await
    }

    /// Items that this source listed and did not return in two runs or more.
    pub async fn unread(self, source: String) -> Result<usize, StoreError> {
        let listed = self.read(move |connection| undelivered(connection, &source)).await?;
        Ok(listed.values().filter(|runs| **runs > 1).count())
    }
}

impl Sources<'_, Journal> {
    /// Stores the size of the backlog, before the user has decided what to do with it.
    pub async fn note_backlog(
        self,
        source: &str,
        items: u64,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let name = format!("backlog/{source}");
        self.0
            .commit(move |transaction, _| set_fact(transaction, &name, &to_json(&(items, at))?))
            .await
    }

    /// Stores the progress of the first run on this source.
    pub async fn note_first_run(self, source: &str, fact: FirstRunFact) -> Result<(), StoreError> {
        let source = source.to_owned();
        self.0.commit(move |transaction, _| set_first_run(transaction, &source, fact)).await
    }

    /// Counts a run in which the query did not return this item; returns how many there were in a
    /// row.
    pub async fn note_absence(self, key: &ItemKey) -> Result<u32, StoreError> {
        let name = absence_of(key);
        self.0
            .commit(move |transaction, _| {
                transaction.query_row(
                    "INSERT INTO facts (name, value) VALUES (?1, '1')
                     ON CONFLICT (name) DO UPDATE
                     SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)
                     RETURNING CAST(value AS INTEGER)",
                    [name],
                    |row| row.get(0),
                )
            })
            .await
    }

    /// The query returns this item, or it was given up.
    pub async fn note_presence(self, key: &ItemKey) -> Result<(), StoreError> {
        let name = absence_of(key);
        let is_noted = "SELECT 1 FROM facts WHERE name = ?1";
        if self.first_row(is_noted, [name.clone()], |_| Ok(())).await?.is_none() {
            return Ok(());
        }
        self.0
            .commit(move |transaction, _| {
                transaction.execute("DELETE FROM facts WHERE name = ?1", [name]).map(drop)
            })
            .await
    }

    /// If the run before this one began later than now, our clock was ahead, and a tracker's may have
    /// been too: a cursor may have passed what came meanwhile. Every source is read again as far as
    /// its look-back, which costs no session.
    pub async fn distrust_after_clock_went_back(self, now: Timestamp) -> Result<bool, StoreError> {
        let (run, tolerated) = (self.0.run(), now.saturating_add(CLOCK_STEP).unwrap_or(now));
        let was_ahead = self.read(move |connection| {
            let sql = "SELECT started_at > ?2 FROM runs WHERE run IS NOT ?1
                       ORDER BY rowid DESC LIMIT 1";
            let row = |row: &rusqlite::Row<'_>| row.get::<_, bool>(0);
            connection.query_row(sql, params![run, Ms(tolerated)], row).optional()
        });
        if was_ahead.await? != Some(true) {
            return Ok(false);
        }
        // Nothing is read from a time to come, and the next read sets it right.
        let years = SignedDuration::from_hours(24 * 3650);
        let never = Ms(now.saturating_add(years).unwrap_or(now));
        let write = move |transaction: &Transaction<'_>, _: &mut _| {
            transaction.execute("UPDATE cursors SET changed_since = ?1", [never])
        };
        Ok(self.0.commit(write).await? > 0)
    }

    /// Stores that a source was read completely.
    pub async fn note_read(self, source: &str, at: Timestamp) -> Result<(), StoreError> {
        let name = format!("last_read/{source}");
        self.0.commit(move |transaction, _| set_fact(transaction, &name, &at.to_string())).await
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

/// Longest waiting first, with a separate quota for urgent ones; other changes come with the query
/// anyway.
fn to_revisit(
    connection: &Connection,
    source: &str,
    now: Timestamp,
    limits: Revisit,
) -> Sql<Vec<ItemId>> {
    let part = |which: &str, limit: &str| {
        format!(
            "SELECT * FROM (SELECT item_id FROM heartbeat_state
             WHERE (phase IN ('pending', 'claimed')
                OR (phase = 'waiting' AND (next_attempt <= ?1 OR next_attempt > ?2)))
               AND substr(key, 1, length(?6)) = ?6 AND {which}
             ORDER BY deferrals DESC, priority IS NULL, priority, item_id LIMIT {limit})"
        )
    };
    let sql = [
        part("verdict IS NULL", "?3"),
        part("verdict IS NULL AND priority <= ?5", "?3"),
        part("verdict IS NOT NULL", "?4"),
        part("verdict IS NOT NULL AND priority <= ?5", "?4"),
    ]
    .join(" UNION ");
    let without_area = "SELECT * FROM (SELECT item_id FROM heartbeat_state
         WHERE phase IN ('parked', 'waiting') AND area_path IS NULL
           AND substr(key, 1, length(?6)) = ?6
         ORDER BY item_id LIMIT ?3)";
    let sql = format!("{sql} UNION {without_area}");
    // A wait longer than any delay was written by a wrong clock, and counts as over.
    let too_far = now.saturating_add(crate::model::MAX_WAIT).unwrap_or(now);
    let Revisit { untriaged, triaged, urgent_priority } = limits;
    let of_source = format!("{source}/");
    let values = params![Ms(now), Ms(too_far), untriaged, triaged, urgent_priority, of_source];
    connection.prepare_cached(&sql)?.query_map(values, |row| row.get(0).map(ItemId))?.collect()
}

fn absence_of(key: &ItemKey) -> String {
    format!("absent/{key}")
}

fn first_run(connection: &Connection, source: &str) -> Sql<Option<FirstRunFact>> {
    let value: Option<String> =
        connection.query_row(FIRST_RUN, [source], |row| row.get(0)).optional()?;
    Ok(value.map(|value| match value.as_str() {
        "baseline" => FirstRunFact::Baseline,
        _ => FirstRunFact::Over,
    }))
}

fn cursor(connection: &Connection, source: &str) -> Sql<Option<Timestamp>> {
    connection
        .query_row("SELECT changed_since FROM cursors WHERE source = ?1", [source], |row| {
            row.get::<_, Ms>(0).map(|ms| ms.0)
        })
        .optional()
}

/// A cursor after now was written while our clock was ahead. Nobody knows what changed meanwhile, so
/// the whole look-back is read again, which costs no session. A small step of the clock is none.
fn usable(cursor: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let tolerated = now.saturating_add(CLOCK_STEP).unwrap_or(now);
    cursor.filter(|at| *at <= tolerated).map(|at| at.min(now))
}

fn undelivered(connection: &Connection, source: &str) -> Sql<BTreeMap<ItemId, u32>> {
    let value: Option<String> = connection
        .query_row("SELECT value FROM facts WHERE name = 'undelivered/' || ?1", [source], |row| {
            row.get(0)
        })
        .optional()?;
    let stored: BTreeMap<i64, u32> =
        value.and_then(|value| serde_json::from_str(&value).ok()).unwrap_or_default();
    Ok(stored.into_iter().map(|(id, runs)| (ItemId(id), runs)).collect())
}

/// Adds and removes undelivered items.
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

/// Stored for the source and, as in earlier versions, for the state.
pub(super) fn set_first_run(
    transaction: &Transaction<'_>,
    source: &str,
    fact: FirstRunFact,
) -> Sql<()> {
    for name in [&format!("first_run/{source}"), "first_run"] {
        transaction.execute(
            "INSERT INTO facts (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = ?2 WHERE value <> 'over'",
            [name, fact.as_str()],
        )?;
    }
    Ok(())
}

fn fact(connection: &Connection, name: &str) -> Sql<Option<String>> {
    connection
        .query_row("SELECT value FROM facts WHERE name = ?1", [name], |row| row.get(0))
        .optional()
}

fn set_fact(transaction: &Transaction<'_>, name: &str, value: &str) -> Sql<()> {
    transaction
        .execute(
            "INSERT INTO facts (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = ?2",
            [name, value],
        )
        .map(drop)
}

/// Moves forward only, so that a clock that was set back does not cause a complete reread; and never
/// past our own clock, because a change between then and now would not be seen any more.
pub(super) fn move_cursor(
    transaction: &Transaction<'_>,
    source: &str,
    to: Option<Timestamp>,
    now: Timestamp,
) -> Sql<()> {
    let Some(to) = to else { return Ok(()) };
    transaction
        .execute(
            "INSERT INTO cursors (source, changed_since) VALUES (?1, ?2)
             ON CONFLICT (source) DO UPDATE SET changed_since = ?2
             WHERE changed_since < ?2 OR changed_since > ?3",
            params![source, Ms(to.min(now)), Ms(now)],
        )
        .map(drop)
}
