//! The code of one commit: a separate work tree that shares the objects of the user's repository.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::git::{self, Bounds, GitError};
use crate::private_files;

/// A failed git leaves less room than this on a full disk, or it was about a larger file.
const PROBE_LEN: usize = 1 << 20;
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(600), output: 256 << 20 };

/// Why a commit could not be checked out.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("cannot read the history of {}: {source}", repository.display())]
    Git {
        repository: PathBuf,
        #[source]
        source: GitError,
    },
    #[error("{} is not a git repository", .0.display())]
    NoRepository(PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "cannot check out commit {commit} in {}: is the disk full, or is a file of it missing in the \
         repository? Earlier results are kept; run the command again to continue",
        folder.display()
    )]
    LayOut { folder: PathBuf, commit: String },
}

/// A work tree that can be moved to any commit of a repository. The repository is only read: its
/// references, index and settings are unchanged. Git's data about the tree is next to it, so that
/// readers of the tree see nothing of other commits.
#[derive(Debug)]
pub struct BorrowedTree {
    folder: PathBuf,
}

impl BorrowedTree {
    /// Creates the work tree for `repository` below `parent`, or opens an existing one.
    pub fn open(repository: &Path, parent: &Path, name: &str) -> Result<Self, TreeError> {
        let common = common_folder(repository)?;
        let tree = Self { folder: parent.join(name) };
        tree.borrow_objects(&common, &parent.join(format!("{name}.git")))
            .map_err(|error| tree.refused_by_the_disk().unwrap_or(error))?;
        // Files of an interrupted checkout would be mistaken for code. A tree without a commit has
        // nothing to clean.
        if tree.git(&["rev-parse", "--verify", "--quiet", "HEAD"]).is_ok() {
            tree.git(&["clean", "--quiet", "-ffdx"])?;
        }
        Ok(tree)
    }

    fn borrow_objects(&self, common: &Path, kept: &Path) -> Result<(), TreeError> {
        private_files::create_folder(&self.folder).map_err(write(&self.folder))?;
        if !self.folder.join(".git").exists() {
            let kept = kept.to_string_lossy();
            self.git(&["init", "--quiet", "--template=", &format!("--separate-git-dir={kept}")])?;
            // Commits it was at before must not be found there.
            self.git(&["config", "core.logAllRefUpdates", "false"])?;
        }
        let info = kept.join("objects/info");
        private_files::create_folder(&info).map_err(write(&info))?;
        let alternates = info.join("alternates");
        let mut objects = common.join("objects").into_os_string().into_encoded_bytes();
        objects.push(b'\n');
        private_files::write(&alternates, &objects).map_err(write(&alternates))?;
        // Git must know where a shallow history ends, or it searches for commits that do not exist.
        let shallow = kept.join("shallow");
        match std::fs::read(common.join("shallow")) {
            Ok(ends) => private_files::write(&shallow, &ends).map_err(write(&shallow)),
            Err(_) => Ok(()),
        }
    }

    /// The path of a code base in its repository: `web/` or empty.
    pub fn prefix_of(root: &Path) -> Result<String, TreeError> {
        let prefix = git::output(root, &["rev-parse", "--show-prefix"], BOUNDS)
            .map_err(|source| TreeError::Git { repository: root.to_owned(), source })?;
        Ok(String::from_utf8_lossy(&prefix).trim_end().to_owned())
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the repository has this commit.
    pub fn knows(&self, commit: &str) -> bool {
        self.git(&["cat-file", "-e", &format!("{commit}^{{tree}}")]).is_ok()
    }

    /// Checks out `commit`, without newer history.
    pub fn move_to(&self, commit: &str) -> Result<(), TreeError> {
        self.lay_out(commit).map_err(|error| self.refused_by_the_disk().unwrap_or(error))
    }

    /// Git ends alike whatever failed, and what it says of a full disk differs from place to place.
    /// So a file is written in its stead: the system names what is wrong with the disk, if anything
    /// is.
    fn refused_by_the_disk(&self) -> Option<TreeError> {
        let probe = self.folder.with_extension("probe");
        let written = private_files::write(&probe, &vec![0; PROBE_LEN]);
        let _never_created = std::fs::remove_file(&probe);
        written.map_err(write(&self.folder)).err()
    }

    fn lay_out(&self, commit: &str) -> Result<(), TreeError> {
        if self.git(&["checkout", "--quiet", "--force", "--detach", commit]).is_ok() {
            return Ok(());
        }
        // A partial clone may lack some files; the others are checked out without them.
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
    fn missing_files(&self) -> Result<Vec<String>, TreeError> {
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

    fn cannot_lay_out(&self, commit: &str) -> TreeError {
        TreeError::LayOut { folder: self.folder.clone(), commit: commit.to_owned() }
    }

    /// Removes it, with git's data next to it.
    pub fn remove(self) {
        let mut git_folder = self.folder.clone().into_os_string();
        git_folder.push(".git");
        for folder in [self.folder.as_path(), Path::new(&git_folder)] {
            if let Err(error) = std::fs::remove_dir_all(folder) {
                tracing::warn!(folder = %folder.display(), %error, "could not remove a work tree");
            }
        }
    }

    fn git(&self, arguments: &[&str]) -> Result<Vec<u8>, TreeError> {
        self.git_for(arguments, String::new())
    }

    fn git_for(&self, arguments: &[&str], input: String) -> Result<Vec<u8>, TreeError> {
        git::output_for(&self.folder, arguments, input, BOUNDS)
            .map_err(|source| TreeError::Git { repository: self.folder.clone(), source })
    }
}

/// Where git keeps the objects of a repository, for any of its work trees.
pub fn common_folder(repository: &Path) -> Result<PathBuf, TreeError> {
    let missing = || TreeError::NoRepository(repository.to_owned());
    let common = git::output(repository, &["rev-parse", "--git-common-dir"], BOUNDS)
        .map_err(|_| missing())?;
    let common = String::from_utf8_lossy(&common).trim_end().to_owned();
    repository.join(common).canonicalize().map_err(|_| missing())
}

fn write(path: &Path) -> impl FnOnce(std::io::Error) -> TreeError {
    let path = path.to_owned();
    move |source| TreeError::Write { path, source }
}
