//! Fixes of the items that have findings.

use jiff::Timestamp;
use rusqlite::{Row, params};

use super::findings::{FINDINGS, FindingRow, finding, fix};
use super::rows::{Ms, from_json, to_json};
use super::subjects::{Findings, Reader};
use super::{Journal, Sql, StoreError};
use crate::event::Event;
use crate::model::{Finding, Fix, ItemKey, SessionId};

/// Most findings checked in one pass.
const MAX: u32 = 5_000;

/// A finding whose item may have been fixed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfixedFinding {
    pub session: SessionId,
    pub key: ItemKey,
    /// Its page.
    pub url: String,
    pub area: String,
    pub item_type: String,
    /// Earlier commits are ignored.
    pub first_seen: Timestamp,
    pub finding: Finding,
    /// The fix known so far.
    pub fix: Option<Fix>,
}

impl<R: Reader> Findings<'_, R> {
    /// Findings whose items were fixed in `[from, to)`, in order.
    pub async fn fixed_between(
        self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<FindingRow>, StoreError> {
        let sql = format!("{FINDINGS} WHERE x.fixed_at >= ?1 AND x.fixed_at < ?2 ORDER BY f.id");
        self.rows(sql, (Ms(from), Ms(to)), finding).await
    }

    /// Findings that people rated in `[from, to)`, in order.
    pub async fn rated_between(
        self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<FindingRow>, StoreError> {
        let sql = format!("{FINDINGS} WHERE o.given_at >= ?1 AND o.given_at < ?2 ORDER BY f.id");
        self.rows(sql, (Ms(from), Ms(to)), finding).await
    }

    /// Findings made since `made`, newest first, without those whose fix began before `fixed`: a
    /// fix may take several commits.
    pub async fn awaiting_fix(
        self,
        made: Timestamp,
        fixed: Timestamp,
    ) -> Result<Vec<UnfixedFinding>, StoreError> {
        let sql =
            "SELECT f.session, f.key, s.url, s.area_path, s.item_type, s.first_seen, f.finding,
                          x.fixed_at, x.commits, x.changed, x.named, x.hits
                   FROM findings f JOIN heartbeat_state s USING (key)
                   LEFT JOIN fixes x ON x.session = f.session
                   WHERE f.created_at >= ?1 AND (x.fixed_at IS NULL OR x.fixed_at >= ?2)
                   ORDER BY f.id DESC LIMIT ?3";
        self.rows(sql, (Ms(made), Ms(fixed), MAX), unfixed).await
    }
}

impl Findings<'_, Journal> {
    /// Stores the fixes of these findings, replacing earlier ones.
    pub async fn store_fixes(
        self,
        fixes: Vec<(SessionId, ItemKey, Fix)>,
    ) -> Result<(), StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, events| {
                for (session, key, fix) in &fixes {
                    transaction.execute(
                        "INSERT OR REPLACE INTO fixes
                         (session, key, fixed_at, commits, changed, named, hits, scored_at)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                        params![
                            session,
                            key,
                            Ms(fix.fixed_at),
                            to_json(&fix.commits)?,
                            to_json(&fix.changed)?,
                            fix.named,
                            fix.hits,
                            Ms(now)
                        ],
                    )?;
                    events.push(Event::FixFound {
                        item: key.clone(),
                        session: *session,
                        named: fix.hits,
                        changed: u32::try_from(fix.changed.len()).unwrap_or(u32::MAX),
                    });
                }
                Ok(())
            })
            .await
    }
}

fn unfixed(row: &Row<'_>) -> Sql<UnfixedFinding> {
    Ok(UnfixedFinding {
        session: row.get("session")?,
        key: row.get("key")?,
        url: row.get("url")?,
        area: row.get::<_, Option<String>>("area_path")?.unwrap_or_default(),
        item_type: row.get("item_type")?,
        first_seen: row.get::<_, Ms>("first_seen")?.0,
        finding: from_json(row, "finding")?,
        fix: fix(row)?,
    })
}
