//! A linear look over raw HTML that takes attributes away from tags with absurdly many.
//!
//! The tokenizer compares each attribute of a tag with all those before it, so one tag with a
//! million attributes would cost a trillion comparisons. No real tag has more than a few dozen.

use std::borrow::Cow;

/// Attributes a tag may have.
const MAX_ATTRIBUTES: usize = 64;

/// `input` without the attributes beyond the limit, and the number of bytes taken away.
pub(super) fn without_attribute_floods(input: &str) -> (Cow<'_, str>, usize) {
    let bytes = input.as_bytes();
    let mut kept = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(open) = find(bytes, at, b'<') {
        at = open + 1;
        if bytes[at..].starts_with(b"!--") {
            at = end_of_comment(input, at + 3);
            continue;
        }
        if !bytes.get(at).is_some_and(u8::is_ascii_alphabetic) {
            continue;
        }
        let tag = scan_tag(bytes, at);
        if let Some(from) = tag.flood_from {
            kept.push_str(&input[copied..from]);
            copied = tag.end;
        }
        at = tag.end;
    }
    if copied == 0 {
        return (Cow::Borrowed(input), 0);
    }
    kept.push_str(&input[copied..]);
    let removed = input.len() - kept.len();
    (Cow::Owned(kept), removed)
}

fn find(bytes: &[u8], from: usize, wanted: u8) -> Option<usize> {
    bytes.get(from..)?.iter().position(|&byte| byte == wanted).map(|offset| from + offset)
}

fn end_of_comment(input: &str, from: usize) -> usize {
    input.get(from..).and_then(|rest| rest.find("-->")).map_or(input.len(), |at| from + at)
}

struct Tag {
    /// Where the tag's `>` is, or the end of the input.
    end: usize,
    /// Where the attributes beyond the limit begin.
    flood_from: Option<usize>,
}

/// Steps over one tag as the HTML tokenizer does: quotes count only where a value begins.
fn scan_tag(bytes: &[u8], name_at: usize) -> Tag {
    let is_space = |byte: u8| byte.is_ascii_whitespace() || byte == b'/';
    let mut at = name_at;
    let mut attributes = 0;
    let mut flood_from = None;
    let skip = |mut at: usize, stop: &dyn Fn(u8) -> bool| {
        while at < bytes.len() && !stop(bytes[at]) {
            at += 1;
        }
        at
    };
    at = skip(at, &|byte| is_space(byte) || byte == b'>');
    loop {
        at = skip(at, &|byte| !is_space(byte));
        if at >= bytes.len() || bytes[at] == b'>' {
            return Tag { end: at, flood_from };
        }
        attributes += 1;
        if attributes > MAX_ATTRIBUTES && flood_from.is_none() {
            flood_from = Some(at);
        }
        // A name may begin with `=`; after that `=` begins the value.
        at = skip(at + 1, &|byte| is_space(byte) || byte == b'>' || byte == b'=');
        let value = skip(at, &|byte| !byte.is_ascii_whitespace());
        if bytes.get(value) != Some(&b'=') {
            continue;
        }
        at = skip(value + 1, &|byte| !byte.is_ascii_whitespace());
        at = match bytes.get(at) {
            Some(&quote @ (b'"' | b'\'')) => {
                (skip(at + 1, &|byte| byte == quote) + 1).min(bytes.len())
            }
            _ => skip(at, &|byte| byte.is_ascii_whitespace() || byte == b'>'),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_tags_are_left_alone() {
        let html = "<p class=a id='b > c' title=\"<\">text < 3 <!-- <a b c --> </p>";
        let (kept, removed) = without_attribute_floods(html);
        assert!(matches!(kept, Cow::Borrowed(_)));
        assert_eq!((&*kept, removed), (html, 0));
    }

    #[test]
    fn attributes_beyond_the_limit_go() {
        let flood: String = (0..1000).map(|n| format!(" a{n}='>'")).collect();
        let html = format!("<p{flood}>text</p>");
        let (kept, removed) = without_attribute_floods(&html);
        assert!(kept.ends_with(">text</p>"), "{kept}");
        assert_eq!(kept.matches("='>'").count(), MAX_ATTRIBUTES);
        assert_eq!(removed, html.len() - kept.len());
    }

    #[test]
    fn an_unfinished_tag_ends_with_the_input() {
        let flood: String = (0..100).map(|n| format!(" a{n}=\"x")).collect();
        for end in ["", "=", "='", "/", " "] {
            let html = format!("<p{flood}{end}");
            let (kept, _) = without_attribute_floods(&html);
            assert!(kept.starts_with("<p a0"));
        }
    }
}
