//! `heartbeat backtest` on bad input: a full disk, very many commits and items, rewritten
//! histories, repositories without a commit that names an item.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::backtest::{Past, bytes_of, outcome};
use crate::job::world::text;

fn mount(folder: &Path, options: &str) -> bool {
    fs::create_dir_all(folder).unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(folder)
        .stderr(Stdio::null())
        .status();
    mount.is_ok_and(|status| status.success())
}

/// Unmounts on drop, also when the test fails.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _gone_already = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_reported_and_what_was_scored_is_kept() {
    let past = Past::new();
    for number in 0..60 {
        past.write(&format!("src/a_file_with_a_rather_long_name_{number}.rs"), "fn invoice() {}\n");
    }
    past.commit("More files");
    let items: Vec<Value> = (100..140)
        .map(|id| json!({"id": id, "title": "invoice_total gives 0", "text": format!("Case {id}")}))
        .collect();
    for item in &items {
        past.write("src/invoice.rs", &format!("pub fn invoice_total() {{ {} }}\n", item["id"]));
        // The work tree grows with each, until it fits no more.
        past.write(&format!("src/case_{}.rs", item["id"]), "fn shipment() {}\n");
        past.commit(&format!("Fixes #{}", item["id"]));
    }
    let state = past.folder.path().join("state");
    if !mount(&state, "size=660k,mode=700") {
        eprintln!("SKIPPED: no file system can be mounted here, so no disk can be full");
        return;
    }
    let _mounted = Mounted(&state);
    let before = bytes_of(&past.root());
    let output = past.run(&items, &["--jobs", "1"]);
    assert_eq!(output.status.code(), Some(74), "{}", text(&output));
    assert!(text(&output).contains("No space left on device"), "{}", text(&output));
    assert!(text(&output).contains("run the command again"), "{}", text(&output));
    let scores = fs::read_to_string(state.join("backtest/scores.jsonl")).unwrap();
    let kept = scores.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
    assert!(kept > 3, "{scores}");
    let larger = Command::new("mount").args(["-o", "remount,size=4m"]).arg(&state).status();
    assert!(larger.unwrap().success());
    assert_eq!(past.report(&items)["total"]["items"], 40);
    let scores = fs::read_to_string(state.join("backtest/scores.jsonl")).unwrap();
    let whole = scores.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
    assert_eq!(whole, 40, "what was kept was not scored again");
    assert_eq!(bytes_of(&past.root()), before, "the repository was touched");
}

#[test]
fn an_index_that_does_not_fit_on_the_disk_is_reported() {
    let past = Past::new();
    for number in 0..1500 {
        past.write(
            &format!("src/f{number}.rs"),
            &format!("fn invoice_{number}() {{ total(); }}\n"),
        );
    }
    past.commit("Many files");
    past.write("src/invoice.rs", "pub fn invoice_total() -> u32 {\n    9\n}\n");
    past.commit("Fixes #7");
    let state = past.folder.path().join("state");
    if !mount(&state, "size=32k,mode=700") {
        eprintln!("SKIPPED: no file system can be mounted here, so no disk can be full");
        return;
    }
    let _mounted = Mounted(&state);
    let items = [json!({"id": 7, "title": "invoice_total gives 0"})];
    let output = past.run(&items, &[]);
    assert_eq!(output.status.code(), Some(74), "{}", text(&output));
    assert!(text(&output).contains("cannot write"), "{}", text(&output));
    assert!(text(&output).contains("No space left on device"), "{}", text(&output));
    let larger = Command::new("mount").args(["-o", "remount,size=40m"]).arg(&state).status();
    assert!(larger.unwrap().success());
    assert_eq!(past.report(&items)["total"]["items"], 1);
    assert!(!state.join("backtest/index/0").exists(), "the index is gone with the work");
}

