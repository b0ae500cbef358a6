//! The newest code of a code base. Before the first item of a run needs it, the remote's branch is
//! fetched into a repository of heartbeat's own, which borrows the objects of the user's clone, and
//! checked out into a work tree in the state folder. The user's clone is only read: its references,
//! index and files are the same afterwards, so a person can work in it meanwhile.
//!
//! Nobody types a password during a scheduled run: git gets the user's own settings and credential
//! helpers, no terminal, and a time limit. Without an answer the run continues with the newest code
//! that is there, and says how old it is.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::exec::{self, HelperCommand};
use crate::private;
use crate::settings::{Environment, RepositorySettings};
use code_context::git::{self, Bounds};
use code_context::tree::{BorrowedTree, TreeError};

const QUICK: Bounds = Bounds { time: Duration::from_secs(20), output: 64 << 10 };
/// Where the fetched commit is kept, in heartbeat's own repository.
const FETCHED: &str = "refs/heartbeat/fetched";
/// Its name for the user's remote.
const REMOTE: &str = "heartbeat";
const PANICKED: &str = "reading the code base panicked (a bug); see the log for the location";
/// Transports that start no program named by the address.
const TRANSPORTS: &str = "file:git:http:https:ssh";

/// The code that is read for a code base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSource {
    /// The configured folder, or heartbeat's own work tree of its newest commit.
    pub root: PathBuf,
    /// `None` without a git history.
    pub commit: Option<CodeCommit>,
    /// Why this may not be the remote's newest commit; `None` if it is, or if there is no remote.
    pub outdated: Option<String>,
}

/// A commit with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeCommit {
    pub id: String,
    pub at: Timestamp,
}

/// Where code is read, with the parent of heartbeat's own work trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeCopies {
    /// The remote is asked for its newest commit.
    Fetched(PathBuf),
    /// Nothing is fetched: the copy of the last run is read if it is newer.
    Existing(PathBuf),
    /// The configured folders are read as they are.
    None,
}

impl CodeCopies {
    /// Where the newest code of the code base at `root` is: the copy of the last run, if any.
    pub fn latest(&self, root: &Path) -> PathBuf {
        let copy = match self {
            Self::Fetched(folder) | Self::Existing(folder) => latest_copy(folder, root),
            Self::None => None,
        };
        copy.unwrap_or_else(|| root.to_owned())
    }
}

/// Fetches each code base at most once.
#[derive(Debug)]
pub struct Upstream {
    environment: Environment,
    copies: CodeCopies,
    branch: String,
    within: Duration,
    known: tokio::sync::Mutex<HashMap<PathBuf, CodeSource>>,
}

impl Upstream {
    pub fn new(
        settings: &RepositorySettings,
        environment: &Environment,
        copies: CodeCopies,
    ) -> Self {
        Self {
            environment: environment.clone(),
            copies: if settings.fetch { copies } else { CodeCopies::None },
            branch: settings.branch.clone(),
            within: settings.fetch_timeout,
            known: tokio::sync::Mutex::default(),
        }
    }

    /// Reads the configured folders as they are.
    pub fn off() -> Self {
        Self {
            environment: Environment::default(),
            copies: CodeCopies::None,
            branch: String::new(),
            within: Duration::ZERO,
            known: tokio::sync::Mutex::default(),
        }
    }

    /// The code to read for the code base at `root`. The first caller fetches, the others wait.
    pub async fn newest(&self, root: &Path) -> CodeSource {
        let mut known = self.known.lock().await;
        if let Some(source) = known.get(root) {
            return source.clone();
        }
        let source = self.look(root).await;
        known.insert(root.to_owned(), source.clone());
        source
    }

    async fn look(&self, root: &Path) -> CodeSource {
        let as_it_is = |root: PathBuf, outdated| async move {
            let at = root.clone();
            let commit = blocking(move || commit_of(&at, "HEAD")).await.flatten();
            CodeSource { root, commit, outdated }
        };
        if !is_in_git(root) {
            return CodeSource { root: root.to_owned(), commit: None, outdated: None };
        }
        let folder = match &self.copies {
            CodeCopies::Fetched(folder) => folder,
            CodeCopies::Existing(folder) => {
                let newest = newer_of(root.to_owned(), latest_copy(folder, root)).await;
                return as_it_is(newest, None).await;
            }
            CodeCopies::None => return as_it_is(root.to_owned(), None).await,
        };
        let at = root.to_owned();
        let remote = blocking(move || Remote::of(&at)).await.flatten();
        let Some(remote) = remote else { return as_it_is(root.to_owned(), None).await };
        match self.fetch(root, folder, &remote).await {
            Ok(source) => source,
            Err(why) => {
                tracing::warn!(code_base = %root.display(), %why, "could not fetch the newest code; the run continues with what is there");
                let newest = newer_of(root.to_owned(), latest_copy(folder, root)).await;
                as_it_is(newest, Some(why)).await
            }
        }
    }

