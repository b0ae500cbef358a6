//! What a backtest costs for each item: the index that moves along the history beside a cold index per
//! item, in one run, with the same rankings.
//!
//! `cargo bench --bench backtest -- [--files N] [--items N] [--cold N]` writes a repository of 30,000
//! files and 150 fixes. `BACKTEST_REPOSITORY` names a repository of your own, whose commits name items
//! by `#123`; without it that part is skipped. Of the cold indexes only some are built, evenly spread
//! over the items.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement for people, on a repository of its own"
)]

mod measure;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use heartbeat::backtest::{Artifacts, PastItem, PastTree, Plan, Request, Task, run};
use heartbeat::context::{Index, Options, Query, Subject, Weights, pack, rank};
use heartbeat::fixes::ItemName;
use heartbeat::settings::{Config, FixNumbers, Fixes, Ranking};

const TOKENS: usize = 5250;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: usize| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(default)
    };
    let (files, items, cold) =
        (number("--files", 30_000), number("--items", 150), number("--cold", 8));
    if files > 0 {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("generated");
        generate(&root, files, items);
        compare(&format!("{files} generated files"), &root, items, cold);
    }
    match std::env::var_os("BACKTEST_REPOSITORY") {
        Some(root) => {
            let root = PathBuf::from(root);
            compare(&root.display().to_string(), &root, items, cold);
        }
        None => println!("SKIPPED: BACKTEST_REPOSITORY names no repository"),
    }
}

fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().expect("git");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Words of a made-up language, so that files differ as real ones do: few words stand everywhere.
fn word(seed: usize) -> String {
    let (starts, ends) =
        (["bar", "cor", "del", "fen", "gil", "hol", "lu", "mar"], ["tan", "ver", "lis", "nok"]);
    let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // The square makes small numbers frequent.
    let rare = (mixed >> 40) % 4096;
    let rare = rare * rare / 4096;
    format!("{}{}{}", starts[rare % 8], ends[(rare / 8) % 4], starts[(rare / 32) % 8])
        + &format!("{:x}", rare / 256)
}

fn source(file: usize, round: usize) -> String {
    let mut text = String::new();
    for line in 0..60 {
        let seed = file * 997 + line * 31 + if line % 20 == 0 { round * 7919 } else { 0 };
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| word(seed * 4 + at));
        text += &match line % 6 {
            0 => format!("pub fn {a}_{b}(input: &str) -> u32 {{\n"),
            1 => format!("    // {a} {b} {c} of the {d}\n"),
            5 => "}\n".to_owned(),
            _ => format!("    let {a} = {b}.{c}({d});\n"),
        };
    }
    text
}

/// A repository whose commits each fix one item in some files.
fn generate(root: &Path, files: usize, items: usize) {
    std::fs::create_dir_all(root).expect("a folder");
    git(root, &["init", "--quiet", "--initial-branch=main"]);
    let mut import = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("git");
    let mut out = std::io::BufWriter::new(import.stdin.take().expect("a pipe"));
    let path = |file: usize| {
        format!(
            "src/{}/{}/{}.rs",
            word(file / 400),
            word(file / 40 + 7),
            word(file) + &file.to_string()
        )
    };
    let mut commit = |number: usize, message: &str, changed: &mut dyn Iterator<Item = usize>| {
        let time = 1_600_000_000 + number * 3600;
        let message = format!("{message}\n");
        writeln!(
            out,
            "commit refs/heads/main\nmark :{}\ncommitter A <a@b> {time} +0000\ndata {}\n{message}",
            number + 1,
            message.len()
        )
        .expect("a pipe");
        if number > 0 {
            writeln!(out, "from :{number}").expect("a pipe");
        }
        for file in changed {
            let text = source(file, number);
            writeln!(out, "M 100644 inline {}\ndata {}\n{text}", path(file), text.len())
                .expect("a pipe");
        }
    };
    commit(0, "Start", &mut (0..files));
    // Two commits in three fix nothing; a fix changes three files.
    for number in 1..=items * 3 {
        let files_of = |at: usize| (number * 7907 + at * 131) % files;
        let message = match number % 3 {
            0 => format!("Fixes #{}: {} {}", number / 3, word(files_of(0)), word(number)),
            _ => format!("Better {} and {}", word(number), word(number * 3)),
        };
        commit(number, &message, &mut (0..3 + number % 20).map(files_of));
    }
    drop(out);
    assert!(import.wait().expect("git").success());
}

