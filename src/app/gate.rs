//! The machine's say in whether another session may start.

use crate::event::Reason;
use crate::model::BoxFuture;
use crate::run::Gate;
use crate::session::Slots;
use crate::session::admission::{self, Limits};
use crate::settings::Config;
use crate::store::Journal;

/// Asks this machine.
pub struct MachineGate {
    limits: Limits,
    slots: Slots,
    journal: Journal,
}

impl MachineGate {
    /// With the limits of this configuration and the sessions of this state.
    pub fn new(config: &Config, journal: &Journal) -> Self {
        Self {
            limits: Limits::from_config(&config.limits),
            slots: machine_slots(config),
            journal: journal.clone(),
        }
    }
}

/// The session slots that all states of this user share on this machine.
pub fn machine_slots(config: &Config) -> Slots {
    let limits = &config.limits;
    let limit = match limits.max_live_sessions_per_machine {
        0 => limits.max_live_sessions,
        limit => limit,
    };
    let folder = Some(limits.slots_dir.clone()).filter(|folder| !folder.as_os_str().is_empty());
    Slots::new(folder.unwrap_or_else(Slots::default_folder), limit)
}

impl MachineGate {
    /// A look only: the keeper of the session takes the slot. If the slots cannot be read here, the
    /// keeper reports why.
    fn machine_has_a_slot(&self) -> Result<(), (Reason, String)> {
        let (in_use, limit) = (self.slots.in_use().unwrap_or_default(), self.slots.limit());
        if in_use < limit {
            return Ok(());
        }
        let detail = format!("{in_use} of {limit} session slots of this machine are in use");
        Err((Reason::MachineSessions, detail))
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
            admission::decide(&readings, &self.limits)?;
            self.machine_has_a_slot()
        })
    }
}