    /// Fetches and checks out the newest commit. A copy that cannot be used, such as one whose
    /// borrowed objects were pruned from the user's clone, is made anew once.
    async fn fetch(
        &self,
        root: &Path,
        folder: &Path,
        remote: &Remote,
    ) -> Result<CodeSource, String> {
        let (parent, name) = place_of(folder, root);
        let lay_out = |then: fn(&BorrowedTree) -> Result<(), TreeError>| {
            let (root, parent, name) = (root.to_owned(), parent.clone(), name.clone());
            let work = move || {
                private::create_folder(&parent).map_err(|error| error.to_string())?;
                let open = || {
                    let tree = BorrowedTree::open(&root, &parent, &name)?;
                    then(&tree)?;
                    Ok::<_, TreeError>(tree)
                };
                open().map_err(|error| error.to_string())
            };
            async { blocking(work).await.unwrap_or_else(|| Err(PANICKED.into())) }
        };
        let tree = match lay_out(|_| Ok(())).await {
            Ok(tree) => tree,
            Err(why) => {
                tracing::warn!(%why, "the copy of the code base cannot be used; making it anew");
                remove_copy(&parent);
                lay_out(|_| Ok(())).await?
            }
        };
        if let Err(why) = self.run_fetch(&tree, remote).await {
            if !is_broken(&why) {
                return Err(why);
            }
            remove_copy(&parent);
            let tree = lay_out(|_| Ok(())).await?;
            self.run_fetch(&tree, remote).await?;
        }
        let tree = lay_out(|tree| tree.move_to(FETCHED)).await?;
        let (at, top) = (root.to_owned(), tree.folder().to_owned());
        let placed = blocking(move || {
            let inside = top.join(BorrowedTree::prefix_of(&at).unwrap_or_default());
            (commit_of(&top, "HEAD"), inside)
        });
        let (commit, inside) = placed.await.ok_or(PANICKED)?;
        if !inside.is_dir() {
            let missing = inside.strip_prefix(tree.folder()).unwrap_or(&inside);
            return Err(format!("the fetched commit has no folder {}", missing.display()));
        }
        Ok(CodeSource { root: inside, commit, outdated: None })
    }

