//! A moving index answers at every commit like one that is built there: over branches, merges,
//! renames, added and deleted files, and ignore rules.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::git::git;
use code_context::tree::BorrowedTree as PastTree;
use code_context::{Index, Moved, MovingIndex, Options, Query, Weights, pack, rank};

use crate::history::{Dice, WORDS};

#[expect(clippy::disallowed_methods, reason = "the test reads its own repository")]
fn commits(root: &Path) -> Vec<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["rev-list", "--topo-order", "--reverse", "--all"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// One step of work.
fn step(root: &Path, dice: &mut Dice) {
    let endings = ["rs", "cs", "ts", "md"];
    let file = |dice: &mut Dice| {
        let (top, folder) = (["web", "core"][dice.roll(2)], WORDS[dice.roll(3)]);
        format!("{top}/{folder}/{}.{}", WORDS[dice.roll(12)], endings[dice.roll(4)])
    };
    let (one, two) = (file(dice), file(dice));
    let words: Vec<&str> = (0..6).map(|_| WORDS[dice.roll(12)]).collect();
    let path = root.join(&one);
    let write = |path: &Path, text: &[u8]| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    match dice.roll(13) {
        0 if path.exists() => fs::remove_file(&path).unwrap(),
        1 if path.exists() && !root.join(&two).exists() => {
            fs::create_dir_all(root.join(&two).parent().unwrap()).unwrap();
            fs::rename(&path, root.join(&two)).unwrap();
        }
        2 => git(root, &["checkout", "-q", "-B", "side"]),
        3 => git(root, &["checkout", "-q", "-B", "main"]),
        4 => git(root, &["checkout", "-q", "-B", "old", "HEAD~1"]),
        5 => git(root, &["merge", "-q", "-X", "ours", "--no-edit", "side"]),
        6 => {
            let rules = [".gitignore", ".ignore", "web/.gitignore"][dice.roll(3)];
            let line =
                [format!("{}.*", words[0]), format!("{}/", words[1]), format!("!{}.rs", words[2])];
            write(&root.join(rules), line[dice.roll(3)].as_bytes());
        }
        7 => write(&root.join(format!("web/{}.png", words[0])), b"\x89PNG\0\0"),
        8 => {
            write(&root.join(format!("web/{}.rs", words[0])), "let x = 1;".repeat(2000).as_bytes());
        }
        9 => write(&root.join("web/.env"), words[0].as_bytes()),
        _ => {
            let body = format!(
                "// {} it is\npartial class {}_{} {{ {}(); }}\n",
                words[0], words[1], words[2], words[3]
            );
            let known = fs::read_to_string(&path).unwrap_or_default();
            write(&path, (known + &body).as_bytes());
        }
    }
    git(root, &["add", "-A", "-f"]);
    git(root, &["commit", "-q", "--allow-empty", "-m", &words.join(" ")]);
}

fn repository(folder: &Path, seed: u64, steps: usize) -> PathBuf {
    let root = folder.join("repository");
    fs::create_dir_all(&root).unwrap();
    git(&root, &["init", "-q", "-b", "main"]);
    fs::write(root.join("README.md"), "A shop.\n").unwrap();
    std::os::unix::fs::symlink("README.md", root.join("link.md")).unwrap();
    git(&root, &["add", "-A"]);
    git(&root, &["commit", "-q", "-m", "Start"]);
    git(&root, &["commit", "-q", "--allow-empty", "-m", "Second"]);
    git(&root, &["branch", "side"]);
    let mut dice = Dice(seed + 1);
    (0..steps).for_each(|_| step(&root, &mut dice));
    root
}

/// Everything that a ranking and a context depend on.
fn answer(index: &Index, named: &str) -> impl PartialEq + std::fmt::Debug + use<> {
    let text = format!(
        "Voucher total is wrong since {}\nrounding in the basket_total of `warehouse`, \"carrier it is\"",
        &named[..10]
    );
    let query = Query::from_text(&text);
    let ranked = rank(index, &query, &Weights::default(), 30).unwrap();
    let packed = pack(index, &query, &ranked, 2000).unwrap();
    let files: Vec<String> = index
        .files()
        .iter()
        .map(|entry| {
            format!(
                "{} {:?} {:?} {:?} {} {:?}",
                entry.path, entry.kind, entry.language, entry.content, entry.lines, entry.lengths
            )
        })
        .collect();
    (files, ranked, packed, index.history().clone())
}

fn here(moved: Moved<'_>) -> Option<&Index> {
    match moved {
        Moved::Here(index) => Some(index),
        Moved::NoCommit | Moved::NoFolder => None,
    }
}

fn compare(seed: u64, steps: usize, prefix: &str) {
    let folder = tempfile::tempdir().unwrap();
    let repository = repository(folder.path(), seed, steps);
    let root = repository.join(prefix);
    let commits = commits(&repository);
    let options = Options { threads: 1, ..Options::default() };
    let place = folder.path().join("moving");
    let mut moving = MovingIndex::open(&root, prefix, &place, &options).unwrap();
    let tree = PastTree::open(&repository, folder.path(), "tree").unwrap();
    // Along the history, then in leaps.
    let leaps = commits.iter().step_by(3).rev();
    for (number, commit) in commits.iter().chain(leaps).enumerate() {
        tree.move_to(commit).unwrap();
        let laid_out = tree.folder().join(prefix);
        let moved = moving.move_to(commit).unwrap();
        if !laid_out.is_dir() {
            assert!(matches!(moved, Moved::NoFolder), "{seed} {commit}");
            continue;
        }
        let index = here(moved).expect(commit);
        let cache = folder.path().join(format!("new{number}"));
        let (new, _) = Index::open_or_build(&laid_out, &cache, &options).unwrap();
        // A commit before, after or beside this one.
        let named = &commits[(number * 7) % commits.len()];
        assert_eq!(answer(index, named), answer(&new, named), "{seed}, {number}: {commit}");
        fs::remove_dir_all(cache).unwrap();
    }
    assert!(matches!(moving.move_to(&"1".repeat(40)).unwrap(), Moved::NoCommit));
    drop(moving);
    assert!(!place.exists());
}

/// Four histories by default; `HEARTBEAT_TEST_HISTORIES=20x50` runs more.
#[test]
#[expect(clippy::disallowed_methods, reason = "how much is tried is for whoever runs the tests")]
fn a_moving_index_answers_like_one_that_is_built_anew_at_each_commit() {
    let wanted = std::env::var("HEARTBEAT_TEST_HISTORIES").unwrap_or_default();
    let (histories, steps) = wanted.split_once('x').unwrap_or(("4", "25"));
    let (histories, steps): (u64, usize) = (histories.parse().unwrap(), steps.parse().unwrap());
    for history in 0..histories {
        compare(history, steps, if history % 2 == 0 { "" } else { "web/" });
    }
}

/// After a while stored data is mostly about other commits: then it is written again.
#[test]
fn many_files_that_all_change_are_still_answered_like_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("repository");
    fs::create_dir_all(root.join("src")).unwrap();
    git(&root, &["init", "-q", "-b", "main"]);
    for round in 0..5 {
        for file in 0..1200 {
            if round == 0 || file % 5 == round || file % 2 == 0 {
                let text = format!("fn {}_{file}() {{ voucher_{round}(); }}\n", WORDS[file % 12]);
                fs::write(root.join(format!("src/f{file}.rs")), text).unwrap();
            }
        }
        git(&root, &["add", "-A"]);
        git(&root, &["commit", "-q", "-m", &format!("Round {round} of vouchers")]);
    }
    let commits = commits(&root);
    let place = folder.path().join("moving");
    let options = Options::default();
    let mut moving = MovingIndex::open(&root, "", &place, &options).unwrap();
    let tree = PastTree::open(&root, folder.path(), "tree").unwrap();
    for commit in &commits {
        tree.move_to(commit).unwrap();
        let index = here(moving.move_to(commit).unwrap()).expect(commit);
        let cache = folder.path().join("new");
        let (new, _) = Index::open_or_build(tree.folder(), &cache, &options).unwrap();
        assert_eq!(answer(index, commit), answer(&new, commit), "{commit}");
        fs::remove_dir_all(cache).unwrap();
    }
}
