//! `heartbeat backtest` on a generated history: its result, that it sees nothing newer than the
//! commit before a fix, and that it does not change the repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

pub struct Past {
    pub folder: tempfile::TempDir,
}

impl Past {
    pub fn new() -> Self {
        let past = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(past.root().join("src")).unwrap();
        past.git(&["init", "--quiet", "--initial-branch=main"]);
        for name in ["invoice", "shipment", "customer", "warehouse", "label", "tariff"] {
            past.write(
                &format!("src/{name}.rs"),
                &format!("pub fn {name}_total() -> u32 {{\n    0\n}}\n"),
            );
        }
        past.commit("The beginning");
        past
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("code")
    }

    pub fn git(&self, arguments: &[&str]) {
        support::git(&self.root(), arguments);
    }

    pub fn write(&self, path: &str, text: &str) {
        fs::write(self.root().join(path), text).unwrap();
    }

    pub fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    pub fn run(&self, items: &[Value], more: &[&str]) -> std::process::Output {
        let file = self.folder.path().join("items.jsonl");
        let lines: Vec<String> = items.iter().map(Value::to_string).collect();
        fs::write(&file, lines.join("\n")).unwrap();
        self.run_on(&file, more)
    }

    pub fn run_on(&self, items: &Path, more: &[&str]) -> std::process::Output {
        Command::new(env!("CARGO_BIN_EXE_heartbeat"))
            .args(["backtest", "--json", "--items"])
            .arg(items)
            .arg("--repo")
            .arg(self.root())
            .arg("--state-dir")
            .arg(self.folder.path().join("state"))
            .args(more)
            .output()
            .unwrap()
    }

