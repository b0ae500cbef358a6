//! The attempts of an item, as its story tells them.

use jiff::Timestamp;
use serde::Serialize;

use super::rows::{Ms, from_optional_json};
use super::{Store, StoreError};
use crate::model::{ItemKey, Outcome, RunId, SessionId, Usage};

/// One try at an item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptRow {
    /// Its number on that text.
    pub attempt: u32,
    /// Of what reached the prompt.
    pub fingerprint: String,
    /// By which session.
    pub session: SessionId,
    /// In which run.
    pub run: RunId,
    /// When.
    pub claimed_at: Timestamp,
    /// None while it goes on.
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// False: not the item's fault, or given back by a person.
    pub counted: bool,
    /// What it used.
    pub usage: Option<Usage>,
}

impl Store {
    /// Every attempt on an item, oldest first.
    pub async fn attempts_of(&self, key: ItemKey) -> Result<Vec<AttemptRow>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare(
                    "SELECT a.*, s.usage FROM attempts a LEFT JOIN sessions s USING (session)
                     WHERE a.key = ?1 ORDER BY a.claimed_at",
                )?
                .query_map([key], |row| {
                    Ok(AttemptRow {
                        attempt: row.get("attempt")?,
                        fingerprint: row.get("fingerprint")?,
                        session: row.get("session")?,
                        run: row.get("run")?,
                        claimed_at: row.get::<_, Ms>("claimed_at")?.0,
                        ended_at: row.get::<_, Option<Ms>>("ended_at")?.map(|ms| ms.0),
                        outcome: from_optional_json(row, "outcome")?,
                        counted: row.get("counted")?,
                        usage: from_optional_json(row, "usage")?,
                    })
                })?
                .collect()
        })
        .await
    }
}
