//! `heartbeat_state`: what is known of every item, and what a page of decisions makes of it.

use std::collections::HashMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use super::rows::{Ms, from_optional_json, from_word, to_word};
use super::{Journal, Sql, Store, StoreError};
use crate::event::{Decision, Event, Reason};
use crate::model::{ItemId, ItemKey, Verdict};

/// Where an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Work that waits for its turn.
    Pending,
    /// A session for it is running, or was when heartbeat died.
    Claimed,
    /// Finished; nothing to do until it changes.
    Done,
    /// Failed; there will be another attempt.
    Waiting,
    /// Left to people until it changes or is retried.
    Parked,
    /// Gone from the source.
    Vanished,
}

/// What is known of an item before a run looks at it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownItem {
    /// Where it stands.
    pub phase: Phase,
    /// Why.
    pub reason: Reason,
    /// Newest revision seen.
    pub revision: i64,
    /// Of what would have reached the prompt then.
    pub fingerprint: String,
    /// Of what was last finished.
    pub processed_fingerprint: Option<String>,
    /// Attempts used on `fingerprint`.
    pub attempts: u32,
    /// Not before.
    pub next_attempt: Option<Timestamp>,
    /// Runs that left it out.
    pub deferrals: u32,
    /// Triage's answer for `fingerprint`.
    pub verdict: Option<Verdict>,
}

impl KnownItem {
    fn from_row(row: &Row<'_>) -> Sql<(ItemKey, Self)> {
        let known = Self {
            phase: from_word(row, "phase")?,
            reason: from_word(row, "reason")?,
            revision: row.get("revision")?,
            fingerprint: row.get("fingerprint")?,
            processed_fingerprint: row.get("processed_fingerprint")?,
            attempts: row.get("attempts")?,
            next_attempt: row.get::<_, Option<Ms>>("next_attempt")?.map(|ms| ms.0),
            deferrals: row.get("deferrals")?,
            verdict: from_optional_json(row, "verdict")?,
        };
        Ok((row.get("key")?, known))
    }
}

/// One item of a page with what was decided for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Which.
    pub key: ItemKey,
    /// The tracker's number.
    pub id: ItemId,
    /// One line.
    pub title: String,
    /// Bug, Task, …
    pub item_type: String,
    /// For people.
    pub url: String,
    /// 1 is the most urgent.
    pub priority: Option<i64>,
    /// The revision read.
    pub revision: i64,
    /// The tracker's date of it.
    pub changed_at: Timestamp,
    /// Of what would reach the prompt.
    pub fingerprint: String,
    /// What was decided.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
}

/// All decisions on one page, stored together with the cursor they allow to move.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageRecord {
    /// In the page's order.
    pub planned: Vec<Planned>,
    /// Of this page or an earlier one: pushed beyond the end of the run's line.
    pub crowded_out: Vec<ItemKey>,
    /// Asked for and gone.
    pub vanished: Vec<ItemKey>,
    /// The next query may begin here.
    pub cursor: Option<Timestamp>,
    /// Treat new work as seen: the baseline of a first run.
    pub baseline: bool,
}

impl Store {
    /// What is known of these items.
    pub async fn known(
        &self,
        keys: Vec<ItemKey>,
    ) -> Result<HashMap<ItemKey, KnownItem>, StoreError> {
        self.read(move |connection| {
            let mut one =
                connection.prepare_cached("SELECT * FROM heartbeat_state WHERE key = ?1")?;
            let mut known = HashMap::with_capacity(keys.len());
            for key in keys {
                known.extend(one.query_row([&key], KnownItem::from_row).optional()?);
            }
            Ok(known)
        })
        .await
    }

    /// Items that must be read again whatever their date: work left, and attempts that are due.
    /// At most `limit` of them, those left out longest first; what changes beyond that comes with
    /// the query anyway.
    pub async fn to_revisit(&self, now: Timestamp, limit: u32) -> Result<Vec<ItemId>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT item_id FROM heartbeat_state
                     WHERE phase IN ('pending', 'claimed')
                        OR (phase = 'waiting' AND next_attempt <= ?1)
                     ORDER BY deferrals DESC, priority IS NULL, priority, item_id LIMIT ?2",
                )?
                .query_map(params![Ms(now), limit], |row| row.get(0).map(ItemId))?
                .collect()
        })
        .await
    }

    /// Where the next query of this source begins; none before the first run.
    pub async fn cursor(&self, source: String) -> Result<Option<Timestamp>, StoreError> {
        self.read(move |connection| {
            connection
                .query_row("SELECT changed_since FROM cursors WHERE source = ?1", [source], |row| {
                    row.get::<_, Ms>(0).map(|ms| ms.0)
                })
                .optional()
        })
        .await
    }

    /// Has any item ever been recorded?
    pub async fn is_first_run(&self) -> Result<bool, StoreError> {
        self.read(|connection| {
            connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM heartbeat_state)", [], |row| {
                row.get(0)
            })
        })
        .await
    }
}

