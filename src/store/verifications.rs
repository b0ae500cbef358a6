//! Which findings have a patch to verify, and what came of it.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{OptionalExtension, Row, params};

use super::rows::{Ms, from_json, to_json};
use super::subjects::{Findings, Reader};
use super::{Journal, Sql, StoreError};
use crate::event::Event;
use crate::model::{Confidence, Finding, ItemKey, Rung, SessionId, Step};

/// Findings that are looked at in one pass.
const MAX_ROWS: u32 = 20;
/// Crashes of heartbeat during a verification after which it is given up.
const MAX_ATTEMPTS: u32 = 2;
/// A verification that began earlier was cut off.
const MAX_DURATION: SignedDuration = SignedDuration::from_hours(2);

/// A finding whose patch nobody has tried.
#[derive(Debug, Clone, PartialEq)]
pub struct UnverifiedFinding {
    pub session: SessionId,
    pub key: ItemKey,
    pub area: String,
    pub item_type: String,
    pub finding: Finding,
}

impl<R: Reader> Findings<'_, R> {
    /// The newest finding of each item, oldest first, if it was made since `since` and its patch was
    /// not tried yet.
    pub async fn unverified(self, since: Timestamp) -> Result<Vec<UnverifiedFinding>, StoreError> {
        let sql = "SELECT f.session, f.key, s.area_path, s.item_type, f.finding
                   FROM findings f JOIN heartbeat_state s USING (key)
                   LEFT JOIN verifications v ON v.session = f.session
                   WHERE f.created_at >= ?1 AND json_extract(f.finding, '$.patch') IS NOT NULL
                     AND f.id = (SELECT max(id) FROM findings n WHERE n.key = f.key)
                     AND (v.session IS NULL OR (v.ended_at IS NULL AND v.attempts < ?2))
                   ORDER BY f.id LIMIT ?3";
        self.rows(sql, (Ms(since), MAX_ATTEMPTS, MAX_ROWS), unverified).await
    }
}

fn unverified(row: &Row<'_>) -> Sql<UnverifiedFinding> {
    Ok(UnverifiedFinding {
        session: row.get("session")?,
        key: row.get("key")?,
        area: row.get::<_, Option<String>>("area_path")?.unwrap_or_default(),
        item_type: row.get("item_type")?,
        finding: from_json(row, "finding")?,
    })
}

impl Findings<'_, Journal> {
    /// Counts an attempt; false if another process is at it.
    pub async fn begin_verification(self, session: SessionId) -> Result<bool, StoreError> {
        let now = self.0.clock().now();
        let cut_off = now.checked_sub(MAX_DURATION).unwrap_or(Timestamp::MIN);
        self.0
            .commit(move |transaction, _| {
                let changed = transaction.execute(
                    "INSERT INTO verifications (session, attempts, started_at) VALUES (?1, 1, ?2)
                     ON CONFLICT (session) DO UPDATE SET attempts = attempts + 1, started_at = ?2
                     WHERE ended_at IS NULL AND started_at < ?3",
                    params![session, Ms(now), Ms(cut_off)],
                )?;
                Ok(changed > 0)
            })
            .await
    }

    /// Adds the steps to the finding. One that is reproduced is as sure as it can be.
    pub async fn end_verification(
        self,
        session: SessionId,
        steps: Vec<Step>,
    ) -> Result<(), StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, events| {
                transaction.execute(
                    "UPDATE verifications SET ended_at = ?2 WHERE session = ?1",
                    params![session, Ms(now)],
                )?;
                let stored = transaction
                    .query_row(
                        "SELECT key, finding FROM findings WHERE session = ?1",
                        [session],
                        |row| Ok((row.get("key")?, from_json::<Finding>(row, "finding")?)),
                    )
                    .optional()?;
                let Some((item, mut finding)) = stored else { return Ok(()) };
                let Some(proof) = &mut finding.proof else { return Ok(()) };
                proof.steps.extend(steps);
                let rung = proof.rung();
                if rung == Rung::Reproduced {
                    finding.confidence = Confidence::High;
                }
                transaction.execute(
                    "UPDATE findings SET finding = ?2 WHERE session = ?1",
                    params![session, to_json(&finding)?],
                )?;
                events.push(Event::FindingVerified { item, session, rung });
                Ok(())
            })
            .await
    }
}
