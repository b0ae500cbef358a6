//! Leaving a finding on its work item, if that is switched on.
//!
//! The finding is stored before and stays stored whatever happens here: a write that fails is told
//! and loses nothing. The revision our own write made is kept as seen, so that it wakes nobody.

use super::{Publishing, Run, RunError, Work};
use crate::event::Event;
use crate::fetch::FailureClass;
use crate::model::Finding;

impl Run {
    /// Writes the finding to its item. An item that moved on meanwhile is looked at again, once: if
    /// it is still there and open, the finding is left on its new revision.
    pub(super) async fn publish(&self, work: &Work, finding: &Finding) -> Result<(), RunError> {
        let Some(publisher) = &self.edges.publisher else { return Ok(()) };
        let item = &work.item.item;
        let comment = crate::analyze::markdown(finding);
        let mut rev = item.rev;
        for last in [false, true] {
            let write = Publishing { id: item.id, rev, comment: comment.clone() };
            let error = match publisher.publish(write).await {
                Ok(rev) => {
                    return Ok(self.journal.record_publication(item.key.clone(), rev).await?);
                }
                Err(error) => error,
            };
            match self.new_revision(work, error.class).await {
                Some(newer) if !last => rev = newer,
                _ => {
                    let (class, message) = (error.class.as_str().into(), error.message);
                    self.emit(Event::PublishFailed { item: item.key.clone(), class, message });
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// After a conflict: where the item is now, unless it left our sight.
    async fn new_revision(&self, work: &Work, class: FailureClass) -> Option<i64> {
        if class != FailureClass::Conflict {
            return None;
        }
        let seen = self.edges.source.current(vec![work.item.item.id]).await.ok()??;
        let terminal = &self.config.dedupe.terminal_states;
        seen.into_iter()
            .find(|glance| glance.id == work.item.item.id && !terminal.contains(&glance.state))
            .map(|glance| glance.rev)
    }

    /// Asks the tracker whether it would take a comment and the tag on an item; changes nothing.
    pub(super) async fn validate_publishing(&self, work: &[Work]) -> Option<String> {
        let publisher = self.edges.publisher.as_ref()?;
        let item = &work.first()?.item.item;
        let comment = "A finding would stand here.".to_owned();
        let write = Publishing { id: item.id, rev: item.rev, comment };
        Some(match publisher.validate(write).await {
            Ok(()) => format!("the tracker would take a comment and the tag on #{}", item.id),
            Err(error) => format!("the tracker would refuse it on #{}: {error}", item.id),
        })
    }
}
