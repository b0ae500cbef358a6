//! Text of others (agents, trackers, helper commands) made fit to be shown anywhere.

use serde_json::Value;

/// Does this character act on a terminal or a reader instead of being read? Controls but for line
/// ends and tabs, marks of writing direction, invisible characters and tags.
pub const fn is_acting(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{8}'
            | '\u{b}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// The text without characters that act on a terminal or change the order of what is read.
pub fn plain_text(text: &str) -> String {
    if !text.contains(is_acting) {
        return text.to_owned();
    }
    text.replace("\r\n", "\n").chars().filter(|character| !is_acting(*character)).collect()
}

/// As [`plain_text`], with a code fence that was left open closed: what follows it in a report or a
/// comment would be read as code.
pub fn plain_markdown(text: &str) -> String {
    let mut text = plain_text(text);
    let mut open: Option<String> = None;
    for line in text.lines() {
        let line = line.trim_start();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let Some(mark) = mark else { continue };
        let length = line.chars().take_while(|character| *character == mark).count();
        if length < 3 {
            continue;
        }
        let fence = mark.to_string().repeat(length);
        match &open {
            None => open = Some(fence),
            // Closed by a fence of its own kind that is at least as long and stands alone.
            Some(opened) if fence.starts_with(opened.as_str()) && line.trim_end() == fence => {
                open = None;
            }
            Some(_) => {}
        }
    }
    if let Some(fence) = open {
        text.push('\n');
        text.push_str(&fence);
    }
    text
}

/// Every text in a JSON value as [`plain_markdown`].
#[must_use]
pub fn plain_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain_markdown(&text)),
        Value::Array(values) => values.into_iter().map(plain_json).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, plain_json(value))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_removed_and_what_is_read_stays() {
        let hostile = "a\u{1b}[31mred\u{202e}txt.exe\u{2066}\u{9b}0m\u{feff}\u{e0041}\u{7}b";
        assert_eq!(plain_text(hostile), "a[31mredtxt.exe0mb");
        for kept in ["línea\n\tdos", "日本語 👩\u{200d}💻", "שלום", "a\u{301}"] {
            assert_eq!(plain_text(kept), kept);
        }
        assert_eq!(plain_text("one\r\ntwo\rthree"), "one\ntwothree");
    }

    #[test]
    fn a_fence_left_open_is_closed() {
        let cases = [
            ("```rust\nfn a() {}", "```rust\nfn a() {}\n```"),
            ("```\na\n```", "```\na\n```"),
            ("````\n```\na", "````\n```\na\n````"),
            ("~~~\n```\na\n~~~", "~~~\n```\na\n~~~"),
            ("no `fence` here", "no `fence` here"),
            ("```\n```js\nstill open", "```\n```js\nstill open\n```"),
        ];
        for (text, expected) in cases {
            assert_eq!(plain_markdown(text), expected);
        }
    }

    #[test]
    fn every_text_of_an_answer_is_reached() {
        let value = serde_json::json!({ "a": ["x\u{202e}y", { "b": "\u{1b}c" }], "n": 1 });
        let expected = serde_json::json!({ "a": ["xy", { "b": "c" }], "n": 1 });
        assert_eq!(plain_json(value), expected);
    }
}
