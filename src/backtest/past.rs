//! The code as it was.

pub use crate::context::tree::{BorrowedTree as PastTree, common_folder};
