//! The Jira client against its simulator, Cloud and Data Center, over real sockets.

mod completeness;
mod faults;
mod reading;
mod recordings;
pub mod setup;
mod surroundings;
mod writing;
