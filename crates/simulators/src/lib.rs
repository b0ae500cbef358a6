//! Trackers that only tests and demonstrations need, as real servers on loopback: GitHub and Jira.
//!
//! Both are built on what `heartbeat::simulate` has for its own Azure DevOps: the server, faults,
//! counters and replies. They are not part of the shipped program.

pub mod github;
pub mod jira;
