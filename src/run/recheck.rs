//! Checks items in the tracker during a run, so that items that are gone are not analysed.
//!
//! Each item is checked before its session starts and at intervals while it runs; before the start
//! also whether the query still includes it. A session whose item is gone or terminal is ended. If
//! the item was only edited, the session finishes: its finding is stored for the text it read, and
//! the next run processes the new text.

use std::collections::HashMap;
use std::time::Duration;

use jiff::SignedDuration;

use super::analyse::LiveItem;
use super::{RunContext, RunError, Tracker};
use crate::dedupe::QueuedItem;
use crate::event::Reason;
use crate::model::{ItemId, ItemKey};
use crate::session::StopReason;

/// Interval of the checks during sessions.
pub(super) const RECHECK_EVERY: Duration = Duration::from_secs(60);

/// Runs in a row after which an item that the query does not return is given up.
const MAX_RUNS: u32 = 3;
/// How long an item that disappeared is asked for again.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Of those, in one run.
const MAX_ASKED: u32 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    /// No relevant change, or the source did not answer.
    Same,
    Edited,
    /// Terminal, deleted, or no longer visible.
    Gone,
}

/// The item if it should still be analysed; otherwise its state records why not.
pub(super) async fn still_wanted(
    cx: &RunContext,
    item: QueuedItem,
) -> Result<Option<QueuedItem>, RunError> {
    let since = since_read(cx, &[(item.key(), item.revision())]).await;
    let since = since.get(item.key()).copied().unwrap_or(Since::Same);
    if since == Since::Gone {
        cx.journal.items().vanish(item.key().clone(), Reason::OutOfQuery).await?;
        return Ok(None);
    }
    if !is_in_query(cx, &item).await {
        leave_out(cx, item.key()).await?;
        return Ok(None);
    }
    if item.deferrals > 0 {
        cx.journal.sources().note_presence(item.key()).await?;
    }
    // Deferred only once: an item that is edited all the time is still analysed.
    if since == Since::Edited && item.deferrals == 0 {
        cx.journal.items().defer(vec![item.key().clone()], Reason::ContentChanged).await?;
        return Ok(None);
    }
    Ok(Some(item))
}

/// An item that exists but that the query does not return. Given up only if several runs in a row
/// find it so: one empty answer, or a query that somebody is trying out, must not empty the queue.
async fn leave_out(cx: &RunContext, key: &ItemKey) -> Result<(), RunError> {
    let runs = cx.journal.sources().note_absence(key).await?;
    if runs < MAX_RUNS {
        tracing::warn!(item = %key, runs, "the query no longer returns this item; it is given up after {MAX_RUNS} runs");
        cx.journal.items().defer(vec![key.clone()], Reason::OutOfQuery).await?;
    } else {
        cx.journal.sources().note_presence(key).await?;
        cx.journal.items().vanish(key.clone(), Reason::OutOfQuery).await?;
    }
    Ok(())
}

/// Queues items again that had disappeared and are there again, such as after somebody tried out a
/// query or took a permission back for a night. Two light requests for some of them in each run; a
/// source that cannot be asked is left alone.
pub(super) async fn bring_back(cx: &RunContext, tracker: &Tracker) -> Result<(), RunError> {
    let since = cx.now().checked_sub(REMEMBERED).unwrap_or(cx.now());
    let gone = cx.store().items().vanished_since(&tracker.name, since, MAX_ASKED).await?;
    let ids: Vec<ItemId> = gone.iter().filter_map(ItemKey::item_id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let source = &tracker.source;
    let matching = cx.stop.unless_stopped(source.still_matching(ids)).await;
    let Some(Ok(Some(matching))) = matching else { return Ok(()) };
    if matching.is_empty() {
        return Ok(());
    }
    let states = cx.stop.unless_stopped(source.current_states(matching)).await;
    let Some(Ok(Some(states))) = states else { return Ok(()) };
    let open = states.iter().filter(|item| !cx.is_terminal(&item.state, item.finished));
    let open: Vec<ItemKey> = open.map(|item| ItemKey::new(&tracker.name, item.id)).collect();
    if !open.is_empty() {
        let (source, items) = (&tracker.name, open.len());
        tracing::info!(
            source,
            items,
            "items that had disappeared are there again; they are queued"
        );
        cx.journal.items().bring_back(open).await?;
    }
    Ok(())
}

/// Ends sessions whose items are gone.
pub(super) async fn end_unwanted(cx: &RunContext, live: impl Iterator<Item = &LiveItem>) {
    let live: HashMap<&ItemKey, &LiveItem> = live.map(|live| (live.item.key(), live)).collect();
    let items: Vec<_> = live.values().map(|live| (live.item.key(), live.item.revision())).collect();
    for (key, since) in since_read(cx, &items).await {
        if let (Since::Gone, Some(live)) = (since, live.get(&key)) {
            tracing::info!(item = %key, "the item was deleted or closed; stopping its session");
            live.stop.stop(StopReason::ItemGone);
        }
    }
}

/// Asks each source about its own items.
async fn since_read(cx: &RunContext, items: &[(&ItemKey, i64)]) -> HashMap<ItemKey, Since> {
    let mut since = HashMap::new();
    for tracker in cx.edges.trackers.iter() {
        let own = items.iter().filter(|(key, _)| key.source() == tracker.name);
        let own: Vec<_> = own.filter_map(|(key, rev)| Some((*key, key.item_id()?, *rev))).collect();
        if !own.is_empty() {
            since.extend(since_read_from(cx, tracker, &own).await);
        }
    }
    since
}

/// A source that does not answer now does not stop any session.
async fn since_read_from(
    cx: &RunContext,
    tracker: &Tracker,
    items: &[(&ItemKey, ItemId, i64)],
) -> Vec<(ItemKey, Since)> {
    let ids = items.iter().map(|(_, id, _)| *id).collect();
    let current = match cx.stop.unless_stopped(tracker.source.current_states(ids)).await {
        Some(Ok(Some(current))) => current,
        Some(Ok(None)) | None => return Vec::new(),
        Some(Err(error)) => {
            tracing::debug!(%error, "could not check items in the tracker");
            return Vec::new();
        }
    };
    let since = |(key, id, revision): &(&ItemKey, ItemId, i64)| {
        let since = match current.iter().find(|current| current.id == *id) {
            None => Since::Gone,
            Some(current) if cx.is_terminal(&current.state, current.finished) => Since::Gone,
            Some(current) if current.rev != *revision => Since::Edited,
            Some(_) => Since::Same,
        };
        ((*key).clone(), since)
    };
    items.iter().map(since).collect()
}

/// Checked only before a session starts: a running session has already cost money.
async fn is_in_query(cx: &RunContext, item: &QueuedItem) -> bool {
    let Some(tracker) = cx.edges.tracker_of(item.key()) else { return true };
    let id = item.id();
    match cx.stop.unless_stopped(tracker.source.still_matching(vec![id])).await {
        Some(Ok(Some(included))) => included.contains(&id),
        Some(Err(error)) => {
            tracing::debug!(%error, "could not check whether an item still matches the query");
            true
        }
        Some(Ok(None)) | None => true,
    }
}
