//! Processes of this machine, from the crate `supervisor`.

pub use supervisor::process::*;
