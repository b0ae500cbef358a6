//! Keeping the code fresh: whatever the clone and its remote look like, the newest commit is read or
//! the reason is said, and the user's clone is the same to the byte.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heartbeat::context::{CodeCopies, CodeSource, Upstream, commit_of, latest_copy};
use heartbeat::settings::{Config, Environment};
use support::{git, git_at};

/// A remote with one commit, a clone of it, and a state folder.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(world.remote().join("web")).unwrap();
        git(&world.remote(), &["init", "-q", "-b", "main"]);
        world.commit("first", 1_700_000_000);
        git(world.folder.path(), &["clone", "-q", "remote", "clone"]);
        world
    }

    fn remote(&self) -> PathBuf {
        self.folder.path().join("remote")
    }

    fn clone(&self) -> PathBuf {
        self.folder.path().join("clone")
    }

    fn copies(&self) -> PathBuf {
        self.folder.path().join("state/code")
    }

    /// A commit in the remote; its message is the content of `web/page.txt`.
    fn commit(&self, text: &str, at: i64) {
        std::fs::write(self.remote().join("web/page.txt"), text).unwrap();
        git(&self.remote(), &["add", "-A"]);
        git_at(&self.remote(), &["commit", "-q", "--allow-empty", "-m", text], Some(at));
    }

    fn upstream(&self, set: impl FnOnce(&mut Config)) -> Upstream {
        let mut config: Config = toml::from_str(heartbeat::config::DEFAULT_TOML).unwrap();
        set(&mut config);
        let path = std::env::var_os("PATH").unwrap();
        let home = self.folder.path().join("home");
        std::fs::create_dir_all(&home).unwrap();
        let environment =
            Environment::new([("PATH", path.as_os_str()), ("HOME", home.as_os_str())]);
        Upstream::new(&config.repository, &environment, CodeCopies::Fetched(self.copies()))
    }

    async fn newest(&self) -> CodeSource {
        self.upstream(|_| ()).newest(&self.clone()).await
    }
}

fn page(source: &CodeSource) -> String {
    std::fs::read_to_string(source.root.join("web/page.txt")).unwrap()
}

/// Every file below a folder with its content, and every link with its target.
fn bytes_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() {
                let target = std::fs::read_link(&path).unwrap();
                all.insert(path, target.into_os_string().into_encoded_bytes());
            } else if path.is_dir() {
                all.insert(path.clone(), Vec::new());
                open.push(path);
            } else {
                all.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    all
}

#[tokio::test]
async fn the_remotes_newest_commit_is_read_and_the_clone_stays_as_it_is() {
    let world = World::new();
    // A person works in the clone: a branch, staged and other changes, an untracked file.
    git(&world.clone(), &["checkout", "-q", "-b", "mine"]);
    std::fs::write(world.clone().join("web/page.txt"), "changed here").unwrap();
    git(&world.clone(), &["add", "-A"]);
    std::fs::write(world.clone().join("untracked.txt"), "not yet").unwrap();
    let before = bytes_of(&world.clone());
    world.commit("second", 1_700_100_000);

    let source = world.newest().await;
    assert_eq!(page(&source), "second");
    assert_eq!(source.outdated, None);
    assert_eq!(source.commit, commit_of(&world.remote(), "HEAD"));
    assert!(!source.root.join("untracked.txt").exists());

    // Force-pushed to another history.
    git(&world.remote(), &["checkout", "-q", "--orphan", "other"]);
    world.commit("rewritten", 1_700_200_000);
    git(&world.remote(), &["branch", "-q", "-M", "other", "main"]);
    assert_eq!(page(&world.newest().await), "rewritten");

    // The default branch has another name.
    git(&world.remote(), &["branch", "-q", "-m", "main", "trunk"]);
    world.commit("renamed", 1_700_300_000);
    assert_eq!(page(&world.newest().await), "renamed");

    assert_eq!(bytes_of(&world.clone()), before);
}

#[tokio::test]
async fn a_branch_of_the_configuration_and_a_folder_inside_the_clone_are_followed() {
    let world = World::new();
    git(&world.remote(), &["checkout", "-q", "-b", "release/2"]);
    world.commit("released", 1_700_100_000);
    git(&world.remote(), &["checkout", "-q", "main"]);
    let upstream = world.upstream(|config| config.repository.branch = "release/2".into());
    let source = upstream.newest(&world.clone().join("web")).await;
    assert!(source.root.ends_with("web"), "{}", source.root.display());
    assert_eq!(std::fs::read_to_string(source.root.join("page.txt")).unwrap(), "released");
}

#[tokio::test]
async fn bare_shallow_and_detached_clones_are_read_like_others() {
    let world = World::new();
    world.commit("second", 1_700_100_000);
    let folder = world.folder.path();
    let address = format!("file://{}", world.remote().display());
    git(folder, &["clone", "-q", "--bare", "remote", "bare.git"]);
    git(folder, &["clone", "-q", "--depth", "1", &address, "shallow"]);
    git(folder, &["clone", "-q", "remote", "detached"]);
    git(&folder.join("detached"), &["checkout", "-q", "--detach", "HEAD~1"]);
    world.commit("third", 1_700_200_000);
    for name in ["bare.git", "shallow", "detached"] {
        let clone = folder.join(name);
        let before = bytes_of(&clone);
        let source = world.upstream(|_| ()).newest(&clone).await;
        assert_eq!(page(&source), "third", "{name}: {:?}", source.outdated);
        assert_eq!(bytes_of(&clone), before, "{name}");
    }
}

