//! The complete job: the real binary on real sockets, real processes and a real database.

mod bad_input;
mod crash;
mod daemon;
mod demo;
mod exit_codes;
mod limits;
mod sources;
pub mod world;
mod write_back;
