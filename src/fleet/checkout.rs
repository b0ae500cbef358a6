//! A code base on several hosts: identified by its folder name and a commit on the coordinator,
//! with a separate work tree for each session on a worker.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::order::Checkout;
use crate::context::git::{self, Bounds};
use crate::context::tree::{BorrowedTree, TreeError};
use crate::exec::{self, HelperCommand};
use crate::settings::{Config, Environment};

/// Time limit of fetching a missing commit.
const FETCH_WITHIN: Duration = Duration::from_mins(5);
const FEW: u64 = 64 * 1024;

/// Why a host has no code base for a session.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    #[error(
        "the code base {} has no commit to refer to ({why}): sessions on other hosts need a git \
         repository with at least one commit", root.display()
    )]
    NotGit { root: PathBuf, why: String },
    #[error(
        "this host has no repository called {0:?}: add {{ name = {0:?}, path = \"…\" }} to [fleet] \
         mirrors, or name a folder of that name in [repository]"
    )]
    NoMirror(String),
    #[error("{} has no commit {commit}, and it could not be fetched: {why}", mirror.display())]
    NoCommit { mirror: PathBuf, commit: String, why: String },
    #[error("cannot make a work tree of {commit} from {}: {why}", mirror.display())]
    NoTree { mirror: PathBuf, commit: String, why: String },
}

/// The name of the code base at `root` on all hosts.
pub fn name_of(root: &Path) -> String {
    let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.strip_suffix(".git").map(str::to_owned).unwrap_or(name)
}

/// Identifies the code base at `root` by its current commit.
pub async fn of(root: &Path) -> Result<Checkout, CheckoutError> {
    let read =
        git(root, &["rev-parse", "--verify", "HEAD^{commit}"], Duration::from_secs(20)).await;
    let fail = |why: String| CheckoutError::NotGit { root: root.to_owned(), why };
    let commit = read.map_err(fail)?.trim().to_owned();
    Ok(Checkout { name: name_of(root), commit })
}

/// Whether the work tree at `root` differs from its commit: other hosts do not see the difference.
pub async fn is_dirty(root: &Path) -> bool {
    let arguments = ["status", "--porcelain", "--untracked-files=no"];
    git(root, &arguments, Duration::from_secs(60)).await.is_ok_and(|found| !found.trim().is_empty())
}

/// The repositories of this host, by name.
pub fn mirrors(config: &Config) -> Vec<(String, PathBuf)> {
    let own = std::iter::once(&config.repository.path)
        .chain(config.repository.routes.iter().map(|route| &route.path))
        .filter(|path| !path.as_os_str().is_empty())
        .map(|path| (name_of(path), path.clone()));
    let named = config.fleet.mirrors.iter().map(|one| (one.name.clone(), one.path.clone()));
    let mut all: Vec<(String, PathBuf)> = Vec::new();
    for one in named.chain(own) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// A separate work tree for one session. The mirror is only read, so concurrent sessions do not
/// interfere.
#[derive(Debug)]
pub struct WorkTree {
    tree: BorrowedTree,
}

impl WorkTree {
    /// Creates the work tree in `folder`; a missing commit is fetched first.
    pub async fn make(
        config: &Config,
        environment: &Environment,
        checkout: &Checkout,
        folder: &Path,
    ) -> Result<Self, CheckoutError> {
        let Checkout { name, commit } = checkout;
        let found = mirrors(config).into_iter().find(|(known, _)| known == name);
        let (_, mirror) = found.ok_or_else(|| CheckoutError::NoMirror(name.clone()))?;
        if !is_commit(commit) {
            let why = "that is not a commit".to_owned();
            return Err(CheckoutError::NoCommit { mirror, commit: commit.clone(), why });
        }
        ensure_commit(&mirror, commit, environment).await?;
        let (from, to) = (mirror.clone(), folder.to_owned());
        let (name, wanted) = (name.clone(), commit.clone());
        let laid_out = tokio::task::spawn_blocking(move || {
            let tree = BorrowedTree::open(&from, &to, &name)?;
            tree.move_to(&wanted)?;
            Ok::<_, TreeError>(tree)
        });
        let why = match laid_out.await {
            Ok(Ok(tree)) => return Ok(Self { tree }),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic.to_string(),
        };
        Err(CheckoutError::NoTree { mirror, commit: commit.clone(), why })
    }

    pub fn path(&self) -> &Path {
        self.tree.folder()
    }
}

/// Full object names only: nothing that git could interpret as an option or a range.
fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

async fn ensure_commit(
    mirror: &Path,
    commit: &str,
    environment: &Environment,
) -> Result<(), CheckoutError> {
    let wanted = format!("{commit}^{{commit}}");
    let quick = Duration::from_secs(20);
    if git(mirror, &["cat-file", "-e", &wanted], quick).await.is_ok() {
        return Ok(());
    }
    // With the operator's own settings and login, since the mirror is theirs.
    let fetch = HelperCommand {
        program: "git".into(),
        args: ["fetch", "--quiet", "--no-tags", "origin", commit].map(OsString::from).to_vec(),
        cwd: mirror.to_owned(),
        env: environment.iter().map(|(name, value)| (name.into(), value.to_owned())).collect(),
        timeout: FETCH_WITHIN,
        max_output: 64 * 1024,
    };
    let fetched = match exec::run(&fetch).await {
        Ok(output) => output.success(&fetch).map(drop).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let there = git(mirror, &["cat-file", "-e", &wanted], quick).await;
    match (there, fetched) {
        (Ok(_), _) => Ok(()),
        (Err(why), Ok(())) | (Err(_), Err(why)) => {
            let (mirror, commit) = (mirror.to_owned(), commit.to_owned());
            Err(CheckoutError::NoCommit { mirror, commit, why })
        }
    }
}

async fn git(repository: &Path, arguments: &[&str], time: Duration) -> Result<String, String> {
    let repository = repository.to_owned();
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let ran = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        git::output(&repository, &arguments, Bounds { time, output: FEW })
    });
    match ran.await {
        Ok(Ok(output)) => Ok(String::from_utf8_lossy(&output).into_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(panic.to_string()),
    }
}
