//! Makes untrusted text (agents, trackers, helper commands) safe to show anywhere.

use std::borrow::Cow;

use pulldown_cmark::{Event, Parser, Tag};
use serde_json::Value;
use visible_text::{Alarms, without_invisible};

/// Whether a character acts on a terminal or a reader instead of being read: controls except line
/// ends and tabs, direction marks, invisible characters and tags.
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

/// Removes characters that nobody sees, act on a terminal or change the reading order. A joiner stays
/// where it belongs, as in an emoji.
pub fn plain_text(text: &str) -> String {
    let text = without_invisible(text, &mut Alarms::default());
    if !text.contains(is_acting) {
        return text.into_owned();
    }
    text.replace("\r\n", "\n").chars().filter(|character| !is_acting(*character)).collect()
}

/// What a build pipeline takes for a command in the output of a program, broken by a space: `##[` and
/// `##vso[` of Azure DevOps anywhere, `::` of GitHub at the start of a line.
pub fn without_pipeline_commands(text: &str) -> Cow<'_, str> {
    if !text.contains("##") && !text.contains("::") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for line in text.split_inclusive(['\n', '\r']) {
        let content = line.trim_start();
        let (indent, content) = match content.strip_prefix(':') {
            Some(rest) if rest.starts_with(':') => {
                out.push_str(&line[..line.len() - content.len()]);
                (": ", rest)
            }
            _ => ("", line),
        };
        out.push_str(indent);
        break_hash_commands(content, "# ", &mut out);
    }
    Cow::Owned(out)
}

/// The same in JSON, where the text stays what it is.
pub fn json_without_pipeline_commands(json: &str) -> Cow<'_, str> {
    if !json.contains("##") {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 8);
    break_hash_commands(json, "\\u0023", &mut out);
    Cow::Owned(out)
}

/// `second` replaces the second `#` of a command.
fn break_hash_commands(text: &str, second: &str, out: &mut String) {
    let is_command = |rest: &str| {
        let word = rest.get(..3).filter(|word| word.eq_ignore_ascii_case("vso"));
        rest[word.map_or(0, str::len)..].starts_with('[')
    };
    let mut rest = text;
    while let Some(at) = rest.find("##") {
        let (before, after) = rest.split_at(at + 1);
        out.push_str(before);
        rest = after;
        if is_command(&rest[1..]) {
            out.push_str(second);
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
}

/// Like [`plain_text`], and closes an open code fence: otherwise the text after it in a report or a
/// comment would render as code. A Markdown parser decides what is open.
pub fn plain_markdown(text: &str) -> String {
    let text = plain_text(text);
    if !swallows_what_follows(&text) {
        return text;
    }
    let close = |fence: String| format!("{text}\n{fence}");
    let closed = fences(&text).map(close).find(|closed| !swallows_what_follows(closed));
    // This fence cannot be closed, so it is replaced.
    closed.unwrap_or_else(|| text.replace("```", "'''").replace("~~~", "---"))
}

/// The line prefixes that may open a fence, newest first.
fn fences(text: &str) -> impl Iterator<Item = String> {
    text.lines().rev().filter_map(|line| {
        let line = line.trim_start();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = line.chars().take_while(|character| *character == mark).count();
        (length >= 3).then(|| mark.to_string().repeat(length))
    })
}

/// Whether a heading after the text would not be parsed as one. HTML is escaped wherever it is
/// shown; a space in its place would make a fence of backticks that follow a `<`.
fn swallows_what_follows(text: &str) -> bool {
    if !text.contains("```") && !text.contains("~~~") {
        return false;
    }
    let page = format!("{}\n\n# end\n", text.replace('<', "&lt;"));
    let headings = Parser::new(&page).into_offset_iter().filter_map(|(event, place)| {
        matches!(event, Event::Start(Tag::Heading { .. })).then_some(place)
    });
    headings.last().is_none_or(|place| place.end + 1 < page.len())
}

/// Applies [`plain_markdown`] to every text in a JSON value.
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
    fn a_joiner_stays_only_where_it_is_seen() {
        assert_eq!(plain_text("pass\u{200d}word \u{200d}\u{200c}x"), "password x");
        for kept in ["👩\u{200d}💻", "\u{645}\u{6cc}\u{200c}\u{62e}"] {
            assert_eq!(plain_text(kept), kept);
        }
    }

    #[test]
    fn no_pipeline_command_is_left_and_the_rest_is_as_it_was() {
        for (text, expected) in [
            ("a ##vso[task.complete result=Failed]b", "a ## vso[task.complete result=Failed]b"),
            ("##[error]x ##VSO[y]", "## [error]x ## VSO[y]"),
            ("###[group]", "### [group]"),
            ("::error::x\n  ::warning::y\r::z", ": :error::x\n  : :warning::y\r: :z"),
            ("::##[x]", ": :## [x]"),
            ("std::fmt, a ## heading\n## [1.0]", "std::fmt, a ## heading\n## [1.0]"),
            ("##", "##"),
            ("##é", "##é"),
        ] {
            let broken = without_pipeline_commands(text);
            assert_eq!(broken, expected);
            assert_eq!(without_pipeline_commands(&broken), expected, "again");
        }
        let json = r###"{"title": "##vso[x] ##[y] ## z"}"###;
        let shown = json_without_pipeline_commands(json);
        assert!(!shown.contains("##vso[") && !shown.contains("##["), "{shown}");
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(&shown), read(json));
    }

    #[test]
    fn a_fence_left_open_is_closed() {
        let cases = [
            ("```rust\nfn a() {}", "```rust\nfn a() {}\n```"),
            ("```\na\n```", "```\na\n```"),
            ("````\n```\na", "````\n```\na\n````"),
            ("~~~\n```\na\n~~~", "~~~\n```\na\n~~~"),
            ("no `fence` here", "no `fence` here"),
            ("<```\n```", "<```\n```\n```"),
            ("```\n```js\nstill open", "```\n```js\nstill open\n```"),
            ("``` no `fence`", "``` no `fence`"),
            ("- item\n  ```\n  code", "- item\n  ```\n  code"),
            ("a\n    ```\nb", "a\n    ```\nb"),
            ("> ```\n> quoted", "> ```\n> quoted"),
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
