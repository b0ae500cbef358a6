//! The whole job: the real binary on real sockets, real processes and a real database.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts the binary it is about"
)]

mod bad_input;
mod crash;
mod daemon;
mod demo;
#[path = "../support/eventually.rs"]
mod eventually;
mod exit_codes;
mod limits;
mod support;
mod write_back;
