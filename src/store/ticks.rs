//! Scheduled times that were used or skipped.

use jiff::Timestamp;
use rusqlite::{Transaction, params};

use super::rows::Ms;
use super::subjects::{Reader, Ticks};
use super::{Journal, Sql, StoreError, totals};
use crate::event::Event;
use crate::model::RunId;
use crate::schedule::no_later_than;

/// A scheduled time that was used or skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TickRow {
    /// Name of the schedule: its expression and zone.
    pub schedule: String,
    /// When it was due.
    pub nominal: Timestamp,
    /// The run it started; `None` if it was skipped.
    pub run: Option<RunId>,
    /// Number of further due times that it covers.
    pub missed: u32,
}

impl Ticks<'_, Journal> {
    /// Uses a scheduled time. False if another process was faster: do nothing.
    pub async fn take(self, tick: TickRow) -> Result<bool, StoreError> {
        let now = Ms(self.0.clock().now());
        self.0.commit(move |transaction, _| record_tick(transaction, now, &tick)).await
    }

    /// Skips a scheduled time and emits an event. False if another process has decided about it.
    pub async fn skip(self, tick: TickRow, blocked_by: Option<RunId>) -> Result<bool, StoreError> {
        let now = Ms(self.0.clock().now());
        self.0
            .commit(move |transaction, events| {
                let recorded =
                    record_tick(transaction, now, &TickRow { run: None, ..tick.clone() })?;
                if recorded {
                    let TickRow { nominal, missed, .. } = tick;
                    events.push(Event::TickSkipped { nominal, blocked_by, missed });
                }
                Ok(recorded)
            })
            .await
    }
}

impl<R: Reader> Ticks<'_, R> {
    /// The newest scheduled time that was used or skipped.
    pub async fn last(self, schedule: String) -> Result<Option<Timestamp>, StoreError> {
        self.read(move |connection| {
            connection.query_row(
                "SELECT max(nominal) FROM ticks WHERE schedule = ?1",
                params![schedule],
                |row| Ok(row.get::<_, Option<Ms>>(0)?.map(|ms| ms.0)),
            )
        })
        .await
    }
}

fn record_tick(transaction: &Transaction<'_>, now: Ms, tick: &TickRow) -> Sql<bool> {
    forget_times_to_come(transaction, now, tick)?;
    let decision = if tick.run.is_some() { "fired" } else { "skipped" };
    let recorded = transaction.execute(
        "INSERT OR IGNORE INTO ticks (schedule, nominal, decided_at, decision, run, missed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![tick.schedule, Ms(tick.nominal), now, decision, tick.run, tick.missed],
    )?;
    Ok(recorded == 1)
}

/// The clock was set back: what it used of the time that is to come again must not block the
/// schedule. The totals keep them.
fn forget_times_to_come(transaction: &Transaction<'_>, now: Ms, tick: &TickRow) -> Sql<()> {
    let ahead = Ms(no_later_than(now.0));
    let was_ahead: bool = transaction.query_row(
        "SELECT EXISTS (SELECT 1 FROM ticks WHERE schedule = ?1 AND nominal > ?2)",
        params![tick.schedule, ahead],
        |row| row.get(0),
    )?;
    if !was_ahead {
        return Ok(());
    }
    let (fired, skipped, missed) = transaction.query_row(
        "SELECT coalesce(sum(decision = 'fired'), 0), coalesce(sum(decision = 'skipped'), 0),
                coalesce(sum(missed), 0)
         FROM ticks WHERE schedule = ?1 AND nominal >= ?2",
        params![tick.schedule, Ms(tick.nominal)],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    totals::add(transaction, totals::FIRED, fired)?;
    totals::add(transaction, totals::SKIPPED, skipped)?;
    totals::add(transaction, totals::MISSED, missed)?;
    transaction
        .execute(
            "DELETE FROM ticks WHERE schedule = ?1 AND nominal >= ?2",
            params![tick.schedule, Ms(tick.nominal)],
        )
        .map(drop)
}
