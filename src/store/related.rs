//! Items that triage took for the same matter.

use jiff::Timestamp;
use rusqlite::Params;
use serde::Serialize;

use super::rows::{Ms, from_json};
use super::{Sql, Store, StoreError};
use crate::model::{ItemKey, RunId, Verdict};

/// An item that triage has judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JudgedItem {
    /// Which.
    pub key: ItemKey,
    /// Its title.
    pub title: String,
    /// Triage's word.
    pub verdict: Verdict,
}

impl Store {
    /// Items that triage judged in this run, as they are now.
    pub async fn judged_in(&self, run: RunId) -> Result<Vec<JudgedItem>, StoreError> {
        self.judged_where("run = ?1", (run,)).await
    }

    /// The same of the runs that began in `[from, to)`.
    pub async fn judged_between(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<JudgedItem>, StoreError> {
        let of_these = "run IN (SELECT run FROM runs WHERE started_at >= ?1 AND started_at < ?2)";
        self.judged_where(of_these, (Ms(from), Ms(to))).await
    }

    async fn judged_where(
        &self,
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
        self.read(move |connection| connection.prepare(&sql)?.query_map(values, judged)?.collect())
            .await
    }
}

fn judged(row: &rusqlite::Row<'_>) -> Sql<JudgedItem> {
    Ok(JudgedItem {
        key: row.get("key")?,
        title: row.get("title")?,
        verdict: from_json(row, "verdict")?,
    })
}
