//! Budgets: the worst case of a session is reserved before it starts and settled after it ends.
//!
//! `spent + reserved` never exceeds a cap: the transaction that would write the reservation refuses
//! it.

use rusqlite::{Connection, Transaction, params};
use serde::Serialize;

use super::subjects::{Budget, Reader};
use super::{Journal, Sql, StoreError};
use crate::model::{RunId, SessionId, Stage, Usd};

/// `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetCaps {
    pub per_run: Usd,
    pub per_day: Usd,
    pub per_month: Option<Usd>,
    /// For the items of one source.
    pub source_per_day: Option<Usd>,
    pub source_per_month: Option<Usd>,
}

impl BudgetCaps {
    pub const NONE: Self = Self {
        per_run: Usd::from_micros(i64::MAX),
        per_day: Usd::from_micros(i64::MAX),
        per_month: None,
        source_per_day: None,
        source_per_month: None,
    };
}

/// A reservation that would exceed a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{wanted} more would exceed the budget of {cap} per {window} ({committed} spent or \
         reserved)"
)]
pub struct BudgetRefusal {
    pub window: &'static str,
    /// The cap is one of the item's source.
    pub of_source: bool,
    pub cap: Usd,
    /// Spent and reserved so far.
    pub committed: Usd,
    /// The worst case of the reservation.
    pub wanted: Usd,
}

/// Money of some sessions. Every place that shows money shows these figures, and all of them come
/// from `MONEY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Spending {
    /// Settled: `billed` and `assumed`.
    pub spent: Usd,
    /// What the agents or the price list say.
    pub billed: Usd,
    /// The part of `billed` that is computed from tokens and prices.
    pub estimated: Usd,
    /// Worst cases of sessions that ended without a cost or tokens.
    pub assumed: Usd,
    /// Worst cases of live sessions.
    pub reserved: Usd,
    /// Number of sessions.
    pub sessions: u32,
}

impl Spending {
    /// The amount that is compared with a cap.
    pub fn committed(self) -> Usd {
        self.spent + self.reserved
    }

    /// Such as `$0.44 billed, $0.50 assumed, $1.00 reserved`; nothing is said about zeros.
    pub fn to_text(self) -> String {
        let billed = self.billed;
        let mut text = match self.estimated {
            Usd::ZERO => format!("{billed} billed"),
            part if part == billed => format!("{billed} billed (estimated)"),
            part => format!("{billed} billed ({part} of it estimated)"),
        };
        for (amount, name) in [(self.assumed, "assumed"), (self.reserved, "reserved")] {
            if amount > Usd::ZERO {
                text.push_str(&format!(", {amount} {name}"));
            }
        }
        text
    }
}

/// Spending on the items of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SourceSpending {
    pub day: Spending,
    pub month: Spending,
}

pub(super) struct Reservation<'a> {
    pub session: SessionId,
    pub run: RunId,
    pub stage: Stage,
    pub day: &'a str,
    /// The source of the item; `None` if there are several items.
    pub source: Option<&'a str>,
    pub worst_case: Usd,
}

/// Writes the reservation, or returns the cap it would exceed.
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

/// The most that one session can cost, in millionths of a dollar: what an agent reports above it is
/// nonsense, and a sum of such amounts would not fit into an integer.
const MAX: Usd = Usd::from_micros(1_000_000 * 1_000_000);

/// Replaces the worst case with the real or estimated cost.
pub(super) fn settle(
    transaction: &Transaction<'_>,
    session: SessionId,
    cost: Usd,
    estimated: bool,
) -> Sql<()> {
    transaction
        .execute(
            "UPDATE budget SET spent = ?2, estimated = ?3, assumed = 0 WHERE session = ?1",
            params![session, cost.clamp(Usd::ZERO, MAX), estimated],
        )
        .map(drop)
}

