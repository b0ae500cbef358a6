//! Leaving a finding on its work item, if that is switched on.
//!
//! The finding is stored before and stays stored whatever happens here: a write that fails is told
//! and loses nothing. The revision our own write made is kept as seen, so that it wakes nobody.

use super::{Publishing, Run, RunError, Work};
use crate::event::Event;
use crate::fetch::FetchError;
use crate::model::{FailureClass, Finding, ItemId, ItemKey};

impl Run {
    /// Writes the finding to its item. An item that moved on meanwhile is looked at again, once: if
    /// it is still there and open, the finding is left on its new revision.
    pub(super) async fn publish(
        &self,
        key: &ItemKey,
        seen: i64,
        finding: &Finding,
    ) -> Result<(), RunError> {
        if self.edges.publisher.is_none() {
            return Ok(());
        }
        let item = key.clone();
        let stopped = || FetchError::new(FailureClass::Transient, "heartbeat was stopped first");
        let written = self.with_grace(self.write(key, seen, finding)).await;
        match written.unwrap_or_else(|| Err(stopped())) {
            Ok(rev) => Ok(self.journal.publications().record(item, rev).await?),
            Err(error) => {
                let (class, message) = (error.class.as_str().into(), error.message);
                self.emit(Event::PublishFailed { item, class, message });
                Ok(())
            }
        }
    }

    async fn write(&self, key: &ItemKey, seen: i64, finding: &Finding) -> Result<i64, FetchError> {
        let nobody = || FetchError::new(FailureClass::Gone, "there is no item to write to");
        let (publisher, id) =
            self.edges.publisher.as_ref().zip(key.item_id()).ok_or_else(nobody)?;
        let comment = crate::analyze::markdown(finding);
        let on = |rev| Publishing { id, rev, comment: comment.clone() };
        match publisher.publish(on(seen)).await {
            Err(error) => match self.new_revision(id, error.class).await {
                Some(newer) => publisher.publish(on(newer)).await,
                None => Err(error),
            },
            written => written,
        }
    }

    /// After a conflict: where the item is now, unless it left our sight.
    async fn new_revision(&self, id: ItemId, class: FailureClass) -> Option<i64> {
        if class != FailureClass::Conflict {
            return None;
        }
        let seen = self.edges.source.current(vec![id]).await.ok()??;
        seen.into_iter()
            .find(|glance| glance.id == id && !self.is_terminal(&glance.state))
            .map(|glance| glance.rev)
    }

    /// Asks the tracker whether it would take a comment and the tag on an item; changes nothing.
    pub(super) async fn validate_publishing(&self, work: &[Work]) -> Option<String> {
        let publisher = self.edges.publisher.as_ref()?;
        let item = &work.first()?.item.item;
        let comment = "A finding would stand here.".to_owned();
        let write = Publishing { id: item.id, rev: item.rev, comment };
        Some(match publisher.validate(write).await {
            Ok(()) => format!("the tracker would accept a comment and the tag on #{}", item.id),
            Err(error) => format!("the tracker would reject it on #{}: {error}", item.id),
        })
    }
}
