//! What people and programs see of a run: folds over its events, and their output.

pub mod backlog;
pub mod code_links;
pub mod digest;
pub mod fixes;
pub mod html;
pub mod lines;
pub mod live;
pub mod markdown;
pub mod moment;
pub mod names;
pub mod narrator;
pub mod paint;
pub mod prose;
pub mod suggestions;
pub mod summary;
pub mod terminal;
pub mod webhook;
pub mod why;
pub mod worth;

#[cfg(test)]
mod channel_tests;
