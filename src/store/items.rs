//! `heartbeat_state`: what is known of every item, and what a page of decisions makes of it.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use super::rows::{Ms, from_optional_json, from_word, to_word};
use super::{Journal, Sql, Store, StoreError};
use crate::event::{Decision, Event, Reason};
use crate::model::{ItemId, ItemKey, Verdict};

/// No retry delay is longer.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(36);

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
    /// Attempts used on the text that is seen now, whenever that was.
    pub attempts: u32,
    /// Not before.
    pub next_attempt: Option<Timestamp>,
    /// Runs that left it out.
    pub deferrals: u32,
    /// Triage's answer for `fingerprint`.
    pub verdict: Option<Verdict>,
}

impl KnownItem {
    /// By position: this is read for every fetched item.
    fn from_row(row: &Row<'_>) -> Sql<Self> {
        Ok(Self {
            phase: from_word(row, 0)?,
            reason: from_word(row, 1)?,
            revision: row.get(2)?,
            fingerprint: row.get(3)?,
            processed_fingerprint: row.get(4)?,
            next_attempt: row.get::<_, Option<Ms>>(5)?.map(|ms| ms.0),
            deferrals: row.get(6)?,
            verdict: from_optional_json(row, 7)?,
            attempts: row.get(8)?,
        })
    }
}

/// What a decision makes of an item's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// It says everything already.
    Nothing,
    /// Only what does not reach the prompt moved: revision, date, title for displays.
    Touch,
    /// A new text, or another standing.
    Row,
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
    /// Attempts already used on this text.
    pub attempts: u32,
    /// What it means for the row.
    pub write: Write,
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
    /// What this page says about the state's first run, if it is not over yet.
    pub first_run: Option<FirstRunFact>,
}

impl PageRecord {
    /// Would storing it change nothing?
    fn is_idle(&self, cursor: Option<Timestamp>) -> bool {
        self.planned.iter().all(|planned| {
            planned.write == Write::Nothing && planned.decision == Decision::Unchanged
        }) && self.crowded_out.is_empty()
            && self.vanished.is_empty()
            && self.first_run.is_none()
            && self.cursor <= cursor
    }
}

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

/// `used` counts attempts on the seen text; for a row that has this text it is a column.
const KNOWN: &str = "SELECT phase, reason, revision, fingerprint, processed_fingerprint,
         next_attempt, deferrals, verdict, CASE WHEN fingerprint = ?2 THEN attempts ELSE
         (SELECT count(*) FROM attempts a
          WHERE a.key = ?1 AND a.fingerprint = ?2 AND a.counted = 1) END AS used
     FROM heartbeat_state WHERE key = ?1";

impl Store {
    /// What is known of these items, each with the fingerprint it is seen with.
    pub async fn known(
        &self,
        seen: Vec<(ItemKey, String)>,
    ) -> Result<HashMap<ItemKey, KnownItem>, StoreError> {
        self.read(move |connection| {
            // One transaction for the page, so that its reads share a snapshot and its locks.
            let reading = connection.unchecked_transaction()?;
            let mut one = reading.prepare_cached(KNOWN)?;
            let mut known = HashMap::with_capacity(seen.len());
            for (key, fingerprint) in seen {
                let row = one.query_row(params![key, fingerprint], KnownItem::from_row);
                if let Some(item) = row.optional()? {
                    known.insert(key, item);
                }
            }
            Ok(known)
        })
        .await
    }

