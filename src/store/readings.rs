//! What triage read of an item and said about it, so that the next prompt can say what changed.

use jiff::Timestamp;
use rusqlite::{Transaction, params};

use super::rows::{Ms, from_json, from_word, to_json};
use super::subjects::{Items, Reader};
use super::{Sql, StoreError};
use crate::dedupe::ItemParts;
use crate::model::{ItemId, ItemKey, Phase, Verdict};

/// Readings that are kept of each item: the present one and the one before.
const KEPT: u32 = 2;

/// What triage read of an item, and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub at: Timestamp,
    pub parts: ItemParts,
    pub verdict: Verdict,
}

impl<R: Reader> Items<'_, R> {
    /// The newest reading of an item, leaving out the one with this fingerprint.
    pub async fn earlier_reading(
        self,
        key: ItemKey,
        except: Option<String>,
    ) -> Result<Option<Reading>, StoreError> {
        let sql = "SELECT * FROM readings WHERE key = ?1 AND fingerprint IS NOT ?2
                   ORDER BY read_at DESC LIMIT 1";
        self.first_row(sql, (key, except), |row| {
            Ok(Reading {
                at: row.get::<_, Ms>("read_at")?.0,
                parts: from_json(row, "parts")?,
                verdict: from_json(row, "verdict")?,
            })
        })
        .await
    }

    /// Shows every item's title to `see`, one at a time, and returns what it made of them.
    pub async fn each_title<T: Send + 'static>(
        self,
        mut state: T,
        see: impl Fn(&mut T, ItemId, Phase, &str) + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read(move |connection| {
            let mut titles =
                connection.prepare_cached("SELECT item_id, phase, title FROM heartbeat_state")?;
            let mut rows = titles.query([])?;
            while let Some(row) = rows.next()? {
                let title: String = row.get("title")?;
                see(&mut state, ItemId(row.get("item_id")?), from_word(row, "phase")?, &title);
            }
            Ok(state)
        })
        .await
    }
}

pub(super) fn remember(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    fingerprint: &str,
    parts: &ItemParts,
    verdict: &Verdict,
    now: Timestamp,
) -> Sql<()> {
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO readings (key, fingerprint, read_at, parts, verdict)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![key, fingerprint, Ms(now), to_json(parts)?, to_json(verdict)?])?;
    transaction
        .prepare_cached(
            "DELETE FROM readings WHERE key = ?1 AND fingerprint NOT IN
                 (SELECT fingerprint FROM readings WHERE key = ?1 ORDER BY read_at DESC LIMIT ?2)",
        )?
        .execute(params![key, KEPT])
        .map(drop)
}
