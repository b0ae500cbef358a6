//! A twin of what must not be forgotten, in two small files beside the database: what was spent in the
//! last days, and which items were finished.
//!
//! It is written when money is booked and at the end of each run, and read when another database is in
//! the place of a lost or damaged one: the day's budget then goes on from where it was, and no item is
//! paid for twice.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, Transaction, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::rows::Ms;
use super::{Journal, Sql, Store, StoreError};
use crate::event::Reason;
use crate::model::{ItemKey, RunId, SessionId, Usd};
use crate::private;

pub(super) const SPENT: &str = "spent.json";
pub(super) const FINISHED: &str = "finished.json";

/// A budget looks back to the first of the month.
const SPENT_DAYS: SignedDuration = SignedDuration::from_hours(31 * 24);

/// What was spent on one day for one purpose.
#[derive(Debug, Serialize, Deserialize)]
struct Spent {
    day: String,
    stage: String,
    source: Option<String>,
    estimated: bool,
    assumed: bool,
    micros: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct FinishedItem {
    key: ItemKey,
    /// Of the text that was finished.
    fingerprint: String,
    title: String,
}

/// What a database did not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BroughtBack {
    pub items: usize,
    pub spent: Usd,
}

impl Journal {
    /// Call it when money was booked.
    pub(super) async fn keep_spent(&self) {
        let since = self.clock().now().saturating_sub(SPENT_DAYS).unwrap_or(Timestamp::MIN);
        let since = since.strftime("%Y-%m-%d").to_string();
        self.keep(SPENT, move |connection| spent(connection, &since)).await;
    }

    /// Call it at the end of a run.
    pub(super) async fn keep_finished(&self) {
        self.keep(FINISHED, finished).await;
    }

    /// A twin that cannot be written makes nothing fail: the database is there.
    async fn keep<T: Serialize>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Connection) -> Sql<Vec<T>> + Send + 'static,
    ) {
        let store = self.store().clone();
        let keep = move || {
            let path = store.folder().join(name);
            // Written before others can book, so that an older figure never replaces a newer one.
            store.read_here(|connection| Ok(replace(&path, &read(connection)?)))
        };
        let kept = match tokio::task::spawn_blocking(keep).await {
            Ok(Ok(written)) => written.map_err(|error| error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = kept {
            tracing::warn!(name, error, "could not write the twin of the state");
        }
    }
}

/// Replaces the file, unless it says the same already. It outlives a power failure.
fn replace<T: Serialize>(path: &Path, value: &[T]) -> io::Result<()> {
    let content = serde_json::to_vec(value)?;
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    let new = path.with_extension("new");
    let mut file = private::create_file(&new)?;
    file.write_all(&content)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

fn spent(connection: &Connection, since: &str) -> Sql<Vec<Spent>> {
    let sql = "SELECT day, stage, source, estimated, assumed, sum(spent) FROM budget
               WHERE day >= ?1 AND spent > 0 GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5";
    let row = |row: &rusqlite::Row<'_>| {
        Ok(Spent {
            day: row.get(0)?,
            stage: row.get(1)?,
            source: row.get(2)?,
            estimated: row.get(3)?,
            assumed: row.get(4)?,
            micros: row.get(5)?,
        })
    };
    connection.prepare_cached(sql)?.query_map([since], row)?.collect()
}

fn finished(connection: &Connection) -> Sql<Vec<FinishedItem>> {
    let sql = "SELECT key, processed_fingerprint, title FROM heartbeat_state
               WHERE processed_fingerprint IS NOT NULL ORDER BY key";
    let row = |row: &rusqlite::Row<'_>| {
        Ok(FinishedItem { key: row.get(0)?, fingerprint: row.get(1)?, title: row.get(2)? })
    };
    connection.prepare_cached(sql)?.query_map([], row)?.collect()
}

