//! The budgets of sources that have one of their own.

use std::collections::HashSet;

use super::{RunContext, RunError};
use crate::model::Usd;
use crate::schedule::day_in;
use crate::settings::Source;

/// Sources whose own budget has no room for another analysis. Their items must not take the places of
/// others in the queue.
pub(super) async fn exhausted_sources(cx: &RunContext) -> Result<HashSet<String>, RunError> {
    let mut exhausted = HashSet::new();
    for source in cx.config.sources() {
        if is_exhausted(cx, source).await? {
            exhausted.insert(source.name.clone());
        }
    }
    Ok(exhausted)
}

async fn is_exhausted(cx: &RunContext, source: &Source) -> Result<bool, RunError> {
    let (day, month) = (source.budget_per_day.as_cap(), source.budget_per_month.as_cap());
    if day.is_none() && month.is_none() {
        return Ok(false);
    }
    let today = day_in(&cx.config.schedule.timezone, cx.now());
    let spent = cx.store().budget().of_source(source.name.clone(), today).await?;
    // The cheapest analysis that a rule allows.
    let by_rules = cx.config.rules.iter().filter_map(|rule| rule.max_cost);
    let next = by_rules.fold(cx.config.analyze.max_cost, Usd::min);
    let is_over = |cap: Option<Usd>, so_far: Usd| cap.is_some_and(|cap| so_far + next > cap);
    Ok(is_over(day, spent.day.committed()) || is_over(month, spent.month.committed()))
}
