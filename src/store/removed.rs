//! Items of sources that are no longer configured: they cannot be read, so they are parked, and
//! queued again when their source is back.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::items::title_of;
use super::subjects::{Items, Reader};
use super::{Journal, Sql, StoreError};
use crate::event::{Decision, Event, Reason};
use crate::model::ItemKey;

impl<R: Reader> Items<'_, R> {
    /// Number of items parked because their source is not configured, by source.
    pub async fn of_removed_sources(self) -> Result<BTreeMap<String, u64>, StoreError> {
        let mut counts = BTreeMap::new();
        for key in self.read(parked).await? {
            *counts.entry(key.source().to_owned()).or_default() += 1;
        }
        Ok(counts)
    }
}

impl Items<'_, Journal> {
    /// Parks the open items of all sources except these, and queues those of these sources that
    /// were parked for that reason. Returns how many were parked per source.
    pub async fn follow_sources(
        self,
        configured: Vec<String>,
    ) -> Result<BTreeMap<String, u64>, StoreError> {
        let (leave, back) = self
            .read(move |connection| {
                let is_configured = |key: &ItemKey| configured.iter().any(|n| n == key.source());
                let mut leave = open(connection)?;
                leave.retain(|key| !is_configured(key));
                let mut back = parked(connection)?;
                back.retain(is_configured);
                Ok((leave, back))
            })
            .await?;
        let mut parked = BTreeMap::new();
        if leave.is_empty() && back.is_empty() {
            return Ok(parked);
        }
        for key in &leave {
            *parked.entry(key.source().to_owned()).or_default() += 1;
        }
        self.0
            .commit(move |transaction, events| {
                let mut park = transaction.prepare_cached(
                    "UPDATE heartbeat_state SET phase = 'parked', reason = 'source_removed',
                         next_attempt = NULL WHERE key = ?1",
                )?;
                for item in leave {
                    park.execute([&item])?;
                    events.push(Event::ItemParked { item, reason: Reason::SourceRemoved });
                }
                let mut queue = transaction.prepare_cached(
                    "UPDATE heartbeat_state SET phase = 'pending', reason = 'carried_over'
                     WHERE key = ?1",
                )?;
                for item in back {
                    queue.execute([&item])?;
                    let (rev, title) = title_of(transaction, &item)?;
                    let (decision, reason) = (Decision::Changed, Reason::CarriedOver);
                    events.push(Event::ItemDecided { item, rev, title, decision, reason });
                }
                Ok(())
            })
            .await?;
        Ok(parked)
    }
}

fn open(connection: &Connection) -> Sql<Vec<ItemKey>> {
    let sql = "SELECT key FROM heartbeat_state WHERE phase IN ('pending', 'waiting')";
    connection.prepare_cached(sql)?.query_map([], |row| row.get(0))?.collect()
}

fn parked(connection: &Connection) -> Sql<Vec<ItemKey>> {
    let sql = "SELECT key FROM heartbeat_state
               WHERE phase = 'parked' AND reason = 'source_removed'";
    connection.prepare_cached(sql)?.query_map([], |row| row.get(0))?.collect()
}
