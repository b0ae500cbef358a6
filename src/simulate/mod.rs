//! The simulators: a tracker and an agent on this machine, for `--demo`, `selftest` and tests.

pub mod sample;
//! Stand-ins for the world outside, as real processes and real sockets: used by `--demo`,
//! `selftest` and the tests.

pub mod agent;