/// Books the worst case for a session that ended without reporting a cost.
pub(super) fn settle_at_worst(transaction: &Transaction<'_>, session: SessionId) -> Sql<()> {
    transaction
        .execute(
            "UPDATE budget SET spent = reserved, estimated = 1, assumed = 1
             WHERE session = ?1 AND spent IS NULL",
            [session],
        )
        .map(drop)
}

/// Books nothing for a session that never started, so that it is counted like any other.
pub(super) fn settle_at_nothing(transaction: &Transaction<'_>, session: SessionId) -> Sql<()> {
    transaction
        .execute("UPDATE budget SET spent = 0 WHERE session = ?1 AND spent IS NULL", [session])
        .map(drop)
}

/// Releases the reservation of a claim that is given back.
pub(super) fn release(transaction: &Transaction<'_>, session: SessionId) -> Sql<()> {
    transaction
        .execute("DELETE FROM budget WHERE session = ?1 AND spent IS NULL", [session])
        .map(drop)
}

/// The figures of [`Spending`] over rows of `budget`.
pub(super) const MONEY: &str = "count(*) AS sessions,
    coalesce(sum(spent), 0) AS spent,
    coalesce(sum(CASE WHEN assumed = 0 THEN spent END), 0) AS billed,
    coalesce(sum(CASE WHEN assumed = 0 AND estimated = 1 THEN spent END), 0) AS estimated,
    coalesce(sum(CASE WHEN assumed = 1 THEN spent END), 0) AS assumed,
    coalesce(sum(CASE WHEN spent IS NULL THEN reserved END), 0) AS reserved";

pub(super) fn sum_where(
    connection: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Sql<Spending> {
    let sql = format!("SELECT {MONEY} FROM budget WHERE {condition}");
    connection.prepare_cached(&sql)?.query_row(values, spending)
}

pub(super) fn in_run(connection: &Connection, run: RunId) -> Sql<Spending> {
    sum_where(connection, "run = ?1", [run])
}

/// `days` is a day (`2026-11-16`) or a month (`2026-11`).
fn on_days(connection: &Connection, days: &str) -> Sql<Spending> {
    sum_where(connection, "day >= ?1 AND day <= ?1 || '~'", [days])
}

fn of_source(connection: &Connection, source: &str, days: &str) -> Sql<Spending> {
    sum_where(connection, "day >= ?1 AND day <= ?1 || '~' AND source = ?2", [days, source])
}

/// The month of a day, as `2026-11`.
pub fn month_of(day: &str) -> String {
    day.rsplit_once('-').map_or(day, |(month, _)| month).to_owned()
}

pub(super) fn spending(row: &rusqlite::Row<'_>) -> Sql<Spending> {
    Ok(Spending {
        spent: row.get("spent")?,
        billed: row.get("billed")?,
        estimated: row.get("estimated")?,
        assumed: row.get("assumed")?,
        reserved: row.get("reserved")?,
        sessions: row.get("sessions")?,
    })
}

impl<R: Reader> Budget<'_, R> {
    /// Spending on one day, as `2026-11-16`.
    pub async fn on_day(self, day: String) -> Result<Spending, StoreError> {
        self.read(move |connection| on_days(connection, &day)).await
    }

    /// Spending in the month of this day.
    pub async fn in_month_of(self, day: String) -> Result<Spending, StoreError> {
        self.read(move |connection| on_days(connection, &month_of(&day))).await
    }

    /// Spending on the items of one source, on this day and in its month.
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

    pub async fn in_run(self, run: RunId) -> Result<Spending, StoreError> {
        self.read(move |connection| in_run(connection, run)).await
    }
}

/// Spending outside of runs, such as a backtest's analyses; it counts for its day.
impl Budget<'_, Journal> {
    /// Reserves the worst case, or returns the cap it would exceed.
    pub async fn reserve_outside_runs(
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

    /// Replaces the reservation with the real cost.
    pub async fn settle_outside_runs(self, work: SessionId, cost: Usd) -> Result<(), StoreError> {
        self.0.commit(move |transaction, _| settle(transaction, work, cost, false)).await
    }
}
