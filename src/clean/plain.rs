//! A fast path for plain markup: well-nested tags of a small set, for which html5ever would build
//! exactly the tree that is written.
//!
//! html5ever spends most of its time on work that such markup does not need: searching the open
//! elements for implied tags, and copying text. Here one pass over the input builds the same tree,
//! with texts that share the input's memory. If anything is not certainly plain, the fast path
//! returns `None` and html5ever parses the field instead: a misplaced tag, an implied element, an
//! uncommon character reference, a character with a special rule. `plain_tests` compares both
//! trees.

use std::borrow::Cow;

use ego_tree::{NodeId, Tree};
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, LocalName, QualName, local_name, ns};
use scraper::node::{Element, Text};
use scraper::{Html, Node};

use super::flood::{MAX_ATTRIBUTES, find};
use super::sink::{BYTES_PER_NODE, ROOM_AHEAD, TEXT_WORK, is_read};

/// Longer text, or deeper nesting, is left to html5ever and its counters.
const LONGEST: usize = 256 << 10;
const DEEPEST: usize = 100;
/// Upper bound of html5ever's steps for a tag: a constant, and more for each open element.
const TAG_WORK: u64 = 40;
const TAG_WORK_PER_LEVEL: u64 = 16;

/// A tree, with at least as many steps as html5ever would have counted.
pub(super) struct Plain {
    pub(super) html: Html,
    pub(super) work: u64,
    pub(super) nodes: usize,
}

/// The kind of an element, which decides where it may be nested.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The root of the page.
    Page,
    /// Inline.
    Phrase,
    Link,
    /// Inline, without content.
    Void,
    /// `<hr>`
    Rule,
    /// Ends a paragraph.
    Block,
    Paragraph,
    Heading,
    Preformatted,
    List,
    Item,
    Table,
    TableBody,
    Row,
    Cell,
}

impl Kind {
    /// Whether its start tag ends an open paragraph.
    fn ends_paragraph(self) -> bool {
        !matches!(self, Self::Page | Self::Phrase | Self::Link | Self::Void)
    }

    /// Whether it may be a child of `parent` as written: no element between them is implied, and it
    /// does not end `parent`.
    fn fits_into(self, parent: Self) -> bool {
        match parent {
            Self::Table => self == Self::TableBody,
            Self::TableBody => self == Self::Row,
            Self::Row => self == Self::Cell,
            _ => match self {
                Self::TableBody | Self::Row | Self::Cell => false,
                Self::Item => parent == Self::List,
                Self::Heading => parent != Self::Heading,
                _ => true,
            },
        }
    }

    /// Whether it may contain no text except white space.
    fn holds_no_text(self) -> bool {
        matches!(self, Self::Table | Self::TableBody | Self::Row)
    }
}

