//! What people and machines see of a run: folds over its events, and the edges that show them.

pub mod lines;
pub mod summary;
pub mod terminal;
