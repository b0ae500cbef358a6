//! The command line.

pub mod clean;
