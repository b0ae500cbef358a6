//! What an index costs, beside a peer's in one run: cold at several sizes, unchanged, after a
//! hundred files were touched, and a query.
//!
//! `cargo bench --bench context -- [DIR] [--peer PROGRAM]`; DIR is only read. It is copied to a
//! scratch folder piece by piece, and every step runs in a process of its own. For the peer see
//! `benches/peers/context`.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement for people, in processes of its own"
)]

mod measure;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use heartbeat::context::{Index, Options, Query, Weights, pack, rank};

const QUERY: &str = "The index is not rebuilt when a segment is damaged\n\
    Reading `postings` fails with an error after the manager was restarted, see the log.";
/// Eighths of the files that are indexed.
const SIZES: [usize; 4] = [1, 2, 4, 8];
const TOUCHED: usize = 100;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, step, root, cache] = &arguments[..]
        && flag == "--only"
    {
        return step_alone(step, Path::new(root), Path::new(cache));
    }
    let peer = arguments.iter().position(|argument| argument == "--peer");
    let peer = peer.and_then(|at| arguments.get(at + 1)).map(PathBuf::from);
    let source = arguments
        .first()
        .filter(|first| !first.starts_with("--"))
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    compare(&source.canonicalize().expect("DIR exists"), peer.as_deref());
}

/// One step, in a process of its own.
fn step_alone(step: &str, root: &Path, cache: &Path) {
    let options = Options { history: step != "growth", ..Options::default() };
    let open = || Index::open_or_build(root, cache, &options).expect("an index");
    let started = measure::Started::now();
    if step == "query" {
        let (index, _) = open();
        let opened = std::time::Instant::now();
        let query = Query::from_text(QUERY);
        let ranked = rank(&index, &query, &Weights::default(), 30).expect("a ranking");
        let ranking = opened.elapsed();
        pack(&index, &query, &ranked, 6000).expect("a context");
        let packing = opened.elapsed() - ranking;
        let note = format!("of that ranking {ranking:.0?}, packing {packing:.0?}");
        println!("{}", started.line(&note));
    } else {
        let summary = open().1.summary();
        println!("{}", started.line(&summary));
    }
}

/// The figures of a step.
struct Figures {
    wall: f64,
    processor: f64,
}

/// Runs a program that says what it took, and shows it.
fn show(name: &str, command: &mut Command) -> Figures {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut parts = text.trim().splitn(4, ' ');
    let mut number = || parts.next().and_then(|text| text.parse::<f64>().ok()).unwrap_or(f64::NAN);
    let (wall, processor, memory) = (number(), number(), number());
    let note = parts.next().unwrap_or_default();
    println!("{name:<26} {wall:>9.0} {processor:>9.0} {memory:>8.1}  {note}");
    Figures { wall, processor }
}

fn compare(source: &Path, peer: Option<&Path>) {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let root = scratch.path().join("copy");
    let own = std::env::current_exe().expect("the path of this program");
    let step = |step: &str, cache: &str| {
        let mut command = Command::new(&own);
        command.args(["--only", step]).arg(&root).arg(scratch.path().join(cache));
        command
    };
    println!("{:<26} {:>9} {:>9} {:>8}", "", "ms", "CPU ms", "peak MB");
    let files = list(source);
    let mut bytes = 0;
    for eighths in SIZES {
        bytes += copy(source, &root, &files, eighths);
        let megabytes = bytes as f64 / 1e6;
        let name = format!("cold, {megabytes:.1} MB");
        let figures = show(&name, &mut step("growth", &format!("growth{eighths}")));
        println!(
            "{:<26} {:>9.1} {:>9.1}",
            "  for each MB",
            figures.wall / megabytes,
            figures.processor / megabytes
        );
    }
    if source.join(".git").is_dir() {
        // The copy shares the history of what it was copied from.
        let pointer = format!("gitdir: {}\n", source.join(".git").display());
        fs::write(root.join(".git"), pointer).expect("a scratch file");
    }
    let cold = show("cold, with history", &mut step("cold", "cache"));
    if let Some(peer) = peer {
        show("peer, cold", Command::new(peer).arg(&root).arg(scratch.path().join("peer")));
    }
    for _ in 0..2 {
        show("unchanged", &mut step("unchanged", "cache"));
    }
    touch(&root, &files);
    let update = show("100 files touched", &mut step("update", "cache"));
    println!(
        "{:<26} {:>8.1}% {:>8.1}%",
        "  of cold",
        100.0 * update.wall / cold.wall,
        100.0 * update.processor / cold.processor
    );
    for _ in 0..2 {
        show("open, rank, pack", &mut step("query", "cache"));
    }
}

/// The files of a repository, relative to it.
fn list(source: &Path) -> Vec<PathBuf> {
    let mut builder = ignore::WalkBuilder::new(source);
    builder.hidden(false).parents(false).git_global(false).require_git(false);
    builder.filter_entry(|entry| entry.file_name() != ".git");
    let entries = builder.build().flatten();
    let files = entries.filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let mut files: Vec<PathBuf> = files
        .filter_map(|entry| entry.path().strip_prefix(source).ok().map(Path::to_owned))
        .collect();
    files.sort();
    files
}

/// Copies what is missing up to so many eighths of the files; the answer is how many bytes.
fn copy(source: &Path, root: &Path, files: &[PathBuf], eighths: usize) -> u64 {
    let mut bytes = 0;
    // Every eighth file, so that each size has files of every kind.
    for (number, file) in files.iter().enumerate() {
        let target = root.join(file);
        if number % 8 >= eighths || target.exists() {
            continue;
        }
        fs::create_dir_all(target.parent().expect("a file lies in a folder")).expect("a folder");
        bytes += fs::copy(source.join(file), target).expect("a copy");
    }
    bytes
}

fn touch(root: &Path, files: &[PathBuf]) {
    for file in files.iter().step_by((files.len() / TOUCHED).max(1)).take(TOUCHED) {
        let mut text = fs::read(root.join(file)).expect("a file of the copy");
        text.extend_from_slice(b"\n// touched\n");
        fs::write(root.join(file), text).expect("a file of the copy");
    }
}
