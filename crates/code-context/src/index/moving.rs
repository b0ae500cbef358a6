//! The index of a code base at one commit after another: a work tree of its own is checked out, and
//! the index of that folder is updated, which reads only the files that differ.

use std::path::{Path, PathBuf};

use crate::git::tree::BorrowedTree;
use crate::index::open::Index;
use crate::{ContextError, Options};

/// An index that moves along a history. Its folder is removed on drop.
#[derive(Debug)]
pub struct MovingIndex {
    tree: BorrowedTree,
    /// The code base's folder within its repository, with a trailing slash; empty: all of it.
    prefix: String,
    options: Options,
    folder: PathBuf,
    index: Option<Index>,
}

/// Result of a move.
#[derive(Debug)]
pub enum Moved<'a> {
    Here(&'a Index),
    /// The commit is not in the repository.
    NoCommit,
    /// The commit does not have the code base's folder.
    NoFolder,
}

impl MovingIndex {
    /// An index of the code base at `root`, which is the folder `prefix` of its repository. It
    /// writes only below `folder`, which it owns.
    pub fn open(
        root: &Path,
        prefix: &str,
        folder: &Path,
        options: &Options,
    ) -> Result<Self, ContextError> {
        let unwritable = |source| ContextError::Store { path: folder.to_owned(), source };
        // The rest of an interrupted one is useless.
        if folder.is_dir() {
            std::fs::remove_dir_all(folder).map_err(unwritable)?;
        }
        crate::private_files::create_folder(folder).map_err(unwritable)?;
        Ok(Self {
            tree: BorrowedTree::open(root, folder, "tree")?,
            prefix: prefix.to_owned(),
            options: *options,
            folder: folder.to_owned(),
            index: None,
        })
    }

    /// Moves to a commit, given by its full id.
    pub fn move_to(&mut self, commit: &str) -> Result<Moved<'_>, ContextError> {
        if !self.tree.knows(commit) {
            return Ok(Moved::NoCommit);
        }
        self.tree.move_to(commit)?;
        let root = self.tree.folder().join(&self.prefix);
        if !root.is_dir() {
            return Ok(Moved::NoFolder);
        }
        let cache = self.folder.join("index");
        let (index, _) = Index::open_or_build(&root, &cache, &self.options)?;
        Ok(Moved::Here(self.index.insert(index)))
    }
}

impl Drop for MovingIndex {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "could not remove the index of past commits");
        }
    }
}
