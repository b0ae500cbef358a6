//! The index, the ranking and the packed context through their public functions.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod damage;
mod git;
mod history;
mod index;
mod moving;
mod parts;
mod rank;
mod trusted;
