//! Record: the result of an analysis in the state, then on the work item if write-back is on.
//!
//! The finding is stored first and stays stored whatever happens to the write-back. The revision
//! that our own write made is stored as seen, so it wakes nobody.

use super::analyse::Analysis;
use super::pool::ItemEnd;
use super::{CodeError, Publishing, RunContext, RunError};
use crate::dedupe::QueuedItem;
use crate::event::{Event, Reason};
use crate::fetch::FetchError;
use crate::model::{FailureClass, Finding, ItemId, ItemKey, Outcome};
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
            if let DeepResult::Finished(finding) = &result {
                publish(cx, item.key(), item.revision(), finding).await?;
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

/// Writes the finding to its item. If the item has changed meanwhile and is still open, the finding
/// goes on its new revision.
pub(super) async fn publish(
    cx: &RunContext,
    key: &ItemKey,
    revision: i64,
    finding: &Finding,
) -> Result<(), RunError> {
    if cx.edges.publisher.is_none() {
        return Ok(());
    }
    let item = key.clone();
    let written = cx.stop.with_grace(cx.config.timeouts.grace, write(cx, key, revision, finding));
    let stopped = || FetchError::new(FailureClass::Transient, "heartbeat was stopped first");
    match written.await.unwrap_or_else(|| Err(stopped())) {
        Ok(written) => Ok(cx.journal.publications().record(item, written).await?),
        Err(error) => {
            let (class, message) = (error.class.into_str().into(), error.message);
            cx.emit(Event::PublishFailed { item, class, message });
            Ok(())
        }
    }
}

async fn write(
    cx: &RunContext,
    key: &ItemKey,
    revision: i64,
    finding: &Finding,
) -> Result<i64, FetchError> {
    let nowhere = || FetchError::new(FailureClass::Gone, "there is no item to write to");
    let (publisher, id) = cx.edges.publisher.as_ref().zip(key.item_id()).ok_or_else(nowhere)?;
    let comment = crate::analyze::markdown(finding);
    let on = |rev| Publishing { id, rev, comment: comment.clone() };
    match publisher.publish(on(revision)).await {
        Err(error) if error.class == FailureClass::Conflict => {
            match current_revision(cx, id).await {
                Some(newer) => publisher.publish(on(newer)).await,
                None => Err(error),
            }
        }
        written => written,
    }
}

/// The item's revision now, unless it is finished or gone.
async fn current_revision(cx: &RunContext, id: ItemId) -> Option<i64> {
    let current = cx.edges.source.current_states(vec![id]).await.ok()??;
    let open = current.into_iter().find(|item| item.id == id && !cx.is_terminal(&item.state));
    open.map(|item| item.rev)
}
