//! Reads the stored event log.

use std::collections::BTreeMap;

use rusqlite::Row;

use super::rows::{Ms, from_json};
use super::subjects::{Events, Reader};
use super::{Sql, StoreError};
use crate::event::fold::AlarmedItem;
use crate::event::{Event, Recorded};
use crate::model::{ItemKey, RunId, SessionId, Tier};

/// Most events read for one page.
const MAX_OF_A_PAGE: u32 = 50_000;

impl<R: Reader> Events<'_, R> {
    /// Events of one item, in order.
    pub async fn of_item(self, key: ItemKey) -> Result<Vec<Recorded>, StoreError> {
        self.rows("SELECT * FROM events WHERE item = ?1 ORDER BY seq", [key], recorded).await
    }

    /// Events of one run, in order.
    pub async fn in_run(self, run: RunId) -> Result<Vec<Recorded>, StoreError> {
        self.rows("SELECT * FROM events WHERE run = ?1 ORDER BY seq", [run], recorded).await
    }

    /// As [`in_run`](Self::in_run) for the page of a run: bounded, without liveness events and
    /// steps of sessions.
    pub async fn of_run_page(self, run: RunId) -> Result<Vec<Recorded>, StoreError> {
        let sql = "SELECT * FROM events WHERE run = ?1
                     AND event NOT IN ('session_liveness', 'session_progressed')
                   ORDER BY seq LIMIT ?2";
        self.rows(sql, (run, MAX_OF_A_PAGE), recorded).await
    }

    /// Events of one session, in order, at most one page.
    pub async fn of_session(
        self,
        run: RunId,
        session: SessionId,
    ) -> Result<Vec<Recorded>, StoreError> {
        // The run is part of the condition because it has an index.
        let sql = "SELECT * FROM events WHERE run = ?1 AND session = ?2 ORDER BY seq LIMIT ?3";
        self.rows(sql, (run, session, MAX_OF_A_PAGE), recorded).await
    }

    /// Events after number `after`, oldest first, at most `limit`.
    pub async fn after(self, after: i64, limit: u32) -> Result<Vec<Recorded>, StoreError> {
        self.rows(
            "SELECT * FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            (after, limit),
            recorded,
        )
        .await
    }

    /// Number of the newest event; 0 if there is none.
    pub async fn last_number(self) -> Result<i64, StoreError> {
        self.read(|connection| {
            connection.query_row("SELECT coalesce(max(seq), 0) FROM events", [], |row| row.get(0))
        })
        .await
    }

    /// The error found when the configuration was last reloaded, if there was one.
    pub async fn last_config_fault(self) -> Result<Option<String>, StoreError> {
        let sql = "SELECT * FROM events WHERE event IN ('config_broken', 'config_reloaded')
                   ORDER BY seq DESC LIMIT 1";
        Ok(match self.first_row(sql, [], recorded).await?.map(|recorded| recorded.event) {
            Some(Event::ConfigBroken { message }) => Some(message),
            _ => None,
        })
    }

    /// What made a run fail, if it failed.
    pub async fn failure_of(self, run: RunId) -> Result<Option<String>, StoreError> {
        let sql = "SELECT * FROM events WHERE event = 'run_failed' AND run = ?1
                   ORDER BY seq DESC LIMIT 1";
        Ok(match self.first_row(sql, [run], recorded).await?.map(|recorded| recorded.event) {
            Some(Event::RunFailed { message }) => Some(message),
            _ => None,
        })
    }

    /// The model that answered a session of this run instead of the configured one.
    pub async fn answered_by_another(self, run: RunId) -> Result<Option<String>, StoreError> {
        let sql = "SELECT json_extract(body, '$.answered_by') AS model FROM events
                   WHERE run = ?1 AND event = 'session_ended' AND model IS NOT NULL LIMIT 1";
        self.first_row(sql, [run], |row| row.get(0)).await
    }

    /// Items whose text raised an alarm in these runs; each once, with its newest alarm.
    pub async fn alarms_of(self, runs: Vec<RunId>) -> Result<Vec<AlarmedItem>, StoreError> {
        let mut found = BTreeMap::new();
        for run in runs {
            let sql = "SELECT * FROM events WHERE event = 'text_alarm' AND run = ?1 ORDER BY seq";
            for recorded in self.rows(sql, [run], recorded).await? {
                if let Event::TextAlarm { item, alarms } = recorded.event
                    && alarms.tier() == Some(Tier::Alarm)
                {
                    found.insert(item, alarms);
                }
            }
        }
        Ok(found.into_iter().map(|(item, alarms)| AlarmedItem { item, alarms }).collect())
    }

    /// Keys whose new value takes effect after a restart.
    pub async fn keys_waiting_for_restart(self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT * FROM events WHERE event = 'restart_needed' ORDER BY seq DESC LIMIT 1";
        Ok(match self.first_row(sql, [], recorded).await?.map(|recorded| recorded.event) {
            Some(Event::RestartNeeded { keys }) => keys,
            _ => Vec::new(),
        })
    }
}

fn recorded(row: &Row<'_>) -> Sql<Recorded> {
    Ok(Recorded {
        seq: row.get("seq")?,
        at: row.get::<_, Ms>("at")?.0,
        run: row.get("run")?,
        event: from_json(row, "body")?,
    })
}