    pub fn report(&self, items: &[Value]) -> Value {
        let output = self.run(items, &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Every file below a folder with its bytes.
pub fn bytes_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(bytes_of(&path));
        } else {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

pub fn outcome(report: &Value, item: i64) -> &Value {
    report["outcomes"].as_array().unwrap().iter().find(|one| one["item"] == item).unwrap()
}

#[test]
fn a_fix_is_predicted_from_the_code_before_it_and_the_repository_stays_as_it_was() {
    let past = Past::new();
    // The word of the title does not occur before the fix, and afterwards in one file only.
    past.write("src/tariff.rs", "// quokkafrost\npub fn tariff_total() -> u32 {\n    7\n}\n");
    past.commit("Right sum\n\nRelated work items: #41");
    past.write("src/invoice.rs", "pub fn invoice_total() -> u32 {\n    9\n}\n");
    past.commit("Fixes #42: sum of invoices");
    past.write("src/label.rs", "pub fn label_total() -> u32 {\n    3\n}\n");
    past.commit("Revert \"Fixes #43\"");
    let before = bytes_of(&past.root());
    let items = [
        json!({"id": 41, "title": "Wrong quokkafrost", "text": "The sum is wrong."}),
        json!({"id": 42, "title": "invoice_total gives 0", "text": "Expected a sum.", "area": "Shop", "type": "Bug"}),
        json!({"id": 43, "title": "label_total gives 0"}),
    ];
    let report = past.report(&items);
    assert_eq!(
        outcome(&report, 42)["result"]["Ok"]["places"],
        json!([{"path": "src/invoice.rs", "rank": 1}])
    );
    let canary = &outcome(&report, 41)["result"]["Ok"];
    assert_eq!(canary["fixes"][0][1], "related_items");
    assert_ne!(canary["places"][0]["rank"], 1, "the word came with the fix: {canary}");
    assert_eq!(outcome(&report, 43)["result"]["Err"], "no_commit");
    assert_eq!(report["total"]["items"], 2);
    assert_eq!(bytes_of(&past.root()), before, "the repository was touched");
}

#[test]
fn a_second_backtest_goes_on_with_what_is_known_and_says_the_same() {
    let past = Past::new();
    past.write("src/customer.rs", "pub fn customer_total() -> u32 {\n    1\n}\n");
    past.commit("AB#7 customers");
    let items = [json!({"id": 7, "title": "customer_total gives 0"})];
    let first = past.report(&items);
    let scores = past.folder.path().join("state/backtest/scores.jsonl");
    let known = fs::read(&scores).unwrap();
    // An interruption may truncate the last line.
    fs::write(&scores, [&known[..], b"{\"key\":\"cu"].concat()).unwrap();
    assert_eq!(past.report(&items), first);
    assert_eq!(first["total"]["hit_1"], 100.0);
}

#[test]
fn what_a_killed_backtest_left_is_removed_by_the_next_one() {
    let past = Past::new();
    let mut number = 7;
    let mut score_one_more = || {
        number += 1;
        past.write("src/label.rs", &format!("pub fn label_total() -> u32 {{\n    {number}\n}}\n"));
        past.commit(&format!("AB#{number} labels"));
        let report = past.report(&[json!({"id": number, "title": "label_total gives 0"})]);
        assert_eq!(report["total"]["items"], 1, "{report}");
    };
    score_one_more();
    // The work tree of one of its workers; the next one has fewer.
    let left = past.folder.path().join("state/backtest/index/7/tree");
    fs::create_dir_all(&left).unwrap();
    score_one_more();
    assert!(!left.exists());
}

#[test]
fn bad_input_is_reported_with_its_place() {
    let past = Past::new();
    let output = past.run(&[json!({"id": 1, "title": "x"}), json!({"title": "no number"})], &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("items.jsonl:2") && said.contains("id"), "{said}");
    let empty = past.run(&[], &[]);
    assert!(String::from_utf8_lossy(&empty.stderr).contains("contains no items"));
    fs::remove_dir_all(past.root().join(".git")).unwrap();
    let output = past.run(&[json!({"id": 1, "title": "x"})], &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("not a git repository"), "{said}");
}

#[test]
fn the_page_shows_each_item_with_its_ranking_and_its_fix_and_escapes_what_it_shows() {
    let past = Past::new();
    past.write("src/label.rs", "pub fn label_total() -> u32 {\n    1\n}\n");
    past.commit("Print the right label\n\nFixes #7");
    let item =
        json!({"id": 7, "title": "label_total is <b>wrong</b>", "text": "The label is wrong."});
    let file = past.folder.path().join("page.html");
    let output = past.run(&[item], &["--format", "html", "--out", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty());
    let page = fs::read_to_string(file).unwrap();
    assert!(page.contains("#7 label_total is &lt;b&gt;wrong&lt;"), "{page}");
    assert!(page.contains("<li class=\"right\"><code>src"), "{page}");
    assert!(page.contains("the message says that it fixes the item"), "{page}");
}

#[test]
fn issues_are_read_as_githubs_own_program_prints_them() {
    let past = Past::new();
    past.git(&["remote", "add", "origin", "https://github.com/contoso/shop.git"]);
    past.write("src/invoice.rs", "pub fn invoice_total() -> u32 {\n    7\n}\n");
    past.commit("Right sum (#12)");
    let issue = json!({ "number": 12, "title": "invoice_total gives 0", "body": "Wrong.",
        "createdAt": "2020-01-01T10:00:00Z" });
    // An array of two lines, with an issue twice.
    let file = past.folder.path().join("issues.json");
    fs::write(&file, format!("[{issue},\n{issue}]")).unwrap();
    let output = past.run_on(&file, &[]);
    let wrong = || String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", wrong()));
    assert_eq!(report["total"]["items"], 1, "{report:#}");
    assert_eq!(outcome(&report, 12)["result"]["Ok"]["places"][0]["path"], "src/invoice.rs");
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_the_work() {
    let past = Past::new();
    let out = past.folder.path().join("missing/report.html");
    let output = past.run(&[json!({ "id": 1, "title": "x" })], &["--out", out.to_str().unwrap()]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("missing/report.html"));
    assert!(!past.folder.path().join("state/backtest/scores.jsonl").exists());
}
