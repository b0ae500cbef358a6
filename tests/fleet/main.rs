//! Sessions on several hosts: a real server, real coordinators and workers as processes, the
//! scripted agent. The agents themselves and the coordinator's rows count everything.
//!
//! `tests/run` installs the server and names it in HEARTBEAT_TEST_TEMPORAL.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, prints figures, and starts what it is about"
)]

mod accounts;
mod bad_input;
mod bad_server;
mod both;
mod cut_off;
mod dashboard;
mod dispatch;
mod hosts;
mod killed;
mod namespaces;
mod observed;
mod real_agent;
mod relay;
mod rivals;
mod roles;
mod suspended;
mod times;
mod world;
