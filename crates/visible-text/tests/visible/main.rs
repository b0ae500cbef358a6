//! The cleaner through its public functions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bounded;
mod cases;
mod hostile;
mod markup;
mod painted;
mod properties;
mod visibility;