fn known(name: &[u8]) -> Option<(Kind, LocalName)> {
    Some(match name {
        b"div" => (Kind::Block, local_name!("div")),
        b"span" => (Kind::Phrase, local_name!("span")),
        b"br" => (Kind::Void, local_name!("br")),
        b"p" => (Kind::Paragraph, local_name!("p")),
        b"b" => (Kind::Phrase, local_name!("b")),
        b"i" => (Kind::Phrase, local_name!("i")),
        b"u" => (Kind::Phrase, local_name!("u")),
        b"a" => (Kind::Link, local_name!("a")),
        b"li" => (Kind::Item, local_name!("li")),
        b"ul" => (Kind::List, local_name!("ul")),
        b"ol" => (Kind::List, local_name!("ol")),
        b"td" => (Kind::Cell, local_name!("td")),
        b"th" => (Kind::Cell, local_name!("th")),
        b"tr" => (Kind::Row, local_name!("tr")),
        b"tbody" => (Kind::TableBody, local_name!("tbody")),
        b"thead" => (Kind::TableBody, local_name!("thead")),
        b"table" => (Kind::Table, local_name!("table")),
        b"em" => (Kind::Phrase, local_name!("em")),
        b"strong" => (Kind::Phrase, local_name!("strong")),
        b"code" => (Kind::Phrase, local_name!("code")),
        b"pre" => (Kind::Preformatted, local_name!("pre")),
        b"img" => (Kind::Void, local_name!("img")),
        b"h1" => (Kind::Heading, local_name!("h1")),
        b"h2" => (Kind::Heading, local_name!("h2")),
        b"h3" => (Kind::Heading, local_name!("h3")),
        b"h4" => (Kind::Heading, local_name!("h4")),
        b"h5" => (Kind::Heading, local_name!("h5")),
        b"h6" => (Kind::Heading, local_name!("h6")),
        b"hr" => (Kind::Rule, local_name!("hr")),
        b"input" => (Kind::Void, local_name!("input")),
        b"tfoot" => (Kind::TableBody, local_name!("tfoot")),
        // Word's paragraph mark.
        b"o:p" => (Kind::Phrase, LocalName::from("o:p")),
        b"blockquote" => (Kind::Block, local_name!("blockquote")),
        b"font" => (Kind::Phrase, local_name!("font")),
        b"s" => (Kind::Phrase, local_name!("s")),
        b"strike" => (Kind::Phrase, local_name!("strike")),
        b"small" => (Kind::Phrase, local_name!("small")),
        b"tt" => (Kind::Phrase, local_name!("tt")),
        b"del" => (Kind::Phrase, local_name!("del")),
        b"ins" => (Kind::Phrase, local_name!("ins")),
        b"sub" => (Kind::Phrase, local_name!("sub")),
        b"sup" => (Kind::Phrase, local_name!("sup")),
        b"kbd" => (Kind::Phrase, local_name!("kbd")),
        b"samp" => (Kind::Phrase, local_name!("samp")),
        b"section" => (Kind::Block, local_name!("section")),
        b"article" => (Kind::Block, local_name!("article")),
        _ => return None,
    })
}

/// Parses plain markup within the allowed steps; `None` if it may not be plain.
pub(super) fn parse(input: &str, allowed: u64) -> Option<Plain> {
    if input.len() > LONGEST || input.starts_with('\u{feff}') {
        return None;
    }
    let input = match memchr::memchr2(b'\0', b'\r', input.as_bytes()) {
        None => Cow::Borrowed(input),
        Some(_) if input.contains('\0') => return None,
        Some(_) => Cow::Owned(input.replace("\r\n", "\n").replace('\r', "\n")),
    };
    let mut builder = Builder::new(&input);
    builder.run()?;
    let Builder { tree, work, nodes, .. } = builder;
    if work > allowed {
        return None;
    }
    let mut html = Html::new_fragment();
    html.tree = tree;
    Some(Plain { html, work, nodes })
}

/// An element that is open.
struct Open {
    node: NodeId,
    kind: Kind,
    name: LocalName,
}

struct Builder<'a> {
    input: &'a str,
    /// The same, for texts to share.
    shared: StrTendril,
    at: usize,
    tree: Tree<Node>,
    nodes: usize,
    open: Vec<Open>,
    paragraphs: usize,
    links: usize,
    work: u64,
}

impl<'a> Builder<'a> {
    fn new(input: &'a str) -> Self {
        let room = (input.len() / BYTES_PER_NODE).min(ROOM_AHEAD) + 4;
        let mut tree = Tree::with_capacity(Node::Fragment, room);
        let name = local_name!("html");
        let html = Element::new(QualName::new(None, ns!(html), name.clone()), Vec::new());
        let node = tree.root_mut().append(Node::Element(html)).id();
        Self {
            input,
            shared: StrTendril::from_slice(input),
            at: 0,
            tree,
            nodes: 2,
            open: vec![Open { node, kind: Kind::Page, name }],
            paragraphs: 0,
            links: 0,
            work: 2 * TAG_WORK,
        }
    }

    fn run(&mut self) -> Option<()> {
        while self.at < self.input.len() {
            let end = find(self.input.as_bytes(), self.at, b'<').unwrap_or(self.input.len());
            if end > self.at {
                self.text(end)?;
                self.at = end;
                continue;
            }
            match self.input.as_bytes().get(self.at + 1)? {
                b'/' => self.end_tag()?,
                _ => self.start_tag()?,
            }
        }
        Some(())
    }

