//! Decides whether one more session may start on this machine now. On by default; the decision is
//! pure.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::slots::Slots;
use crate::event::Reason;
use crate::model::BoxFuture;
use crate::ports::Ledger;
use crate::process;
use crate::process::machine::Machine;
use crate::settings;

/// Decides whether the machine has capacity for another session.
pub trait Gate: Send + Sync {
    /// An error holds the reason and the measured value.
    fn admit(&self) -> BoxFuture<'_, Result<(), (Reason, String)>>;
}

pub struct MachineGate {
    limits: Limits,
    slots: Slots,
    ledger: Arc<dyn Ledger>,
    /// Program and search path of each agent.
    agents: Vec<(String, OsString)>,
}

impl MachineGate {
    pub fn new(limits: &settings::LimitsSettings, ledger: Arc<dyn Ledger>) -> Self {
        let (limits, slots) = (Limits::from_config(limits), slots_of(limits));
        Self { limits, slots, ledger, agents: Vec::new() }
    }

    /// Registers an agent. If one of them cannot be found, nothing waits for capacity: the start
    /// fails at once and names the setting.
    #[must_use]
    pub fn for_agent(mut self, program: &str, search_path: &OsStr) -> Self {
        self.agents.push((program.to_owned(), search_path.to_owned()));
        self
    }

    fn agent_is_missing(&self) -> bool {
        self.agents.iter().any(|(name, path)| process::program::find(name, path).is_none())
    }

    /// Only checks; the session's keeper takes the slot. If the slots cannot be read here, the
    /// keeper reports the error.
    fn ensure_free_slot(&self) -> Result<(), (Reason, String)> {
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
            let live = self.ledger.open_rows().await.unwrap_or_default();
            let keepers = live.iter().map(|row| row.keeper.pid);
            let mut readings = read_machine();
            readings.tree_processes = count_tree_processes(keepers);
            readings.live_sessions = u32::try_from(live.len()).unwrap_or(u32::MAX);
            let decided = decide(&readings, &self.limits).and_then(|()| self.ensure_free_slot());
            match decided {
                // Do not wait: the start fails at once and names the setting.
                Err(_) if self.agent_is_missing() => Ok(()),
                decided => decided,
            }
        })
    }
}

/// The slots that all states of this user on this machine share, by the configuration.
pub fn slots_of(limits: &settings::LimitsSettings) -> Slots {
    let limit = match limits.max_live_sessions_per_machine {
        0 => limits.max_live_sessions,
        limit => limit,
    };
    let configured = &limits.slots_dir;
    let folder = match configured.as_os_str().is_empty() {
        true => Slots::default_folder(),
        false => configured.clone(),
    };
    Slots::new(folder, limit)
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Readings {
    /// Open rows of the ledger.
    pub live_sessions: u32,
    /// Load average over one minute.
    pub load: f64,
    pub cores: u32,
    /// In bytes, without swapping; `None` where it is unknown.
    pub available_memory: Option<u64>,
    /// Share of the last ten seconds in which some task waited for memory, in percent.
    pub memory_pressure: Option<f64>,
    /// Live processes in the session trees.
    pub tree_processes: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Over all processes that share the ledger.
    pub max_live_sessions: u32,
    /// Nothing starts above this load per core.
    pub max_load_per_core: f64,
    /// Nothing starts below this, in bytes.
    pub min_free_memory: u64,
    /// Nothing starts above this, in percent.
    pub max_memory_pressure: f64,
    /// Nothing starts above this, over all session trees.
    pub max_tree_processes: u32,
}

impl Limits {
    pub fn from_config(limits: &settings::LimitsSettings) -> Self {
        Self {
            max_live_sessions: limits.max_live_sessions,
            max_load_per_core: limits.max_load_per_core,
            min_free_memory: limits.min_free_memory,
            max_memory_pressure: limits.max_memory_pressure,
            max_tree_processes: limits.max_live_sessions.saturating_mul(limits.max_processes),
        }
    }
}

/// A refusal names the limit and the measured value.
///
/// Budgets and the provider's state are checked elsewhere: in the transaction that claims the work,
/// and before it.
pub fn decide(readings: &Readings, limits: &Limits) -> Result<(), (Reason, String)> {
    let refuse = |reason, detail| Err((reason, detail));
    let (live, max) = (readings.live_sessions, limits.max_live_sessions);
    if live >= max {
        return refuse(
            Reason::MaxLiveSessions,
            format!("{live} of {max} session slots are in use"),
        );
    }
    let (processes, max) = (readings.tree_processes, limits.max_tree_processes);
    if processes >= max {
        return refuse(Reason::Processes, format!("{processes} of {max} processes are running"));
    }
    let per_core = readings.load / f64::from(readings.cores.max(1));
    if per_core > limits.max_load_per_core {
        let detail = format!("load per core {per_core:.2} > {:.2}", limits.max_load_per_core);
        return refuse(Reason::Load, detail);
    }
    if let Some(free) = readings.available_memory.filter(|free| *free < limits.min_free_memory) {
        let (free, need) = (free >> 20, limits.min_free_memory >> 20);
        return refuse(Reason::Memory, format!("{free} MiB available, {need} MiB required"));
    }
    match readings.memory_pressure {
        Some(pressure) if pressure > limits.max_memory_pressure => {
            refuse(Reason::Memory, format!("memory pressure {pressure:.1} %"))
        }
        _ => Ok(()),
    }
}

/// The caller fills in live sessions and their processes.
pub fn read_machine() -> Readings {
    let machine = Machine::read();
    Readings {
        load: machine.load,
        cores: machine.cores,
        available_memory: machine.available_memory,
        memory_pressure: machine.memory_pressure,
        ..Readings::default()
    }
}

/// Live processes below these keepers.
pub fn count_tree_processes(keepers: impl IntoIterator<Item = u32>) -> u32 {
    let alive = |keeper| process::descendants(keeper).iter().filter(|s| !s.is_dead()).count();
    u32::try_from(keepers.into_iter().map(alive).sum::<usize>()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            max_live_sessions: 3,
            max_load_per_core: 0.8,
            min_free_memory: 1 << 30,
            max_memory_pressure: 10.0,
            max_tree_processes: 72,
        }
    }

    fn calm() -> Readings {
        Readings { cores: 2, available_memory: Some(4 << 30), ..Readings::default() }
    }

    fn reason(readings: &Readings) -> Option<Reason> {
        decide(readings, &limits()).err().map(|(reason, _)| reason)
    }

    #[test]
    fn a_calm_machine_lets_one_in() {
        assert_eq!(reason(&calm()), None);
        assert_eq!(reason(&Readings { available_memory: None, ..calm() }), None);
    }

    #[test]
    fn every_gate_can_refuse() {
        let cases = [
            (Readings { live_sessions: 3, ..calm() }, Reason::MaxLiveSessions),
            (Readings { load: 1.7, ..calm() }, Reason::Load),
            (Readings { available_memory: Some(1), ..calm() }, Reason::Memory),
            (Readings { memory_pressure: Some(30.0), ..calm() }, Reason::Memory),
            (Readings { tree_processes: 72, ..calm() }, Reason::Processes),
        ];
        for (readings, expected) in cases {
            assert_eq!(reason(&readings), Some(expected), "{readings:?}");
        }
    }
}
