//! The index on disk: an incremental build equals a cold one, damage is repaired, odd input is
//! handled.

use std::fs;
use std::path::Path;

use crate::trusted::wait_until_trusted;
use code_context::{ContextError, Index, Options, Query, RankedFile, Skipped, Weights, rank};
use proptest::prelude::*;

fn options() -> Options {
    Options { history: false, ..Options::default() }
}

fn open(repository: &Path, cache: &Path) -> (Index, code_context::BuildReport) {
    Index::open_or_build(repository, cache, &options()).unwrap()
}

fn ranked(repository: &Path, cache: &Path) -> (Vec<RankedFile>, Vec<String>, Skipped) {
    let (index, report) = open(repository, cache);
    let query = Query::from_text("alpha beta\nGamma delta in file3 `epsilon_zeta`");
    let paths = index.files().iter().map(|entry| entry.path.clone()).collect();
    (rank(&index, &query, &Weights::default(), 50).unwrap(), paths, report.skipped)
}

#[derive(Debug, Clone)]
enum Edit {
    Write(u8, Vec<u8>),
    Remove(u8),
    Rename(u8, u8),
    Touch(u8),
    Link(u8, u8),
    Ignore(u8, &'static str),
    RemoveFolder(u8),
    RenameFolder(u8, u8),
    Refresh,
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let word = prop_oneof![
        Just("alpha"),
        Just("beta"),
        Just("gamma"),
        Just("def epsilon_zeta():\n"),
        Just("delta\n"),
        Just("class Alpha:\n"),
        Just("\0"),
        Just("# x")
    ];
    let text =
        proptest::collection::vec(word, 0..12).prop_map(|words| words.join(" ").into_bytes());
    let rule = prop_oneof![Just("file1.py\n"), Just("b/\n"), Just("*.py\n!file2.py\n"), Just("")];
    let edit = prop_oneof![
        6 => (0u8..12, text).prop_map(|(file, text)| Edit::Write(file, text)),
        1 => (0u8..12).prop_map(Edit::Remove),
        1 => (0u8..12, 0u8..12).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => (0u8..12).prop_map(Edit::Touch),
        1 => (0u8..12, 0u8..12).prop_map(|(from, to)| Edit::Link(from, to)),
        1 => (0u8..4, rule).prop_map(|(folder, rule)| Edit::Ignore(folder, rule)),
        1 => (1u8..4).prop_map(Edit::RemoveFolder),
        1 => (1u8..4, 1u8..4).prop_map(|(from, to)| Edit::RenameFolder(from, to)),
        4 => Just(Edit::Refresh),
    ];
    proptest::collection::vec(edit, 1..40)
}

const FOLDERS: [&str; 4] = ["", "a", "a/b", "c"];

fn apply(root: &Path, cache: &Path, edit: &Edit) {
    let folder = |number: u8| root.join(FOLDERS[usize::from(number) % 4]);
    let path = |number: u8| folder(number).join(format!("file{}.py", number / 4));
    // Editing a missing file does nothing.
    let _nothing_to_edit = match edit {
        Edit::Write(file, text) => {
            fs::create_dir_all(folder(*file)).and_then(|()| fs::write(path(*file), text))
        }
        Edit::Remove(file) => fs::remove_file(path(*file)),
        Edit::Rename(from, to) => fs::rename(path(*from), path(*to)),
        Edit::Touch(file) => fs::read(path(*file)).and_then(|text| fs::write(path(*file), text)),
        Edit::Link(from, to) => std::os::unix::fs::symlink(path(*from), path(*to)),
        Edit::Ignore(number, "") => fs::remove_file(folder(*number).join(".gitignore")),
        Edit::Ignore(number, rule) => fs::write(folder(*number).join(".gitignore"), rule),
        Edit::RemoveFolder(number) => fs::remove_dir_all(folder(*number)),
        Edit::RenameFolder(from, to) => fs::rename(folder(*from), folder(*to)),
        Edit::Refresh => {
            // A moment later the folders are old enough to be trusted.
            wait_until_trusted(cache.parent().unwrap());
            open(root, cache);
            Ok(())
        }
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn incremental_equals_cold_after_any_edits(edits in edits()) {
        let folder = tempfile::tempdir().unwrap();
        let (root, cache) = (folder.path().join("repository"), folder.path().join("cache"));
        fs::create_dir_all(&root).unwrap();
        edits.iter().for_each(|edit| apply(&root, &cache, edit));
        prop_assert_eq!(ranked(&root, &cache), ranked(&root, &folder.path().join("cold")));
    }
}

#[test]
fn an_unchanged_repository_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (root, cache) = (folder.path().join("repository"), folder.path().join("cache"));
    fs::create_dir_all(&root).unwrap();
    for number in 0..30 {
        fs::write(root.join(format!("file{number}.rs")), "fn alpha() {}\n").unwrap();
    }
    // Before the first scan: on a busy machine some of the files would be trusted by it and others
    // not, and a second scan would put those into a segment of their own.
    wait_until_trusted(folder.path());
    assert_eq!(open(&root, &cache).1.read, 30);
    let (_, report) = open(&root, &cache);
    assert_eq!((report.read, report.kept, report.gone), (0, 30, 0));
    fs::write(root.join("file3.rs"), "fn beta() {}\n").unwrap();
    assert_eq!(open(&root, &cache).1.read, 1);
}

#[test]
fn a_damaged_index_is_built_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (root, cache) = (folder.path().join("repository"), folder.path().join("cache"));
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("alpha.rs"), "fn alpha() {}\n").unwrap();
    let good = ranked(&root, &cache);
    let store = fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    for entry in fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with("segment-")) {
            let bytes = fs::read(&entry).unwrap();
            fs::write(&entry, &bytes[..bytes.len() / 2]).unwrap();
        }
    }
    let (_, report) = open(&root, &cache);
    assert_eq!(report.rebuilt, Some("the old one was damaged"));
    fs::write(store.join("catalog"), "not a catalogue").unwrap();
    assert_eq!(ranked(&root, &cache), good);
}