impl Journal {
    /// Stores the decisions on a page: nothing the source delivered can be lost after this.
    /// A page without any change is not written at all.
    pub async fn record_page(&self, source: &str, page: PageRecord) -> Result<(), StoreError> {
        let source = source.to_owned();
        let now = self.clock().now();
        self.commit(move |transaction, told| {
            for planned in &page.planned {
                record_item(transaction, planned, now, page.baseline)?;
                if planned.decision != Decision::Unchanged {
                    told.push(Event::ItemDecided {
                        item: planned.key.clone(),
                        rev: planned.revision,
                        title: planned.title.clone(),
                        decision: planned.decision,
                        reason: planned.reason,
                    });
                }
            }
            for key in &page.crowded_out {
                defer_item(transaction, key, Reason::MaxItemsPerRun, told)?;
            }
            for key in &page.vanished {
                let changed = transaction
                    .prepare_cached(
                        "UPDATE heartbeat_state SET phase = 'vanished', reason = 'deleted',
                         next_attempt = NULL, last_seen = ?2 WHERE key = ?1 AND phase <> 'vanished'",
                    )?
                    .execute(params![key, Ms(now)])?;
                if changed > 0 {
                    told.push(vanished_event(transaction, key)?);
                }
            }
            move_cursor(transaction, &source, page.cursor)
        })
        .await
    }

    /// An item did not get its turn: it goes to the head of the next run's line.
    pub async fn defer(&self, key: ItemKey, reason: Reason) -> Result<(), StoreError> {
        self.commit(move |transaction, told| defer_item(transaction, &key, reason, told)).await
    }

    /// Puts a parked, waiting or finished item back in line, with all its attempts.
    pub async fn requeue(&self, key: ItemKey) -> Result<bool, StoreError> {
        self.commit(move |transaction, told| {
            let changed = transaction.execute(
                "UPDATE heartbeat_state
                 SET phase = 'pending', reason = 'retry_requested', attempts = 0,
                     next_attempt = NULL, processed_fingerprint = NULL, verdict = NULL
                 WHERE key = ?1 AND phase <> 'claimed'",
                [&key],
            )?;
            if changed > 0 {
                let (rev, title) = title_of(transaction, &key)?;
                let (decision, reason) = (Decision::Changed, Reason::RetryRequested);
                told.push(Event::ItemDecided { item: key, rev, title, decision, reason });
            }
            Ok(changed > 0)
        })
        .await
    }
}

fn defer_item(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    reason: Reason,
    told: &mut Vec<Event>,
) -> Sql<()> {
    transaction
        .prepare_cached(
            "UPDATE heartbeat_state SET reason = ?2, deferrals = deferrals + 1
             WHERE key = ?1 AND phase = 'pending'",
        )?
        .execute(params![key, to_word(&reason)?])?;
    told.push(Event::ItemDeferred { item: key.clone(), reason });
    Ok(())
}

fn record_item(
    transaction: &Transaction<'_>,
    planned: &Planned,
    now: Timestamp,
    baseline: bool,
) -> Sql<()> {
    match planned.decision {
        // A row that says the same is not written again: an idle run writes nothing.
        Decision::Unchanged if planned.reason == Reason::SameFingerprint => Ok(()),
        Decision::Waiting | Decision::Parked => Ok(()),
        Decision::Deferred if planned.reason == Reason::InFlight => Ok(()),
        _ => upsert(transaction, planned, now, baseline),
    }
}

/// New work starts with all its attempts; work carried over keeps what it has.
fn upsert(
    transaction: &Transaction<'_>,
    planned: &Planned,
    now: Timestamp,
    baseline: bool,
) -> Sql<()> {
    let finished = baseline || planned.decision == Decision::Unchanged;
    let phase = if finished { Phase::Done } else { Phase::Pending };
    let reason = if baseline { Reason::Baseline } else { planned.reason };
    transaction
        .prepare_cached(
            "INSERT INTO heartbeat_state
                 (key, item_id, title, item_type, url, priority, revision, last_changed,
                  fingerprint, processed_fingerprint, phase, reason, first_seen, last_seen,
                  deferrals)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14)
             ON CONFLICT (key) DO UPDATE SET
                 title = ?3, item_type = ?4, url = ?5, priority = ?6, revision = ?7,
                 last_changed = ?8, phase = ?11, reason = ?12, last_seen = ?13, next_attempt = NULL,
                 attempts = CASE WHEN fingerprint = ?9 THEN attempts ELSE 0 END,
                 verdict = CASE WHEN fingerprint = ?9 THEN verdict ELSE NULL END,
                 processed_fingerprint = coalesce(?10, processed_fingerprint),
                 deferrals = deferrals + ?14,
                 fingerprint = ?9",
        )?
        .execute(params![
            planned.key,
            planned.id.0,
            planned.title,
            planned.item_type,
            planned.url,
            planned.priority,
            planned.revision,
            Ms(planned.changed_at),
            planned.fingerprint,
            finished.then_some(&planned.fingerprint),
            to_word(&phase)?,
            to_word(&reason)?,
            Ms(now),
            u32::from(planned.decision == Decision::Deferred),
        ])
        .map(drop)
}

fn vanished_event(connection: &Connection, key: &ItemKey) -> Sql<Event> {
    let (rev, title) = title_of(connection, key)?;
    let (decision, reason) = (Decision::Vanished, Reason::Deleted);
    Ok(Event::ItemDecided { item: key.clone(), rev, title, decision, reason })
}

fn title_of(connection: &Connection, key: &ItemKey) -> Sql<(i64, String)> {
    connection.query_row(
        "SELECT revision, title FROM heartbeat_state WHERE key = ?1",
        [key],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Forward only: a clock that was set back cannot make us read everything again.
fn move_cursor(transaction: &Transaction<'_>, source: &str, to: Option<Timestamp>) -> Sql<()> {
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
