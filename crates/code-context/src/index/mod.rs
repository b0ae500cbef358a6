//! The files of a code base and what was read of them, on disk.

pub(crate) mod build;
pub(crate) mod catalog;
pub(crate) mod moving;
pub(crate) mod open;
pub(crate) mod plan;
pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod store;
mod words;