    /// Items that must be read again whatever their date: work left, and attempts that are due. At
    /// most `limit` of them, those left out longest first, and as many urgent ones; what changes
    /// beyond that comes with the query anyway.
    pub async fn to_revisit(
        &self,
        now: Timestamp,
        limit: u32,
        urgent_priority: i64,
    ) -> Result<Vec<ItemId>, StoreError> {
        self.read(move |connection| {
            let line = |which: &str| {
                format!(
                    "SELECT * FROM (SELECT item_id FROM heartbeat_state
                     WHERE (phase IN ('pending', 'claimed')
                        OR (phase = 'waiting' AND (next_attempt <= ?1 OR next_attempt > ?2)))
                       AND {which}
                     ORDER BY deferrals DESC, priority IS NULL, priority, item_id LIMIT ?3)"
                )
            };
            let sql = format!("{} UNION {}", line("priority <= ?4"), line("TRUE"));
            // A wait longer than any delay was written by a wrong clock, and is over.
            let too_far = now.saturating_add(LONGEST_WAIT).unwrap_or(now);
            connection
                .prepare_cached(&sql)?
                .query_map(params![Ms(now), Ms(too_far), limit, urgent_priority], |row| {
                    row.get(0).map(ItemId)
                })?
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

    /// How far the first run on this state came; none: there was none yet.
    pub async fn first_run(&self) -> Result<Option<FirstRunFact>, StoreError> {
        self.read(|connection| {
            let value: Option<String> = connection
                .query_row("SELECT value FROM facts WHERE name = 'first_run'", [], |row| row.get(0))
                .optional()?;
            Ok(value.map(|value| match value.as_str() {
                "baseline" => FirstRunFact::Baseline,
                _ => FirstRunFact::Over,
            }))
        })
        .await
    }
}

impl Journal {
    /// Stores the decisions on a page: nothing the source delivered can be lost after this.
    /// A page that changes nothing is not written at all.
    pub async fn record_page(&self, source: &str, page: PageRecord) -> Result<(), StoreError> {
        let source = source.to_owned();
        if page.is_idle(None) {
            return Ok(());
        }
        if page.cursor.is_some() && page.is_idle(self.store().cursor(source.clone()).await?) {
            return Ok(());
        }
        let now = self.clock().now();
        self.commit(move |transaction, told| {
            for planned in &page.planned {
                record_item(transaction, planned, now, page.baseline, told)?;
            }
            for key in &page.crowded_out {
                defer_item(transaction, key, Reason::MaxItemsPerRun, told)?;
            }
            for key in &page.vanished {
                vanish_item(transaction, key, Reason::Deleted, now, told)?;
            }
            if let Some(fact) = page.first_run {
                set_first_run(transaction, fact)?;
            }
            move_cursor(transaction, &source, page.cursor)
        })
        .await
    }

    /// The first run on this state came this far.
    pub async fn note_first_run(&self, fact: FirstRunFact) -> Result<(), StoreError> {
        self.commit(move |transaction, _| set_first_run(transaction, fact)).await
    }

    /// Items did not get their turn: they go to the head of the next run's line.
    pub async fn defer(&self, keys: Vec<ItemKey>, reason: Reason) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        self.commit(move |transaction, told| {
            keys.iter().try_for_each(|key| defer_item(transaction, key, reason, told))
        })
        .await
    }

    /// An item is gone or out of the query before its turn came.
    pub async fn vanish(&self, key: ItemKey, reason: Reason) -> Result<(), StoreError> {
        let now = self.clock().now();
        self.commit(move |transaction, told| vanish_item(transaction, &key, reason, now, told))
            .await
    }

    /// Puts a parked, waiting or finished item back in line, with all its attempts.
    pub async fn requeue(&self, key: ItemKey) -> Result<bool, StoreError> {
        self.commit(move |transaction, told| {
            let changed = transaction.execute(
                "UPDATE heartbeat_state
                 SET phase = 'pending', reason = 'retry_requested', attempts = 0,
                     next_attempt = NULL, processed_fingerprint = NULL, verdict = NULL,
                     triage_failures = 0
                 WHERE key = ?1 AND phase <> 'claimed'",
                [&key],
            )?;
            if changed > 0 {
                transaction.execute("UPDATE attempts SET counted = 0 WHERE key = ?1", [&key])?;
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
    let changed = transaction
        .prepare_cached(
            "UPDATE heartbeat_state SET reason = ?2, deferrals = deferrals + 1
             WHERE key = ?1 AND phase = 'pending'",
        )?
        .execute(params![key, to_word(&reason)?])?;
    if changed > 0 {
        told.push(Event::ItemDeferred { item: key.clone(), reason });
    }
    Ok(())
}

pub(super) fn vanish_item(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    reason: Reason,
    now: Timestamp,
    told: &mut Vec<Event>,
) -> Sql<()> {
    let changed = transaction
        .prepare_cached(
            "UPDATE heartbeat_state SET phase = 'vanished', reason = ?3,
                 next_attempt = NULL, last_seen = ?2 WHERE key = ?1 AND phase <> 'vanished'",
        )?
        .execute(params![key, Ms(now), to_word(&reason)?])?;
    if changed > 0 {
        let (rev, title) = title_of(transaction, key)?;
        let decision = Decision::Vanished;
        told.push(Event::ItemDecided { item: key.clone(), rev, title, decision, reason });
    }
    Ok(())
}

fn record_item(
    transaction: &Transaction<'_>,
    planned: &Planned,
    now: Timestamp,
    baseline: bool,
    told: &mut Vec<Event>,
) -> Sql<()> {
    match (planned.decision, planned.write) {
        (Decision::Vanished, _) => {
            return vanish_item(transaction, &planned.key, planned.reason, now, told);
        }
        (_, Write::Nothing) => {}
        (_, Write::Touch) => touch(transaction, planned, now)?,
        (_, Write::Row) => upsert(transaction, planned, now, baseline)?,
    }
    let (decision, reason) = if baseline && planned.write == Write::Row {
        (Decision::Unchanged, Reason::Baseline)
    } else {
        (planned.decision, planned.reason)
    };
    if decision != Decision::Unchanged || reason == Reason::Baseline {
        let (item, rev, title) = (planned.key.clone(), planned.revision, planned.title.clone());
        told.push(Event::ItemDecided { item, rev, title, decision, reason });
    }
    Ok(())
}

/// What moved does not reach the prompt: the row only keeps up with the tracker.
fn touch(transaction: &Transaction<'_>, planned: &Planned, now: Timestamp) -> Sql<()> {
    transaction
        .prepare_cached(
            "UPDATE heartbeat_state SET title = ?2, item_type = ?3, url = ?4, priority = ?5,
                 revision = ?6, last_changed = ?7, last_seen = ?8 WHERE key = ?1",
        )?
        .execute(params![
            planned.key,
            planned.title,
            planned.item_type,
            planned.url,
            planned.priority,
            planned.revision,
            Ms(planned.changed_at),
            Ms(now)
        ])
        .map(drop)
}

/// New work starts with all its attempts; work carried over keeps what it has.
fn upsert(
    transaction: &Transaction<'_>,
    planned: &Planned,
    now: Timestamp,
    baseline: bool,
) -> Sql<()> {
    let finished = baseline || planned.decision == Decision::Unchanged;
    let phase = match planned.decision {
        _ if finished => Phase::Done,
        Decision::Parked => Phase::Parked,
        _ => Phase::Pending,
    };
    let reason = if baseline { Reason::Baseline } else { planned.reason };
    transaction
        .prepare_cached(
            "INSERT INTO heartbeat_state
                 (key, item_id, title, item_type, url, priority, revision, last_changed,
                  fingerprint, processed_fingerprint, phase, reason, first_seen, last_seen,
                  deferrals, attempts)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15)
             ON CONFLICT (key) DO UPDATE SET
                 title = ?3, item_type = ?4, url = ?5, priority = ?6, revision = ?7,
                 last_changed = ?8, phase = ?11, reason = ?12, last_seen = ?13, next_attempt = NULL,
                 attempts = CASE WHEN fingerprint = ?9 THEN attempts ELSE ?15 END,
                 triage_failures = CASE WHEN fingerprint = ?9 THEN triage_failures ELSE 0 END,
                 verdict = CASE WHEN fingerprint = ?9 THEN verdict ELSE NULL END,
                 processed_fingerprint = coalesce(?10, processed_fingerprint),
                 deferrals = CASE ?11 WHEN 'pending' THEN deferrals + ?14 ELSE 0 END,
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
            planned.attempts,
        ])
        .map(drop)
}

fn set_first_run(transaction: &Transaction<'_>, fact: FirstRunFact) -> Sql<()> {
    transaction
        .execute(
            "INSERT INTO facts (name, value) VALUES ('first_run', ?1)
             ON CONFLICT (name) DO UPDATE SET value = ?1 WHERE value <> 'over'",
            [fact.as_str()],
        )
        .map(drop)
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
