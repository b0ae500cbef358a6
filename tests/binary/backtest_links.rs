//! `heartbeat backtest --links`: which commits were found for each item, and why.

use serde_json::{Value, json};

use crate::backtest::{Past, bytes_of};
use crate::job::world::text;

/// The commits of an item: reason, and whether it follows the fix.
fn commits(links: &Value, name: &str) -> Vec<(String, bool)> {
    let item = links["items"].as_array().unwrap().iter().find(|item| item["name"] == name).unwrap();
    let commits = item["commits"].as_array().unwrap().iter();
    let commit = |commit: &Value| {
        (commit["reason"].as_str().unwrap().to_owned(), commit["follows_up"] == true)
    };
    commits.map(commit).collect()
}

fn reasons(links: &Value, name: &str) -> Vec<String> {
    commits(links, name).into_iter().map(|(reason, _)| reason).collect()
}

#[test]
fn every_item_has_its_commits_and_why_and_nothing_is_ranked() {
    let past = Past::new();
    for (text, message) in [
        ("1", "Added failing test for #41"),
        ("2", "Right sum\n\nFixes #41"),
        ("3", "Another edge case\n\nRefs #41"),
        ("4", "Right label\n\nSee #42"),
        ("5", "Since #43 it is slow"),
    ] {
        past.write("src/tariff.rs", &format!("pub fn tariff_total() -> u32 {{\n    {text}\n}}\n"));
        past.commit(message);
    }
    let before = bytes_of(&past.root());
    let items = [41, 42, 43].map(|id| json!({ "id": id, "title": format!("Item {id}") }));
    let output = past.run(&items, &["--links"]);
    assert!(output.status.success(), "{}", text(&output));
    let links: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = [("test", false), ("keyword", false), ("number", true)];
    assert_eq!(commits(&links, "#41"), expected.map(|(why, after)| (why.to_owned(), after)));
    assert_eq!(reasons(&links, "#42"), ["related"]);
    assert!(reasons(&links, "#43").is_empty());
    assert!(!past.folder.path().join("state/backtest/scores.jsonl").exists());
    assert_eq!(bytes_of(&past.root()), before, "the repository was touched");
}

#[test]
fn issues_of_another_repository_are_found_by_their_pages_and_not_by_bare_numbers() {
    let past = Past::new();
    past.git(&["remote", "add", "origin", "https://github.com/contoso/shop-client.git"]);
    past.write("src/label.rs", "pub fn label_total() -> u32 {\n    1\n}\n");
    past.commit("Right label (#12)\n\nFixes https://github.com/contoso/shop/issues/7");
    past.write("src/label.rs", "pub fn label_total() -> u32 {\n    2\n}\n");
    past.commit("Right sum\n\nFixes contoso/shop#8, follows #7");
    let page = |number: i64| format!("https://github.com/contoso/shop/issues/{number}");
    let issue = |number| json!({ "number": number, "title": "Wrong", "url": page(number) });
    let output = past.run(&[issue(7), issue(8), issue(12)], &["--links"]);
    let links: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reasons(&links, "#7"), ["keyword"], "{links:#}");
    assert_eq!(reasons(&links, "#8"), ["keyword"]);
    assert!(reasons(&links, "#12").is_empty(), "(#12) is a pull request of another repository");
}

#[test]
fn issues_on_gitlab_are_found_by_their_pages() {
    let past = Past::new();
    past.git(&["remote", "add", "origin", "git@gitlab.contoso.invalid:shop/web.git"]);
    past.write("src/label.rs", "pub fn label_total() -> u32 {\n    1\n}\n");
    past.commit("Right label\n\nCloses: https://gitlab.contoso.invalid/shop/web/-/issues/7");
    let item = json!({ "id": 7, "title": "Wrong label" });
    let output = past.run(&[item], &["--links", "--numbers", "issues"]);
    let links: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reasons(&links, "#7"), ["keyword"], "{links:#}");
}

#[test]
fn progress_is_shown_in_lines_where_there_is_no_terminal() {
    let past = Past::new();
    past.write("src/label.rs", "pub fn label_total() -> u32 {\n    1\n}\n");
    past.commit("Right label\n\nFixes #7");
    let item = json!({ "id": 7, "title": "Wrong label" });
    let said = String::from_utf8(past.run(std::slice::from_ref(&item), &[]).stderr).unwrap();
    assert!(said.contains("searching for the fixes of 1 item\n"), "{said}");
    assert_eq!(said.matches("scoring: 1 of 1 items\n").count(), 1, "{said}");
    assert!(past.run(&[item], &["--quiet"]).stderr.is_empty());
}
