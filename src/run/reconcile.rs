//! The world moves while a run works: items that went away are not analysed any more.
//!
//! Before a session starts and at intervals while sessions live, the source is asked how the items
//! stand; before it starts also whether the query still asks for its item. A session whose item is gone or terminal is ended. One whose item was only edited
//! finishes: its finding is stored for the text it read, and the new text is work for the next run.

use std::collections::HashMap;
use std::time::Duration;

use super::{Run, RunError, Work};
use crate::event::Reason;
use crate::model::{ItemId, ItemKey};
use crate::session::{StopHandle, StopReason};

/// How often the items of live sessions are looked at.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Sessions that are alive, by their item.
pub(super) type Live = HashMap<ItemId, StopHandle>;

/// What became of an item since it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// Nothing that matters, or it cannot be told.
    Same,
    /// Edited.
    Changed,
    /// Terminal, deleted, or not to be seen any more.
    Gone,
}

impl Run {
    /// Looks whether the question of a run still asks for an item. Only before it is paid for: a
    /// session that lives goes on. A source that cannot tell is no reason to leave it out.
    async fn is_asked_for(&self, id: ItemId) -> bool {
        match self.unless_stopped(self.edges.source.asked_for(vec![id])).await {
            Some(Ok(Some(asked))) => asked.contains(&id),
            Some(Err(error)) => {
                tracing::debug!(%error, "could not check whether an item still matches the query");
                true
            }
            Some(Ok(None)) | None => true,
        }
    }

    /// Looks at these items; a source that does not answer now is no reason to stop.
    pub(super) async fn look_at(&self, items: Vec<(ItemId, i64)>) -> HashMap<ItemId, Since> {
        let ids = items.iter().map(|(id, _)| *id).collect();
        let current = match self.unless_stopped(self.edges.source.current(ids)).await {
            Some(Ok(Some(current))) => current,
            Some(Ok(None)) | None => return HashMap::new(),
            Some(Err(error)) => {
                tracing::debug!(%error, "could not check items in the tracker");
                return HashMap::new();
            }
        };
        let since = |(id, rev): (ItemId, i64)| {
            let since = match current.iter().find(|current| current.id == id) {
                None => Since::Gone,
                Some(current) if self.is_terminal(&current.state) => Since::Gone,
                Some(current) if current.rev != rev => Since::Changed,
                Some(_) => Since::Same,
            };
            (id, since)
        };
        items.into_iter().map(since).collect()
    }

    /// May this item still be analysed? If not, its state says why.
    pub(super) async fn is_still_wanted(&self, work: &Work) -> Result<bool, RunError> {
        let item = &work.item.item;
        let since = self.look_at(vec![(item.id, item.rev)]).await;
        match since.get(&item.id).copied().unwrap_or(Since::Same) {
            Since::Gone => self.leave_alone(item.key.clone()).await,
            _ if !self.is_asked_for(item.id).await => self.leave_alone(item.key.clone()).await,
            Since::Same => Ok(true),
            // Once: an item that is edited without end has its turn all the same.
            Since::Changed if work.deferrals > 0 => Ok(true),
            Since::Changed => {
                self.journal.items().defer(vec![item.key.clone()], Reason::ContentChanged).await?;
                Ok(false)
            }
        }
    }

    async fn leave_alone(&self, item: ItemKey) -> Result<bool, RunError> {
        self.journal.items().vanish(item, Reason::OutOfQuery).await?;
        Ok(false)
    }

    /// Ends the sessions whose items went away.
    pub(super) async fn end_unwanted(&self, live: &Live) {
        let items: Vec<_> = live.keys().map(|id| (*id, 0)).collect();
        if items.is_empty() {
            return;
        }
        for (id, since) in self.look_at(items).await {
            if since == Since::Gone
                && let Some(handle) = live.get(&id)
            {
                tracing::info!(item = %id.0, "the item was deleted or closed; stopping its \
                                              session");
                handle.stop(StopReason::ItemGone);
            }
        }
    }
}
