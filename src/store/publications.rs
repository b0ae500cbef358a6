//! What we left on work items ourselves.

use rusqlite::params;

use super::subjects::Publications;
use super::{Journal, StoreError};
use crate::event::Event;
use crate::model::ItemKey;

impl Publications<'_, Journal> {
    /// A finding stands on its item now; the revision that made is one we have seen.
    pub async fn record(self, key: ItemKey, rev: i64) -> Result<(), StoreError> {
        self.0
            .commit(move |transaction, events| {
                transaction.execute(
                    "UPDATE heartbeat_state SET revision = max(revision, ?2) WHERE key = ?1",
                    params![key, rev],
                )?;
                events.push(Event::FindingPublished { item: key, rev });
                Ok(())
            })
            .await
    }
}
