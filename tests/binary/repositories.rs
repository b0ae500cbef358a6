//! Unusual and hostile repositories: bounded time and memory, and skipped files are counted and
//! reported.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use heartbeat::context::{BuildReport, ContextError, Index, Options, Query, Weights, rank};

use support::wait_until_trusted;

struct Sample {
    folder: tempfile::TempDir,
    root: PathBuf,
    cache: PathBuf,
}

impl Sample {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (root, cache) = (folder.path().join("repository"), folder.path().join("cache"));
        fs::create_dir_all(root.join("src")).unwrap();
        Self { folder, root, cache }
    }

    fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn open(&self) -> (Index, BuildReport) {
        Index::open_or_build(&self.root, &self.cache, &Options::default()).unwrap()
    }

    fn best(&self, text: &str) -> Option<String> {
        let ranked = rank(&self.open().0, &Query::from_text(text), &Weights::default(), 1).unwrap();
        ranked.into_iter().next().map(|file| file.path)
    }

    fn git(&self, arguments: &[&str]) {
        support::git(&self.root, arguments);
    }

    /// The program with a query about `alpha` and JSON output.
    fn command(&self) -> Command {
        let query = self.folder.path().join("query.txt");
        fs::write(&query, "alpha").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_heartbeat"));
        command.arg("context").arg("--repo").arg(&self.root);
        command.arg("--query-file").arg(query).args(["--format", "json"]);
        command.arg("--index-dir").arg(&self.cache);
        command
    }
}

fn json(output: &Output) -> serde_json::Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn paths(index: &Index) -> Vec<&str> {
    index.files().iter().map(|entry| entry.path.as_str()).collect()
}

#[test]
fn a_folder_without_git_an_empty_one_and_one_without_commits_have_answers() {
    let plain = Sample::new();
    assert_eq!(plain.best("alpha"), None);
    plain.write("src/alpha.rs", "fn alpha() {}\n");
    assert_eq!(plain.best("alpha"), Some("src/alpha.rs".into()));
    assert_eq!(plain.open().1.commits, 0);
    let unborn = Sample::new();
    unborn.git(&["init", "-q"]);
    assert_eq!(unborn.best("alpha"), None);
    unborn.write("alpha.rs", "fn alpha() {}\n");
    assert_eq!(unborn.best("alpha"), Some("alpha.rs".into()));
    let missing = unborn.folder.path().join("missing");
    let missing = Index::open_or_build(&missing, &unborn.cache, &Options::default());
    assert!(matches!(missing, Err(ContextError::Repository { .. })));
}

#[test]
fn what_cannot_be_read_as_text_is_known_by_its_path_and_counted() {
    let sample = Sample::new();
    sample.write("src/binary.rs", b"\0\0\0");
    sample.write("src/one_line.js", "x=1;".repeat(20_000));
    sample.write("src/ten_megabytes.js", "x=1;".repeat(2_621_440));
    sample.write("src/latin.py", b"# caf\xe9\ndef alpha(): pass\n");
    let huge = fs::File::create(sample.root.join("src/huge.rs")).unwrap();
    huge.set_len(1 << 30).unwrap();
    let (index, report) = sample.open();
    let skipped = report.skipped;
    assert_eq!((skipped.binary, skipped.minified, skipped.large), (1, 1, 2));
    assert_eq!(index.files().len(), 5);
    assert_eq!(sample.best("alpha"), Some("src/latin.py".into()));
}

