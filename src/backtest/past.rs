//! The code as it was: a work tree of our own that borrows the objects of the user's repository.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::BacktestError;
use crate::context::git::{self, Bounds};
use crate::private;

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(600), output: 256 << 20 };

/// A work tree that can be moved to any commit of a repository. The repository itself is only read:
/// its references, its index and its settings stay as they are. What git keeps about the tree lies
/// beside it, so that whoever reads the tree sees nothing of other commits.
#[derive(Debug)]
pub struct PastTree {
    folder: PathBuf,
}

impl PastTree {
    /// Makes the work tree for `repository` below `parent`, or opens what an earlier one left there.
    pub fn open(repository: &Path, parent: &Path, name: &str) -> Result<Self, BacktestError> {
        let common = common_folder(repository)?;
        let tree = Self { folder: parent.join(name) };
        tree.borrow_objects(&common, &parent.join(format!("{name}.git")))?;
        // What an interrupted checkout left would be taken for code. A tree without a commit yet has
        // nothing to clean.
        if tree.git(&["rev-parse", "--verify", "--quiet", "HEAD"]).is_ok() {
            tree.git(&["clean", "--quiet", "-ffdx"])?;
        }
        Ok(tree)
    }

    fn borrow_objects(&self, common: &Path, kept: &Path) -> Result<(), BacktestError> {
        private::create_folder(&self.folder).map_err(write(&self.folder))?;
        if !self.folder.join(".git").exists() {
            let kept = kept.to_string_lossy();
            self.git(&["init", "--quiet", "--template=", &format!("--separate-git-dir={kept}")])?;
            // Later commits of an earlier backtest must not be found there.
            self.git(&["config", "core.logAllRefUpdates", "false"])?;
        }
        let info = kept.join("objects/info");
        private::create_folder(&info).map_err(write(&info))?;
        let alternates = info.join("alternates");
        let mut objects = common.join("objects").into_os_string().into_encoded_bytes();
        objects.push(b'\n');
        private::write(&alternates, &objects).map_err(write(&alternates))?;
        // Git must know where a shallow history ends, or it looks for commits that are not there.
        let shallow = kept.join("shallow");
        match std::fs::read(common.join("shallow")) {
            Ok(ends) => private::write(&shallow, &ends).map_err(write(&shallow)),
            Err(_) => Ok(()),
        }
    }

    /// Where a code base lies in its repository: `web/` or nothing.
    pub fn prefix_of(root: &Path) -> Result<String, BacktestError> {
        let prefix = git::output(root, &["rev-parse", "--show-prefix"], BOUNDS)
            .map_err(|source| BacktestError::Git { repository: root.to_owned(), source })?;
        Ok(String::from_utf8_lossy(&prefix).trim_end().to_owned())
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Does the repository hold this commit?
    pub fn knows(&self, commit: &str) -> bool {
        self.git(&["cat-file", "-e", &format!("{commit}^{{tree}}")]).is_ok()
    }

    /// Lays out `commit`, and nothing newer.
    pub fn move_to(&self, commit: &str) -> Result<(), BacktestError> {
        if self.git(&["checkout", "--quiet", "--force", "--detach", commit]).is_ok() {
            return Ok(());
        }
        // A partial clone may lack some files; the others are laid out without them.
        self.git(&["read-tree", "--reset", commit])?;
        self.git(&["update-ref", "--no-deref", "HEAD", commit])?;
        let missing = self.missing_files()?;
        if missing.is_empty() {
            return Err(self.cannot_lay_out(commit));
        }
        let arguments = ["update-index", "-z", "--skip-worktree", "--stdin"];
        self.git_for(&arguments, missing.join("\0"))?;
        let laid_out = self.git(&["checkout-index", "--all", "--force", "--quiet"]);
        laid_out.map_err(|_| self.cannot_lay_out(commit))?;
        self.git(&["clean", "--quiet", "-ffdx"])?;
        Ok(())
    }

    /// Files of the current commit whose content is not in the repository.
    fn missing_files(&self) -> Result<Vec<String>, BacktestError> {
        let listed = self.git(&["ls-files", "-z", "--stage"])?;
        let listed = String::from_utf8_lossy(&listed);
        let entries: Vec<(&str, &str)> = listed
            .split('\0')
            .filter_map(|entry| {
                let (facts, path) = entry.split_once('\t')?;
                Some((facts.split(' ').nth(1)?, path))
            })
            .collect();
        let ids: String = entries.iter().map(|(id, _)| format!("{id}\n")).collect();
        let known = self.git_for(&["cat-file", "--batch-check"], ids)?;
        let known = String::from_utf8_lossy(&known);
        let missing = known.lines().zip(entries).filter(|(line, _)| line.ends_with("missing"));
        Ok(missing.map(|(_, (_, path))| path.to_owned()).collect())
    }

    fn cannot_lay_out(&self, commit: &str) -> BacktestError {
        BacktestError::LayOut { folder: self.folder.clone(), commit: commit.to_owned() }
    }

    /// Removes it, with what git kept beside it.
    pub fn remove(self) {
        let mut beside = self.folder.clone().into_os_string();
        beside.push(".git");
        for folder in [self.folder.as_path(), Path::new(&beside)] {
            if let Err(error) = private::remove_folder(folder) {
                tracing::warn!(folder = %folder.display(), %error, "could not remove a work tree of the backtest");
            }
        }
    }

    fn git(&self, arguments: &[&str]) -> Result<Vec<u8>, BacktestError> {
        self.git_for(arguments, String::new())
    }

    fn git_for(&self, arguments: &[&str], input: String) -> Result<Vec<u8>, BacktestError> {
        git::output_for(&self.folder, arguments, input, BOUNDS)
            .map_err(|source| BacktestError::Git { repository: self.folder.clone(), source })
    }
}

/// Where git keeps the objects of a repository, whichever of its work trees is given.
pub fn common_folder(repository: &Path) -> Result<PathBuf, BacktestError> {
    let missing = || BacktestError::NoRepository(repository.to_owned());
    let common = git::output(repository, &["rev-parse", "--git-common-dir"], BOUNDS)
        .map_err(|_| missing())?;
    let common = String::from_utf8_lossy(&common).trim_end().to_owned();
    repository.join(common).canonicalize().map_err(|_| missing())
}

fn write(path: &Path) -> impl FnOnce(std::io::Error) -> BacktestError {
    let path = path.to_owned();
    move |source| BacktestError::Write { path, source }
}
