//! Money: the worst case of a session is reserved before it starts and settled after it ended.
//!
//! `spent + reserved` never passes a cap, because the reservation is refused inside the same
//! transaction that would write it.

use rusqlite::{Connection, Transaction, params};
use serde::Serialize;

use super::subjects::{Budget, Reader};
use super::{Sql, StoreError};
use crate::model::{RunId, SessionId, Stage, Usd};

/// What may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetCaps {
    pub per_run: Usd,
    pub per_day: Usd,
}

/// A reservation that would pass a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{wanted} more would exceed the budget of {cap} per {window} ({committed} spent or \
         reserved)"
)]
pub struct BudgetRefusal {
    pub window: &'static str,
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

/// Who reserves, for what.
pub(super) struct Reservation<'a> {
    pub session: SessionId,
    pub run: RunId,
    pub stage: Stage,
    pub day: &'a str,
    pub worst_case: Usd,
}

/// Writes the reservation, or says which cap it would pass.
pub(super) fn reserve(
    transaction: &Transaction<'_>,
    reservation: &Reservation<'_>,
    caps: BudgetCaps,
) -> Sql<Result<(), BudgetRefusal>> {
    let wanted = reservation.worst_case;
    let windows = [
        ("run", caps.per_run, in_run(transaction, reservation.run)?),
        ("day", caps.per_day, on_day(transaction, reservation.day)?),
    ];
    for (window, cap, so_far) in windows {
        let committed = so_far.committed();
        if committed + wanted > cap {
            return Ok(Err(BudgetRefusal { window, cap, committed, wanted }));
        }
    }
    transaction.execute(
        "INSERT INTO budget (session, run, stage, day, reserved) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            reservation.session,
            reservation.run,
            reservation.stage.into_str(),
            reservation.day,
            wanted
        ],
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

fn on_day(connection: &Connection, day: &str) -> Sql<Spending> {
    connection.query_row(&format!("{SUMS} WHERE day = ?1"), [day], spending)
}

fn spending(row: &rusqlite::Row<'_>) -> Sql<Spending> {
    Ok(Spending { spent: row.get(0)?, reserved: row.get(1)? })
}

impl<R: Reader> Budget<'_, R> {
    /// Money of one day, as `2026-11-16`.
    pub async fn on_day(self, day: String) -> Result<Spending, StoreError> {
        self.read(move |connection| on_day(connection, &day)).await
    }

    /// Money of one run.
    pub async fn in_run(self, run: RunId) -> Result<Spending, StoreError> {
        self.read(move |connection| in_run(connection, run)).await
    }
}
