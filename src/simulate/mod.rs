//! Stand-ins for the world outside, as real processes and real sockets: used by `--demo`,
//! `selftest` and the tests.

pub mod ado;
pub mod agent;
pub mod hostile;
pub mod sample;
