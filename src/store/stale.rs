//! Findings whose files have changed since.

use jiff::Timestamp;
use rusqlite::{Row, params};

use super::items::requeue_item;
use super::rows::{Ms, from_json, to_json};
use super::subjects::{Findings, Reader};
use super::{Journal, Sql, StoreError};
use crate::model::{Finding, ItemKey, SessionId, Stale};

/// Most findings checked in one pass.
const MAX: u32 = 2_000;

/// The newest finding of an item, to be compared with later changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgeingFinding {
    pub session: SessionId,
    pub key: ItemKey,
    pub area: String,
    pub item_type: String,
    pub created_at: Timestamp,
    pub finding: Finding,
    /// Known so far.
    pub stale: Option<Stale>,
}

impl<R: Reader> Findings<'_, R> {
    /// The newest finding of each finished item, newest first, if it was made since `since` and the
    /// item has no fix.
    pub async fn ageing(self, since: Timestamp) -> Result<Vec<AgeingFinding>, StoreError> {
        let sql = "SELECT f.session, f.key, s.area_path, s.item_type, f.created_at, f.finding,
                          t.commits AS later, t.total, t.files
                   FROM findings f JOIN heartbeat_state s USING (key)
                   LEFT JOIN stale_findings t ON t.session = f.session
                   WHERE f.created_at >= ?1 AND s.phase = 'done'
                     AND f.id = (SELECT max(id) FROM findings n WHERE n.key = f.key)
                     AND NOT EXISTS (SELECT 1 FROM fixes x WHERE x.session = f.session)
                   ORDER BY f.id DESC LIMIT ?2";
        self.rows(sql, (Ms(since), MAX), ageing).await
    }
}

impl Findings<'_, Journal> {
    /// Stores what makes these findings stale. With `requeue_before`, items with an older finding
    /// are queued again, once per finding. Returns how many were.
    pub async fn store_stale(
        self,
        found: Vec<(SessionId, ItemKey, Stale)>,
        requeue_before: Option<Timestamp>,
    ) -> Result<u32, StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, events| {
                let mut queued = 0;
                for (session, key, stale) in found {
                    transaction.execute(
                        "INSERT INTO stale_findings (session, key, commits, total, files, noted_at)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                         ON CONFLICT (session) DO UPDATE SET
                             commits = ?3, total = ?4, files = ?5, noted_at = ?6",
                        params![
                            session,
                            key,
                            to_json(&stale.commits)?,
                            stale.total,
                            to_json(&stale.files)?,
                            Ms(now)
                        ],
                    )?;
                    let due = transaction.execute(
                        "UPDATE stale_findings SET requeued = 1 WHERE session = ?1 AND requeued = 0
                           AND (SELECT created_at FROM findings f WHERE f.session = ?1) < ?2",
                        params![session, requeue_before.map(Ms)],
                    )?;
                    if due > 0 && requeue_item(transaction, key, Vec::new(), events)? {
                        queued += 1;
                    }
                }
                Ok(queued)
            })
            .await
    }
}

fn ageing(row: &Row<'_>) -> Sql<AgeingFinding> {
    Ok(AgeingFinding {
        session: row.get("session")?,
        key: row.get("key")?,
        area: row.get::<_, Option<String>>("area_path")?.unwrap_or_default(),
        item_type: row.get("item_type")?,
        created_at: row.get::<_, Ms>("created_at")?.0,
        finding: from_json(row, "finding")?,
        stale: stale(row)?,
    })
}

/// From the columns `later`, `total` and `files`.
pub(super) fn stale(row: &Row<'_>) -> Sql<Option<Stale>> {
    let total: Option<u32> = row.get("total")?;
    let Some(total) = total else { return Ok(None) };
    Ok(Some(Stale { commits: from_json(row, "later")?, total, files: from_json(row, "files")? }))
}