/// Adds to the database in `folder` what it does not know: money that was spent and, if `items`,
/// items that were finished. A missing database is begun only if there is something to add. The
/// caller holds the lock of the run, and no service is running.
pub fn bring_back(folder: &Path, items: bool, now: Timestamp) -> Result<BroughtBack, StoreError> {
    let spent: Vec<Spent> = read(&folder.join(SPENT));
    let finished: Vec<FinishedItem> = if items { read(&folder.join(FINISHED)) } else { Vec::new() };
    if spent.is_empty() && finished.is_empty() {
        return Ok(BroughtBack::default());
    }
    Store::open(folder)?.transact_here(|transaction| {
        let mut back = BroughtBack::default();
        for spent in &spent {
            back.spent += book(transaction, spent)?;
        }
        for finished in &finished {
            back.items += finish(transaction, finished, now)?;
        }
        Ok(back)
    })
}

/// The same at the begin of a run if somebody put an older copy of the database in its place. The
/// money tells: a session is booked before its item is finished.
pub(super) fn catch_up(store: &Store, now: Timestamp) -> Result<(), StoreError> {
    let mut days = BTreeMap::<String, i64>::new();
    for spent in read::<Spent>(&store.folder().join(SPENT)) {
        *days.entry(spent.day).or_default() += spent.micros;
    }
    let sql = "SELECT coalesce(sum(spent), 0) < ?2 FROM budget WHERE day = ?1";
    let is_older = store.read_here(|connection| {
        let mut knows_less = connection.prepare_cached(sql)?;
        let compare = |day: (&String, &i64)| knows_less.query_row(day, |row| row.get::<_, bool>(0));
        days.iter().map(compare).collect::<Sql<Vec<_>>>()
    })?;
    if is_older.contains(&true) {
        let BroughtBack { items, spent } = bring_back(store.folder(), true, now)?;
        tracing::warn!(items, %spent, "the database is older than what happened since: a copy was put in its place without `heartbeat state restore`; it knows again what was spent and which items were finished");
    }
    Ok(())
}

/// Nothing if there is none; one that cannot be read is reported, and a person goes on without it.
fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let content = match fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "the twin of the state cannot be read");
            return Vec::new();
        }
    };
    serde_json::from_slice(&content).unwrap_or_else(|error| {
        tracing::error!(path = %path.display(), %error, "the twin of the state is damaged");
        Vec::new()
    })
}

/// Books the part that the database does not know, as one session of a run that it does not know
/// either.
fn book(transaction: &Transaction<'_>, spent: &Spent) -> Sql<Usd> {
    let Spent { day, stage, source, estimated, assumed, micros } = spent;
    let known: i64 = transaction.query_row(
        "SELECT coalesce(sum(spent), 0) FROM budget WHERE day = ?1 AND stage = ?2
         AND source IS ?3 AND estimated = ?4 AND assumed = ?5",
        params![day, stage, source, estimated, assumed],
        |row| row.get(0),
    )?;
    let unknown = Usd::from_micros(micros.saturating_sub(known).max(0));
    if unknown > Usd::ZERO {
        let (session, run) = (SessionId(Uuid::now_v7()), RunId(Uuid::now_v7()));
        transaction.execute(
            "INSERT INTO budget (session, run, stage, source, day, reserved, spent, estimated, assumed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8)",
            params![session, run, stage, source, day, unknown, estimated, assumed],
        )?;
    }
    Ok(unknown)
}

/// Returns 1 if the database did not know it.
fn finish(transaction: &Transaction<'_>, finished: &FinishedItem, now: Timestamp) -> Sql<usize> {
    let FinishedItem { key, fingerprint, title } = finished;
    let Some(id) = key.item_id() else { return Ok(0) };
    let done = Reason::SameFingerprint.into_str();
    transaction
        .prepare_cached(
            "INSERT INTO heartbeat_state (key, item_id, title, item_type, url, revision,
                 last_changed, fingerprint, processed_fingerprint, last_processed, phase, reason,
                 first_seen, last_seen)
             VALUES (?1, ?2, ?3, '', '', 0, ?5, ?4, ?4, ?5, 'done', ?6, ?5, ?5)
             ON CONFLICT (key) DO UPDATE SET processed_fingerprint = ?4, phase = 'done',
                 reason = ?6, next_attempt = NULL
             WHERE fingerprint = ?4 AND processed_fingerprint IS NOT ?4",
        )?
        .execute(params![key, id.0, title, fingerprint, Ms(now), done])
}