#[tokio::test]
async fn submodules_are_left_empty_and_their_files_are_not_fetched() {
    let world = World::new();
    let folder = world.folder.path();
    git(folder, &["clone", "-q", "remote", "part"]);
    let part = folder.join("part").to_string_lossy().into_owned();
    git(&world.remote(), &["submodule", "--quiet", "add", &part, "inside"]);
    git_at(&world.remote(), &["commit", "-q", "-m", "with a part"], Some(1_700_100_000));
    // In one clone the part is there and somebody works in it, in the other it is not.
    git(folder, &["clone", "-q", "--recurse-submodules", "remote", "whole"]);
    std::fs::write(folder.join("whole/inside/web/page.txt"), "changed in the part").unwrap();
    world.commit("and more", 1_700_200_000);
    for clone in [world.clone(), folder.join("whole")] {
        let before = bytes_of(&clone);
        let source = world.upstream(|_| ()).newest(&clone).await;
        assert_eq!((page(&source).as_str(), source.outdated), ("and more", None));
        assert!(source.root.join(".gitmodules").is_file());
        assert!(!source.root.join("inside/web").exists());
        assert_eq!(bytes_of(&clone), before);
    }
}

#[tokio::test]
async fn without_an_answer_the_newest_code_that_is_there_is_read_with_the_reason() {
    let world = World::new();
    world.commit("second", 1_700_100_000);
    assert_eq!(page(&world.newest().await), "second");
    let before = bytes_of(&world.clone());
    let gone = world.folder.path().join("elsewhere");
    std::fs::rename(world.remote(), gone).unwrap();
    let source = world.newest().await;
    // The copy of the last run is newer than the clone.
    assert_eq!(page(&source), "second");
    assert!(source.outdated.is_some_and(|why| why.contains("git")));
    assert_eq!(latest_copy(&world.copies(), &world.clone()), Some(source.root));
    // Without a copy, the clone.
    std::fs::remove_dir_all(world.copies()).unwrap();
    let source = world.newest().await;
    assert_eq!((page(&source).as_str(), source.root), ("first", world.clone()));
    assert_eq!(bytes_of(&world.clone()), before);
    assert!(source.commit.is_some() && source.outdated.is_some());
}

#[tokio::test]
async fn a_remote_that_asks_for_a_password_or_never_answers_is_given_up() {
    let world = World::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://ada:pass-in-address@{}/web.git", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let Ok(mut stream) = stream else { break };
            let mut request = [0; 4096];
            let _some = stream.read(&mut request);
            let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"code\"\r\n\
                          Content-Length: 0\r\nConnection: close\r\n\r\n";
            let _sent = stream.write_all(answer.as_bytes());
        }
    });
    git(&world.clone(), &["remote", "set-url", "origin", &address]);
    let before = bytes_of(&world.clone());
    let source = world.newest().await;
    assert_eq!(page(&source), "first");
    assert_eq!(bytes_of(&world.clone()), before);
    let why = source.outdated.unwrap();
    assert!(!why.contains("pass-in-address"), "{why}");

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/web.git", silent.local_addr().unwrap());
    git(&world.clone(), &["remote", "set-url", "origin", &address]);
    let before = bytes_of(&world.clone());
    let upstream =
        world.upstream(|config| config.repository.fetch_timeout = Duration::from_millis(300));
    let source = upstream.newest(&world.clone()).await;
    assert_eq!(page(&source), "first");
    assert_eq!(bytes_of(&world.clone()), before);
    assert!(source.outdated.unwrap().contains("did not finish within"));
}

#[tokio::test]
async fn an_address_that_names_a_program_starts_nothing() {
    let world = World::new();
    let mark = world.folder.path().join("started");
    let address = format!("ext::touch {}", mark.display());
    git(&world.clone(), &["config", "remote.origin.url", &address]);
    let source = world.newest().await;
    assert!(source.outdated.is_some());
    assert!(!mark.exists());
}

#[tokio::test]
async fn objects_pruned_from_the_clone_and_a_broken_copy_are_mended() {
    let world = World::new();
    world.commit("second", 1_700_100_000);
    git(&world.clone(), &["fetch", "-q"]);
    assert_eq!(page(&world.newest().await), "second");
    // The clone forgets the commit that the copy borrowed from it.
    git(&world.clone(), &["update-ref", "-d", "refs/remotes/origin/main"]);
    git(&world.clone(), &["symbolic-ref", "-d", "refs/remotes/origin/HEAD"]);
    git(&world.clone(), &["reflog", "expire", "--expire=now", "--all"]);
    git(&world.clone(), &["gc", "-q", "--prune=now"]);
    world.commit("third", 1_700_200_000);
    let source = world.newest().await;
    assert_eq!(page(&source), "third", "{:?}", source.outdated);
    // Half of git's data is gone.
    let copy = latest_copy(&world.copies(), &world.clone()).unwrap();
    std::fs::write(copy.join(".git"), "gitdir: /nonexistent\n").unwrap();
    assert_eq!(page(&world.newest().await), "third");
}

#[tokio::test]
async fn a_folder_without_git_and_a_clone_without_a_remote_are_read_as_they_are() {
    let world = World::new();
    let plain = world.folder.path().join("plain");
    std::fs::create_dir_all(&plain).unwrap();
    let source = world.upstream(|_| ()).newest(&plain).await;
    assert_eq!(source, CodeSource { root: plain, commit: None, outdated: None });
    let source = world.upstream(|_| ()).newest(&world.remote()).await;
    assert_eq!((source.root, source.outdated), (world.remote(), None));
    let off = world.upstream(|config| config.repository.fetch = false);
    assert_eq!(off.newest(&world.clone()).await.root, world.clone());
}
