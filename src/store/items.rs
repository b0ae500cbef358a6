//! `heartbeat_state`: what is known of every item, and where it stands.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::rows::{Ms, from_optional_json, from_word, to_json};
use super::sources::{FirstRunFact, cursor, first_run, undelivered};
use super::subjects::{Items, Reader};
use super::{Journal, Sql, StoreError};
use crate::dedupe::KnownItem;
use crate::event::{Decision, Event, Reason};
use crate::model::{Complexity, ItemId, ItemKey, Verdict};

/// How many queued items a run reads again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revisit {
    /// Of those without a verdict; as many urgent ones beside them.
    pub untriaged: u32,
    /// Of those that wait for deep analysis; as many urgent ones beside them.
    pub triaged: u32,
    /// This priority and higher ones are urgent.
    pub urgent_priority: i64,
}

/// What a run asks a source for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToRead {
    /// Where the query begins; none before the first run.
    pub cursor: Option<Timestamp>,
    /// Items to read whatever their date: queued work, attempts that are due, and open items whose
    /// area is not known because an older version stored them.
    pub revisit: Vec<ItemId>,
    /// Items that the query named and no read delivered, with the number of runs that asked.
    pub undelivered: BTreeMap<ItemId, u32>,
    /// How far the first run on this state came; none: there was none yet.
    pub first_run: Option<FirstRunFact>,
}

/// `used` counts attempts on the seen text; for a row that has this text it is a column.
const KNOWN: &str = "SELECT phase, reason, revision, fingerprint, processed_fingerprint,
         next_attempt, deferrals, verdict, CASE WHEN fingerprint = ?2 THEN attempts ELSE
         (SELECT count(*) FROM attempts a
          WHERE a.key = ?1 AND a.fingerprint = ?2 AND a.counted = 1) END AS used,
         area_path
     FROM heartbeat_state WHERE key = ?1";

/// By position: this is read for every fetched item.
fn known_item(row: &Row<'_>) -> Sql<KnownItem> {
    Ok(KnownItem {
        phase: from_word(row, 0)?,
        reason: from_word(row, 1)?,
        revision: row.get(2)?,
        fingerprint: row.get(3)?,
        processed_fingerprint: row.get(4)?,
        next_attempt: row.get::<_, Option<Ms>>(5)?.map(|ms| ms.0),
        deferrals: row.get(6)?,
        verdict: from_optional_json(row, 7)?,
        attempts: row.get(8)?,
        area_path: row.get(9)?,
    })
}

impl<R: Reader> Items<'_, R> {
    /// What is known of these items, each with the fingerprint it is seen with.
    pub async fn known(
        self,
        seen: Vec<(ItemKey, String)>,
    ) -> Result<HashMap<ItemKey, KnownItem>, StoreError> {
        self.read(move |connection| {
            // One transaction for the page, so that its reads share a snapshot and its locks.
            let reading = connection.unchecked_transaction()?;
            let mut one = reading.prepare_cached(KNOWN)?;
            let mut known = HashMap::with_capacity(seen.len());
            for (key, fingerprint) in seen {
                let row = one.query_row(params![key, fingerprint], known_item);
                if let Some(item) = row.optional()? {
                    known.insert(key, item);
                }
            }
            Ok(known)
        })
        .await
    }

    /// What a run asks this source for.
    pub async fn to_read(
        self,
        source: String,
        now: Timestamp,
        limits: Revisit,
    ) -> Result<ToRead, StoreError> {
        self.read(move |connection| {
            Ok(ToRead {
                cursor: cursor(connection, &source)?,
                revisit: to_revisit(connection, &source, now, limits)?,
                undelivered: undelivered(connection, &source)?,
                first_run: first_run(connection, &source)?,
            })
        })
        .await
    }
}

/// Those that wait longest come first, and urgent ones have places of their own; what changes beyond
/// that comes with the query anyway.
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
    // A wait longer than any delay was written by a wrong clock, and is over.
    let too_far = now.saturating_add(crate::model::LONGEST_WAIT).unwrap_or(now);
    let Revisit { untriaged, triaged, urgent_priority } = limits;
    let of_source = format!("{source}/");
    let values = params![Ms(now), Ms(too_far), untriaged, triaged, urgent_priority, of_source];
    connection.prepare_cached(&sql)?.query_map(values, |row| row.get(0).map(ItemId))?.collect()
}

impl<R: Reader> Items<'_, R> {
    /// The known items with this number, of all sources.
    pub async fn with_number(self, id: ItemId) -> Result<Vec<ItemKey>, StoreError> {
        let sql = "SELECT key FROM heartbeat_state WHERE item_id = ?1 ORDER BY key";
        self.rows(sql, [id.0], |row| row.get(0)).await
    }
}

