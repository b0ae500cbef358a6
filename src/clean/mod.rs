//! Prepares the texts of work items for a prompt.
//!
//! The crate `visible_text` cleans one text; here are the item around it, with its facts and its
//! [`Budget`], and the files that are attached to it.

mod file;
mod item;

pub use file::{FileKind, harmless_name, kind_of_file};
pub use item::{Budget, clean_item, clean_items, without_texts};
pub use visible_text::{Cleaned, Options, Rendering, clean_both, clean_text};