    fn append(&mut self, node: Node) -> Option<NodeId> {
        self.nodes += 1;
        let parent = self.open.last()?.node;
        Some(self.tree.get_mut(parent)?.append(node).id())
    }

    /// The text up to `end`.
    fn text(&mut self, end: usize) -> Option<()> {
        let text = self.input.get(self.at..end)?;
        if self.open.last()?.kind.holds_no_text() && !text.bytes().all(is_space) {
            return None;
        }
        let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
        self.work += TEXT_WORK * (4 + 2 * lines);
        let text = self.decoded(self.at, end)?;
        self.append(Node::Text(Text { text }))?;
        Some(())
    }

    /// A part of the input with its references replaced.
    fn decoded(&mut self, from: usize, to: usize) -> Option<StrTendril> {
        let part = |from: usize, to: usize| {
            Some(self.shared.subtendril(u32::try_from(from).ok()?, u32::try_from(to - from).ok()?))
        };
        let bytes = self.input.as_bytes().get(from..to)?;
        let Some(first) = memchr::memchr(b'&', bytes) else { return part(from, to) };
        let mut text = part(from, from + first)?;
        let mut rest = self.input.get(from + first..to)?;
        while !rest.is_empty() {
            self.work += 2 * TEXT_WORK;
            let (character, length) = reference(rest)?;
            text.push_slice(character);
            rest = &rest[length..];
            let next = memchr::memchr(b'&', rest.as_bytes()).unwrap_or(rest.len());
            text.push_slice(&rest[..next]);
            rest = &rest[next..];
        }
        Some(text)
    }

    fn end_tag(&mut self) -> Option<()> {
        let name_at = self.at + 2;
        let close = find(self.input.as_bytes(), name_at, b'>')?;
        let (_, name) = lower_case(self.input.as_bytes().get(name_at..close)?, known)?;
        // Counted before the element is closed: html5ever searches the elements still open.
        self.count_tag();
        let ended = self.open.pop().filter(|open| open.name == name && open.kind != Kind::Page)?;
        self.paragraphs -= usize::from(ended.kind == Kind::Paragraph);
        self.links -= usize::from(ended.kind == Kind::Link);
        self.at = close + 1;
        Some(())
    }

    fn count_tag(&mut self) {
        self.work += TAG_WORK + TAG_WORK_PER_LEVEL * self.open.len() as u64;
    }

    fn start_tag(&mut self) -> Option<()> {
        let bytes = self.input.as_bytes();
        let name_at = self.at + 1;
        let length = bytes.get(name_at..)?.iter().position(|&byte| !is_name(byte))?;
        let (kind, name) = lower_case(bytes.get(name_at..name_at + length)?, known)?;
        let parent = self.open.last()?.kind;
        let is_in_place = kind.fits_into(parent)
            && !(kind.ends_paragraph() && self.paragraphs > 0)
            && !(kind == Kind::Link && self.links > 0)
            && self.open.len() < DEEPEST;
        if !is_in_place {
            return None;
        }
        self.count_tag();
        self.at = name_at + length;
        let is_void = matches!(kind, Kind::Void | Kind::Rule);
        let attributes = self.attributes(is_void)?;
        let element = Element::new(QualName::new(None, ns!(html), name.clone()), attributes);
        let node = self.append(Node::Element(element))?;
        if is_void {
            return Some(());
        }
        self.paragraphs += usize::from(kind == Kind::Paragraph);
        self.links += usize::from(kind == Kind::Link);
        self.open.push(Open { node, kind, name });
        if kind == Kind::Preformatted && self.input.as_bytes().get(self.at) == Some(&b'\n') {
            // The first line end belongs to the tag.
            self.at += 1;
        }
        Some(())
    }

