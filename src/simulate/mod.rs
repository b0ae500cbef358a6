//! Simulators of external systems, as real processes and real sockets: used by `--demo`, `selftest`
//! and the tests.

pub mod ado;
pub mod agent;
mod body;
mod connection;
pub mod fault;
pub mod github;
pub mod hostile;
pub mod jira;
pub mod sample;
mod seeded_rng;
mod serving;
mod stored;
mod traffic;

pub use self::stored::{StoredCommit, StoredFile};

use self::seeded_rng::SeededRng;
