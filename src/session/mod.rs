//! The supervisor: one agent session, from its row to the proof that no process is left.
//!
//! [`SessionSpec`] is what to run and its limits, [`agent::Agent`] knows the agent's command line
//! and stream, [`Ledger`](crate::ports::Ledger) makes rows durable,
//! [`SessionEnd`](crate::model::SessionEnd) is the result.
//!
//! [`Supervisor::run`] starts a [`keeper`] (this binary again, small and single-threaded), commits
//! the row, sends `Go` and runs the session in one loop (`live`). The pure [`machine`] decides what
//! to do; the pure [`liveness`] judges what the session is doing. Processes of a killed keeper
//! become heartbeat's children ([`children`]); processes of a killed heartbeat are found by
//! [`orphans`] through identities and the two marks of [`mark`].

pub mod admission;
pub mod agent;
mod beat;
pub mod configured;
pub mod conversation;
mod finished;
mod live;
pub mod liveness;
pub mod machine;
pub mod orphans;
mod provider_wait;
pub mod recording;
mod redact;
mod repair;
pub mod sessions;
mod spec;
pub mod stop;
mod supervisor;
pub mod trial;

pub use ::supervisor::children::collect_dead_children;
pub use ::supervisor::slots::Slots;
pub use ::supervisor::{
    brief, children, confinement, containment, evidence, in_force, keeper, mark, slots, tree,
};
pub use admission::{Gate, MachineGate};
pub use configured::resolve_program;
pub use sessions::{Attached, AttachedFile, Examiner, Job, Sessions, SupervisedSessions};
pub use spec::{SessionLimits, SessionSpec};
pub use stop::{LiveSessions, StopHandle, StopReason, StopSignal};
pub use supervisor::{Supervisor, SupervisorSettings};

/// Makes this process inherit what its keepers might leave. Helper commands are not session
/// processes: `exec` collects them.
pub fn become_outer_reaper() -> std::io::Result<()> {
    children::become_outer_reaper(crate::exec::helpers)
}