    async fn run_fetch(&self, tree: &BorrowedTree, remote: &Remote) -> Result<(), String> {
        let wanted = if self.branch.is_empty() { "HEAD" } else { &self.branch };
        let refs = format!("+{wanted}:{FETCHED}");
        let arguments = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            REMOTE,
            &refs,
        ];
        self.ask_remote(tree.folder(), remote, &arguments).await?;
        // Fetching for a year leaves many small packs. Below git's own limits this does nothing.
        let tidy = self.ask_remote(tree.folder(), remote, &["gc", "--auto", "--quiet"]).await;
        if let Err(why) = tidy {
            tracing::debug!(%why, "could not tidy the copy of the code base");
        }
        Ok(())
    }

    /// Whether the remote of the code base at `root` answers: the commit of its branch, or `None`
    /// if nothing is fetched for this code base. Changes nothing.
    pub async fn probe(&self, root: &Path) -> Result<Option<String>, String> {
        let at = root.to_owned();
        let remote = blocking(move || Remote::of(&at)).await.flatten();
        let Some(remote) = remote.filter(|_| self.copies != CodeCopies::None) else {
            return Ok(None);
        };
        let wanted = if self.branch.is_empty() { "HEAD" } else { &self.branch };
        let answer =
            self.ask_remote(root, &remote, &["ls-remote", "--quiet", REMOTE, wanted]).await?;
        let commit = answer.split_whitespace().next().map(str::to_owned);
        commit.map(Some).ok_or_else(|| format!("the remote has no {wanted}"))
    }

    /// Runs git with the user's own settings, helpers and keys, and without any way to ask.
    async fn ask_remote(
        &self,
        folder: &Path,
        remote: &Remote,
        arguments: &[&str],
    ) -> Result<String, String> {
        let mut env: Vec<(OsString, OsString)> = self
            .environment
            .iter()
            .filter(|(name, _)| !LEFT_OUT.contains(name))
            .map(|(name, value)| (name.into(), value.to_owned()))
            .collect();
        let ssh = self.ssh_command().await;
        let fixed: [(&str, &str); 8] = [
            ("LC_ALL", "C"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("SSH_ASKPASS_REQUIRE", "never"),
            ("GIT_SSH_COMMAND", &ssh),
            ("GIT_ALLOW_PROTOCOL", TRANSPORTS),
            ("GIT_CONFIG_COUNT", "1"),
            // An address may contain a token, and arguments are visible to every user.
            ("GIT_CONFIG_KEY_0", "remote.heartbeat.url"),
            ("GIT_CONFIG_VALUE_0", &remote.url),
        ];
        env.extend(fixed.map(|(name, value)| (name.into(), value.into())));
        let settings = ["core.hooksPath=/dev/null", "core.fsmonitor=false", "safe.directory=*"];
        let settings = settings.iter().flat_map(|setting| ["-c", setting]);
        let fetch = HelperCommand {
            program: "git".into(),
            args: settings.chain(arguments.iter().copied()).map(OsString::from).collect(),
            cwd: folder.to_owned(),
            env,
            timeout: self.within,
            max_output: 1 << 20,
        };
        let output = match exec::run(&fetch).await {
            Ok(output) => output.success(&fetch),
            Err(error) => Err(error),
        };
        let output = output.map_err(|error| remote.hide_login(&error.to_string()))?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// The user's ssh command with questions turned off.
    async fn ssh_command(&self) -> String {
        let given = self.environment.text("GIT_SSH_COMMAND").map(str::to_owned);
        let configured = async {
            let known = ["PATH", "HOME", "XDG_CONFIG_HOME"];
            let read = HelperCommand {
                program: "git".into(),
                args: ["config", "--global", "core.sshCommand"].map(OsString::from).into(),
                cwd: PathBuf::from("/"),
                env: known
                    .iter()
                    .filter_map(|name| Some((name.into(), self.environment.raw(name)?.into())))
                    .collect(),
                timeout: QUICK.time,
                max_output: 4096,
            };
            let text = exec::run(&read).await.ok()?.success(&read).ok()?;
            Some(String::from_utf8_lossy(&text).trim().to_owned()).filter(|text| !text.is_empty())
        };
        let own = match given {
            Some(given) => given,
            None => configured.await.unwrap_or_else(|| "ssh".to_owned()),
        };
        format!("{own} -oBatchMode=yes")
    }
}

/// Variables that could make git ask a person, or work on another repository.
const LEFT_OUT: [&str; 14] = [
    "SSH_ASKPASS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_SSH_COMMAND",
    "GIT_TRACE",
    "LC_ALL",
];

/// The remote of a clone.
#[derive(Debug, Clone)]
struct Remote {
    url: String,
}

impl Remote {
    /// The remote that the current branch follows, else `origin`, else the only one.
    fn of(root: &Path) -> Option<Self> {
        let read = |arguments: &[&str]| {
            let text = git::output(root, arguments, QUICK).ok()?;
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let branch = read(&["symbolic-ref", "--quiet", "--short", "HEAD"]);
        let followed = branch.and_then(|branch| {
            read(&["config", "--get", &format!("branch.{branch}.remote")])
                .filter(|remote| remote != ".")
        });
        let all = read(&["remote"]).unwrap_or_default();
        let names: Vec<&str> = all.lines().collect();
        let name = followed
            .or_else(|| names.contains(&"origin").then(|| "origin".to_owned()))
            .or_else(|| (names.len() == 1).then(|| names[0].to_owned()))?;
        let url = read(&["config", "--get", &format!("remote.{name}.url")])?;
        // A path is relative to the clone, not to our copy of it.
        let is_path = !url.contains("://") && (!url.contains(':') || url.starts_with(['/', '.']));
        let url = match root.join(&url).canonicalize() {
            Ok(path) if is_path => path.to_string_lossy().into_owned(),
            _ => url,
        };
        Some(Self { url })
    }

    /// Without the user name and password of the address.
    fn hide_login(&self, text: &str) -> String {
        let Some((scheme, rest)) = self.url.split_once("://") else { return text.to_owned() };
        let Some((login, _)) = rest.split_once('@') else { return text.to_owned() };
        let password = login.split_once(':').map_or(login, |(_, password)| password);
        let text = text.replace(&format!("{scheme}://{login}@"), &format!("{scheme}://"));
        if password.len() < 4 { text } else { text.replace(password, "***") }
    }
}

/// The newest commit of `reference` in the repository at `root`.
pub fn commit_of(root: &Path, reference: &str) -> Option<CodeCommit> {
    let arguments = ["log", "-1", "--format=%H %ct", reference, "--"];
    let text = String::from_utf8(git::output(root, &arguments, QUICK).ok()?).ok()?;
    let (id, at) = text.trim().split_once(' ')?;
    Some(CodeCommit { id: id.to_owned(), at: Timestamp::from_second(at.parse().ok()?).ok()? })
}

/// Whether there is anything to analyse: a file in the commit, or in a folder without git.
pub fn has_files(root: &Path) -> bool {
    match git::output(root, &["ls-tree", "--name-only", "HEAD"], QUICK) {
        Ok(names) => !names.is_empty(),
        Err(_) => std::fs::read_dir(root).is_ok_and(|mut entries| {
            entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != ".git"))
        }),
    }
}

