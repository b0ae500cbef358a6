//! Spending by day and stage.

use jiff::Timestamp;
use rusqlite::Params;
use serde::Serialize;

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
    /// Number of sessions that reserved an amount.
    pub sessions: u32,
    pub spent: Usd,
    /// The estimated part of `spent`: from tokens and prices, or the worst case of sessions of
    /// unknown cost.
    pub estimated: Usd,
    /// Worst cases of live sessions.
    pub reserved: Usd,
}

const SUMS: &str = "
    SELECT b.day AS day, b.stage AS stage, count(*) AS sessions,
           coalesce(sum(b.spent), 0) AS spent,
           coalesce(sum(CASE WHEN b.estimated = 1 THEN b.spent END), 0) AS estimated,
           coalesce(sum(CASE WHEN b.spent IS NULL THEN b.reserved END), 0) AS reserved
    FROM budget b";

const ORDER: &str = "GROUP BY b.day, b.stage ORDER BY b.day DESC, b.stage DESC";

impl<R: Reader> Budget<'_, R> {
    /// Every day since `day`, newest first, triage before deep analysis.
    pub async fn by_stage_since(self, day: String) -> Result<Vec<StageSpending>, StoreError> {
        self.spending_where("b.day >= ?1", (day,)).await
    }

    /// The same for one run.
    pub async fn by_stage_in_run(self, run: RunId) -> Result<Vec<StageSpending>, StoreError> {
        self.spending_where("b.run = ?1", (run,)).await
    }

    /// The same for the runs that began in `[from, to)`.
    pub async fn by_stage_between(
        self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<StageSpending>, StoreError> {
        let of_these = "b.run IN (SELECT run FROM runs WHERE started_at >= ?1 AND started_at < ?2)";
        self.spending_where(of_these, (Ms(from), Ms(to))).await
    }

    async fn spending_where(
        self,
        condition: &str,
        values: impl Params + Send + 'static,
    ) -> Result<Vec<StageSpending>, StoreError> {
        let sql = format!("{SUMS} WHERE {condition} {ORDER}");
        self.rows(sql, values, stage_spending).await
    }
}

fn stage_spending(row: &rusqlite::Row<'_>) -> Sql<StageSpending> {
    Ok(StageSpending {
        day: row.get("day")?,
        stage: from_word(row, "stage")?,
        sessions: row.get("sessions")?,
        spent: row.get("spent")?,
        estimated: row.get("estimated")?,
        reserved: row.get("reserved")?,
    })
}
