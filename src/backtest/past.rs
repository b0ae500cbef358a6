//! The code as it was before a fix.

pub use crate::context::tree::{BorrowedTree as PastTree, common_folder};
