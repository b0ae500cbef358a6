//! What is needed to notice that nothing happens, and which notices were sent.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::OptionalExtension as _;

use super::pause::Pause;
use super::rows::Ms;
use super::subjects::{Reader, Ticks};
use super::{Journal, StoreError};

/// Names of the facts that hold sent notices begin with this.
const TOLD: &str = "told:";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quiet {
    /// Starts of the last two runs, newest first.
    pub last_runs: Vec<Timestamp>,
    pub paused_since: Option<Timestamp>,
    /// The reason given for the pause.
    pub pause_note: String,
    /// The end of the last pause.
    pub resumed_at: Option<Timestamp>,
    pub last_finding: Option<Timestamp>,
    /// When the first item was seen.
    pub watching_since: Option<Timestamp>,
    /// Items that changed in the tracker within the asked time.
    pub changed_items: u32,
    pub waiting_items: u32,
    pub parked_items: u32,
    /// What each notice was last about, by its name.
    pub told: BTreeMap<String, String>,
}

impl<R: Reader> Ticks<'_, R> {
    /// `since`: from when on changed items are counted.
    pub async fn quiet(self, since: Timestamp) -> Result<Quiet, StoreError> {
        let pause: Option<Pause> = self.pause_state().await?;
        let mut quiet = self
            .read(move |connection| {
                let time = |sql: &str| {
                    let read = |row: &rusqlite::Row<'_>| row.get::<_, Option<Ms>>(0);
                    let found = connection.query_row(sql, [], read).optional()?.flatten();
                    Ok::<_, rusqlite::Error>(found.map(|ms| ms.0))
                };
                let mut last_runs = connection
                    .prepare("SELECT started_at FROM runs ORDER BY started_at DESC LIMIT 2")?;
                let last_runs = last_runs.query_map([], |row| Ok(row.get::<_, Ms>(0)?.0))?;
                let mut told = connection
                    .prepare("SELECT substr(name, 6), value FROM facts WHERE name LIKE 'told:%'")?;
                let told = told.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                let (changed_items, waiting_items, parked_items) = connection.query_row(
                    "SELECT coalesce(sum(last_changed >= ?1), 0),
                            coalesce(sum(phase IN ('pending', 'waiting')), 0),
                            coalesce(sum(phase = 'parked'), 0) FROM heartbeat_state",
                    [Ms(since)],
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
                )?;
                Ok(Quiet {
                    last_runs: last_runs.collect::<Result<_, _>>()?,
                    resumed_at: time(
                        "SELECT at FROM events WHERE event = 'schedule_resumed'
                         ORDER BY seq DESC LIMIT 1",
                    )?,
                    last_finding: time("SELECT max(created_at) FROM findings")?,
                    watching_since: time("SELECT min(first_seen) FROM heartbeat_state")?,
                    changed_items,
                    waiting_items,
                    parked_items,
                    told: told.collect::<Result<_, _>>()?,
                    ..Quiet::default()
                })
            })
            .await?;
        quiet.paused_since = pause.as_ref().map(|pause| pause.since);
        quiet.pause_note = pause.map(|pause| pause.note).unwrap_or_default();
        Ok(quiet)
    }
}

impl Ticks<'_, Journal> {
    /// A notice was sent.
    pub async fn note_told(self, name: &'static str, about: String) -> Result<(), StoreError> {
        self.0
            .commit(move |transaction, _| {
                transaction.execute(
                    "INSERT OR REPLACE INTO facts (name, value) VALUES (?1, ?2)",
                    (format!("{TOLD}{name}"), about),
                )?;
                Ok(())
            })
            .await
    }
}
