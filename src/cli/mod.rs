//! The command line.

pub mod clean;
//! The command line, one file per command.

pub mod context;
