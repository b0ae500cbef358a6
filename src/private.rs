//! Files that only their owner may open, and files that an agent could have written, from the crate
//! `supervisor`.

pub use supervisor::private::*;
