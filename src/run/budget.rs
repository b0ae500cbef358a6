//! The budgets of a run, and of the sources that have one of their own.

use std::collections::HashSet;

use super::{RunContext, RunError};
use crate::model::{ItemKey, Usd};
use crate::schedule::day_in;
use crate::settings::Source;
use crate::store::BudgetCaps;

/// What a session about these items must stay under; none: items of several sources.
pub(super) fn caps(cx: &RunContext, item: Option<&ItemKey>) -> BudgetCaps {
    let budget = &cx.config.budget;
    let source = item.and_then(|item| cx.config.source_of(item));
    BudgetCaps {
        per_run: budget.per_run,
        per_day: budget.per_day,
        per_month: limit(budget.per_month),
        source_per_day: source.and_then(|source| limit(source.budget_per_day)),
        source_per_month: source.and_then(|source| limit(source.budget_per_month)),
    }
}

/// Zero sets no limit.
fn limit(cap: Usd) -> Option<Usd> {
    (cap > Usd::ZERO).then_some(cap)
}

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

pub(super) async fn is_exhausted(cx: &RunContext, source: &Source) -> Result<bool, RunError> {
    let (day, month) = (limit(source.budget_per_day), limit(source.budget_per_month));
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
