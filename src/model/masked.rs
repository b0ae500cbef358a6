//! Untrusted Markdown whose dangerous characters are masked until it is known what is code.
//!
//! In code a renderer shows an escape literally, and elsewhere a missing escape makes HTML, a link
//! or an image active. Only a parser can tell the two apart, and only on the whole page: a fence
//! after other words on its line is not a fence. So texts are masked, the page is built, and then
//! every mask becomes the plain character in code and its escape elsewhere.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::{plain_markdown, plain_text};

// Control characters, which plain text does not contain.
const LESS_THAN: char = '\u{1}';
const AMPERSAND: char = '\u{2}';
/// Nothing in code, a backslash elsewhere.
const ESCAPE: char = '\u{3}';

/// Masks HTML, links, images and headings. Code, lists and emphasis stay.
pub fn mask(text: &str) -> String {
    // Trimmed after what is invisible has gone: in a list, a space before a fence would move the fence
    // out of its entry.
    let text = plain_markdown(plain_text(text).trim());
    text.lines().map(mask_line).collect::<Vec<_>>().join("\n")
}

fn mask_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 1);
    let words = line.trim();
    let is_underline = !words.is_empty() && words.chars().all(|c| c == '-');
    let heading = (words.starts_with(['#', '=']) || is_underline)
        .then(|| line.len() - line.trim_start().len());
    let mut before = ' ';
    for (at, character) in line.char_indices() {
        let opens = matches!((before, character), (']', '(' | ':') | ('!', '['));
        if opens || heading == Some(at) {
            out.push(ESCAPE);
        }
        out.push(match character {
            '<' => LESS_THAN,
            '&' => AMPERSAND,
            other => other,
        });
        before = character;
    }
    out
}

/// The original characters. Not for Markdown, where they would be active.
pub fn unmask(text: &str) -> String {
    let original = |character| match character {
        LESS_THAN => Some('<'),
        AMPERSAND => Some('&'),
        ESCAPE => None,
        other => Some(other),
    };
    text.chars().filter_map(original).collect()
}

/// A page of Markdown: the original characters in code, escaped elsewhere.
pub fn unmask_markdown(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut end = 0;
    for code in code_ranges(page) {
        escape(&mut out, &page[end..code.start]);
        out.push_str(&unmask(&page[code.clone()]));
        end = code.end;
    }
    escape(&mut out, &page[end..]);
    out
}

fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            LESS_THAN => out.push_str("&lt;"),
            AMPERSAND => out.push_str("&amp;"),
            ESCAPE => out.push('\\'),
            other => out.push(other),
        }
    }
}

/// Where a page has inline code, with its backticks, and the text of fenced code, in order. Only
/// what is code for every renderer: tables split code at `|`, so it must be code with and without
/// them.
pub fn code_ranges(page: &str) -> Vec<Range<usize>> {
    let mut code = code_as_parsed(page, Options::empty());
    if page.contains('|') {
        let with_tables = code_as_parsed(page, Options::ENABLE_TABLES);
        code.retain(|range| {
            with_tables
                .binary_search_by_key(&range.start, |other| other.start)
                .is_ok_and(|found| with_tables[found] == *range)
        });
    }
    code
}

fn code_as_parsed(page: &str, options: Options) -> Vec<Range<usize>> {
    let (mut found, mut in_fence) = (Vec::new(), false);
    for (event, range) in Parser::new_ext(page, options).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => in_fence = true,
            Event::End(TagEnd::CodeBlock) => in_fence = false,
            Event::Text(_) if in_fence => found.push(range),
            // A `<` at the start of a line opens a block of HTML even within code.
            Event::Code(_) if !page[range.clone()].contains('\n') => found.push(range),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmasking_restores_the_text() {
        for text in ["a <b> & [x](y) ![z](w)\n# h\n  == \n--\n[r]: s", "]\\(", "`&lt;`"] {
            assert_eq!(unmask(&mask(text)), text);
        }
    }

    #[test]
    fn what_is_invisible_leaves_no_space_before_a_fence() {
        assert_eq!(mask("\0 ```\n"), "```\n```");
    }

    #[test]
    fn code_is_what_every_renderer_takes_for_code() {
        let code = |page: &str| -> Vec<String> {
            code_ranges(page).into_iter().map(|range| page[range].to_owned()).collect()
        };
        assert_eq!(code("a `b` ``c`d`` `e"), ["`b`", "``c`d``"]);
        assert_eq!(code("a `b\nc`\n\n```x\nd\n```\n\n    e"), ["d\n"]);
        assert_eq!(code("`a|b`"), ["`a|b`"]);
        assert_eq!(code("`c`|`a|b`\n-|-|-"), ["`c`"]);
    }
}
