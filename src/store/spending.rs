//! Spending by day and stage.

use jiff::Timestamp;
use rusqlite::Params;
use serde::Serialize;

use super::budget::{MONEY, Spending, spending, sum_where};
use super::rows::{Ms, from_word};
use super::subjects::{Budget, Reader};
use super::{Sql, StoreError};
use crate::model::{RunId, Stage, Usd};

/// Spending of one stage on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageSpending {
    /// The budget day such as `2026-11-16`, in the time zone of the schedule.
    pub day: String,
    pub stage: Stage,
    #[serde(flatten)]
    pub money: Spending,
}

const ORDER: &str = "GROUP BY day, stage ORDER BY day DESC, stage DESC";

/// Days that a month's end is foretold from: a single day says little about the next ones.
const FORETOLD_FROM: i8 = 3;

/// The money of today, of the last seven days and of the month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SpendingTotals {
    pub today: Spending,
    pub week: Spending,
    /// `billed` is what to compare with the invoice of the provider.
    pub month: Spending,
    /// What the month will have cost if it goes on like this; `None` in its first days.
    pub month_forecast: Option<Usd>,
}

impl SpendingTotals {
    /// `days` is the number of days of the month, `day` is the day of it, from 1.
    fn forecast(month: Spending, day: i8, days: i8) -> Option<Usd> {
        let so_far = month.committed().micros();
        let whole = so_far.saturating_mul(days.into()) / i64::from(day.max(1));
        (day >= FORETOLD_FROM).then(|| Usd::from_micros(whole))
    }
}

impl<R: Reader> Budget<'_, R> {
    /// Money of today, the last seven days and the month of this date.
    pub async fn totals_on(self, today: jiff::civil::Date) -> Result<SpendingTotals, StoreError> {
        let week = today.saturating_sub(jiff::Span::new().days(6));
        let (first, last) = (today.first_of_month(), today.last_of_month());
        self.read(move |connection| {
            let between = |from: jiff::civil::Date, to: jiff::civil::Date| {
                let days = [from.to_string(), to.to_string()];
                sum_where(connection, "day >= ?1 AND day <= ?2", days)
            };
            let month = between(first, last)?;
            Ok(SpendingTotals {
                today: between(today, today)?,
                week: between(week, today)?,
                month_forecast: SpendingTotals::forecast(month, today.day(), last.day()),
                month,
            })
        })
        .await
    }

    /// Every session ever, by purpose.
    pub async fn by_stage(self) -> Result<Vec<(Stage, Spending)>, StoreError> {
        let sql = format!("SELECT stage, {MONEY} FROM budget GROUP BY stage ORDER BY stage DESC");
        self.rows(sql, [], |row| Ok((from_word(row, "stage")?, spending(row)?))).await
    }

    /// What a session of this stage usually costs: the mean of the newest that told their cost.
    /// `None` before the first one.
    pub async fn usual_cost(self, stage: Stage) -> Result<Option<Usd>, StoreError> {
        let sql = "SELECT CAST(avg(spent) AS INTEGER) AS usual FROM (
                       SELECT spent FROM budget WHERE stage = ?1 AND spent > 0 AND assumed = 0
                       ORDER BY rowid DESC LIMIT 50)";
        Ok(self.first_row(sql, [stage.into_str()], |row| row.get("usual")).await?.flatten())
    }

    /// Every day since `day`, newest first, triage before deep analysis.
    pub async fn by_stage_since(self, day: String) -> Result<Vec<StageSpending>, StoreError> {
        self.spending_where("day >= ?1", (day,)).await
    }

    /// The same for one run.
    pub async fn by_stage_in_run(self, run: RunId) -> Result<Vec<StageSpending>, StoreError> {
        self.spending_where("run = ?1", (run,)).await
    }

    /// The same for the runs that began in `[from, to)`.
    pub async fn by_stage_between(
        self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<StageSpending>, StoreError> {
        let of_these = "run IN (SELECT run FROM runs WHERE started_at >= ?1 AND started_at < ?2)";
        self.spending_where(of_these, (Ms(from), Ms(to))).await
    }

    async fn spending_where(
        self,
        condition: &str,
        values: impl Params + Send + 'static,
    ) -> Result<Vec<StageSpending>, StoreError> {
        let sql = format!("SELECT day, stage, {MONEY} FROM budget WHERE {condition} {ORDER}");
        self.rows(sql, values, stage_spending).await
    }
}

fn stage_spending(row: &rusqlite::Row<'_>) -> Sql<StageSpending> {
    Ok(StageSpending {
        day: row.get("day")?,
        stage: from_word(row, "stage")?,
        money: spending(row)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_is_foretold_from_its_third_day() {
        let month = Spending { spent: Usd::from_dollars(30.0), ..Spending::default() };
        assert_eq!(SpendingTotals::forecast(month, 2, 30), None);
        assert_eq!(SpendingTotals::forecast(month, 10, 30), Some(Usd::from_dollars(90.0)));
        assert_eq!(SpendingTotals::forecast(month, 30, 30), Some(month.spent));
    }
}
