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
pub mod brief;
pub mod children;
pub mod configured;
pub mod confinement;
pub mod containment;
pub mod conversation;
pub mod evidence;
mod finished;
mod folder;
pub mod in_force;
pub mod keeper;
mod live;
pub mod liveness;
pub mod machine;
pub mod mark;
pub mod orphans;
mod provider_wait;
pub mod recording;
mod redact;
mod repair;
pub mod slots;
pub mod sessions;
mod spec;
pub mod stop;
mod supervisor;
pub mod tree;
pub mod trial;

pub use admission::{Gate, MachineGate};
pub use children::{become_outer_reaper, collect_dead_children};
pub use configured::resolve_program;
pub use sessions::{Attached, AttachedFile, Examiner, Job, Sessions, SupervisedSessions};
pub use slots::Slots;
pub use spec::{SessionLimits, SessionSpec};
pub use stop::{LiveSessions, StopHandle, StopReason, StopSignal};
pub use supervisor::{Supervisor, SupervisorSettings};
