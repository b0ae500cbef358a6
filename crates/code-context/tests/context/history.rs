//! History is read and follows the repository, and a hostile repository cannot make git run
//! anything.

use std::fs;
use std::path::Path;

use crate::git::git;
use code_context::{Index, Options, Query, Weights, pack, rank};

fn commit(repository: &Path, file: &str, text: &str, message: &str) {
    fs::write(repository.join(file), text).unwrap();
    git(repository, &["add", "."]);
    // A fixed time: an id that happens to have no letter does not look like one.
    crate::git::git_at(repository, &["commit", "-q", "-m", message], Some(1_700_000_000));
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
    let ranked =
        rank(&index, &Query::from_text("The warehouse is broken"), &Weights::default(), 2).unwrap();
    assert_eq!(ranked[0].path, "two.rs", "{ranked:?}");
    commit(&root, "one.rs", "fn one() { }\n", "Tidy up");
    let (index, report) = Index::open_or_build(&root, &cache, &Options::default()).unwrap();
    assert_eq!(report.commits, 3);
    assert_eq!(index.history().commits[0].subject, "Tidy up");
    // A rewritten history is read again.
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

/// Pseudo-random numbers, the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

pub const WORDS: [&str; 12] = [
    "basket",
    "voucher",
    "total",
    "rounding",
    "warehouse",
    "carrier",
    "retry",
    "queue",
    "token",
    "session",
    "address",
    "label",
];

/// One step of work: files are added, changed, moved and deleted, on a branch or not.
fn step(root: &Path, dice: &mut Dice) {
    let file = |dice: &mut Dice| format!("src/{}/{}.rs", WORDS[dice.roll(3)], WORDS[dice.roll(12)]);
    let (one, two) = (file(dice), file(dice));
    let words: Vec<&str> = (0..6).map(|_| WORDS[dice.roll(12)]).collect();
    let path = root.join(&one);
    match dice.roll(8) {
        0 if path.exists() => fs::remove_file(&path).unwrap(),
        1 if path.exists() && !root.join(&two).exists() => {
            fs::create_dir_all(root.join(&two).parent().unwrap()).unwrap();
            fs::rename(&path, root.join(&two)).unwrap();
        }
        2 => git(root, &["checkout", "-q", "-B", "side"]),
        3 => git(root, &["checkout", "-q", "-B", "main"]),
        4 => git(root, &["commit", "-q", "--amend", "--allow-empty", "-m", &words.join(" ")]),
        5 => {
            // Back to an earlier commit, as after a switch to an older release.
            git(root, &["checkout", "-q", "--detach", "HEAD~1"]);
        }
        _ => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let body =
                format!("// {}\nfn {}_{}() {{ {}(); }}\n", words[0], words[1], words[2], words[3]);
            let known = fs::read_to_string(&path).unwrap_or_default();
            fs::write(&path, known + &body).unwrap();
        }
    }
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "--allow-empty", "-m", &words.join(" ")]);
}

/// Two histories of twelve steps by default; `HEARTBEAT_TEST_HISTORIES=20x50` runs more.
#[test]
#[expect(clippy::disallowed_methods, reason = "how much is tried is for whoever runs the tests")]
fn an_updated_index_answers_like_a_new_one() {
    let wanted = std::env::var("HEARTBEAT_TEST_HISTORIES").unwrap_or_default();
    let (histories, steps) = wanted.split_once('x').unwrap_or(("2", "12"));
    let (histories, steps): (u64, usize) = (histories.parse().unwrap(), steps.parse().unwrap());
    for history in 0..histories {
        let folder = tempfile::tempdir().unwrap();
        let (root, cache) = (folder.path().join("repository"), folder.path().join("updated"));
        fs::create_dir_all(&root).unwrap();
        git(&root, &["init", "-q", "-b", "main"]);
        commit(&root, "README.md", "A shop.\n", "Start");
        commit(&root, "LICENSE", "None.\n", "Licence");
        let mut dice = Dice(history + 1);
        for number in 0..steps {
            step(&root, &mut dice);
            let new = folder.path().join(format!("new{number}"));
            let answer = |cache: &Path| {
                let (index, _) = Index::open_or_build(&root, cache, &Options::default()).unwrap();
                let query = Query::from_text(
                    "Voucher total is wrong\nrounding in the basket_total of `warehouse`",
                );
                let ranked = rank(&index, &query, &Weights::default(), 30).unwrap();
                let packed = code_context::pack(&index, &query, &ranked, 2000).unwrap();
                (ranked, packed, index.history().clone())
            };
            assert_eq!(answer(&cache), answer(&new), "history {history}, step {number}");
            fs::remove_dir_all(&new).unwrap();
        }
    }
}

#[test]
fn a_commit_that_the_item_names_speaks_for_its_files_and_shows_its_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (root, cache) = (folder.path().join("repository"), folder.path().join("cache"));
    fs::create_dir_all(&root).unwrap();
    git(&root, &["init", "-q"]);
    commit(&root, "one.rs", "fn one() {\n    start();\n}\n", "Start");
    commit(&root, "two.rs", "fn two() {\n    begin();\n}\n", "Merged PR 17: Second");
    commit(&root, "one.rs", "fn one() {\n    start(2);\n}\n", "Third");
    commit(&root, "notes.md", "words\n", "Fourth");
    let (index, _) = Index::open_or_build(&root, &cache, &Options::default()).unwrap();
    let third = &index.history().commits[1];
    assert_eq!(third.subject, "Third");
    let id: String = third.id.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    for (text, file, line) in [
        (format!("Broken since {id}\nIt hangs."), "one.rs", "+    start(2);"),
        ("Broken since PR 17\nIt hangs.".to_owned(), "two.rs", "+    begin();"),
    ] {
        let query = Query::from_text(&text);
        let ranked = rank(&index, &query, &Weights::default(), 4).unwrap();
        assert_eq!(ranked[0].path, file, "{text} {ranked:?}");
        let packed = pack(&index, &query, &ranked, 2_000).unwrap().text;
        assert!(packed.contains("\n## Commit ") && packed.contains(line), "{packed}");
    }
    // Text that only looks like a commit changes nothing.
    let query = Query::from_text("Broken since 1a2b3c4d\nThe start hangs.");
    let ranked = rank(&index, &query, &Weights::default(), 4).unwrap();
    assert!(!pack(&index, &query, &ranked, 2_000).unwrap().text.contains("## Commit "));
}
