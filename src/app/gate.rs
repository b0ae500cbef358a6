//! The machine's say in whether another session may start.

use crate::event::Reason;
use crate::model::BoxFuture;
use crate::run::Gate;
use crate::session::admission::{self, Limits};
use crate::settings::Config;
use crate::store::Journal;

/// Asks this machine.
pub struct MachineGate {
    limits: Limits,
    journal: Journal,
}

impl MachineGate {
    /// With the limits of this configuration and the sessions of this state.
    pub fn new(config: &Config, journal: &Journal) -> Self {
        Self { limits: Limits::from_config(&config.limits), journal: journal.clone() }
    }
}

impl Gate for MachineGate {
    fn admit(&self) -> BoxFuture<'_, Result<(), (Reason, String)>> {
        Box::pin(async move {
            let live = self.journal.store().sessions().active().await.unwrap_or_default();
            let keepers = live.iter().map(|session| session.keeper_pid);
            let mut readings = admission::read_machine();
            readings.tree_processes = admission::count_tree_processes(keepers);
            readings.live_sessions = u32::try_from(live.len()).unwrap_or(u32::MAX);
            admission::decide(&readings, &self.limits)
        })
    }
}
