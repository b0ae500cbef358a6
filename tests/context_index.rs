//! The index on disk: incremental equals cold, damage is repaired, odd input is survived.
#![expect(clippy::unwrap_used, reason = "a failed step of the set-up is a failed test")]

use std::fs;
use std::path::Path;

use heartbeat::context::{ContextError, Index, Options, Query, RankedFile, Skipped, rank};
use proptest::prelude::*;

fn options() -> Options {
    Options { history: false, ..Options::default() }
}

fn open(repository: &Path, cache: &Path) -> (Index, heartbeat::context::BuildReport) {
    Index::open_or_build(repository, cache, &options()).unwrap()
}

fn ranked(repository: &Path, cache: &Path) -> (Vec<RankedFile>, Vec<String>, Skipped) {
    let (index, report) = open(repository, cache);
    let query = Query::from_text("alpha beta\nGamma delta in file3 `epsilon_zeta`");
    let paths = index.files().iter().map(|entry| entry.path.clone()).collect();
    (rank(&index, &query, 50).unwrap(), paths, report.skipped)
}

#[derive(Debug, Clone)]
enum Edit {
    Write(u8, Vec<u8>),
    Remove(u8),
    Rename(u8, u8),
    Touch(u8),
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
    let edit = prop_oneof![
        4 => (0u8..8, text).prop_map(|(file, text)| Edit::Write(file, text)),
        1 => (0u8..8).prop_map(Edit::Remove),
        1 => (0u8..8, 0u8..8).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => (0u8..8).prop_map(Edit::Touch),
        2 => Just(Edit::Refresh),
    ];
    proptest::collection::vec(edit, 1..25)
}

fn apply(root: &Path, cache: &Path, edit: &Edit) {
    let path = |number: u8| root.join(format!("src/file{number}.py"));
    // Editing what is not there is no edit.
    let _nothing_to_edit = match edit {
        Edit::Write(file, text) => fs::write(path(*file), text),
        Edit::Remove(file) => fs::remove_file(path(*file)),
        Edit::Rename(from, to) => fs::rename(path(*from), path(*to)),
        Edit::Touch(file) => fs::read(path(*file)).and_then(|text| fs::write(path(*file), text)),
        Edit::Refresh => {
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
        fs::create_dir_all(root.join("src")).unwrap();
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
    assert_eq!(open(&root, &cache).1.read, 30);
    // The files may be as young as the first look, so they are trusted after a second one.
    wait_for_the_next_tick(folder.path());
    open(&root, &cache);
    let (_, report) = open(&root, &cache);
    assert_eq!((report.read, report.kept, report.gone), (0, 30, 0));
    fs::write(root.join("file3.rs"), "fn beta() {}\n").unwrap();
    assert_eq!(open(&root, &cache).1.read, 1);
}

/// Waits until the file system's clock has moved on, however coarse it is.
fn wait_for_the_next_tick(folder: &Path) {
    let probe = folder.join("probe");
    let time = || {
        fs::write(&probe, "x").unwrap();
        fs::metadata(&probe).unwrap().modified().unwrap()
    };
    let start = time();
    while time().duration_since(start).unwrap_or_default().as_millis() < 50 {
        std::thread::yield_now();
    }
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
    fs::write(store.join("manifest.json"), "{ not json").unwrap();
    assert_eq!(ranked(&root, &cache), good);
}

#[test]
fn odd_input_is_survived_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (root, cache) = (folder.path().join("repository"), folder.path().join("cache"));
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(root.join("src/binary.rs"), b"\0\0\0").unwrap();
    fs::write(root.join("src/one_line.js"), "x=1;".repeat(20_000)).unwrap();
    fs::write(root.join("src/nested.js"), "[".repeat(4_000)).unwrap();
    fs::write(root.join("src/latin.py"), b"# caf\xe9\ndef alpha(): pass\n").unwrap();
    fs::write(root.join("src/with\nnewline.rs"), "fn alpha() {}").unwrap();
    let huge = fs::File::create(root.join("src/huge.rs")).unwrap();
    huge.set_len(1 << 30).unwrap();
    std::os::unix::fs::symlink("/", root.join("src/everything")).unwrap();
    let (index, report) = open(&root, &cache);
    let skipped = report.skipped;
    assert_eq!(
        (skipped.binary, skipped.minified, skipped.large, skipped.odd_paths, skipped.not_files),
        (1, 1, 1, 1, 1)
    );
    assert_eq!(index.files().len(), 5);
    assert_eq!(rank(&index, &Query::from_text("alpha"), 1).unwrap()[0].path, "src/latin.py");
}

#[test]
fn an_empty_folder_has_an_empty_answer_and_a_missing_one_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (root, cache) = (folder.path().join("repository"), folder.path().join("cache"));
    fs::create_dir_all(&root).unwrap();
    assert!(ranked(&root, &cache).0.is_empty());
    let missing = Index::open_or_build(&folder.path().join("missing"), &cache, &options());
    assert!(matches!(missing, Err(ContextError::Repository { .. })));
    let inside = Index::open_or_build(&root, &root.join("cache"), &options());
    assert!(matches!(inside, Err(ContextError::CacheInsideRepository { .. })));
}
