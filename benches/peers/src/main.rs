//! The cleaner, a bare scraper parse, html2text and htmd on the same input, in one run.
//!
//! Each contender runs in a process of its own, so that peak memory is its own; the best of
//! several rounds counts. Arguments: folders with `.html` files; the test cases when there are none.

#[path = "../../lifelike.rs"]
mod lifelike;
#[path = "../../stopwatch.rs"]
mod stopwatch;

use std::hint::black_box;

const CONTENDERS: &[&str] = &["scraper parse", "clean full", "clean tight", "html2text", "htmd"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, contender, input, folders @ ..] = &arguments[..]
        && flag == "--only"
    {
        measure(contender, &texts(input, folders));
        return;
    }
    println!("{:<10} {:<14} {:>8} {:>9}", "input", "what", "MB/s", "peak MB");
    let program = std::env::current_exe().expect("the path of this program");
    for input in ["real", "lifelike"] {
        for contender in CONTENDERS {
            let output = std::process::Command::new(&program)
                .args(["--only", contender, input])
                .args(&arguments)
                .output()
                .expect("this program starts");
            print!("{input:<10} {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

fn texts(input: &str, folders: &[String]) -> Vec<String> {
    if input == "lifelike" {
        return lifelike::texts(1_000);
    }
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/html").to_owned();
    let folders = if folders.is_empty() { vec![cases] } else { folders.to_vec() };
    let mut texts = Vec::new();
    for entry in folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten() {
        let path = entry.expect("a folder that can be read").path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if name.is_some_and(|name| name.starts_with("real-") && name.ends_with(".html")) {
            texts.push(std::fs::read_to_string(path).expect("a case in UTF-8"));
        }
    }
    texts
}

fn measure(contender: &str, texts: &[String]) {
    let bytes: usize = texts.iter().map(String::len).sum();
    let time = stopwatch::best(bytes, || round(contender, texts));
    let speed = bytes as f64 / 1e6 / time.as_secs_f64();
    println!("{contender:<14} {speed:>8.1} {:>9.1}", peak_megabytes());
}

fn round(contender: &str, texts: &[String]) {
    let options = |rendering| visible_text::Options { rendering, ..visible_text::Options::default() };
    for text in texts {
        let clean = |rendering| {
            black_box(visible_text::clean_text(text, visible_text::Format::Html, &options(rendering)));
        };
        match contender {
            "scraper parse" => drop(black_box(scraper::Html::parse_fragment(text))),
            "clean full" => clean(visible_text::Rendering::Full),
            "clean tight" => clean(visible_text::Rendering::Tight),
            "html2text" => drop(black_box(html2text::from_read(text.as_bytes(), 10_000))),
            "htmd" => drop(black_box(htmd::convert(text))),
            other => panic!("{other} is not a contender"),
        }
    }
}

/// Peak resident memory of this process, where the system tells.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}
