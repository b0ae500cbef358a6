//! Stand-ins for the world outside, as real processes and real sockets: used by `--demo`,
//! `selftest` and the tests.

pub mod ado;
pub mod agent;
mod body;
mod connection;
mod dice;
pub mod fault;
pub mod github;
pub mod hostile;
pub mod jira;
pub mod sample;
mod serving;
mod stored;
mod traffic;

pub use self::stored::{StoredCommit, StoredFile};

use self::dice::Dice;
