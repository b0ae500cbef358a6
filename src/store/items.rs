//! `heartbeat_state`: what is known of every item, and its phase.

use std::collections::HashMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::rows::{Ms, from_optional_json, from_word, to_json};
use super::subjects::{Items, Reader};
use super::{Journal, Sql, StoreError};
use crate::dedupe::KnownItem;
use crate::event::{Decision, Event, Reason};
use crate::model::{Complexity, ItemId, ItemKey, Verdict};

/// Reads all items of a page in one statement: starting a statement costs as much as finding a row.
const KNOWN: &str = "SELECT seen.key, phase, reason, revision, fingerprint, processed_fingerprint,
         next_attempt, deferrals, verdict, attempts, area_path, suspect_among
     FROM json_each(?1) AS seen CROSS JOIN heartbeat_state AS item ON item.key = seen.value";

/// Attempts on a text that is not the one in the row.
const USED: &str =
    "SELECT count(*) FROM attempts WHERE key = ?1 AND fingerprint = ?2 AND counted = 1";

/// Items that wait for their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct WaitingWork {
    pub untriaged: u32,
    /// With a verdict that asks for analysis.
    pub triaged: u32,
}

/// By position, since this is read for every fetched item.
fn known_item(row: &Row<'_>) -> Sql<KnownItem> {
    Ok(KnownItem {
        phase: from_word(row, 1)?,
        reason: from_word(row, 2)?,
        revision: row.get(3)?,
        fingerprint: row.get(4)?,
        processed_fingerprint: row.get(5)?,
        next_attempt: row.get::<_, Option<Ms>>(6)?.map(|ms| ms.0),
        deferrals: row.get(7)?,
        verdict: from_optional_json(row, 8)?,
        attempts: row.get(9)?,
        area_path: row.get(10)?,
        suspect_among: row.get(11)?,
    })
}

impl<R: Reader> Items<'_, R> {
    /// What is known of these items, each given with its current fingerprint: one result per item,
    /// in their order.
    pub async fn known(
        self,
        seen: Vec<(ItemKey, String)>,
    ) -> Result<Vec<Option<KnownItem>>, StoreError> {
        self.read(move |connection| {
            // One transaction for the page, so that its reads share a snapshot and its locks.
            let reading = connection.unchecked_transaction()?;
            let keys: Vec<&str> = seen.iter().map(|(key, _)| key.as_str()).collect();
            let mut known: Vec<Option<KnownItem>> = vec![None; seen.len()];
            let mut page = reading.prepare_cached(KNOWN)?;
            let mut rows = page.query([to_json(&keys)?])?;
            while let Some(row) = rows.next()? {
                let place = usize::try_from(row.get::<_, u32>(0)?).unwrap_or(usize::MAX);
                let mut item = known_item(row)?;
                let (Some((key, fingerprint)), Some(answer)) =
                    (seen.get(place), known.get_mut(place))
                else {
                    continue;
                };
                if item.fingerprint != *fingerprint {
                    let used = (key, fingerprint);
                    item.attempts =
                        reading.prepare_cached(USED)?.query_row(used, |row| row.get(0))?;
                }
                *answer = Some(item);
            }
            Ok(known)
        })
        .await
    }

    /// How much work waits for the next runs.
    pub async fn waiting_work(self) -> Result<WaitingWork, StoreError> {
        let sql = "SELECT count(*) FILTER (WHERE verdict IS NULL),
                          count(*) FILTER (WHERE verdict IS NOT NULL)
                   FROM heartbeat_state WHERE phase = 'pending'";
        let read = |row: &Row<'_>| Ok(WaitingWork { untriaged: row.get(0)?, triaged: row.get(1)? });
        self.read(move |connection| connection.query_row(sql, [], read)).await
    }

    /// Some items of this source that vanished since then and were never finished, in any order.
    pub async fn vanished_since(
        self,
        source: &str,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<ItemKey>, StoreError> {
        let sql = "SELECT key FROM heartbeat_state
                   WHERE phase = 'vanished' AND last_seen >= ?2
                     AND processed_fingerprint IS NOT fingerprint
                     AND substr(key, 1, length(?1)) = ?1
                   ORDER BY random() LIMIT ?3";
        let values = (format!("{source}/"), Ms(since), most);
        self.rows(sql, values, |row| row.get(0)).await
    }

    /// Known items with this number, of all sources.
    pub async fn with_number(self, id: ItemId) -> Result<Vec<ItemKey>, StoreError> {
        let sql = "SELECT key FROM heartbeat_state WHERE item_id = ?1 ORDER BY key";
        self.rows(sql, [id.0], |row| row.get(0)).await
    }
}

impl<R: Reader> Items<'_, R> {
    /// Titles of those of these items that are known.
    pub async fn titles(self, keys: Vec<ItemKey>) -> Result<HashMap<ItemKey, String>, StoreError> {
        let sql = "SELECT key, title FROM heartbeat_state
                   WHERE key IN (SELECT value FROM json_each(?1))";
        let keys: Vec<&str> = keys.iter().map(ItemKey::as_str).collect();
        let keys = serde_json::to_string(&keys)?;
        let rows = self.rows(sql, [keys], |row| Ok((row.get(0)?, row.get(1)?))).await?;
        Ok(rows.into_iter().collect())
    }
}

impl Items<'_, Journal> {
    /// Items that this run did not get to; the next run takes them first.
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

    /// An item that was deleted or left the query before it was processed.
    pub async fn vanish(self, key: ItemKey, reason: Reason) -> Result<(), StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, events| vanish_item(transaction, &key, reason, now, events))
            .await
    }

    /// Queues items that had vanished before they were finished and are there again, as they were.
    pub async fn bring_back(self, keys: Vec<ItemKey>) -> Result<(), StoreError> {
        let reason = Reason::CarriedOver;
        self.0
            .commit(move |transaction, events| {
                for key in keys {
                    let changed = transaction.execute(
                        "UPDATE heartbeat_state SET phase = 'pending', reason = ?2
                         WHERE key = ?1 AND phase = 'vanished'",
                        params![key, reason.into_str()],
                    )?;
                    if changed > 0 {
                        let (rev, title) = title_of(transaction, &key)?;
                        let (item, decision) = (key, Decision::Deferred);
                        events.push(Event::ItemDecided { item, rev, title, decision, reason });
                    }
                }
                Ok(())
            })
            .await
    }

    /// Requeues a parked, waiting or finished item with a fresh attempt count.
    pub async fn requeue(self, key: ItemKey) -> Result<bool, StoreError> {
        self.requeue_with_terms(key, Vec::new()).await
    }

    /// As [`requeue`](Self::requeue). With search terms the item goes to analysis without another
    /// triage, since the user has already judged it.
    pub async fn requeue_with_terms(
        self,
        key: ItemKey,
        terms: Vec<String>,
    ) -> Result<bool, StoreError> {
        self.0
            .commit(move |transaction, events| requeue_item(transaction, key, terms, events))
            .await
    }

    /// Requeues many items in one transaction; returns how many were queued.
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

/// The item's verdict with these terms, routed to analysis; `None` without terms.
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
                 triage_failures = 0, suspect_among = 0, excused = 0
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
