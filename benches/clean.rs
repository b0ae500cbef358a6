//! Speed of the cleaner beside a bare scraper parse of the same input: `cargo bench --bench clean`.
//!
//! The table shows the best of several rounds on one core, by processor time. A comparison with other converters
//! lives in `benches/peers`, a crate of its own, so that nothing else has to build them.

#![expect(clippy::print_stdout, reason = "the table is the result")]

mod lifelike;
mod stopwatch;

use std::hint::black_box;

use heartbeat::clean::{Options, Rendering, clean_text};
use heartbeat::model::Format;
use scraper::Html;

fn main() {
    let real = real_cases();
    let made = lifelike::texts(1_000);
    println!("{:<22} {:>10} {:>10} {:>8} {:>8}", "input", "bytes", "what", "MB/s", "x parse");
    measure("real cases", &real);
    measure("1,000 lifelike items", &made);
}

/// The HTML of the test cases that came from real pages and trackers.
fn real_cases() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/html");
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("real-") && name.ends_with(".html") {
            texts.extend(std::fs::read_to_string(path));
        }
    }
    texts
}

fn measure(input: &str, texts: &[String]) {
    let bytes: usize = texts.iter().map(String::len).sum();
    let options = |rendering| Options { rendering, ..Options::default() };
    let clean = |text: &str, rendering| {
        black_box(clean_text(text, Format::Html, &options(rendering)));
    };
    let best =
        |work: &dyn Fn(&str)| stopwatch::best(bytes, || texts.iter().for_each(|text| work(text)));
    let parse = best(&|text| {
        black_box(Html::parse_fragment(text));
    });
    let full = best(&|text| clean(text, Rendering::Full));
    let tight = best(&|text| clean(text, Rendering::Tight));
    for (what, time) in [("parse", parse), ("full", full), ("tight", tight)] {
        let speed = bytes as f64 / 1e6 / time.as_secs_f64();
        let share = time.as_secs_f64() / parse.as_secs_f64();
        println!("{input:<22} {bytes:>10} {what:>10} {speed:>8.1} {share:>8.2}");
    }
}
