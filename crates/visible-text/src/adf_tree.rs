//! The tree of an Atlassian document, parsed from JSON without recursion: nesting a hundred
//! thousand levels costs proportional memory and no stack.

use std::borrow::Cow;

use serde_json::Value;

/// Maximum bytes of JSON; the tracker's longest text has 32,767 characters.
const MAX_INPUT: usize = 4 << 20;
/// Maximum number of elements.
const MAX_NODES: usize = 200_000;

/// Index of a node; the first node is the document.
pub(super) type At = usize;

#[derive(Debug, Default)]
pub(super) struct Node<'a> {
    pub kind: Cow<'a, str>,
    pub text: Option<Cow<'a, str>>,
    /// Unparsed JSON.
    attrs: &'a str,
    marks: &'a str,
    pub first_child: Option<At>,
    pub next: Option<At>,
    last_child: Option<At>,
}

impl Node<'_> {
    pub fn attrs(&self) -> Value {
        serde_json::from_str(self.attrs).unwrap_or_default()
    }

    /// Formatting marks of a text.
    pub fn marks(&self) -> Vec<Value> {
        if self.marks.is_empty() {
            return Vec::new();
        }
        serde_json::from_str(self.marks).unwrap_or_default()
    }
}

#[derive(Debug)]
pub(super) struct Tree<'a> {
    pub nodes: Vec<Node<'a>>,
    /// `version` as written; `None` if it is missing.
    pub version: Option<&'a str>,
    /// Bytes that were not read.
    pub cut_bytes: usize,
}

/// What is open: an element, or its list of children.
enum Open {
    Element(At),
    Content(At),
}

impl<'a> Tree<'a> {
    /// Parses a document; `None` if it is not a JSON object. A truncated document is read as far as
    /// it goes.
    pub fn read(raw: &'a str) -> Option<Self> {
        let end = super::parse::floor_char_boundary(raw, MAX_INPUT);
        let mut cursor = Cursor { text: &raw[..end], at: 0 };
        cursor.skip_space();
        if !cursor.take(b'{') {
            return None;
        }
        let mut tree = Self { nodes: vec![Node::default()], version: None, cut_bytes: 0 };
        let whole = tree.fill(&mut cursor).is_some();
        tree.cut_bytes = if whole { 0 } else { raw.len() - cursor.at.min(raw.len()) };
        Some(tree)
    }

    /// `None` where the JSON ends early or is invalid.
    fn fill(&mut self, cursor: &mut Cursor<'a>) -> Option<()> {
        let mut open = vec![Open::Element(0)];
        while let Some(innermost) = open.last() {
            cursor.skip_separators();
            match *innermost {
                Open::Element(_) if cursor.take(b'}') => drop(open.pop()),
                Open::Content(_) if cursor.take(b']') => drop(open.pop()),
                Open::Element(at) => {
                    let key = cursor.string()?;
                    cursor.skip_space();
                    if !cursor.take(b':') {
                        return None;
                    }
                    cursor.skip_space();
                    if key == "content" && cursor.take(b'[') {
                        // Of two lists with the same name, JSON readers keep the last.
                        let node = &mut self.nodes[at];
                        (node.first_child, node.last_child) = (None, None);
                        open.push(Open::Content(at));
                    } else {
                        self.set(at, &key, cursor.value()?);
                    }
                }
                Open::Content(parent) => {
                    if !cursor.take(b'{') {
                        cursor.value()?;
                    } else if self.nodes.len() < MAX_NODES {
                        open.push(Open::Element(self.add(parent)));
                    } else {
                        return None;
                    }
                }
            }
        }
        Some(())
    }

    fn add(&mut self, parent: At) -> At {
        let at = self.nodes.len();
        self.nodes.push(Node::default());
        let before = self.nodes[parent].last_child.replace(at);
        match before {
            Some(before) => self.nodes[before].next = Some(at),
            None => self.nodes[parent].first_child = Some(at),
        }
        at
    }

