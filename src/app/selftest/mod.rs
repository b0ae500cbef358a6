//! Misbehaving agents under the real supervisor: for `heartbeat selftest` and for tests.

mod agent;
mod ledger;
mod rig;

pub use agent::HostileAgent;
pub use ledger::{EventRecorder, FolderLedger};
pub use rig::{Observed, Rig, SessionShape, limits};
