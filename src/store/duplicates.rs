//! Groups of items that triage judged to report the same thing.

use rusqlite::{Transaction, params};
use serde::Serialize;

use super::rows::from_word;
use super::subjects::{Items, Reader};
use super::{Sql, StoreError};
use crate::model::{ItemKey, Phase, Verdict};

/// Items of a group that are listed.
const MAX_SHOWN: usize = 12;
/// Items of a group that are counted.
const MAX_COUNTED: u32 = 1_000;

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
    /// The one to keep of its group.
    pub live: bool,
}

impl DuplicateGroup {
    /// The one to keep: open before closed, then the oldest, unless a newer one says far more.
    pub fn live(&self) -> Option<&DuplicateItem> {
        self.items.iter().find(|item| item.live)
    }

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
                 (SELECT why FROM duplicates d WHERE d.key = s.key AND why <> '' LIMIT 1), '') AS why,
                 coalesce(length(f.words), 0) AS words
             FROM same JOIN heartbeat_state s ON s.key = same.key
             LEFT JOIN item_fields f ON f.key = s.key
             ORDER BY s.first_seen, s.item_id";
        let rows = self.rows(sql, (key, MAX_COUNTED), |row| {
            let item = DuplicateItem {
                key: row.get("key")?,
                title: row.get("title")?,
                url: row.get("url")?,
                phase: from_word(row, "phase")?,
                why: row.get("why")?,
                live: false,
            };
            Ok((item, row.get::<_, u32>("words")?))
        });
        let found = rows.await?;
        let total = found.len();
        if total < 2 {
            return Ok(DuplicateGroup::default());
        }
        let live = live(&found);
        let mut items: Vec<DuplicateItem> = found.into_iter().map(|(item, _)| item).collect();
        if let Some(live) = live.and_then(|live| items.get_mut(live)) {
            live.live = true;
        }
        items.truncate(MAX_SHOWN);
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

/// The item to keep, of items with the number of words they have, oldest first.
fn live(items: &[(DuplicateItem, u32)]) -> Option<usize> {
    let is_open = |item: &DuplicateItem| item.phase != Phase::Vanished;
    let any_open = items.iter().any(|(item, _)| is_open(item));
    let kept = || items.iter().enumerate().filter(|(_, (item, _))| is_open(item) || !any_open);
    let most = kept().map(|(_, (_, words))| *words).max()?;
    kept().find(|(_, (_, words))| words.saturating_mul(2) >= most).map(|(at, _)| at)
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
