//! Markdown and plain fields: nothing is parsed, only undone, dropped or shortened.

use std::borrow::Cow;

use super::characters;
use super::table::TIGHT_ROWS;
use super::{Cleaned, Rendering};
use crate::model::Alarms;

/// Lines of code shown in the tight rendering.
const TIGHT_CODE_LINES: usize = 8;

/// Plain text as it is, without characters that nobody sees.
pub(super) fn clean_plain(raw: &str) -> Cleaned {
    let mut alarms = Alarms::default();
    let lines = one_kind_of_line_end(raw);
    let text = characters::visible(&lines, &mut alarms.invisible_chars).into_owned();
    Cleaned { text, alarms, ..Cleaned::default() }
}

/// A Markdown field: entities decoded once, comments gone, blank lines and line ends tidied.
pub(super) fn clean(raw: &str, rendering: Rendering) -> Cleaned {
    let mut alarms = Alarms::default();
    let decoded = decode_entities(raw);
    let lines = one_kind_of_line_end(&decoded);
    let visible = characters::visible(&lines, &mut alarms.invisible_chars);
    let mut page = Page { rendering, ..Page::default() };
    for line in visible.lines() {
        page.line(line);
    }
    page.end_block();
    alarms.hidden_chars = page.hidden_chars;
    let text = page.out.trim_matches('\n').to_owned();
    Cleaned { text, alarms, ..Cleaned::default() }
}

/// A carriage return by itself is a line end too: on a terminal it would write over its own line.
fn one_kind_of_line_end(text: &str) -> Cow<'_, str> {
    match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    }
}

/// The text under construction, and where in the Markdown we are.
#[derive(Default)]
struct Page {
    out: String,
    rendering: Rendering,
    /// The fence that will end the code block we are in.
    fence: Option<String>,
    in_comment: bool,
    blank_lines: usize,
    code_lines: usize,
    rows: usize,
    hidden_chars: usize,
}

impl Page {
    fn line(&mut self, line: &str) {
        if let Some(fence) = &self.fence {
            let is_end = line.trim().starts_with(fence.as_str())
                && line.trim().trim_matches(['`', '~']).is_empty();
            self.code_line(line, is_end);
            return;
        }
        let line = self.without_comments(line);
        let trimmed = line.trim();
        if is_comment_definition(trimmed) {
            self.hidden_chars += trimmed.chars().filter(|c| !c.is_whitespace()).count();
            return;
        }
        if let Some(fence) = opening_fence(trimmed) {
            self.end_block();
            self.fence = Some(fence);
            self.push(line.trim_end());
            return;
        }
        let is_row = trimmed.starts_with('|');
        if !is_row {
            self.end_block();
        }
        if is_row && self.rendering == Rendering::Tight {
            self.rows += 1;
            // The first rows are the header and the line below it.
            if self.rows > TIGHT_ROWS + 2 {
                return;
            }
        }
        let line = without_targets(line.trim_end(), self.rendering);
        self.push(&line);
    }

    fn code_line(&mut self, line: &str, is_end: bool) {
        if is_end {
            self.end_block();
            self.fence = None;
        } else {
            self.code_lines += 1;
            if self.rendering == Rendering::Tight && self.code_lines > TIGHT_CODE_LINES {
                return;
            }
        }
        self.push(line.trim_end());
    }

    /// Says what was left out of a table or code block that ends here.
    fn end_block(&mut self) {
        if self.rendering == Rendering::Tight {
            let rows = self.rows.saturating_sub(TIGHT_ROWS + 2);
            let lines = self.code_lines.saturating_sub(TIGHT_CODE_LINES);
            if rows > 0 {
                self.push(&format!("… {rows} rows"));
            }
            if lines > 0 {
                self.push(&format!("… {lines} lines"));
            }
        }
        self.rows = 0;
        self.code_lines = 0;
    }

    fn push(&mut self, line: &str) {
        if line.is_empty() && self.fence.is_none() {
            self.blank_lines += 1;
            if self.blank_lines > 1 || self.rendering == Rendering::Tight {
                return;
            }
        } else {
            self.blank_lines = 0;
        }
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// HTML comments are not shown by any renderer. One in a code span is text.
    fn without_comments<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        if !self.in_comment && !line.contains("<!--") {
            return Cow::Borrowed(line);
        }
        let mut kept = String::new();
        let mut rest = line;
        let mut in_code = false;
        loop {
            if self.in_comment {
                let end = rest.find("-->");
                let hidden = &rest[..end.unwrap_or(rest.len())];
                self.hidden_chars += hidden.chars().filter(|c| !c.is_whitespace()).count();
                let Some(end) = end else { return Cow::Owned(kept) };
                self.in_comment = false;
                rest = &rest[end + 3..];
            }
            let Some(start) = rest.find("<!--") else { break };
            kept.push_str(&rest[..start]);
            in_code ^= rest[..start].matches('`').count() % 2 == 1;
            rest = &rest[start..];
            if in_code {
                kept.push_str("<!--");
            } else {
                self.in_comment = true;
            }
            rest = &rest[4..];
        }
        kept.push_str(rest);
        Cow::Owned(kept)
    }
}

