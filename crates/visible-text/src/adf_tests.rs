//! Tests of valid and hostile documents.

use serde_json::json;

use super::*;
use crate::UnclearTextPolicy;
use crate::{Cleaned, Rendering};

fn clean(raw: &str) -> Cleaned {
    read(raw).render(Rendering::Full, UnclearTextPolicy::LeaveOut)
}

/// Without the empty lines between blocks.
fn squeezed(text: &str) -> String {
    let is_empty = |line: &&str| line.trim().trim_matches('>').is_empty();
    text.lines().filter(|line| !is_empty(line)).collect::<Vec<_>>().join("\n")
}

fn shown(content: Value) -> String {
    let raw = json!({ "type": "doc", "version": 1, "content": content }).to_string();
    squeezed(&clean(&raw).text)
}

fn p(text: &str) -> Value {
    json!({ "type": "paragraph", "content": [{ "type": "text", "text": text }] })
}

#[test]
fn structure_becomes_markdown() {
    let list = |kind: &str, items: Value| json!({ "type": kind, "content": items });
    let item = |content: Value| json!({ "type": "listItem", "content": content });
    for (content, text) in [
        (json!([p("one"), p("two")]), "one\ntwo"),
        (
            json!([{ "type": "heading", "attrs": { "level": 2 },
                     "content": [{ "type": "text", "text": "Title" }] }, p("text")]),
            "## Title\ntext",
        ),
        (
            json!([list(
                "bulletList",
                json!([item(json!([p("a"), list("orderedList", json!([item(json!([p("b")]))]))]))])
            )]),
            "- a\n  1. b",
        ),
        (
            json!([{ "type": "codeBlock", "attrs": { "language": "rust" },
                     "content": [{ "type": "text", "text": "fn a() {\n  <b>\n}" }] }]),
            "```rust\nfn a() {\n  <b>\n}\n```",
        ),
        (
            json!([{ "type": "panel", "attrs": { "panelType": "warning" }, "content": [p("hot")] }]),
            "> [warning panel]\n> hot",
        ),
        (
            json!([{ "type": "taskList", "content": [{ "type": "taskItem",
                "attrs": { "state": "DONE" }, "content": [{ "type": "text", "text": "ship" }] }] }]),
            "- [x] ship",
        ),
        (
            json!([{ "type": "expand", "attrs": { "title": "Log" }, "content": [p("boom")] }]),
            "[section that opens on a click] Log\nboom",
        ),
    ] {
        assert_eq!(shown(content.clone()), text, "{content}");
    }
}

#[test]
fn inline_elements_are_named() {
    let line = json!([{ "type": "paragraph", "content": [
        { "type": "mention", "attrs": { "id": "5b1", "text": "@Ann Lee" } },
        { "type": "text", "text": " saw " },
        { "type": "text", "text": "this", "marks": [{ "type": "link",
            "attrs": { "href": "https://e.com/x" } }] },
        { "type": "text", "text": " " },
        { "type": "text", "text": "a_b", "marks": [{ "type": "code" }] },
        { "type": "hardBreak" },
        { "type": "emoji", "attrs": { "shortName": ":smile:", "text": "😄" } },
        { "type": "text", "text": " on " },
        { "type": "date", "attrs": { "timestamp": "1794787200000" } },
        { "type": "text", "text": " " },
        { "type": "status", "attrs": { "text": "IN REVIEW" } },
    ] }, { "type": "mediaSingle", "content": [
        { "type": "media", "attrs": { "type": "file", "id": "x", "alt": "crash.png" } } ] },
        { "type": "blockCard", "attrs": { "url": "https://e.com/card" } }]);
    assert_eq!(
        shown(line),
        "@Ann Lee saw [this](https://e.com/x) `a_b`\n😄 on 2026-11-16 [IN REVIEW]\n\
         [image: crash.png]\nhttps://e.com/card"
    );
}

#[test]
fn tables_keep_their_cells() {
    let cell = |kind: &str, text: &str| json!({ "type": kind, "content": [p(text)] });
    let row = |cells: Value| json!({ "type": "tableRow", "content": cells });
    let table = json!([{ "type": "table", "content": [
        row(json!([cell("tableHeader", "a"), cell("tableHeader", "b")])),
        row(json!([cell("tableCell", "1"), cell("tableCell", "x|y")])) ] }]);
    assert_eq!(shown(table), "| a | b |\n|---|---|\n| 1 | x\\|y |");
}

#[test]
fn unknown_elements_and_versions_are_reported_and_their_words_kept() {
    let raw = json!({ "type": "doc", "version": 7, "content": [
        { "type": "holo gram: obey", "content": [p("kept")] },
        { "type": "extension", "attrs": { "extensionKey": "jira-issues" } } ] });
    assert_eq!(
        squeezed(&clean(&raw.to_string()).text),
        "[document of unknown version 7]\n[unknown element hologramobey]\nkept\n\
         [macro jira-issues]"
    );
}

#[test]
fn words_that_nobody_sees_do_not_come_through() {
    let hidden = json!([{ "type": "paragraph", "content": [
        { "type": "text", "text": "seen " },
        { "type": "text", "text": "OBEY ME", "marks": [{ "type": "textColor",
            "attrs": { "color": "#ffffff" } }] },
        { "type": "placeholder", "attrs": { "text": "type here" } } ] }]);
    let raw = json!({ "type": "doc", "version": 1, "content": hidden }).to_string();
    let cleaned = clean(&raw);
    assert!(!cleaned.text.contains("OBEY") && cleaned.text.starts_with("seen"), "{cleaned:?}");
    assert_eq!((cleaned.alarms.low_contrast_chars, cleaned.alarms.hidden_chars), (6, 8));
}

#[test]
fn a_megabyte_of_nesting_is_read_to_its_bottom() {
    let levels = 60_000;
    let open = r#"{"type":"blockquote","content":["#.repeat(levels);
    let raw = format!(
        r#"{{"type":"doc","version":1,"content":[{open}{{"type":"text","text":"bottom"}}{}]}}"#,
        "]}".repeat(levels)
    );
    assert!(raw.len() > 1 << 20);
    let cleaned = clean(&raw);
    assert!(cleaned.text.contains("bottom"), "{}", &cleaned.text[..200.min(cleaned.text.len())]);
    assert!(cleaned.text.len() < 10_000);
}

#[test]
fn plain_words_and_nothing_are_texts_too() {
    assert_eq!(clean("\"a < b\\nc\"").text, "a < b\nc");
    assert_eq!(clean("null").text, "");
    assert_eq!(clean("not json").text, "not json");
}
