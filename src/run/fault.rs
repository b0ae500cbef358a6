//! What keeps a run from its work and is nobody's but the machine's: told once, with what to do.
//! Nothing counts against the items, and the next run tries again.

use std::sync::PoisonError;

use super::{Job, Run, RunError};
use crate::event::Reason;
use crate::model::{ItemKey, Outcome, SessionEnd};

impl Run {
    /// Remembers a fault for the end of the run. The first to find one is the one to tell.
    pub(super) fn note_fault(&self, item: Option<ItemKey>, reason: Reason, fault: RunError) {
        let mut known = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            self.refuse(item, reason, fault.to_string());
            *known = Some(fault);
        }
    }

    /// The end of the run, if it found one.
    pub(super) fn no_fault(&self) -> Result<(), RunError> {
        let found = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        found.map_or(Ok(()), Err)
    }

    /// A session that never came to life, though the agent is not to blame for it.
    pub(super) fn note_machine(&self, job: &Job, end: &SessionEnd) {
        if !matches!(end.outcome, Outcome::SpawnFailed { .. }) || end.outcome.is_configuration() {
            return;
        }
        let said = end.stderr_tail.trim().lines().next_back().unwrap_or_default();
        let why = if said.is_empty() { end.outcome.to_string() } else { said.to_owned() };
        self.note_fault(job.item.clone(), Reason::CannotStart, RunError::CannotStart(why));
    }
}
