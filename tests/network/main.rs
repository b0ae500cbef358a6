//! Real sockets: the tracker's client, the simulator, and the HTTP interface.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, prints figures, and starts what it is about"
)]

mod fetch;
mod github;
mod jira;
mod metrics;
mod monitoring;
mod pages;
mod server;
mod sign_in;
mod simulator;
mod upstream;
