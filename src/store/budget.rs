//! Money: the worst case of a session is reserved before it starts and settled after it ended.
//!
//! `spent + reserved` never passes a cap, because the reservation is refused inside the same
//! transaction that would write it.

use rusqlite::{Connection, Transaction, params};
use serde::Serialize;

use super::subjects::{Budget, Reader};
use super::{Journal, Sql, StoreError};
use crate::model::{RunId, SessionId, Stage, Usd};

/// What may be spent. Without a cap there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetCaps {
    pub per_run: Usd,
    pub per_day: Usd,
    pub per_month: Option<Usd>,
    /// On the items of one source.
    pub source_per_day: Option<Usd>,
    pub source_per_month: Option<Usd>,
}

impl BudgetCaps {
    /// Nothing is refused.
    pub const NONE: Self = Self {
        per_run: Usd::from_micros(i64::MAX),
        per_day: Usd::from_micros(i64::MAX),
        per_month: None,
        source_per_day: None,
        source_per_month: None,
    };
}

/// A reservation that would pass a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{wanted} more would exceed the budget of {cap} per {window} ({committed} spent or \
         reserved)"
)]
pub struct BudgetRefusal {
    pub window: &'static str,
    /// It is a budget of the item's source.
    pub of_source: bool,
    pub cap: Usd,
    /// Spent and reserved so far.
    pub committed: Usd,
    /// The worst case asked for.
    pub wanted: Usd,
}

/// Money so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Spending {
    /// Settled.
    pub spent: Usd,
    /// Worst cases of sessions that are alive.
    pub reserved: Usd,
}

impl Spending {
    /// What a cap is compared with.
    pub fn committed(self) -> Usd {
        self.spent + self.reserved
    }
}

/// Money for the items of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SourceSpending {
    pub day: Spending,
    pub month: Spending,
}

/// Who reserves, for what.
pub(super) struct Reservation<'a> {
    pub session: SessionId,
    pub run: RunId,
    pub stage: Stage,
    pub day: &'a str,
    /// Of the item that it is about; none: of several.
    pub source: Option<&'a str>,
    pub worst_case: Usd,
}

/// Writes the reservation, or says which cap it would pass.
pub(super) fn reserve(
    transaction: &Transaction<'_>,
    reservation: &Reservation<'_>,
    caps: BudgetCaps,
) -> Sql<Result<(), BudgetRefusal>> {
    let wanted = reservation.worst_case;
    let Reservation { run, day, source, .. } = *reservation;
    let month = month_of(day);
    let mut windows = vec![
        ("run", false, caps.per_run, in_run(transaction, run)?),
        ("day", false, caps.per_day, on_days(transaction, day)?),
    ];
    if let Some(cap) = caps.per_month {
        windows.push(("month", false, cap, on_days(transaction, &month)?));
    }
    if let Some((source, cap)) = source.zip(caps.source_per_day) {
        let so_far = of_source(transaction, source, day)?;
        windows.push(("day for its source", true, cap, so_far));
    }
    if let Some((source, cap)) = source.zip(caps.source_per_month) {
        let so_far = of_source(transaction, source, &month)?;
        windows.push(("month for its source", true, cap, so_far));
    }
    for (window, of_source, cap, so_far) in windows {
        let committed = so_far.committed();
        if committed + wanted > cap {
            return Ok(Err(BudgetRefusal { window, of_source, cap, committed, wanted }));
        }
    }
    transaction.execute(
        "INSERT INTO budget (session, run, stage, day, reserved, source)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![reservation.session, run, reservation.stage.into_str(), day, wanted, source],
    )?;
    Ok(Ok(()))
}

/// The real or the estimated cost takes the place of the worst case.
pub(super) fn settle(
    transaction: &Transaction<'_>,
    session: SessionId,
    cost: Usd,
    estimated: bool,
) -> Sql<()> {
    transaction
        .execute(
            "UPDATE budget SET spent = ?2, estimated = ?3 WHERE session = ?1",
            params![session, cost, estimated],
        )
        .map(drop)
}

