//! The supervisor: one agent session from its row to its certificate of emptiness.
//!
//! [`SessionSpec`] says what to run and within which bounds, [`agent::Agent`] knows the agent's
//! command line and stream, [`Ledger`] is where rows are made durable, [`SessionEnd`] is all that
//! is left in the end.

pub mod agent;
mod spec;
mod stop;

pub use spec::{
    Ledger, LedgerError, LedgerRow, ProcessIdentity, SessionEnd, SessionLimits, SessionSpec,
};
pub use stop::{StopHandle, StopReason, StopSignal, StopState};