/// The work tree that the last run checked out for the code base at `root`, if there is one.
pub fn latest_copy(folder: &Path, root: &Path) -> Option<PathBuf> {
    let (parent, name) = place_of(folder, root);
    let copy = parent.join(name);
    if !copy.join(".git").exists() {
        return None;
    }
    let prefix = BorrowedTree::prefix_of(root).ok()?;
    let inside = copy.join(prefix);
    (inside.is_dir() && commit_of(&copy, "HEAD").is_some()).then_some(inside)
}

/// Whether git is worth starting: in a work tree, or in a bare repository.
fn is_in_git(root: &Path) -> bool {
    let is_bare = root.join("HEAD").is_file() && root.join("objects").is_dir();
    is_bare || root.ancestors().any(|folder| folder.join(".git").exists())
}

/// The one with the newer commit: a copy of yesterday beats a clone that nobody updated for months.
async fn newer_of(root: PathBuf, copy: Option<PathBuf>) -> PathBuf {
    let Some(copy) = copy else { return root };
    let (of_root, of_copy) = (root.clone(), copy.clone());
    let times = blocking(move || {
        let at = |root: &Path| commit_of(root, "HEAD").map(|commit| commit.at);
        (at(&of_root), at(&of_copy))
    });
    match times.await {
        Some((own, fetched)) if fetched >= own => copy,
        _ => root,
    }
}

fn remove_copy(place: &Path) {
    if let Err(error) = private::remove_folder(place) {
        tracing::warn!(folder = %place.display(), %error, "could not remove a work tree");
    }
}

/// Whether the copy is at fault, not the remote: git's data is damaged, or objects that it borrowed
/// vanished from the user's clone.
fn is_broken(why: &str) -> bool {
    ["bad object", "missing", "unable to read", "did not receive expected object", "not a git repo"]
        .iter()
        .any(|sign| why.contains(sign))
}

/// Parent and name of the work tree: different for equally named folders. The folder's own name
/// stays the last part of the path, because hosts of a fleet know code bases by it.
fn place_of(folder: &Path, root: &Path) -> (PathBuf, String) {
    let hash = Sha256::digest(root.as_os_str().as_encoded_bytes());
    let hash: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".git").filter(|name| !name.is_empty()).unwrap_or(&name);
    (folder.join(hash), name.to_owned())
}

/// `None` if it panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_in_the_address_is_in_no_message() {
        let remote = Remote { url: "https://ada:s3cret-token@host.example/web.git".into() };
        let said = "fatal: Authentication failed for \
                    'https://ada:s3cret-token@host.example/web.git' (s3cret-token)";
        let shown = remote.hide_login(said);
        assert!(!shown.contains("s3cret-token"), "{shown}");
        assert!(shown.contains("https://host.example/web.git"), "{shown}");
    }
}
