//! Real processes under the real supervisor: sessions, helper commands, the wake-up thread.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, prints figures, and starts what it is about"
)]

mod calibration;
mod company;
mod confinement;
mod conformance;
mod crash;
mod gateway;
mod helpers;
mod incident;
mod ladder;
mod lies;
mod lifecycle;
mod liveness;
mod objection;
mod recorded;
mod redaction;
mod reuse;
mod soak;
mod waker;
mod walls;
