//! Finds where an HTML construct ends, by the tokenizer's rules, and which attributes are kept of a
//! tag with too many.
//!
//! The tokenizer compares each attribute of a tag with all previous ones, so one tag with a million
//! attributes would cost a trillion comparisons. Real tags have at most a few dozen.

/// Maximum attributes per tag; of further ones only those that are read are kept.
pub(super) const MAX_ATTRIBUTES: usize = 64;

/// What a `<` begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Construct {
    /// A `<` that is text.
    Text,
    /// A comment, a declaration or an instruction.
    Comment,
    /// `<![CDATA[`, which is a comment or text depending on its position.
    Cdata,
    /// A start tag or an end tag.
    Tag(Tag),
}

#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct Tag {
    /// End of its name.
    pub(super) name_end: usize,
    pub(super) is_end: bool,
    pub(super) has_attributes: bool,
    /// Start of the attributes beyond the limit, and those of them that are kept.
    pub(super) flood: Option<(usize, String)>,
}

/// The position of a byte.
pub(super) fn find(bytes: &[u8], from: usize, wanted: u8) -> Option<usize> {
    memchr::memchr(wanted, bytes.get(from..)?).map(|offset| from + offset)
}

/// The construct that begins with the `<` at `open`, and its end.
pub(super) fn construct(
    input: &str,
    open: usize,
    is_read: &dyn Fn(&str) -> bool,
) -> (Construct, usize) {
    let bytes = input.as_bytes();
    let rest = &bytes[open + 1..];
    let after_bracket = || find(bytes, open + 1, b'>').map_or(bytes.len(), |at| at + 1);
    match rest.first() {
        Some(b'!') if rest.starts_with(b"!--") => {
            (Construct::Comment, end_of_comment(bytes, open + 4))
        }
        Some(b'!') if rest.starts_with(b"![CDATA[") => (Construct::Cdata, open + 9),
        Some(b'!' | b'?') => (Construct::Comment, after_bracket()),
        Some(b'/') => match rest.get(1) {
            Some(byte) if byte.is_ascii_alphabetic() => {
                let (mut tag, end) = scan_tag(input, open + 2, is_read);
                tag.is_end = true;
                (Construct::Tag(tag), end)
            }
            Some(_) => (Construct::Comment, after_bracket()),
            None => (Construct::Text, open + 1),
        },
        Some(byte) if byte.is_ascii_alphabetic() => {
            let (tag, end) = scan_tag(input, open + 1, is_read);
            (Construct::Tag(tag), end)
        }
        _ => (Construct::Text, open + 1),
    }
}

/// The end of a comment whose text begins at `from`.
fn end_of_comment(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or(&[]);
    if rest.starts_with(b">") {
        return from + 1;
    }
    if rest.starts_with(b"->") {
        return from + 2;
    }
    let mut at = from;
    while let Some(dash) = find(bytes, at, b'-') {
        let tail = &bytes[dash..];
        if tail.starts_with(b"-->") {
            return dash + 3;
        }
        if tail.starts_with(b"--!>") {
            return dash + 4;
        }
        at = dash + 1;
    }
    bytes.len()
}

/// The first position from `at` on where `stop` holds.
fn skip(bytes: &[u8], at: usize, stop: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(at..).unwrap_or(&[]);
    rest.iter().position(|&byte| stop(byte)).map_or(bytes.len(), |offset| at + offset)
}

/// Skips one tag as the tokenizer does: quotes count only where a value begins. Returns the end of
/// the tag.
fn scan_tag(input: &str, name_at: usize, is_read: &dyn Fn(&str) -> bool) -> (Tag, usize) {
    let bytes = input.as_bytes();
    let is_space = |byte: u8| byte.is_ascii_whitespace() || byte == b'/';
    let mut at = skip(bytes, name_at, |byte| is_space(byte) || byte == b'>');
    let mut tag = Tag { name_end: at, ..Tag::default() };
    let mut count = 0;
    let mut kept_names: Vec<&str> = Vec::new();
    loop {
        at = skip(bytes, at, |byte| !is_space(byte));
        if at >= bytes.len() || bytes[at] == b'>' {
            return (tag, (at + 1).min(bytes.len()));
        }
        count += 1;
        tag.has_attributes = true;
        let start = at;
        // A name may begin with `=`; after that `=` begins the value.
        at = skip(bytes, at + 1, |byte| is_space(byte) || byte == b'>' || byte == b'=');
        let name = start..at;
        let value = skip(bytes, at, |byte| !byte.is_ascii_whitespace());
        if bytes.get(value) == Some(&b'=') {
            at = skip(bytes, value + 1, |byte| !byte.is_ascii_whitespace());
            at = match bytes.get(at) {
                Some(&quote @ (b'"' | b'\'')) => {
                    find(bytes, at + 1, quote).map_or(bytes.len(), |close| close + 1)
                }
                _ => skip(bytes, at, |byte| byte.is_ascii_whitespace() || byte == b'>'),
            };
        }
        if count <= MAX_ATTRIBUTES {
            continue;
        }
        let (_, kept) = tag.flood.get_or_insert((start, String::new()));
        let name = input.get(name).unwrap_or("");
        if is_read(&name.to_ascii_lowercase())
            && !kept_names.iter().any(|known| known.eq_ignore_ascii_case(name))
        {
            kept_names.push(name);
            kept.push_str(input.get(start..at).unwrap_or(""));
            kept.push(' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(input: &str) -> (Construct, usize) {
        construct(input, 0, &|name| name == "style")
    }

    #[test]
    fn constructs_end_where_the_tokenizer_ends_them() {
        for (input, end) in [
            ("<!-- a -->b", 10),
            ("<!-->b", 5),
            ("<!--->b", 6),
            ("<!---->b", 7),
            ("<!-- a --!>b", 11),
            ("<!-- a", 6),
            ("<!doctype html>b", 15),
            ("<?php x ?>b", 10),
            ("</ x>b", 5),
        ] {
            assert_eq!(at(input), (Construct::Comment, end), "{input}");
        }
        assert_eq!(at("< 3"), (Construct::Text, 1));
        assert_eq!(at("<![CDATA[x]]>").0, Construct::Cdata);
        for (input, length) in
            [("<p class=a id='b > c' title=\"<\">x", 32), ("<p>x", 3), ("</p >x", 5), ("<p a", 4)]
        {
            assert_eq!(at(input).1, length, "{input}");
        }
    }

    #[test]
    fn of_attributes_beyond_the_limit_only_those_that_are_read_stay() {
        let flood: String = (0..1000).map(|n| format!(" a{n}='>'")).collect();
        let html = format!("<p{flood} STYLE='display:none' style=x>text</p>");
        let (Construct::Tag(tag), end) = at(&html) else { panic!("no tag") };
        assert!(html[end..].starts_with("text"));
        let (from, kept) = tag.flood.unwrap();
        assert_eq!(html[..from].matches("='>'").count(), MAX_ATTRIBUTES);
        assert_eq!(kept, "STYLE='display:none' ");
    }

    #[test]
    fn an_unfinished_tag_ends_with_the_input() {
        let flood: String = (0..100).map(|n| format!(" a{n}=\"x")).collect();
        for end in ["", "=", "='", "/", " "] {
            let html = format!("<p{flood}{end}");
            assert_eq!(at(&html).1, html.len());
        }
    }
}