/// Commits that each change one file and name an item.
fn import(root: &Path, commits: usize) {
    let mut git = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["fast-import", "--quiet", "--force"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufWriter::new(git.stdin.take().unwrap());
    let words = ["invoice", "shipment", "customer", "warehouse", "label", "tariff"];
    for number in 1..=commits {
        let word = words[number % 6];
        let body = format!("pub fn {word}_total() -> u32 {{\n    {number}\n}}\n");
        let message = format!("Fixes #{number}: {word}\n");
        let mut text = format!(
            "commit refs/heads/main\nmark :{number}\ncommitter a <a@b> {} +0000\ndata {}\n{message}",
            1_500_000_000 + number,
            message.len()
        );
        if number > 1 {
            writeln!(text, "from :{}", number - 1).unwrap();
        }
        write!(text, "M 100644 inline src/{word}.rs\ndata {}\n{body}\n", body.len()).unwrap();
        out.write_all(text.as_bytes()).unwrap();
    }
    drop(out);
    assert!(git.wait().unwrap().success());
}

/// 20,000 commits and 2,000 items; ten and 25 times as many with `HEARTBEAT_TEST_FULL=1`.
#[test]
fn very_many_commits_and_items_are_taken_in_their_stride() {
    let full = std::env::var_os("HEARTBEAT_TEST_FULL").is_some();
    let (commits, items) = if full { (200_000, 50_000) } else { (20_000, 2_000) };
    let past = Past::new();
    import(&past.root(), commits);
    let words = ["invoice", "shipment", "customer", "warehouse", "label", "tariff"];
    // One in ten items has a fix; the numbers of the others are in no commit.
    let all: Vec<Value> = (0..items)
        .map(|item| {
            let id = if item % 10 == 0 { 7 + item * (commits / items) } else { commits + 1 + item };
            json!({"id": id, "title": format!("{}_total is wrong", words[id % 6])})
        })
        .collect();
    let report = past.report(&all);
    assert_eq!(report["outcomes"].as_array().unwrap().len(), items);
    assert_eq!(report["total"]["items"], items / 10, "{}", report["left"]);
    assert_eq!(report["total"]["hit_1"], 100.0);
}

#[test]
fn a_history_that_was_rewritten_is_scored_by_what_it_says_now() {
    let past = Past::new();
    past.write("src/label.rs", "pub fn label_total() -> u32 {\n    1\n}\n");
    past.commit("Fixes #7");
    let items = [json!({"id": 7, "title": "label_total gives 0"})];
    let first = past.report(&items);
    past.git(&["reset", "--quiet", "--soft", "HEAD~1"]);
    past.git(&["commit", "--quiet", "--amend", "--allow-empty", "--message", "Another beginning"]);
    past.git(&["reset", "--quiet", "--mixed", "HEAD"]);
    past.write("src/tariff.rs", "pub fn tariff_total() -> u32 {\n    1\n}\n");
    past.commit("Fixes #7 at last");
    past.git(&["reflog", "expire", "--expire=now", "--all"]);
    past.git(&["gc", "--quiet", "--prune=now"]);
    let second = past.report(&items);
    let base = |report: &Value| outcome(report, 7)["result"]["Ok"]["base"].clone();
    assert_ne!(base(&first), base(&second));
    assert!(!base(&second).is_null(), "{second}");
}

#[test]
fn a_repository_without_links_gets_a_clear_word_and_a_way_out() {
    let past = Past::new();
    past.write("src/label.rs", "pub fn label_total() -> u32 {\n    1\n}\n");
    past.commit("Step #5 of 10");
    let items = [json!({"id": 5, "title": "label_total gives 0"}), json!({"id": 6, "title": "x"})];
    let report = past.report(&items);
    assert_eq!(report["left"], json!({"no commit names the item": 2}), "{report}");
    let output = past.run(&items, &["--format", "text"]);
    assert!(output.status.success());
    let said = text(&output);
    assert!(said.contains("nothing to compare with"), "{said}");
    assert!(said.contains("fixes.patterns") && said.contains("--numbers"), "{said}");
}
