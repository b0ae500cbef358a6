//! Runs and the scheduled times that led to them.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::Serialize;

use super::rows::{Ms, from_optional_json, from_optional_word, from_word, to_json, to_word};
use super::{Journal, Sql, Store, StoreError};
use crate::event::{Event, RunOutcome, RunSummary, Trigger};
use crate::model::RunId;

/// A run as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRow {
    /// Which.
    pub run: RunId,
    /// Why it began.
    pub trigger: Trigger,
    /// When.
    pub started_at: Timestamp,
    /// None while it is going on.
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<RunOutcome>,
    /// With what.
    pub summary: Option<RunSummary>,
}

/// A scheduled time that was used or passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TickRow {
    /// Name of the schedule: its expression and zone.
    pub schedule: String,
    /// The time it was due.
    pub nominal: Timestamp,
    /// The run it led to; none: skipped.
    pub run: Option<RunId>,
    /// How many due times it stands for beyond itself.
    pub missed: u32,
}

impl Journal {
    /// Begins a run. Whoever holds the run lock may call it, so any unfinished run is a crashed one
    /// and is closed as such.
    pub async fn begin_run(
        &self,
        run: RunId,
        trigger: Trigger,
        max_live_sessions: u32,
    ) -> Result<(), StoreError> {
        let now = Ms(self.clock().now());
        self.commit(move |transaction, told| {
            transaction.execute(
                "UPDATE runs SET ended_at = ?1, outcome = 'crashed' WHERE ended_at IS NULL",
                [now],
            )?;
            transaction.execute(
                "INSERT INTO runs (run, trigger, started_at) VALUES (?1, ?2, ?3)",
                params![run, to_word(&trigger)?, now],
            )?;
            told.push(Event::RunStarted { trigger, max_live_sessions });
            Ok(())
        })
        .await
    }

    /// Ends a run.
    pub async fn end_run(
        &self,
        run: RunId,
        outcome: RunOutcome,
        summary: RunSummary,
    ) -> Result<(), StoreError> {
        let now = self.clock().now();
        self.commit(move |transaction, told| {
            let started: Ms = transaction.query_row(
                "UPDATE runs SET ended_at = ?2, outcome = ?3, summary = ?4 WHERE run = ?1
                 RETURNING started_at",
                params![run, Ms(now), to_word(&outcome)?, to_json(&summary)?],
                |row| row.get(0),
            )?;
            let duration = now.duration_since(started.0).as_millis();
            let duration_ms = u64::try_from(duration).unwrap_or(0);
            told.push(Event::RunEnded { outcome, summary, duration_ms });
            Ok(())
        })
        .await
    }

    /// Uses a scheduled time up. False: someone else was faster, do nothing.
    pub async fn use_tick(&self, tick: TickRow) -> Result<bool, StoreError> {
        let now = Ms(self.clock().now());
        self.commit(move |transaction, _| record_tick(transaction, now, &tick)).await
    }

    /// Lets a scheduled time go, and tells it. False: someone else has decided about it.
    pub async fn skip_tick(
        &self,
        tick: TickRow,
        blocked_by: Option<RunId>,
    ) -> Result<bool, StoreError> {
        let now = Ms(self.clock().now());
        self.commit(move |transaction, told| {
            let recorded = record_tick(transaction, now, &TickRow { run: None, ..tick.clone() })?;
            if recorded {
                let TickRow { nominal, missed, .. } = tick;
                told.push(Event::TickSkipped { nominal, blocked_by, missed });
            }
            Ok(recorded)
        })
        .await
    }
}

fn record_tick(transaction: &Transaction<'_>, now: Ms, tick: &TickRow) -> Sql<bool> {
    let decision = if tick.run.is_some() { "fired" } else { "skipped" };
    let recorded = transaction.execute(
        "INSERT OR IGNORE INTO ticks (schedule, nominal, decided_at, decision, run, missed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![tick.schedule, Ms(tick.nominal), now, decision, tick.run, tick.missed],
    )?;
    Ok(recorded == 1)
}

impl Store {
    /// The newest scheduled time that was used or passed over, of those up to `until`: a clock that
    /// was ahead may have left later ones.
    pub async fn last_tick(
        &self,
        schedule: String,
        until: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.read(move |connection| {
            connection.query_row(
                "SELECT max(nominal) FROM ticks WHERE schedule = ?1 AND nominal <= ?2",
                params![schedule, Ms(until)],
                |row| Ok(row.get::<_, Option<Ms>>(0)?.map(|ms| ms.0)),
            )
        })
        .await
    }

    /// The newest runs, newest first.
    pub async fn runs(&self, limit: u32) -> Result<Vec<RunRow>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare("SELECT * FROM runs ORDER BY started_at DESC, run DESC LIMIT ?1")?
                .query_map([limit], run_row)?
                .collect()
        })
        .await
    }

    /// The run that is going on, if one is.
    pub async fn running(&self) -> Result<Option<RunRow>, StoreError> {
        self.read(|connection| {
            connection
                .query_row("SELECT * FROM runs WHERE ended_at IS NULL LIMIT 1", [], run_row)
                .optional()
        })
        .await
    }
}

pub(super) fn run_row(row: &Row<'_>) -> Sql<RunRow> {
    Ok(RunRow {
        run: row.get("run")?,
        trigger: from_word(row, "trigger")?,
        started_at: row.get::<_, Ms>("started_at")?.0,
        ended_at: row.get::<_, Option<Ms>>("ended_at")?.map(|ms| ms.0),
        outcome: from_optional_word(row, "outcome")?,
        summary: from_optional_json(row, "summary")?,
    })
}
