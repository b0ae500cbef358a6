//! How long an index takes, cold and unchanged, and one query.
//!
//! `cargo bench --bench context -- DIR [QUERY]`; DIR is only read.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a measurement for people")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use heartbeat::context::{Index, Options, Query, pack, rank};

fn timed<T>(name: &str, work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = work();
    let took = start.elapsed();
    println!("{name:<24} {:>9.1} ms", took.as_secs_f64() * 1000.0);
    (value, took)
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let repository =
        arguments.first().map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let text = arguments
        .get(1)
        .map_or("The index is not rebuilt when a segment is damaged", String::as_str);
    let cache = tempfile::tempdir().expect("a folder for the index");
    let options = Options::default();
    let open = || Index::open_or_build(&repository, cache.path(), &options).expect("an index");
    let ((_, report), cold) = timed("cold", open);
    println!("{:<24} {}", "", report.summary());
    let ((index, _), warm) = timed("unchanged", open);
    let query = Query::from_text(text);
    let (ranked, _) = timed("rank", || rank(&index, &query, 10).expect("a ranking"));
    timed("rank again", || rank(&index, &query, 10).expect("a ranking"));
    timed("pack", || pack(&index, &query, &ranked, 6000).expect("a context"));
    println!(
        "{:<24} {:>9.1} %",
        "unchanged / cold",
        100.0 * warm.as_secs_f64() / cold.as_secs_f64()
    );
}
