//! Items as shown by commands, reports and the dashboard.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Params, Row};
use serde::Serialize;

use super::rows::{Ms, from_json, from_optional_json, from_word, optional_time};
use super::subjects::{Items, Reader};
use super::{Sql, StoreError};
use crate::event::Reason;
use crate::model::{ItemKey, Phase, RunId, Verdict};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemRow {
    pub key: ItemKey,
    pub title: String,
    /// Such as `Bug` or `Task`.
    pub item_type: String,
    pub url: String,
    /// `None`: not read since the column exists; empty: the item has none.
    pub area_path: Option<String>,
    /// Newest revision seen.
    pub revision: i64,
    /// The tracker's date of this revision.
    pub last_changed: Timestamp,
    /// When it was last finished.
    pub last_processed: Option<Timestamp>,
    pub phase: Phase,
    pub reason: Reason,
    /// Attempts used on its current text.
    pub attempts: u32,
    /// Earliest time of the next attempt.
    pub next_attempt: Option<Timestamp>,
    /// Number of runs that did not get to it.
    pub deferrals: u32,
    pub verdict: Option<Verdict>,
}

/// The first part of a list that can be as long as the backlog.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OpenItems {
    pub total: u32,
    pub first: Vec<ItemRow>,
}

impl OpenItems {
    /// Number of items that are not in `first`.
    pub fn beyond(&self) -> u32 {
        self.total.saturating_sub(u32::try_from(self.first.len()).unwrap_or(u32::MAX))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemFilter {
    pub phase: Option<Phase>,
    /// As stored, such as `max_deep_per_run`.
    pub reason: Option<String>,
    /// Only those that triage finished without deep analysis.
    pub settled_by_triage: bool,
}

/// An item with triage's verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JudgedItem {
    pub key: ItemKey,
    pub title: String,
    pub verdict: Verdict,
}

impl<R: Reader> Items<'_, R> {
    pub async fn get(self, key: ItemKey) -> Result<Option<ItemRow>, StoreError> {
        self.first_row("SELECT * FROM heartbeat_state WHERE key = ?1", [key], item).await
    }

    /// Unfinished items: those being analysed, then the longest waiting, at most `most`.
    pub async fn open(self, most: u32) -> Result<OpenItems, StoreError> {
        self.read(move |connection| {
            let total = connection.query_row(
                "SELECT count(*) FROM heartbeat_state WHERE phase NOT IN ('done', 'vanished')",
                [],
                |row| row.get(0),
            )?;
            let first = connection
                .prepare(
                    "SELECT * FROM heartbeat_state WHERE phase NOT IN ('done', 'vanished')
                     ORDER BY phase <> 'claimed', deferrals DESC, priority IS NULL, priority,
                              item_id LIMIT ?1",
                )?
                .query_map([most], item)?
                .collect::<Result<_, _>>()?;
            Ok(OpenItems { total, first })
        })
        .await
    }

    /// Items that match the filter, newest change first.
    pub async fn matching(self, filter: ItemFilter, most: u32) -> Result<Vec<ItemRow>, StoreError> {
        let sql = "SELECT * FROM heartbeat_state
                   WHERE (?1 IS NULL OR phase = ?1) AND (?2 IS NULL OR reason = ?2)
                     AND (NOT ?3 OR coalesce(json_extract(verdict, '$.needs_deep_analysis') = 0, 0))
                   ORDER BY last_changed DESC, item_id LIMIT ?4";
        let phase = filter.phase.map(|phase| phase.into_str());
        self.rows(sql, (phase, filter.reason, filter.settled_by_triage, most), item).await
    }

    /// Addresses that have the tracker's own name of the item in them.
    pub async fn addresses(self) -> Result<Vec<(ItemKey, String)>, StoreError> {
        let sql = "SELECT key, url FROM heartbeat_state
                   WHERE url LIKE '%/browse/%' OR url LIKE '%/issues/%' OR url LIKE '%/pull/%'";
        self.rows(sql, [], |row| Ok((row.get("key")?, row.get("url")?))).await
    }

    /// Number of items in each phase.
    pub async fn phase_counts(self) -> Result<Vec<(Phase, u32)>, StoreError> {
        self.rows("SELECT phase, count(*) AS n FROM heartbeat_state GROUP BY phase", [], |row| {
            Ok((from_word(row, "phase")?, row.get("n")?))
        })
        .await
    }

    /// The newest change of an item that was dated later than `tolerance` after it was read, of those
    /// that were read since.
    pub async fn dated_to_come(
        self,
        since: Timestamp,
        tolerance: SignedDuration,
    ) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT last_changed FROM heartbeat_state
                   WHERE last_seen >= ?1 AND last_changed > last_seen + ?2
                   ORDER BY last_changed DESC LIMIT 1";
        let values = (Ms(since), i64::try_from(tolerance.as_millis()).unwrap_or(i64::MAX));
        self.first_row(sql, values, |row| Ok(row.get::<_, Ms>(0)?.0)).await
    }

    /// Items that triage judged in this run, in their current state.
    pub async fn judged_in(self, run: RunId) -> Result<Vec<JudgedItem>, StoreError> {
        self.judged_where("run = ?1", (run,)).await
    }

    /// The same for the runs that began in `[from, to)`.
    pub async fn judged_between(
        self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<JudgedItem>, StoreError> {
        let of_these = "run IN (SELECT run FROM runs WHERE started_at >= ?1 AND started_at < ?2)";
        self.judged_where(of_these, (Ms(from), Ms(to))).await
    }

    async fn judged_where(
        self,
        condition: &str,
        values: impl Params + Send + 'static,
    ) -> Result<Vec<JudgedItem>, StoreError> {
        let sql = format!(
            "SELECT key, title, verdict FROM heartbeat_state
             WHERE verdict IS NOT NULL AND key IN
                 (SELECT json_extract(body, '$.item') FROM events
                  WHERE event = 'item_triaged' AND {condition})
             ORDER BY item_id"
        );
        self.rows(sql, values, judged).await
    }
}

pub(super) fn item(row: &Row<'_>) -> Sql<ItemRow> {
    Ok(ItemRow {
        key: row.get("key")?,
        title: row.get("title")?,
        item_type: row.get("item_type")?,
        url: row.get("url")?,
        area_path: row.get("area_path")?,
        revision: row.get("revision")?,
        last_changed: row.get::<_, Ms>("last_changed")?.0,
        last_processed: optional_time(row, "last_processed")?,
        phase: from_word(row, "phase")?,
        reason: from_word(row, "reason")?,
        attempts: row.get("attempts")?,
        next_attempt: optional_time(row, "next_attempt")?,
        deferrals: row.get("deferrals")?,
        verdict: from_optional_json(row, "verdict")?,
    })
}

fn judged(row: &rusqlite::Row<'_>) -> Sql<JudgedItem> {
    Ok(JudgedItem {
        key: row.get("key")?,
        title: row.get("title")?,
        verdict: from_json(row, "verdict")?,
    })
}