impl Items<'_, Journal> {
    /// Items did not get their turn: the next run takes them first.
    pub async fn defer(self, keys: Vec<ItemKey>, reason: Reason) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        self.0
            .commit(move |transaction, events| {
                keys.iter().try_for_each(|key| defer_item(transaction, key, reason, events))
            })
            .await
    }

    /// An item is gone or out of the query before its turn came.
    pub async fn vanish(self, key: ItemKey, reason: Reason) -> Result<(), StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, events| vanish_item(transaction, &key, reason, now, events))
            .await
    }

    /// Requeues a parked, waiting or finished item with a fresh attempt count.
    pub async fn requeue(self, key: ItemKey) -> Result<bool, StoreError> {
        self.requeue_with_terms(key, Vec::new()).await
    }

    /// The same; with search terms it goes to analysis without another triage: whoever knows what
    /// to look for has judged it already.
    pub async fn requeue_with_terms(
        self,
        key: ItemKey,
        terms: Vec<String>,
    ) -> Result<bool, StoreError> {
        self.0
            .commit(move |transaction, events| requeue_item(transaction, key, terms, events))
            .await
    }

    /// The same for many items in one transaction; the number of those that are queued now.
    pub async fn requeue_all(self, keys: Vec<ItemKey>) -> Result<u32, StoreError> {
        self.0
            .commit(move |transaction, events| {
                let mut queued = 0;
                for key in keys {
                    queued += u32::from(requeue_item(transaction, key, Vec::new(), events)?);
                }
                Ok(queued)
            })
            .await
    }
}

/// The item's verdict with these terms, sent on to analysis; none without terms.
fn verdict_with(connection: &Connection, key: &ItemKey, terms: Vec<String>) -> Sql<Option<String>> {
    if terms.is_empty() {
        return Ok(None);
    }
    let known = connection
        .query_row("SELECT verdict FROM heartbeat_state WHERE key = ?1", [key], |row| {
            from_optional_json::<Verdict>(row, 0)
        })
        .optional()?
        .flatten();
    let id = key.item_id().unwrap_or(ItemId(0));
    let asked = || Verdict::new(id, Complexity::Moderate, "Requested by hand with search terms.");
    let verdict = known.unwrap_or_else(asked);
    let verdict = Verdict { needs_deep_analysis: true, terms, ..verdict };
    Ok(Some(to_json(&verdict)?))
}

pub(super) fn requeue_item(
    transaction: &Transaction<'_>,
    key: ItemKey,
    terms: Vec<String>,
    events: &mut Vec<Event>,
) -> Sql<bool> {
    let verdict = verdict_with(transaction, &key, terms)?;
    let changed = transaction
        .prepare_cached(
            "UPDATE heartbeat_state
             SET phase = 'pending', reason = 'retry_requested', attempts = 0,
                 next_attempt = NULL, processed_fingerprint = NULL, verdict = ?2,
                 triage_failures = 0
             WHERE key = ?1 AND phase <> 'claimed'",
        )?
        .execute(params![key, verdict])?;
    if changed > 0 {
        transaction
            .prepare_cached("UPDATE attempts SET counted = 0 WHERE key = ?1")?
            .execute([&key])?;
        let (rev, title) = title_of(transaction, &key)?;
        let (decision, reason) = (Decision::Changed, Reason::RetryRequested);
        events.push(Event::ItemDecided { item: key, rev, title, decision, reason });
    }
    Ok(changed > 0)
}

pub(super) fn defer_item(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    reason: Reason,
    events: &mut Vec<Event>,
) -> Sql<()> {
    let changed = transaction
        .prepare_cached(
            "UPDATE heartbeat_state SET reason = ?2
             WHERE key = ?1 AND phase = 'pending'",
        )?
        .execute(params![key, reason.into_str()])?;
    if changed > 0 {
        events.push(Event::ItemDeferred { item: key.clone(), reason });
    }
    Ok(())
}

pub(super) fn vanish_item(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    reason: Reason,
    now: Timestamp,
    events: &mut Vec<Event>,
) -> Sql<()> {
    let changed = transaction
        .prepare_cached(
            "UPDATE heartbeat_state SET phase = 'vanished', reason = ?3,
                 next_attempt = NULL, last_seen = ?2 WHERE key = ?1 AND phase <> 'vanished'",
        )?
        .execute(params![key, Ms(now), reason.into_str()])?;
    if changed > 0 {
        let (rev, title) = title_of(transaction, key)?;
        let decision = Decision::Vanished;
        events.push(Event::ItemDecided { item: key.clone(), rev, title, decision, reason });
    }
    Ok(())
}

pub(super) fn title_of(connection: &Connection, key: &ItemKey) -> Sql<(i64, String)> {
    connection.query_row(
        "SELECT revision, title FROM heartbeat_state WHERE key = ?1",
        [key],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}