#[test]
fn an_index_inside_what_it_indexes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inside = Index::open_or_build(folder.path(), &folder.path().join("cache"), &options());
    assert!(matches!(inside, Err(ContextError::CacheInsideRepository { .. })));
}

#[test]
fn other_rules_for_reading_read_everything_again() {
    let folder = tempfile::tempdir().unwrap();
    let (root, cache) = (folder.path().join("repository"), folder.path().join("cache"));
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("alpha.rs"), "fn alpha() {}\n".repeat(10)).unwrap();
    wait_until_trusted(folder.path());
    assert_eq!(open(&root, &cache).1.skipped.large, 0);
    let smaller = Options { largest_file: 100, ..options() };
    let (_, report) = Index::open_or_build(&root, &cache, &smaller).unwrap();
    assert_eq!(
        (report.skipped.large, report.rebuilt),
        (
            1,
            Some(
                "it was built by a different \
                                                                 version of the indexer"
            )
        )
    );
}

/// Each update leaves a small segment; they are merged without reading the rest again.
#[test]
fn many_updates_never_read_everything_again() {
    let folder = tempfile::tempdir().unwrap();
    let (root, cache) = (folder.path().join("repository"), folder.path().join("cache"));
    fs::create_dir_all(&root).unwrap();
    let words: String = (0..30_000).map(|n| format!("word{n}x\n")).collect();
    for number in 0..12 {
        let text =
            format!("fn alpha{number}() {{}}\n{}", words.replace('x', &format!("y{number}")));
        fs::write(root.join(format!("file{number}.rs")), text).unwrap();
    }
    wait_until_trusted(folder.path());
    let one = Options { threads: 1, ..options() };
    let update = || Index::open_or_build(&root, &cache, &one).unwrap();
    update();
    let mut most = 0;
    for round in 0..30 {
        let name = format!("small{}.rs", round % 20);
        fs::write(root.join(name), format!("fn beta{round}() {{}}\n")).unwrap();
        wait_until_trusted(folder.path());
        most = most.max(update().1.read);
    }
    assert!(most < 32, "{most} files were read at once");
    let parts = fs::read_dir(fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("seg"));
    assert!(parts.count() <= 10);
    let (index, _) = update();
    let query = Query::from_text("alpha beta29 alpha7");
    let cold = Index::open_or_build(&root, &folder.path().join("cold"), &one).unwrap().0;
    assert_eq!(
        rank(&index, &query, &Weights::default(), 40).unwrap(),
        rank(&cold, &query, &Weights::default(), 40).unwrap()
    );
}
