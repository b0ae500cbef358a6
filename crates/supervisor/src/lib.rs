//! One agent process with everything it starts: contained, confined, and ended without a survivor.
//!
//! [`keeper`] is this program started again, small and single-threaded, around one agent: it sets up
//! the namespace, the control group and the [`confinement`], starts the agent on `Go`, and sweeps
//! the whole tree at its end. [`keeper::launch`] is the other side of its socket. [`brief`] runs a
//! short command in the same walls. What outlives a killed keeper is found again by the two marks of
//! [`mark`], and killed only with the proof of [`evidence`]; heartbeat inherits it through
//! [`children`]. [`in_force`] says which walls really stand.
//!
//! Nothing here knows what the agent is for: no items, no prompts, no database, no network.
//! [`process`] has all `unsafe` code; [`private`] opens what an agent could have written.

pub mod brief;
pub mod children;
pub mod confinement;
pub mod containment;
mod environment;
pub mod evidence;
pub mod folder;
mod identity;
pub mod in_force;
pub mod keeper;
pub mod mark;
pub mod private;
pub mod process;
pub mod slots;
pub mod tree;

pub use containment::Containment;
pub use environment::Environment;
pub use identity::ProcessIdentity;

/// Identifies one supervised session; time-ordered (version 7).
pub use uuid::Uuid as SessionId;

/// As sent and shown; saturates.
pub fn milliseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