    /// Reads the attributes and the end of a start tag.
    fn attributes(&mut self, may_end_itself: bool) -> Option<Vec<Attribute>> {
        let bytes = self.input.as_bytes();
        let mut attributes: Vec<Attribute> = Vec::new();
        for _ in 0..MAX_ATTRIBUTES {
            let had_space = is_space(*bytes.get(self.at)?);
            while is_space(*bytes.get(self.at)?) {
                self.at += 1;
            }
            match bytes.get(self.at)? {
                b'>' => {
                    self.at += 1;
                    return Some(attributes);
                }
                b'/' if may_end_itself && bytes.get(self.at + 1) == Some(&b'>') => {
                    self.at += 2;
                    return Some(attributes);
                }
                byte if had_space && byte.is_ascii_alphabetic() => {
                    let (name, value) = self.attribute()?;
                    let Some(name) = lower_case(name, attribute_name)? else { continue };
                    if attributes.iter().any(|known| known.name.local == name) {
                        return None;
                    }
                    let value = self.decoded(value.start, value.end)?;
                    attributes.push(Attribute { name: QualName::new(None, ns!(), name), value });
                }
                _ => return None,
            }
        }
        None
    }

    /// One attribute: its name, and where its value is.
    fn attribute(&mut self) -> Option<(&'a [u8], std::ops::Range<usize>)> {
        let bytes = self.input.as_bytes();
        let rest = bytes.get(self.at..)?;
        let length = rest.iter().position(|&byte| !is_name(byte))?;
        let name = &rest[..length];
        self.at += length;
        let value = match bytes.get(self.at)? {
            b'=' => match bytes.get(self.at + 1)? {
                &quote @ (b'"' | b'\'') => {
                    let start = self.at + 2;
                    let end = find(bytes, start, quote)?;
                    self.at = end + 1;
                    start..end
                }
                _ => {
                    let start = self.at + 1;
                    let rest = bytes.get(start..)?;
                    let length = rest.iter().position(|&byte| is_space(byte) || byte == b'>')?;
                    let is_plain =
                        |byte: &u8| !matches!(byte, b'"' | b'\'' | b'=' | b'`' | b'&' | b'<');
                    if length == 0 || !rest[..length].iter().all(is_plain) {
                        return None;
                    }
                    self.at = start + length;
                    start..self.at
                }
            },
            b'>' | b'/' | b' ' | b'\n' | b'\t' | 0x0c => 0..0,
            _ => return None,
        };
        // A plain text search could mistake it for a style sheet.
        if memchr::memchr(b'<', bytes.get(value.clone())?).is_some() {
            return None;
        }
        Some((name, value))
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | 0x0c)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':')
}

/// The name of an attribute: `Some(None)` if no code reads it, `None` if it is not UTF-8.
fn attribute_name(name: &[u8]) -> Option<Option<LocalName>> {
    let name = std::str::from_utf8(name).ok()?;
    Some(is_read(name).then(|| match name {
        "style" => local_name!("style"),
        "class" => local_name!("class"),
        "href" => local_name!("href"),
        name => LocalName::from(name),
    }))
}

/// Calls `work` with the name in lower case; `None` if it is longer than every known name.
fn lower_case<T>(name: &[u8], work: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    if !name.iter().any(u8::is_ascii_uppercase) {
        return work(name);
    }
    let mut buffer = [0_u8; 48];
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    work(lower)
}

/// The character of a reference at the beginning, and the reference's length.
fn reference(text: &str) -> Option<(&'static str, usize)> {
    const KNOWN: [(&str, &str); 18] = [
        ("&nbsp;", "\u{a0}"),
        ("&quot;", "\""),
        ("&amp;", "&"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#39;", "'"),
        ("&#34;", "\""),
        ("&#160;", "\u{a0}"),
        ("&apos;", "'"),
        ("&rsquo;", "’"),
        ("&lsquo;", "‘"),
        ("&ldquo;", "“"),
        ("&rdquo;", "”"),
        ("&ndash;", "–"),
        ("&mdash;", "—"),
        ("&hellip;", "…"),
        ("&middot;", "·"),
        ("&bull;", "•"),
    ];
    let (name, character) = KNOWN.iter().find(|(name, _)| text.starts_with(name))?;
    Some((character, name.len()))
}
