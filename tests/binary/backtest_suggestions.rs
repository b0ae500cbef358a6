//! What `heartbeat backtest` suggests on histories with known defects: the right change, with its gain
//! on held-back items, and without a defect nothing.

use std::fs;

use serde_json::{Value, json};

use super::backtest::Past;

/// Items of each history.
const ITEMS: usize = 60;

/// A word of a topic; no two topics share one.
fn word(topic: usize, part: usize) -> String {
    const PARTS: [&str; 8] = ["bar", "cor", "del", "fen", "gil", "hol", "mar", "nok"];
    let [a, b, c] = [topic % 8, topic / 8 % 8, (part + 3) % 8].map(|at| PARTS[at]);
    format!("{a}{b}{c}")
}

fn source(topic: usize, mentions: usize) -> String {
    let [a, b, c] = [0, 1, 2].map(|part| word(topic, part));
    let line = format!("    let {a} = {b}({c});\n");
    format!("fn run{topic}() {{\n{}}}\n", line.repeat(mentions))
}

fn item(topic: usize) -> Value {
    let [a, b, c] = [0, 1, 2].map(|part| word(topic, part));
    json!({"id": topic + 1, "title": format!("The {a} is wrong"), "text": format!("The {b} of the {c} fails.")})
}

/// Commits a fix of each item in the file that `path` names.
fn fix_all(past: &Past, path: impl Fn(usize) -> String) {
    for topic in 0..ITEMS {
        let path = path(topic);
        let text = fs::read_to_string(past.root().join(&path)).unwrap();
        past.write(&path, &text.replacen("{\n", "{\n    // checked\n", 1));
        past.commit(&format!("Right values\n\nFixes #{}", topic + 1));
    }
}

fn backtest(past: &Past, more: &[&str]) -> Value {
    let items: Vec<Value> = (0..ITEMS).map(item).collect();
    let output = past.run(&items, more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every suggestion states its gain on held-back items.
fn assert_gains(suggestions: &[Value]) {
    for one in suggestions {
        assert!(one["rank_after"].as_f64() > one["rank_before"].as_f64(), "{one}");
        assert!(one["better"].as_u64() > one["worse"].as_u64(), "{one}");
        let held_back = one["held_back"].as_u64().unwrap();
        assert!((8..ITEMS as u64 - 8).contains(&held_back), "{one}");
    }
}

#[test]
fn a_folder_in_the_way_is_suggested_with_its_gain() {
    let past = Past::new();
    fs::create_dir_all(past.root().join("old")).unwrap();
    for topic in 0..ITEMS {
        past.write(&format!("src/unit{topic}.rs"), &source(topic, 2));
        past.write(&format!("old/unit{topic}.rs"), &source(topic, 9));
    }
    past.commit("All of it");
    fix_all(&past, |topic| format!("src/unit{topic}.rs"));
    let report = backtest(&past, &[]);
    let suggestions = report["suggestions"].as_array().unwrap();
    assert_gains(suggestions);
    let wanted = |one: &&Value| one["setting"].as_str().unwrap().contains("`/old/`");
    assert!(suggestions.iter().any(|one| wanted(&one)), "{suggestions:#?}");
    // Nothing was changed.
    assert!(!past.root().join(".ignore").exists());
}

#[test]
fn where_nothing_helps_nothing_is_suggested() {
    // The right file is already first; then it is chance which of two equal files is right.
    for twins in [false, true] {
        let past = Past::new();
        for topic in 0..ITEMS {
            past.write(&format!("src/unit{topic}.rs"), &source(topic, 3));
            if twins {
                past.write(&format!("src/twin{topic}.rs"), &source(topic, 3));
            }
        }
        past.commit("All of it");
        let chance = |topic: usize| (topic * 2_654_435_761) >> 9 & 1 == 1;
        fix_all(&past, |topic| {
            let name = if twins && chance(topic) { "twin" } else { "unit" };
            format!("src/{name}{topic}.rs")
        });
        let report = backtest(&past, &[]);
        assert_eq!(report["total"]["items"], ITEMS, "{report}");
        assert_eq!(report["suggestions"], json!([]), "twins: {twins}");
    }
}

#[test]
fn languages_that_are_none_are_refused_with_their_place() {
    let past = Past::new();
    let file = past.folder.path().join("wrong.toml");
    fs::write(&file, "[ranking]\nset_aside = [\"a/b\"]\nprefer = [\"rs\"]\n").unwrap();
    let output = past.run(&[item(0)], &["--config", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("wrong.toml:2") && said.contains("extensions"), "{said}");
}
