//! Record: the result of an analysis in the state, then on the work item if write-back is on.
//!
//! The finding and its comment are stored in one transaction; the comment is delivered afterwards, by
//! this run or a later one (see `outbox`).

use super::analyse::Analysis;
use super::pool::ItemEnd;
use super::{RunContext, RunError, outbox};
use crate::context::CodeError;
use crate::dedupe::QueuedItem;
use crate::event::Reason;
use crate::model::Outcome;
use crate::store::DeepResult;

/// Stores what came of an item's analysis.
pub(super) async fn store(
    cx: &RunContext,
    item: &QueuedItem,
    analysis: Analysis,
) -> Result<ItemEnd, RunError> {
    let key = item.key().clone();
    match analysis {
        Analysis::Ended { session, result, fault } => {
            let close = closes_run(&result);
            let print = item.fingerprint.clone();
            cx.journal.results().apply_deep(session, cx.id, key, print, result.clone()).await?;
            if let DeepResult::Finished { .. } = &result {
                outbox::deliver_comments(cx).await?;
            }
            Ok(ItemEnd { close, fault })
        }
        Analysis::Refused(reason) => {
            cx.journal.items().defer(vec![key], reason).await?;
            Ok(ItemEnd { close: Some(reason), fault: None })
        }
        Analysis::Taken => Ok(ItemEnd::default()),
    }
}

/// The item waits for its code base; others may have a code base of their own.
pub(super) async fn without_code(
    cx: &RunContext,
    item: &QueuedItem,
    missing: CodeError,
) -> Result<ItemEnd, RunError> {
    cx.journal.items().defer(vec![item.key().clone()], Reason::NoCodeBase).await?;
    Ok(ItemEnd { close: None, fault: Some(RunError::NoCodeBase(missing)) })
}

/// Some ends mean that no other session of this run can work either.
fn closes_run(result: &DeepResult) -> Option<Reason> {
    match result {
        DeepResult::NotCounted(outcome, reason) => {
            let for_all =
                matches!(outcome, Outcome::ProviderLimit { .. } | Outcome::SpawnFailed { .. });
            (for_all || outcome.is_configuration()).then_some(*reason)
        }
        _ => None,
    }
}
