//! The real binary with the real agent CLI: a simulated tracker on one side, a loopback Messages
//! API on the other.
//!
//! Needs the CLI at `$HEARTBEAT_REAL_CLAUDE`; says so and passes when it is not there.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking and starts what it is about"
)]

#[path = "../support/messages_api.rs"]
#[expect(dead_code, reason = "shared with tests that use the rest")]
mod messages_api;
#[path = "../support/real_cli.rs"]
#[expect(dead_code, reason = "shared with tests that start the CLI themselves")]
mod real_cli;

mod limits;
mod login;
mod reading;
mod settings;
mod whole_run;
mod world;
