//! Operating heartbeat with the real binary: doctor, service, reports, logs, progress files, kill.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod support;

mod daemon;
mod doctor;
mod events;
mod http;
mod kill;
mod packaging;
mod report;
mod service;
