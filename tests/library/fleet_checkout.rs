//! The code base of a session on a worker: concurrent sessions, a crash in between, a shallow copy.

use std::path::{Path, PathBuf};

use heartbeat::config::DEFAULT_TOML;
use heartbeat::fleet::checkout::{self, WorkTree};
use heartbeat::fleet::order::Checkout;
use heartbeat::settings::{Config, Environment, Mirror};
use support::git;

struct Host {
    folder: tempfile::TempDir,
    config: Config,
    environment: Environment,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shop = folder.path().join("shop");
        std::fs::create_dir_all(shop.join("src")).unwrap();
        git(&shop, &["init", "-q", "-b", "main"]);
        for number in 0..3 {
            std::fs::write(
                shop.join("src/cart.rs"),
                format!("pub fn total() -> u32 {{ {number} }}\n"),
            )
            .unwrap();
            git(&shop, &["add", "."]);
            git(&shop, &["commit", "-qm", "next"]);
        }
        let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
        config.fleet.mirrors = vec![Mirror { name: "shop".into(), path: shop }];
        let environment = Environment::new([("LANG", "C")]);
        Self { folder, config, environment }
    }

    fn mirror(&self) -> PathBuf {
        self.folder.path().join("shop")
    }

    async fn make(&self, checkout: &Checkout, name: &str) -> WorkTree {
        let folder = self.folder.path().join("trees").join(name);
        WorkTree::make(&self.config, &self.environment, checkout, &folder).await.unwrap()
    }
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A host with several slots creates and removes work trees continuously; with `git worktree` one
/// in six of these failed, because they share a list in the repository.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_side_by_side_do_not_disturb_one_another() {
    let host = std::sync::Arc::new(Host::new());
    let named = checkout::of(&host.mirror()).await.unwrap();
    let before = files(&host.mirror().join(".git"));
    let mut slots = tokio::task::JoinSet::new();
    for slot in 0..6 {
        let (host, named) = (std::sync::Arc::clone(&host), named.clone());
        slots.spawn(async move {
            for round in 0..8 {
                let tree = host.make(&named, &format!("{slot}-{round}")).await;
                let code = std::fs::read_to_string(tree.path().join("src/cart.rs")).unwrap();
                assert_eq!(code, "pub fn total() -> u32 { 2 }\n");
                assert!(tree.path().ends_with("shop"), "the folder has the code base's name");
                std::fs::remove_dir_all(tree.path().parent().unwrap()).unwrap();
            }
        });
    }
    while let Some(slot) = slots.join_next().await {
        slot.unwrap();
    }
    assert_eq!(files(&host.mirror().join(".git")), before, "the repository is only read");
}

#[tokio::test]
async fn an_older_commit_a_bare_mirror_and_a_shallow_one_are_laid_out() {
    let mut host = Host::new();
    let all = host.folder.path();
    let from = format!("file://{}", host.mirror().display());
    git(all, &["clone", "-q", "--bare", &from, "bare.git"]);
    git(all, &["clone", "-q", "--depth", "1", &from, "shallow"]);
    let newest = checkout::of(&host.mirror()).await.unwrap();
    git(&host.mirror(), &["checkout", "-q", "HEAD~1"]);
    let older = checkout::of(&host.mirror()).await.unwrap();
    for (mirror, named, code) in
        [("bare.git", &older, "1"), ("bare.git", &newest, "2"), ("shallow", &newest, "2")]
    {
        host.config.fleet.mirrors[0].path = host.folder.path().join(mirror);
        let tree = host.make(named, &format!("{mirror}-{code}")).await;
        let found = std::fs::read_to_string(tree.path().join("src/cart.rs")).unwrap();
        assert!(found.contains(&format!("{{ {code} }}")), "{mirror}: {found}");
    }
}

#[tokio::test]
async fn what_is_no_commit_is_never_given_to_git() {
    let host = Host::new();
    let folder = host.folder.path().join("trees");
    for commit in ["", "HEAD", "--upload-pack=touch /tmp/x", "main..other", &"g".repeat(40)] {
        let named = Checkout { name: "shop".into(), commit: commit.to_owned() };
        let made = WorkTree::make(&host.config, &host.environment, &named, &folder).await;
        let error = made.unwrap_err().to_string();
        assert!(error.contains("that is not a commit"), "{error}");
    }
    let named = Checkout { name: "other".into(), commit: "a".repeat(40) };
    let made = WorkTree::make(&host.config, &host.environment, &named, &folder).await;
    let error = made.unwrap_err().to_string();
    assert!(error.contains("[fleet] mirrors"), "{error}");
    assert!(!folder.exists());
}
