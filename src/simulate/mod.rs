//! The simulators: a tracker and an agent on this machine, for `--demo`, `selftest` and tests.

pub mod sample;
