//! The simulators: a tracker and an agent on this machine, for `--demo`, `selftest` and tests.

pub mod sample;
//! Stand-ins for the world outside, as real processes and real sockets: used by `--demo`,
//! `selftest` and the tests.

pub mod agent;
//! Stand-ins for the outside world that behave like it: used by `--demo`, `selftest` and tests.

pub mod ado;
//! Stand-ins for the peers of heartbeat, to try it and to test it against.

pub mod hostile;
pub mod ledger;
pub mod rig;
