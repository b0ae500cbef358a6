//! Simulators of external systems, as real processes and real sockets: an Azure DevOps and a scripted
//! agent for `--demo` and `heartbeat simulate`, misbehaving agents for `selftest`.
//!
//! What every simulated tracker needs (a server on loopback, faults, counters, replies) is here too:
//! the simulators of GitHub and Jira, which only tests use, are built on it in `crates/simulators`.

pub mod ado;
pub mod agent;
pub mod hostile;
pub mod sample;

mod body;
pub mod connection;
pub mod fault;
pub mod reply;
mod seeded_rng;
pub mod serving;
pub mod shared;
mod stored;
pub mod traffic;

pub use self::seeded_rng::SeededRng;
pub use self::stored::{StoredCommit, StoredFile};