/// A session that ended without reporting a cost is booked with its worst case.
pub(super) fn settle_at_worst(transaction: &Transaction<'_>, session: SessionId) -> Sql<()> {
    transaction
        .execute(
            "UPDATE budget SET spent = reserved, estimated = 1
             WHERE session = ?1 AND spent IS NULL",
            [session],
        )
        .map(drop)
}

/// A session that never started gives its reservation back.
pub(super) fn release(transaction: &Transaction<'_>, session: SessionId) -> Sql<()> {
    transaction
        .execute("DELETE FROM budget WHERE session = ?1 AND spent IS NULL", [session])
        .map(drop)
}

const SUMS: &str = "SELECT coalesce(sum(spent), 0),
                           coalesce(sum(CASE WHEN spent IS NULL THEN reserved END), 0) FROM budget";

fn in_run(connection: &Connection, run: RunId) -> Sql<Spending> {
    connection.query_row(&format!("{SUMS} WHERE run = ?1"), [run], spending)
}

/// `2026-11-16` is a day, `2026-11` a month.
fn on_days(connection: &Connection, days: &str) -> Sql<Spending> {
    let sql = format!("{SUMS} WHERE day >= ?1 AND day <= ?1 || '~'");
    connection.query_row(&sql, [days], spending)
}

fn of_source(connection: &Connection, source: &str, days: &str) -> Sql<Spending> {
    let sql = format!("{SUMS} WHERE day >= ?1 AND day <= ?1 || '~' AND source = ?2");
    connection.query_row(&sql, [days, source], spending)
}

/// The month of a day, as `2026-11`.
pub fn month_of(day: &str) -> String {
    day.rsplit_once('-').map_or(day, |(month, _)| month).to_owned()
}

fn spending(row: &rusqlite::Row<'_>) -> Sql<Spending> {
    Ok(Spending { spent: row.get(0)?, reserved: row.get(1)? })
}

impl<R: Reader> Budget<'_, R> {
    /// Money of one day, as `2026-11-16`.
    pub async fn on_day(self, day: String) -> Result<Spending, StoreError> {
        self.read(move |connection| on_days(connection, &day)).await
    }

    /// Money of the month that this day is in.
    pub async fn in_month_of(self, day: String) -> Result<Spending, StoreError> {
        self.read(move |connection| on_days(connection, &month_of(&day))).await
    }

    /// Money for the items of one source, on this day and in its month.
    pub async fn of_source(
        self,
        source: String,
        day: String,
    ) -> Result<SourceSpending, StoreError> {
        self.read(move |connection| {
            Ok(SourceSpending {
                day: of_source(connection, &source, &day)?,
                month: of_source(connection, &source, &month_of(&day))?,
            })
        })
        .await
    }

    /// Money of one run.
    pub async fn in_run(self, run: RunId) -> Result<Spending, StoreError> {
        self.read(move |connection| in_run(connection, run)).await
    }
}

/// Money for work beside the runs, such as the analyses of a backtest: it counts to its day.
impl Budget<'_, Journal> {
    /// Sets the worst case aside, or says which cap it would pass.
    pub async fn reserve_beside(
        self,
        work: SessionId,
        day: String,
        worst_case: Usd,
        caps: BudgetCaps,
    ) -> Result<Result<(), BudgetRefusal>, StoreError> {
        self.0
            .commit(move |transaction, _| {
                let (run, stage, day) = (RunId(work.0), Stage::Deep, day.as_str());
                let source = None;
                let reservation =
                    Reservation { session: work, run, stage, day, worst_case, source };
                reserve(transaction, &reservation, caps)
            })
            .await
    }

    /// The real cost takes its place.
    pub async fn settle_beside(self, work: SessionId, cost: Usd) -> Result<(), StoreError> {
        self.0.commit(move |transaction, _| settle(transaction, work, cost, false)).await
    }
}
