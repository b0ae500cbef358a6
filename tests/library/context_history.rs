//! History is read, follows the repository, and a hostile repository cannot make git run anything.

use std::fs;
use std::path::Path;

use heartbeat::context::{Index, Options, Query, rank};
use support::git;

fn commit(repository: &Path, file: &str, text: &str, message: &str) {
    fs::write(repository.join(file), text).unwrap();
    git(repository, &["add", "."]);
    git(repository, &["commit", "-q", "-m", message]);
}

#[test]
fn commits_speak_for_files_and_new_ones_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let (root, cache) = (folder.path().join("repository"), folder.path().join("cache"));
    fs::create_dir_all(&root).unwrap();
    git(&root, &["init", "-q"]);
    commit(&root, "one.rs", "fn one() {}\n", "Start");
    commit(&root, "two.rs", "fn two() {}\n", "Repair the warehouse");
    let (index, report) = Index::open_or_build(&root, &cache, &Options::default()).unwrap();
    assert_eq!(report.commits, 2);
    let ranked = rank(&index, &Query::from_text("The warehouse is broken"), 2).unwrap();
    assert_eq!(ranked[0].path, "two.rs", "{ranked:?}");
    commit(&root, "one.rs", "fn one() { }\n", "Tidy up");
    let (index, report) = Index::open_or_build(&root, &cache, &Options::default()).unwrap();
    assert_eq!(report.commits, 3);
    assert_eq!(index.history().commits[0].subject, "Tidy up");
    // A past that was rewritten is read anew.
    git(&root, &["reset", "-q", "--hard", "HEAD~2"]);
    let (_, report) = Index::open_or_build(&root, &cache, &Options::default()).unwrap();
    assert_eq!(report.commits, 1);
}

#[test]
fn nothing_a_repository_names_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let (root, cache) = (folder.path().join("repository"), folder.path().join("cache"));
    let marker = folder.path().join("marker");
    fs::create_dir_all(&root).unwrap();
    git(&root, &["init", "-q"]);
    commit(&root, "one.rs", "fn one() {}\n", "Start");
    let trap = folder.path().join("trap");
    fs::write(&trap, format!("#!/bin/sh\necho run >> {}\n", marker.display())).unwrap();
    fs::set_permissions(&trap, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let trap = trap.to_string_lossy();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "pager.log",
        "gpg.program",
        "diff.external",
        "core.sshCommand",
        "core.editor",
    ] {
        git(&root, &["config", key, &trap]);
    }
    git(&root, &["config", "log.showSignature", "true"]);
    let (_, report) = Index::open_or_build(&root, &cache, &Options::default()).unwrap();
    assert_eq!(report.commits, 1);
    assert!(!marker.exists(), "something was run");
}
