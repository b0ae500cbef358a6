//! The supervisor: one agent session from its row to its certificate of emptiness.
//!
//! [`SessionSpec`] says what to run and within which bounds, [`agent::Agent`] knows the agent's
//! command line and stream, [`Ledger`](crate::ports::Ledger) is where rows are made durable, [`SessionEnd`](crate::model::SessionEnd) is all that
//! is left in the end.
//!
//! [`Supervisor::run`] starts a [`keeper`] (this binary again, small and single-threaded), commits
//! the row, gives the word and stays with the session in one loop (`live`). What to do is decided
//! by the pure [`machine`]; what the session is doing is judged by the pure [`liveness`]. What a
//! killed keeper leaves falls to the outer net ([`children`]); what a killed heartbeat leaves is
//! found again by [`orphans`] through identities and the two marks of [`mark`].

pub mod admission;
pub mod agent;
mod beat;
pub mod children;
pub mod confinement;
pub mod containment;
pub mod conversation;
pub mod evidence;
mod finished;
pub mod keeper;
mod live;
pub mod liveness;
pub mod machine;
pub mod mark;
pub mod orphans;
mod provider_wait;
mod repair;
pub mod slots;
pub mod sessions;
mod spec;
pub mod stop;
mod supervisor;
pub mod tree;
mod trial;

pub use admission::{Gate, MachineGate};
pub use children::{become_outer_reaper, collect_dead_children};
pub use sessions::{Attached, AttachedFile, Job, Sessions, SupervisedSessions, resolve_program};
pub use slots::Slots;
pub use spec::{SessionLimits, SessionSpec};
pub use stop::{LiveSessions, StopHandle, StopReason, StopSignal};
pub use supervisor::{Supervisor, SupervisorSettings};
