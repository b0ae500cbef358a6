//! Delivers outbox comments to the tracker: those of this run as soon as their finding is stored,
//! those of earlier runs when a run begins.

use super::{Publishing, RunContext, RunError};
use crate::fetch::FetchError;
use crate::model::{FailureClass, ItemId, ItemKey};
use crate::store::{Delivery, Message, MessageKind, fault};

/// Delivers due comments. A failed delivery is retried later and fails nothing else.
pub(super) async fn deliver_comments(cx: &RunContext) -> Result<(), RunError> {
    if cx.edges.trackers.iter().all(|tracker| tracker.publisher.is_none()) {
        return Ok(());
    }
    for message in cx.store().outbox().due(MessageKind::Comment, cx.now()).await? {
        // Comments for a source without write-back are kept.
        if message.item.as_ref().is_some_and(|item| cx.edges.publisher_of(item).is_none()) {
            continue;
        }
        if cx.stop.requested() {
            break;
        }
        if cx.journal.outbox().begin(message.id, message.attempts).await? {
            deliver(cx, message).await?;
        }
    }
    Ok(())
}

async fn deliver(cx: &RunContext, message: Message) -> Result<(), RunError> {
    fault::point();
    let written = cx.stop.with_grace(cx.config.timeouts.grace, write(cx, &message)).await;
    fault::point();
    let stopped = || {
        FetchError::new(
            FailureClass::Transient,
            "heartbeat was stopped before the comment was delivered",
        )
    };
    let delivery = match written.unwrap_or_else(|| Err(stopped())) {
        Ok(rev) => Delivery::Arrived(Some(rev)),
        Err(error) => {
            let (class, message) = (error.class.into_str().to_owned(), error.message);
            match error.class {
                FailureClass::Gone => Delivery::Permanent { class, message },
                _ => Delivery::Failed { class, message },
            }
        }
    };
    Ok(cx.journal.outbox().end(message, delivery).await?)
}

/// If the item changed meanwhile and is still open, the comment goes to its new revision.
async fn write(cx: &RunContext, message: &Message) -> Result<i64, FetchError> {
    let nowhere = || FetchError::new(FailureClass::Gone, "the comment has no item");
    let item = message.item.as_ref().ok_or_else(nowhere)?;
    let id = item.item_id().ok_or_else(nowhere)?;
    let publisher = cx.edges.publisher_of(item).ok_or_else(nowhere)?;
    let on = |rev| Publishing {
        id,
        rev,
        comment: message.body.clone(),
        may_be_there: message.attempts > 0,
    };
    match publisher.publish(on(message.revision.unwrap_or_default())).await {
        Err(error) if error.class == FailureClass::Conflict => {
            match current_revision(cx, item, id).await {
                Some(newer) => publisher.publish(on(newer)).await,
                None => Err(error),
            }
        }
        written => written,
    }
}

/// The item's current revision; `None` if it is finished or gone.
async fn current_revision(cx: &RunContext, item: &ItemKey, id: ItemId) -> Option<i64> {
    let details = &cx.edges.tracker_of(item)?.source;
    let current = details.current_states(vec![id]).await.ok()??;
    let open = current
        .into_iter()
        .find(|item| item.id == id && !cx.is_terminal(&item.state, item.finished));
    open.map(|item| item.rev)
}