    fn set(&mut self, at: At, key: &str, value: &'a str) {
        let node = &mut self.nodes[at];
        match key {
            "type" => node.kind = unquoted(value).unwrap_or_default(),
            "text" => node.text = unquoted(value),
            "attrs" => node.attrs = value,
            "marks" => node.marks = value,
            "version" if at == 0 => self.version = Some(value),
            _ => {}
        }
    }
}

/// The text of a JSON string; `None` if `json` is not one.
pub(super) fn unquoted(json: &str) -> Option<Cow<'_, str>> {
    let inside = json.trim().strip_prefix('"')?.strip_suffix('"')?;
    if !inside.contains('\\') {
        return Some(Cow::Borrowed(inside));
    }
    let mut units: Vec<u16> = Vec::new();
    let mut text = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        let escaped = match character {
            '\\' => characters.next().unwrap_or('\\'),
            other => {
                flush(&mut units, &mut text);
                text.push(other);
                continue;
            }
        };
        if escaped == 'u' {
            let digits: String = characters.by_ref().take(4).collect();
            units.push(u16::from_str_radix(&digits, 16).unwrap_or(0xFFFD));
            continue;
        }
        flush(&mut units, &mut text);
        text.push(match escaped {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            other => other,
        });
    }
    flush(&mut units, &mut text);
    Some(Cow::Owned(text))
}

/// An unpaired surrogate becomes a replacement character.
fn flush(units: &mut Vec<u16>, text: &mut String) {
    if !units.is_empty() {
        text.push_str(&String::from_utf16_lossy(units));
        units.clear();
    }
}

/// A position in JSON.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn skip_separators(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace() || byte == b',') {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        if self.peek() != Some(b'"') {
            return None;
        }
        unquoted(self.value()?)
    }

    /// The next value as written, at any depth.
    fn value(&mut self) -> Option<&'a str> {
        let (start, mut depth) = (self.at, 0_usize);
        loop {
            match self.peek()? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth == 0 => return None,
                byte if byte.is_ascii_whitespace() || matches!(byte, b',' | b':') => {
                    self.at += 1;
                    continue;
                }
                _ => self.skip_word(),
            }
            if depth == 0 {
                return self.text.get(start..self.at);
            }
        }
    }

    /// A number, `true`, `false`, `null`, or an invalid word.
    fn skip_word(&mut self) {
        self.at += 1;
        let ends = |byte: u8| byte.is_ascii_whitespace() || b",:]}[{\"".contains(&byte);
        while self.peek().is_some_and(|byte| !ends(byte)) {
            self.at += 1;
        }
    }

    fn skip_string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_halves_of_pairs_are_read() {
        assert_eq!(unquoted(r#""a\nb\u00e9\ud83d\ude00\ud83dx\\""#).unwrap(), "a\nbé😀\u{FFFD}x\\");
        assert_eq!(unquoted("\"plain\"").unwrap(), "plain");
        assert_eq!(unquoted("null"), None);
    }

    #[test]
    fn the_order_of_keys_does_not_matter_and_other_keys_are_passed_over() {
        let raw = r#" {"x":{"content":[1,[{"}":"]"}]]},"content":[{"content":[{"text":"a","type":"text"},
            7, null, {"type":"text","text":"b"}],"type":"paragraph"}],"type":"doc","version":1}"#;
        let tree = Tree::read(raw).unwrap();
        let kinds: Vec<&str> = tree.nodes.iter().map(|node| &*node.kind).collect();
        assert_eq!(kinds, ["doc", "paragraph", "text", "text"]);
        assert_eq!((tree.version, tree.cut_bytes), (Some("1"), 0));
        assert_eq!(tree.nodes[2].next, Some(3));
    }

    #[test]
    fn what_breaks_off_is_read_as_far_as_it_goes() {
        let raw = r#"{"type":"doc","content":[{"type":"text","text":"kept"},{"type":"text","te"#;
        let tree = Tree::read(raw).unwrap();
        assert_eq!(tree.nodes[1].text.as_deref(), Some("kept"));
        assert!(Tree::read("[]").is_none() && Tree::read("").is_none());
    }
}