/// Nothing here recurses into brackets, so nesting costs only its bytes.
#[test]
fn nesting_costs_no_more_than_its_bytes() {
    let sample = Sample::new();
    for (open, name) in
        [("{\n", "a.js"), ("(((", "b.py"), ("/*\n", "c.c"), ("`${", "d.ts"), ("<a>\n", "e.html")]
    {
        sample.write(format!("src/{name}"), open.repeat(900_000 / open.len()));
    }
    sample.write("src/calls.go", format!("func alpha() {{\n{}\n}}\n", "f(\n".repeat(200_000)));
    sample.write(format!("{}deep.rs", "d/".repeat(300)), "fn beta() {}\n");
    let (index, report) = sample.open();
    assert_eq!(report.skipped.unreadable, 0);
    assert_eq!(index.files().len(), 7);
    assert_eq!(sample.best("alpha"), Some("src/calls.go".into()));
    assert!(sample.best("beta").unwrap().ends_with("deep.rs"));
}

#[test]
fn odd_paths_and_what_is_no_file_are_counted_each_time() {
    let sample = Sample::new();
    sample.write("src/alpha.rs", "fn alpha() {}\n");
    sample.write("src/with\nnewline.rs", "fn alpha() {}\n");
    sample.write(OsStr::from_bytes(b"src/not-\xff-text.rs"), "fn alpha() {}\n");
    sample.write(OsStr::from_bytes(b"fold\xfeer/inside.rs"), "fn alpha() {}\n");
    sample.write("fold\x1ber/inside.rs", "fn alpha() {}\n");
    let outside = sample.folder.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret.rs"), "fn alpha_alpha() {}\n").unwrap();
    for (target, name) in [
        (Path::new("/"), "src/everything"),
        (&outside, "src/outside"),
        (&outside.join("secret.rs"), "src/linked.rs"),
        (Path::new("loop"), "src/loop"),
        (Path::new(".."), "src/parent"),
        (Path::new("nowhere"), "src/dangling.rs"),
    ] {
        symlink(target, sample.root.join(name)).unwrap();
    }
    nix::unistd::mkfifo(&sample.root.join("src/pipe.rs"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for _ in 0..3 {
        let (index, report) = sample.open();
        assert_eq!(paths(&index), ["src/alpha.rs"]);
        assert_eq!((report.skipped.odd_paths, report.skipped.not_files), (4, 7));
    }
    let output = sample.command().output().unwrap();
    assert_eq!(json(&output)["index"]["skipped"]["odd_paths"], 4);
    assert!(String::from_utf8_lossy(&output.stderr).contains("skipped: 4 with unusable paths"));
}

/// Files below such a folder are still reachable by their old path, unchanged.
#[test]
fn a_folder_that_became_a_link_is_left() {
    let sample = Sample::new();
    sample.write("kept.rs", "fn alpha() {}\n");
    sample.write("moved/inner/alpha.rs", "fn alpha() {}\n");
    wait_until_trusted(sample.folder.path());
    assert_eq!(paths(&sample.open().0), ["kept.rs", "moved/inner/alpha.rs"]);
    let outside = sample.folder.path().join("outside");
    fs::rename(sample.root.join("moved"), &outside).unwrap();
    symlink(&outside, sample.root.join("moved")).unwrap();
    assert_eq!(paths(&sample.open().0), ["kept.rs"]);
}

#[test]
fn names_that_differ_in_case_only_are_different_files() {
    let sample = Sample::new();
    sample.write("src/Alpha.rs", "fn alpha() {}\n");
    sample.write("src/alpha.rs", "fn beta() {}\n");
    sample.write("SRC/alpha.rs", "fn gamma() {}\n");
    assert_eq!(paths(&sample.open().0), ["SRC/alpha.rs", "src/Alpha.rs", "src/alpha.rs"]);
    assert_eq!(sample.best("gamma"), Some("SRC/alpha.rs".into()));
}

#[test]
fn submodules_are_part_of_the_tree_and_an_absent_one_is_nothing() {
    let library = Sample::new();
    library.git(&["init", "-q"]);
    library.write("alpha.c", "int alpha(void) { return 1; }\n");
    library.git(&["add", "."]);
    library.git(&["commit", "-q", "-m", "Start"]);
    let sample = Sample::new();
    sample.git(&["init", "-q"]);
    sample.write("main.c", "int main(void) { return alpha(); }\n");
    sample.git(&["submodule", "--quiet", "add", library.root.to_str().unwrap(), "parts/library"]);
    sample.git(&["add", "."]);
    sample.git(&["commit", "-q", "-m", "Start with a library"]);
    let (index, report) = sample.open();
    assert!(paths(&index).contains(&"parts/library/alpha.c"));
    assert_eq!(report.commits, 1);
    sample.git(&["submodule", "--quiet", "deinit", "--all", "--force"]);
    let (index, _) = sample.open();
    assert!(!paths(&index).contains(&"parts/library/alpha.c"));
    assert_eq!(sample.best("main"), Some("main.c".into()));
}

#[test]
fn a_sparse_checkout_names_only_what_is_there() {
    let sample = Sample::new();
    sample.git(&["init", "-q"]);
    sample.write("near/alpha.rs", "fn alpha() {}\n");
    sample.write("far/alpha.rs", "fn alpha() {}\n");
    sample.git(&["add", "."]);
    sample.git(&["commit", "-q", "-m", "Add alpha far away"]);
    assert_eq!(paths(&sample.open().0), ["far/alpha.rs", "near/alpha.rs"]);
    sample.git(&["sparse-checkout", "set", "near"]);
    let (index, report) = sample.open();
    assert_eq!(paths(&index), ["near/alpha.rs"]);
    assert_eq!(report.commits, 1);
    let ranked = rank(&index, &Query::from_text("alpha far away"), &Weights::default(), 5).unwrap();
    assert_eq!(ranked.len(), 1);
}

#[test]
fn a_second_work_tree_is_a_repository_too() {
    let sample = Sample::new();
    sample.git(&["init", "-q"]);
    sample.write("alpha.rs", "fn alpha() {}\n");
    sample.git(&["add", "."]);
    sample.git(&["commit", "-q", "-m", "Start"]);
    let second = sample.folder.path().join("second");
    sample.git(&["worktree", "add", "-q", second.to_str().unwrap()]);
    fs::write(second.join("beta.rs"), "fn beta() {}\n").unwrap();
    let open = || Index::open_or_build(&second, &sample.cache, &Options::default()).unwrap();
    let (index, report) = open();
    assert_eq!((index.files().len(), report.commits), (2, 1));
    // Both omit the same files.
    fs::create_dir_all(sample.root.join(".git/info")).unwrap();
    fs::write(sample.root.join(".git/info/exclude"), "beta.rs\n").unwrap();
    assert_eq!(paths(&open().0), ["alpha.rs"]);
}

/// A mix of two versions of a file is never kept: once the writer is done, the index equals a newly
/// built one.
#[test]
fn files_that_change_while_they_are_read_are_right_in_the_end() {
    let sample = Sample::new();
    let text = |round: usize| format!("def alpha_{round}(): pass\n").repeat(1 + round % 700);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0.. {
                for file in 0..4 {
                    sample.write(format!("src/file{file}.py"), text(round * 4 + file));
                }
                if round % 3 == 0 {
                    // It may also be missing for a moment.
                    let _not_there_yet = fs::remove_file(sample.root.join("src/file3.py"));
                }
                if done.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for _ in 0..30 {
            let (index, report) = sample.open();
            assert!(index.files().len() <= 4, "{report:?}");
        }
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
    let (index, _) = sample.open();
    let cold = sample.folder.path().join("cold");
    let (cold, _) = Index::open_or_build(&sample.root, &cold, &Options::default()).unwrap();
    let query = Query::from_text("alpha in file2");
    assert_eq!(
        rank(&index, &query, &Weights::default(), 9).unwrap(),
        rank(&cold, &query, &Weights::default(), 9).unwrap()
    );
    for file in 0..u32::try_from(cold.files().len()).unwrap() {
        assert_eq!(index.definitions(file).unwrap(), cold.definitions(file).unwrap());
    }
}

/// Root may read everything, so the program runs as nobody if the tests run as root.
#[test]
fn folders_and_files_that_may_not_be_read_are_counted_and_the_rest_is_answered() {
    let sample = Sample::new();
    sample.write("src/alpha.rs", "fn alpha() {}\n");
    sample.write("closed/alpha.rs", "fn alpha() {}\n");
    sample.write("src/closed.rs", "fn alpha() {}\n");
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::create_dir_all(&sample.cache).unwrap();
    let program = sample.folder.path().join("heartbeat");
    let mut command = sample.command();
    if nix::unistd::geteuid().is_root() {
        use std::os::unix::process::CommandExt as _;
        // Nobody may not have access to the build folder.
        let built = env!("CARGO_BIN_EXE_heartbeat");
        if fs::hard_link(built, &program).is_err() {
            fs::copy(built, &program).unwrap();
        }
        let arguments: Vec<_> = command.get_args().map(OsStr::to_owned).collect();
        command = Command::new(&program);
        command.args(arguments).uid(65534).gid(65534).current_dir("/").env("HOME", &sample.cache);
        set(sample.folder.path(), 0o755);
        std::os::unix::fs::chown(&sample.cache, Some(65534), Some(65534)).unwrap();
    }
    set(&sample.root.join("closed"), 0o000);
    set(&sample.root.join("src/closed.rs"), 0o000);
    for _ in 0..2 {
        let output = command.output().unwrap();
        let answer = json(&output);
        assert_eq!(answer["index"]["skipped"]["unreadable"], 2, "{answer}");
        assert_eq!(answer["files"][0]["path"], "src/alpha.rs");
        assert!(String::from_utf8_lossy(&output.stderr).contains("skipped: 2 unreadable"));
    }
    set(&sample.root.join("closed"), 0o755);
    set(&sample.root.join("src/closed.rs"), 0o644);
    assert_eq!(json(&command.output().unwrap())["index"]["skipped"]["unreadable"], 0);
}

/// Twenty thousand by default, a million with `HEARTBEAT_TEST_FULL=1`, within the memory limit.
#[test]
fn very_many_tiny_files_are_bounded() {
    let full = std::env::var_os("HEARTBEAT_TEST_FULL").is_some();
    let (count, megabytes) = if full { (1_000_000, 700) } else { (20_000, 150) };
    let sample = Sample::new();
    for number in 0..count {
        let folder = sample.root.join(format!("f{:03}", number / 1000));
        if number % 1000 == 0 {
            fs::create_dir_all(&folder).unwrap();
        }
        fs::write(folder.join(format!("t{number}.py")), format!("v{number} = {number}\n")).unwrap();
    }
    sample.write("src/alpha.rs", "fn alpha() {}\n");
    let program = sample.command();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -d {}; exec \"$0\" \"$@\"", megabytes * 1024));
    command.arg(program.get_program()).args(program.get_args());
    for _ in 0..2 {
        let start = std::time::Instant::now();
        let answer = json(&command.output().unwrap());
        println!("{count} files: {:.1} s", start.elapsed().as_secs_f64());
        let index = &answer["index"];
        let limit = Options::default().most_files;
        assert_eq!(index["files"], (count + 1).min(limit));
        assert_eq!(index["skipped"]["beyond_limit"], (count + 1).saturating_sub(limit));
    }
}

/// Patterns are cheap to write but can be expensive to match.
#[test]
fn a_hostile_list_of_ignored_files_is_survived() {
    let sample = Sample::new();
    sample.write("src/alpha.rs", "fn alpha() {}\n");
    let patterns: String =
        (0..3_000).map(|n| format!("**/a*{n}*b*[a-z]{{x,y}}?*/**/z{n}\n")).collect();
    sample.write(".gitignore", patterns + &"[".repeat(100_000) + "\n\\\n!\n");
    assert_eq!(sample.best("alpha"), Some("src/alpha.rs".into()));
}
