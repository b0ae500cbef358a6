//! Real peers: the agent's CLI, the tracker's SDK, a browser. A missing peer is skipped with a
//! message.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, prints figures, and starts what it is about"
)]

mod agents;
mod cli;
mod cli_hostile;
mod dashboard;
mod github;
mod jira;
mod sdk;
mod supervised;
mod systemd;
mod whole_runs;
