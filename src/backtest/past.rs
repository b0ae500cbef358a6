//! The code as it was: a work tree of our own that borrows the objects of the user's repository.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::BacktestError;
use crate::context::git::{self, Bounds};
use crate::private;

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(600), output: 64 << 20 };

/// A work tree that can be moved to any commit of a repository. The repository itself is only read:
/// its references, its index and its settings stay as they are.
#[derive(Debug)]
pub struct PastTree {
    folder: PathBuf,
}

impl PastTree {
    /// Opens or makes the work tree for `repository` below `parent`.
    pub fn open(repository: &Path, parent: &Path) -> Result<Self, BacktestError> {
        let missing = || BacktestError::NoRepository(repository.to_owned());
        let common = git::output(repository, &["rev-parse", "--git-common-dir"], BOUNDS)
            .map_err(|_| missing())?;
        let common = String::from_utf8_lossy(&common).trim_end().to_owned();
        let common = repository.join(common).canonicalize().map_err(|_| missing())?;
        let name = Sha256::digest(common.as_os_str().as_encoded_bytes());
        let name: String = name.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let tree = Self { folder: parent.join(name) };
        tree.borrow_objects(&common)?;
        Ok(tree)
    }

    fn borrow_objects(&self, common: &Path) -> Result<(), BacktestError> {
        let write = |path: &Path| {
            let path = path.to_owned();
            move |source| BacktestError::Write { path, source }
        };
        private::create_folder(&self.folder).map_err(write(&self.folder))?;
        if !self.folder.join(".git").is_dir() {
            self.git(&["init", "--quiet", "--template="])?;
        }
        let info = self.folder.join(".git/objects/info");
        private::create_folder(&info).map_err(write(&info))?;
        let alternates = info.join("alternates");
        let mut objects = common.join("objects").into_os_string().into_encoded_bytes();
        objects.push(b'\n');
        private::write(&alternates, &objects).map_err(write(&alternates))?;
        // Git must know where a shallow history ends, or it looks for commits that are not there.
        let shallow = self.folder.join(".git/shallow");
        match std::fs::read(common.join("shallow")) {
            Ok(ends) => private::write(&shallow, &ends).map_err(write(&shallow)),
            Err(_) => Ok(()),
        }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lays out `commit`, and nothing newer.
    pub fn move_to(&self, commit: &str) -> Result<(), BacktestError> {
        self.git(&["checkout", "--quiet", "--force", "--detach", commit])?;
        // What an interrupted checkout left would be taken for code.
        self.git(&["clean", "--quiet", "-ffdx"])?;
        Ok(())
    }

    fn git(&self, arguments: &[&str]) -> Result<Vec<u8>, BacktestError> {
        git::output(&self.folder, arguments, BOUNDS)
            .map_err(|source| BacktestError::Git { repository: self.folder.clone(), source })
    }
}
