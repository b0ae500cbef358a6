//! Groups of items that triage judged to report the same thing.

use rusqlite::{Transaction, params};
use serde::Serialize;

use super::rows::from_word;
use super::subjects::{Items, Reader};
use super::{Sql, StoreError};
use crate::model::{ItemKey, Phase, Verdict};

/// Items of a group that are listed.
const MOST_SHOWN: usize = 12;
/// Items of a group that are counted.
const MOST_COUNTED: u32 = 1_000;

/// Items that report the same thing, directly or through others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DuplicateGroup {
    /// Oldest first; empty if there is no duplicate.
    pub items: Vec<DuplicateItem>,
    pub total: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DuplicateItem {
    pub key: ItemKey,
    pub title: String,
    pub url: String,
    pub phase: Phase,
    /// Triage's reason for naming another item; empty if only others named this one.
    pub why: String,
}

impl DuplicateGroup {
    /// Number of items that are not listed.
    pub fn beyond(&self) -> usize {
        self.total.saturating_sub(self.items.len())
    }
}

impl<R: Reader> Items<'_, R> {
    /// The group of an item, itself included; empty if it has no duplicates.
    pub async fn duplicates_of(self, key: ItemKey) -> Result<DuplicateGroup, StoreError> {
        let sql = "WITH RECURSIVE same (key) AS (
                 SELECT ?1
                 UNION SELECT d.other FROM same JOIN duplicates d ON d.key = same.key
                 UNION SELECT d.key FROM same JOIN duplicates d ON d.other = same.key
                 LIMIT ?2)
             SELECT s.key, s.title, s.url, s.phase, coalesce(
                 (SELECT why FROM duplicates d WHERE d.key = s.key AND why <> '' LIMIT 1), '') AS why
             FROM same JOIN heartbeat_state s ON s.key = same.key
             ORDER BY s.first_seen, s.item_id";
        let rows = self.rows(sql, (key, MOST_COUNTED), |row| {
            Ok(DuplicateItem {
                key: row.get("key")?,
                title: row.get("title")?,
                url: row.get("url")?,
                phase: from_word(row, "phase")?,
                why: row.get("why")?,
            })
        });
        let mut items = rows.await?;
        let total = items.len();
        if total < 2 {
            return Ok(DuplicateGroup::default());
        }
        items.truncate(MOST_SHOWN);
        Ok(DuplicateGroup { items, total })
    }

    /// The groups of these items, each once, in the order of the items.
    pub async fn duplicate_groups(
        self,
        keys: Vec<ItemKey>,
    ) -> Result<Vec<DuplicateGroup>, StoreError> {
        let mut groups: Vec<DuplicateGroup> = Vec::new();
        for key in keys {
            let group = self.duplicates_of(key).await?;
            // The oldest item identifies its group.
            let first = group.items.first().map(|item| &item.key);
            let known =
                groups.iter().any(|known| known.items.first().map(|item| &item.key) == first);
            if first.is_some() && !known {
                groups.push(group);
            }
        }
        Ok(groups)
    }
}

/// Stores the duplicates of a verdict; replaces those of an earlier one.
pub(super) fn note(transaction: &Transaction<'_>, key: &ItemKey, verdict: &Verdict) -> Sql<()> {
    transaction.prepare_cached("DELETE FROM duplicates WHERE key = ?1")?.execute([key])?;
    let mut insert = transaction
        .prepare_cached("INSERT OR IGNORE INTO duplicates (key, other, why) VALUES (?1, ?2, ?3)")?;
    for duplicate in &verdict.duplicates {
        let other = duplicate.key(key);
        insert.execute(params![key, other, duplicate.why])?;
    }
    Ok(())
}
