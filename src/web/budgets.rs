//! Budgets other than those of a run and a day: per month and per source.

use jiff::Timestamp;
use serde::Serialize;

use crate::model::Usd;
use crate::schedule::day_in;
use crate::settings::Config;
use crate::store::{Spending, Store, StoreError};

/// A budget and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtherBudget {
    /// `None` for all sources.
    pub source: Option<String>,
    /// `day` or `month`.
    pub window: &'static str,
    #[serde(flatten)]
    pub used: Spending,
    pub limit: Usd,
}

/// The configured ones.
pub async fn other_budgets(
    store: &Store,
    config: &Config,
    now: Timestamp,
) -> Result<Vec<OtherBudget>, StoreError> {
    let day = day_in(&config.schedule.timezone, now);
    let mut budgets = Vec::new();
    if config.budget.per_month > Usd::ZERO {
        let used = store.budget().in_month_of(day.clone()).await?;
        let limit = config.budget.per_month;
        budgets.push(OtherBudget { source: None, window: "month", used, limit });
    }
    for source in config.sources() {
        let caps = [("day", source.budget_per_day), ("month", source.budget_per_month)];
        if caps.iter().all(|(_, cap)| *cap == Usd::ZERO) {
            continue;
        }
        let spent = store.budget().of_source(source.name.clone(), day.clone()).await?;
        for ((window, limit), used) in caps.into_iter().zip([spent.day, spent.month]) {
            if limit > Usd::ZERO {
                let source = Some(source.name.clone());
                budgets.push(OtherBudget { source, window, used, limit });
            }
        }
    }
    Ok(budgets)
}
