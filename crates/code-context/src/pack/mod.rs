//! The best files as a text within a token budget.

pub(crate) mod choices;
pub(crate) mod overview;
pub(crate) mod pieces;
pub(crate) mod purpose;
pub(crate) mod related;
pub(crate) mod shown;
pub(crate) mod spans;
pub(crate) mod write;
