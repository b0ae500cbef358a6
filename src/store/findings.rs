//! Findings, with the item and the session they came from.

use jiff::Timestamp;
use rusqlite::Row;
use serde::Serialize;

use super::rows::{Ms, from_json};
use super::subjects::{Findings, Reader};
use super::{Sql, StoreError};
use crate::model::{Finding, ItemKey, RunId, SessionId};

/// A finding with where it came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FindingRow {
    pub key: ItemKey,
    pub title: String,
    pub url: String,
    /// The revision it is about.
    pub revision: i64,
    pub session: SessionId,
    pub run: RunId,
    pub created_at: Timestamp,
    pub finding: Finding,
}

impl<R: Reader> Findings<'_, R> {
    /// Findings of one item, newest first.
    pub async fn of_item(self, key: ItemKey) -> Result<Vec<FindingRow>, StoreError> {
        let sql = format!("{FINDINGS} WHERE f.key = ?1 ORDER BY f.id DESC");
        self.rows(sql, [key], finding).await
    }

    /// Findings of one run, in the order they were stored.
    pub async fn in_run(self, run: RunId) -> Result<Vec<FindingRow>, StoreError> {
        let sql = format!("{FINDINGS} WHERE f.run = ?1 ORDER BY f.id");
        self.rows(sql, [run], finding).await
    }

    /// Findings stored in `[from, to)`, in their order.
    pub async fn between(
        self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<FindingRow>, StoreError> {
        let sql =
            format!("{FINDINGS} WHERE f.created_at >= ?1 AND f.created_at < ?2 ORDER BY f.id");
        self.rows(sql, (Ms(from), Ms(to)), finding).await
    }

    /// The newest findings, newest first.
    pub async fn newest(self, limit: u32) -> Result<Vec<FindingRow>, StoreError> {
        self.rows(format!("{FINDINGS} ORDER BY f.id DESC LIMIT ?1"), [limit], finding).await
    }
}

const FINDINGS: &str =
    "SELECT f.*, s.title, s.url FROM findings f JOIN heartbeat_state s USING (key)";

fn finding(row: &Row<'_>) -> Sql<FindingRow> {
    Ok(FindingRow {
        key: row.get("key")?,
        title: row.get("title")?,
        url: row.get("url")?,
        revision: row.get("revision")?,
        session: row.get("session")?,
        run: row.get("run")?,
        created_at: row.get::<_, Ms>("created_at")?.0,
        finding: from_json(row, "finding")?,
    })
}
