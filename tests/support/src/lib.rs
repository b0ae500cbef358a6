//! Shared by the test binaries and benchmarks: test environments, loopback peers, and ways to wait.

pub mod agent_items;
mod alone;
pub mod answers;
pub mod certificates;
pub mod conformance;
mod connection;
mod eventually;
mod git;
pub mod injection;
pub mod messages_api;
mod openai_wire;
pub mod stream_properties;
pub mod real_cli;
mod trusted;
pub mod web;

pub use alone::ran_alone;
pub use eventually::{EVENTUALLY_TIMEOUT, eventually, until};
pub use git::{git, git_at};
pub use trusted::wait_until_trusted;
