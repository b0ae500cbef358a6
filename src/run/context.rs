//! What the stages of a run share.

use std::sync::Arc;

use jiff::Timestamp;

use super::stop::RunStop;
use super::{Edges, RunError};
use crate::event::{Event, Reason, Sink as _, Trigger};
use crate::model::{ItemKey, RunId};
use crate::prompt::Prompts;
use crate::session::StopHandle;
use crate::settings::Config;
use crate::store::{Journal, Store};

/// One run's id, configuration, state, side effects and stop signal. Cheap to clone.
#[derive(Clone)]
pub struct RunContext {
    pub(super) id: RunId,
    pub(super) trigger: Trigger,
    /// As it was when the run began; a reload applies to the next run.
    pub(super) config: Arc<Config>,
    pub(super) prompts: Arc<Prompts>,
    pub(super) journal: Journal,
    pub(super) edges: Edges,
    pub(super) stop: RunStop,
}

impl RunContext {
    /// `stop` is how the caller ends the run early.
    pub fn new(
        id: RunId,
        trigger: Trigger,
        config: Arc<Config>,
        prompts: Arc<Prompts>,
        journal: Journal,
        edges: Edges,
        stop: StopHandle,
    ) -> Self {
        let stop = RunStop::new(stop, &config);
        Self { id, trigger, config, prompts, journal, edges, stop }
    }

    pub(super) fn store(&self) -> &Store {
        self.journal.store()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.journal.clock().now()
    }

    pub(super) fn emit(&self, event: Event) {
        self.journal.emit(event);
    }

    /// Says why a session did not start.
    pub(super) fn refuse(&self, item: Option<ItemKey>, reason: Reason, detail: String) {
        self.emit(Event::AdmissionRefused { item, reason, detail, until: None });
    }

    /// The same for a fault that keeps every session from starting.
    pub(super) fn refuse_for(&self, item: Option<ItemKey>, fault: &RunError) {
        self.refuse(item, fault.refusal(), fault.to_string());
    }

    /// Whether items in this workflow state are finished, whatever its case.
    pub(super) fn is_terminal(&self, state: &str) -> bool {
        let state = state.to_lowercase();
        self.config.dedupe.terminal_states.iter().any(|known| known.to_lowercase() == state)
    }
}