/// Items as the commits name them; the message stands for the item's text.
fn past_items(root: &Path, most: usize) -> Vec<PastItem> {
    let log = git(root, &["log", "--no-merges", "--format=%x01%ct %s%n%b"]);
    let mut items = BTreeMap::new();
    for record in log.split('\u{1}').skip(1) {
        let Some((_, text)) = record.split_once(' ') else { continue };
        let digits = text
            .split('#')
            .skip(1)
            .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        let Some(id) = digits.filter_map(|digits| digits.parse::<i64>().ok()).next() else {
            continue;
        };
        items.entry(id).or_insert_with(|| PastItem {
            id,
            name: ItemName::Number(id),
            title: text.lines().next().unwrap_or_default().to_owned(),
            area: String::new(),
            item_type: String::new(),
            created_at: None,
            subject: Some(Subject::from_text(text)),
            raw: None,
            repository: root.to_owned(),
        });
    }
    // Evenly over the history.
    let every = (items.len() / most.max(1)).max(1);
    items.into_values().step_by(every).take(most).collect()
}

fn compare(name: &str, root: &Path, items: usize, cold: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let fixes = Fixes { numbers: FixNumbers::Items, patterns: vec!["(#{id})".to_owned()] };
    let request = Request {
        folder: folder.path().to_owned(),
        fixes,
        code_bases: vec![root.to_owned()],
        ranking: ranking(),
        tokens: TOKENS,
        workers,
        seed: 1,
    };
    let items = past_items(root, items);
    println!("\n{name}: {} items, {workers} workers", items.len());
    let started = Instant::now();
    let plan = Plan::find(&request, items, &Artifacts::default()).expect("a plan");
    println!("  looking for fixes       {:>8.1} s", started.elapsed().as_secs_f64());
    let tasks: Vec<Task> = plan.all_tasks().cloned().collect();
    let work = measure::Started::now();
    let started = Instant::now();
    let report = run(&request, plan, &|_| true).expect("a report");
    let moving = started.elapsed();
    let scored = report.total.items.max(1);
    let figures = work.line("");
    let peak = figures.split(' ').nth(2).unwrap_or_default().to_owned();
    println!(
        "  moving index            {:>8.1} s, {:.1} ms for each of {scored} items, peak {peak} MB",
        moving.as_secs_f64(),
        per(moving, scored)
    );
    let step = (tasks.len() / cold.max(1)).max(1);
    let (mut same, mut took, mut count) = (0, Duration::ZERO, 0);
    for task in tasks.iter().step_by(step).take(cold) {
        let started = Instant::now();
        let ranked = cold_ranking(task, &folder.path().join("cold"));
        took += started.elapsed();
        count += 1;
        let outcome = report.outcomes.iter().find(|outcome| outcome.item == task.item.id);
        let first = outcome.and_then(|outcome| Some(&outcome.result.as_ref().ok()?.first));
        same += usize::from(first == Some(&ranked));
    }
    let ratio = per(took, count) / per(moving, scored);
    println!(
        "  cold index per item               {:.1} ms for each of {count} items, {ratio:.1} times as long; same ranking for {same} of {count}",
        per(took, count)
    );
}

/// As without a configuration.
fn ranking() -> Ranking {
    toml::from_str::<Config>(heartbeat::config::DEFAULT_TOML).expect("the defaults").ranking
}

fn per(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e3 / count.max(1) as f64
}

/// The commit laid out, indexed with all cores, ranked, packed.
fn cold_ranking(task: &Task, folder: &Path) -> Vec<String> {
    let tree = PastTree::open(&task.item.repository, folder, "tree").expect("a work tree");
    tree.move_to(&task.base).expect("a commit");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options { threads: cores, ..Options::default() };
    let (index, _) =
        Index::open_or_build(tree.folder(), &folder.join("index"), &options).expect("an index");
    let query = Query::of(task.item.subject.as_ref().expect("a text"));
    let ranked = rank(&index, &query, &Weights::default(), 50).expect("a ranking");
    pack(&index, &query, &ranked[..ranked.len().min(30)], TOKENS).expect("a context");
    std::fs::remove_dir_all(folder).expect("the folder of the cold index");
    ranked.into_iter().map(|file| file.path).collect()
}
