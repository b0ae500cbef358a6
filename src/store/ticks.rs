//! Scheduled times that were used or skipped.

use jiff::Timestamp;
use rusqlite::{Transaction, params};

use super::rows::Ms;
use super::subjects::{Reader, Ticks};
use super::{Journal, Sql, StoreError};
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
    /// The newest scheduled time that was used or skipped, up to `until`: a clock that was ahead
    /// may have left later ones.
    pub async fn last(
        self,
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
}

fn record_tick(transaction: &Transaction<'_>, now: Ms, tick: &TickRow) -> Sql<bool> {
    // Decided by a clock that was ahead: these times are still to come.
    let ahead = Ms(no_later_than(now.0));
    transaction.execute(
        "DELETE FROM ticks WHERE schedule = ?1 AND nominal = ?2 AND decided_at > ?3",
        params![tick.schedule, Ms(tick.nominal), ahead],
    )?;
    let decision = if tick.run.is_some() { "fired" } else { "skipped" };
    let recorded = transaction.execute(
        "INSERT OR IGNORE INTO ticks (schedule, nominal, decided_at, decision, run, missed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![tick.schedule, Ms(tick.nominal), now, decision, tick.run, tick.missed],
    )?;
    Ok(recorded == 1)
}
