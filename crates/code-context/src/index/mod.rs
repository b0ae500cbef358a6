//! The files of a code base and what was read of them, on disk or along a history.

pub(crate) mod build;
pub(crate) mod catalog;
pub(crate) mod leave_out;
pub(crate) mod moving;
pub(crate) mod open;
pub(crate) mod part;
pub(crate) mod plan;
pub(crate) mod rescan;
pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod snapshot;
pub(crate) mod store;
mod words;
