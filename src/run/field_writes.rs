//! Writes shown suggestions to the tracker, where the configuration allows it and a person has set
//! nothing: through the outbox, like comments, so that a crash writes nothing twice.

use super::{RunContext, RunError};
use crate::fetch::{FetchError, FieldChange, FieldWrite};
use crate::model::{FailureClass, Field, ItemKey};
use crate::store::{Delivery, Message, MessageKind, SuggestionRow, fault};

/// Queues the writes of this run, at most `suggest.max_writes_per_run` items.
pub(super) async fn queue(cx: &RunContext) -> Result<(), RunError> {
    let allowed = &cx.config.suggest.write;
    if allowed.is_empty() {
        return Ok(());
    }
    let rows = cx.store().suggestions().in_run(cx.id).await?;
    let mut writes: Vec<(ItemKey, FieldWrite)> = Vec::new();
    for row in rows.iter().filter(|row| may_write(row, allowed)) {
        let key = &row.suggestion.key;
        let change = change(row);
        match writes.iter_mut().find(|(known, _)| known == key) {
            Some((_, write)) => write.changes.push(change),
            None => {
                let Some(id) = key.item_id() else { continue };
                writes.push((key.clone(), FieldWrite { id, changes: vec![change] }));
            }
        }
    }
    let most = usize::try_from(cx.config.suggest.max_writes_per_run).unwrap_or(usize::MAX);
    writes.truncate(most);
    fault::point();
    for (key, write) in writes {
        let body = serde_json::to_string(&write).unwrap_or_default();
        cx.journal.outbox().queue_fields(cx.id, key, body).await?;
    }
    fault::point();
    deliver(cx).await
}

/// Only what is shown, and only where nobody has set anything: an empty field, or the area that every
/// new item has.
pub(super) fn may_write(row: &SuggestionRow, allowed: &[Field]) -> bool {
    let one = &row.suggestion;
    let is_default =
        one.before.is_empty() || (one.field == Field::Area && !one.before.contains(['\\', '/']));
    one.shown && is_default && allowed.contains(&one.field) && !row.written
}

fn change(row: &SuggestionRow) -> FieldChange {
    let one = &row.suggestion;
    FieldChange {
        field: one.field,
        expected: one.before.clone(),
        value: one.value.clone(),
        remove: false,
    }
}

/// Delivers writes that are due, of this run and of earlier ones.
pub(super) async fn deliver(cx: &RunContext) -> Result<(), RunError> {
    for message in cx.store().outbox().due(MessageKind::Fields, cx.now()).await? {
        if cx.stop.requested() {
            break;
        }
        let writer = message.item.as_ref().and_then(|item| cx.edges.writer_of(item));
        // Writes of a field that is no longer allowed are kept until it is.
        let Some(writer) = writer else { continue };
        if !cx.journal.outbox().begin(message.id, message.attempts).await? {
            continue;
        }
        fault::point();
        let written = match write_of(&message) {
            Ok(write) => {
                cx.stop.with_grace(cx.config.timeouts.grace, writer.set_fields(write)).await
            }
            Err(error) => Some(Err(error)),
        };
        fault::point();
        let stopped = || {
            let what = "heartbeat was stopped before the fields were written";
            Err(FetchError::new(FailureClass::Transient, what))
        };
        let delivery = match written.unwrap_or_else(stopped) {
            Ok(rev) => Delivery::Arrived(Some(rev)),
            Err(error) => {
                let (class, message) = (error.class.into_str().to_owned(), error.message);
                match error.class {
                    FailureClass::Gone => Delivery::Permanent { class, message },
                    _ => Delivery::Failed { class, message },
                }
            }
        };
        cx.journal.outbox().end(message, delivery).await?;
    }
    Ok(())
}

fn write_of(message: &Message) -> Result<FieldWrite, FetchError> {
    serde_json::from_str(&message.body).map_err(|error| {
        FetchError::new(FailureClass::Gone, format!("the stored write cannot be read: {error}"))
    })
}