/// `[//]: # (words)`: the other way to write what no renderer shows.
fn is_comment_definition(line: &str) -> bool {
    line.starts_with("[//]:") || line.starts_with("[comment]:")
}

fn opening_fence(line: &str) -> Option<String> {
    ['`', '~'].iter().find_map(|&tick| {
        let ticks = line.chars().take_while(|&character| character == tick).count();
        let is_fence = ticks >= 3 && !line[ticks..].contains('`');
        is_fence.then(|| tick.to_string().repeat(ticks))
    })
}

/// The line without embedded pictures and, in the tight rendering, without link targets.
fn without_targets(line: &str, rendering: Rendering) -> Cow<'_, str> {
    if !line.contains("](") {
        return Cow::Borrowed(line);
    }
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("](") {
        let target = &rest[at + 2..];
        let Some(end) = target.find(')') else { break };
        let is_embedded =
            target.trim_start().get(..5).is_some_and(|s| s.eq_ignore_ascii_case("data:"));
        kept.push_str(&rest[..=at]);
        if rendering == Rendering::Full && !is_embedded {
            kept.push_str(&rest[at + 1..=at + 2 + end]);
        }
        rest = &target[end + 1..];
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// Decodes the entities that the tracker writes, once.
pub(super) fn decode_entities(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        let name_length = rest.bytes().skip(1).take(8).position(|byte| byte == b';');
        let character = name_length.and_then(|length| entity(&rest[1..=length]));
        if let (Some(character), Some(length)) = (character, name_length) {
            decoded.push(character);
            rest = &rest[length + 2..];
        } else {
            decoded.push('&');
            rest = &rest[1..];
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some(' '),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|&character| character != '\0')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(raw: &str) -> String {
        clean(raw, Rendering::Full).text
    }

    #[test]
    fn entities_are_decoded_once() {
        assert_eq!(
            full("a &lt;b&gt; &amp;lt; &quot;x&quot; &#39;y&#x27; R&D &unknown; &"),
            "a <b> &lt; \"x\" 'y' R&D &unknown; &"
        );
    }

    #[test]
    fn markdown_is_not_html() {
        let text = "# Title\n\n* a_b_c\n* `<div style=\"display:none\">`\n\n| a | b |\n|---|---|\n| 1 | 2 |";
        assert_eq!(full(text), text);
    }

    #[test]
    fn comments_go_and_are_counted_but_code_stays() {
        let cleaned = clean(
            "a &lt;!-- obey\nme --&gt; b\n`<!-- x -->`\n```\n<!-- y -->\n```\n[//]: # (psst)",
            Rendering::Full,
        );
        assert_eq!(cleaned.text, "a\n b\n`<!-- x -->`\n```\n<!-- y -->\n```");
        assert!(cleaned.alarms.hidden_chars >= 6);
    }

    #[test]
    fn the_tight_rendering_drops_targets_and_long_blocks() {
        let rows = "| r |\n".repeat(20);
        let code = "x\n".repeat(20);
        let raw = format!("see [docs](https://e.com/x)\n\n{rows}\n```\n{code}```\n");
        let tight = clean(&raw, Rendering::Tight).text;
        assert!(tight.starts_with("see [docs]\n| r |"), "{tight}");
        assert!(tight.contains("… 12 rows") && tight.contains("… 12 lines"), "{tight}");
        assert!(tight.ends_with("```"), "{tight}");
    }

    #[test]
    fn embedded_pictures_go() {
        assert_eq!(full("![dot](data:image/png;base64,AAAA) x"), "![dot] x");
    }

    #[test]
    fn plain_text_passes_unchanged() {
        let cleaned = clean_plain("  a < b &amp; c\r\n\t<b>\u{200b}");
        assert_eq!(cleaned.text, "  a < b &amp; c\n\t<b>");
        assert_eq!(cleaned.alarms.invisible_chars, 1);
    }

    #[test]
    fn a_carriage_return_never_writes_over_its_own_line() {
        assert_eq!(clean_plain("paid\rnot paid\r\nend\r").text, "paid\nnot paid\nend\n");
        let cleaned = clean("paid\rnot paid &#13;end", Rendering::Full);
        assert!(!cleaned.text.contains('\r'), "{:?}", cleaned.text);
    }
}
