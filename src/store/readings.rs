//! What is known about an item besides its current text: triage's earlier input and verdict, the
//! last finding, its parent's title, similar items. The next prompt states what changed.

use std::collections::HashMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::rows::{Ms, from_json, to_json};
use super::subjects::{Items, Reader};
use super::{Sql, StoreError};
use crate::dedupe::{ItemParts, ItemWords, QueuedItem};
use crate::model::{Background, Earlier, Finding, ItemKey, Verdict};

/// Readings kept of each item: the current and the previous one.
const KEPT: u32 = 2;

/// Which verdicts on an item count as earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierVerdicts {
    /// All: triage has not judged the current text yet, or is asked about it again.
    All,
    /// Those on other texts: triage has judged the current one.
    OnOtherTexts,
}

/// What triage read of an item, and its verdict.
#[derive(Debug)]
struct TriageReading {
    at: Timestamp,
    parts: ItemParts,
    verdict: Verdict,
}

impl<R: Reader> Items<'_, R> {
    /// What is known about each of these items besides its current text.
    pub async fn background(
        self,
        items: Vec<QueuedItem>,
        verdicts: EarlierVerdicts,
    ) -> Result<HashMap<ItemKey, Background>, StoreError> {
        let words = items.iter().map(|item| (item.key().clone(), ItemWords::of(&item.item)));
        let mut similar = self.neighbours(words.collect()).await?;
        self.read(move |connection| {
            let mut known = HashMap::with_capacity(items.len());
            for item in &items {
                let background = Background {
                    parent: parent_title(connection, item)?,
                    earlier: earlier(connection, item, verdicts)?,
                    similar: similar.remove(item.key()).unwrap_or_default(),
                    ..Background::default()
                };
                known.insert(item.key().clone(), background);
            }
            Ok(known)
        })
        .await
    }
}

fn parent_title(connection: &Connection, item: &QueuedItem) -> Sql<Option<String>> {
    let Some(parent) = item.facts().parent else { return Ok(None) };
    let sql = "SELECT title FROM heartbeat_state WHERE key = ?1";
    connection.query_row(sql, [item.key().of_same_source(parent)], |row| row.get(0)).optional()
}

fn earlier(
    connection: &Connection,
    item: &QueuedItem,
    verdicts: EarlierVerdicts,
) -> Sql<Option<Earlier>> {
    let reading = newest_reading(connection, item, verdicts)?;
    let finding: Option<(Timestamp, Finding)> = connection
        .query_row(
            "SELECT created_at, finding FROM findings WHERE key = ?1 ORDER BY id DESC LIMIT 1",
            [item.key()],
            |row| Ok((row.get::<_, Ms>("created_at")?.0, from_json(row, "finding")?)),
        )
        .optional()?;
    if reading.is_none() && finding.is_none() {
        return Ok(None);
    }
    let now = ItemParts::of(&item.item);
    Ok(Some(Earlier {
        changes: reading.as_ref().map(|reading| now.changes_since(&reading.parts)),
        verdict: reading.map(|reading| (reading.at, reading.verdict)),
        finding,
    }))
}

fn newest_reading(
    connection: &Connection,
    item: &QueuedItem,
    verdicts: EarlierVerdicts,
) -> Sql<Option<TriageReading>> {
    let except = match verdicts {
        EarlierVerdicts::All => None,
        EarlierVerdicts::OnOtherTexts => Some(&item.fingerprint),
    };
    connection
        .query_row(
            "SELECT * FROM readings WHERE key = ?1 AND fingerprint IS NOT ?2
             ORDER BY read_at DESC LIMIT 1",
            params![item.key(), except],
            |row| {
                Ok(TriageReading {
                    at: row.get::<_, Ms>("read_at")?.0,
                    parts: from_json(row, "parts")?,
                    verdict: from_json(row, "verdict")?,
                })
            },
        )
        .optional()
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
