//! A bounded parse: scraper's tree, built by html5ever, with a counter on the work it takes.
//!
//! html5ever follows the HTML standard, and some of the standard's steps look through every open
//! element. Nesting, misnested formatting and stray end tags can therefore cost quadratic time:
//! half a megabyte of `<div>` takes more than a minute. The parser asks its sink about each
//! element it looks at, so the sink can count; input is fed in small pieces and stops when the
//! count passes what a reasonable document of that size needs. Counters, never clocks: the same
//! input always gives the same output.

use std::borrow::Cow;
use std::cell::{Cell, Ref, RefCell};

use ego_tree::{NodeId, Tree};
use html5ever::buffer_queue::BufferQueue;
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink, create_element};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{Attribute, LocalName, QualName, local_name, ns};
use scraper::node::Element;
use scraper::{Html, HtmlTreeSink, Node};

use super::flood::{self, Construct};
use crate::model::Doubts;

/// Bytes given to the parser between two looks at the counters.
const PIECE: usize = 1024;
/// Nodes a tree may have; a long text field (one million characters) of real markup has a tenth.
const MAX_NODES: u32 = 200_000;
/// Steps allowed whatever the size of a field.
pub(super) const FIELD_WORK: u64 = 2_000_000;
/// The same for one of many small texts.
pub(super) const SNIPPET_WORK: u64 = 100_000;
/// Further steps allowed for each byte of input; real markup needs about three.
const WORK_PER_BYTE: u64 = 8;
/// Steps for a piece of text. Stray `<`, `&` and NUL come one by one and are slow to handle.
const TEXT_WORK: u64 = 24;
/// Bytes looked at, whatever comes after is cut.
const MAX_INPUT: usize = 8 << 20;

/// Bytes of real markup to a node.
const BYTES_PER_NODE: usize = 24;
/// Nodes that room is made for ahead of their coming, at most.
const ROOM_AHEAD: usize = 4096;

/// Attribute that stands for those that were taken away from a tag with absurdly many.
pub(super) const CUT_ATTRIBUTES: &str = "heartbeat-cut-attributes";

/// A tree, and how much of the input it holds.
pub(super) struct Parsed {
    /// The tree.
    pub(super) html: Html,
    /// Bytes of input that were not parsed.
    pub(super) cut_bytes: usize,
    /// Bytes of attributes that were taken away.
    pub(super) flood_bytes: usize,
    /// Steps it took, for tests of the bound.
    #[cfg(test)]
    work: u64,
    /// Is there a `<table>` anywhere?
    pub(super) has_table: bool,
    /// Is there a `<style>` or a `<link>` anywhere?
    pub(super) has_style: bool,
    /// About the number of elements.
    pub(super) elements: usize,
    /// The attributes of a `<body>` tag, on an element of another name.
    pub(super) body: Option<Element>,
    /// Doubts about all the text.
    pub(super) doubts: Doubts,
}

/// Parses `input` as the body of a page, within limits: so many steps, and more by its length.
pub(super) fn parse(input: &str, base_work: u64) -> Parsed {
    let mut feeder = Feeder::new(input, base_work);
    feeder.run();
    let Feeder { tokenizer, fed, flood_bytes, body, .. } = feeder;
    tokenizer.end();
    let counted = tokenizer.sink.builder.sink;
    let (has_table, has_style) = (counted.has_table.get(), counted.has_style.get());
    let elements = counted.depths.borrow().len();
    #[cfg(test)]
    let work = counted.work.get();
    Parsed {
        html: counted.finish(),
        cut_bytes: input.len() - fed,
        flood_bytes,
        #[cfg(test)]
        work,
        has_table,
        has_style,
        elements,
        body: body.as_deref().and_then(body_element),
        doubts: Doubts::NONE,
    }
}

/// Reads the attributes of a `<body>` tag, which the parser drops in a fragment.
fn body_element(attributes: &str) -> Option<Element> {
    let html = Html::parse_fragment(&format!("<div {attributes}"));
    html.tree.values().filter_map(Node::as_element).find(|element| element.name() == "div").cloned()
}

/// What the tokenizer takes the next bytes for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Markup,
    /// Text up to the end tag of the element that began it.
    Raw,
    /// Text up to the end.
    Plain,
}

/// The tree builder, and a note of what it told the tokenizer.
struct Watch {
    builder: TreeBuilder<Handle, CountingSink>,
    mode: Cell<Mode>,
}

impl TokenSink for Watch {
    type Handle = Handle;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<Handle> {
        let ends = matches!(&token, Token::TagToken(tag) if tag.kind == TagKind::EndTag);
        let result = self.builder.process_token(token, line);
        match &result {
            TokenSinkResult::RawData(_) => self.mode.set(Mode::Raw),
            TokenSinkResult::Plaintext => self.mode.set(Mode::Plain),
            _ if ends => self.mode.set(Mode::Markup),
            _ => {}
        }
        result
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Feeds the tokenizer and steps over the input with it, so that no tag reaches it with more
/// attributes than it can compare.
struct Feeder<'a> {
    input: &'a str,
    end: usize,
    allowed: u64,
    keeps_all: bool,
    tokenizer: Tokenizer<Watch>,
    queue: BufferQueue,
    /// Bytes given to the tokenizer.
    fed: usize,
    flood_bytes: usize,
    body: Option<String>,
}

impl<'a> Feeder<'a> {
    fn new(input: &'a str, base_work: u64) -> Self {
        let keeps_all = mentions_style(input);
        let sink = CountingSink::new(input.len(), keeps_all);
        let context = QualName::new(None, ns!(html), local_name!("body"));
        let context = create_element(&sink, context, Vec::new());
        let builder =
            TreeBuilder::new_for_fragment(sink, context, None, TreeBuilderOpts::default());
        let watch = Watch { builder, mode: Cell::new(Mode::Markup) };
        Self {
            input,
            end: floor_char_boundary(input, MAX_INPUT),
            allowed: base_work + WORK_PER_BYTE * input.len() as u64,
            keeps_all,
            tokenizer: Tokenizer::new(watch, TokenizerOpts::default()),
            queue: BufferQueue::default(),
            fed: 0,
            flood_bytes: 0,
            body: None,
        }
    }

    fn run(&mut self) {
        let mut at = 0;
        let mut raw_name = "";
        while at < self.end && !self.is_spent() {
            match self.tokenizer.sink.mode.get() {
                Mode::Plain => at = self.end,
                Mode::Raw => match find_end_tag(self.input, at, raw_name) {
                    Some(open) => (at, _) = self.step(open),
                    None => at = self.end,
                },
                Mode::Markup => match flood::find(self.input.as_bytes(), at, b'<') {
                    Some(open) => (at, raw_name) = self.step(open),
                    None => at = self.end,
                },
            }
            at = at.min(self.end);
            if at - self.fed >= PIECE || at == self.end {
                self.feed_to(at);
            }
        }
    }

    /// Steps over the construct at `open`. Returns where it ends, and its name if text follows.
    fn step(&mut self, open: usize) -> (usize, &'a str) {
        let keeps_all = self.keeps_all;
        let (construct, end) = flood::construct(self.input, open, &is_read);
        match construct {
            Construct::Text | Construct::Comment => (end, ""),
            Construct::Cdata => {
                self.feed_to(open);
                let is_text =
                    self.tokenizer.sink.adjusted_current_node_present_but_not_in_html_namespace();
                let close = if is_text { "]]>" } else { ">" };
                let rest = self.input.get(end..).unwrap_or("");
                (rest.find(close).map_or(self.input.len(), |at| end + at + close.len()), "")
            }
            Construct::Tag(tag) => {
                let name_start = open + 1 + usize::from(tag.is_end);
                let name = self.input.get(name_start..tag.name_end).unwrap_or("");
                if let Some((from, kept)) = &tag.flood {
                    self.feed_to(*from);
                    let mark = if keeps_all { CUT_ATTRIBUTES } else { "" };
                    self.feed(&format!("{kept}{mark}"));
                    let close = if self.input[..end].ends_with('>') { end - 1 } else { end };
                    self.flood_bytes += close.saturating_sub(from + kept.len());
                    self.fed = close.min(self.end);
                }
                if tag.has_attributes
                    && !tag.is_end
                    && name.eq_ignore_ascii_case("body")
                    && self.body.is_none()
                {
                    self.body = self
                        .input
                        .get(tag.name_end..end.min(tag.name_end + 4096))
                        .map(str::to_owned);
                }
                // What follows these may be text, by where they stand: the tree builder decides.
                if starts_text(name) {
                    self.feed_to(end.min(self.end));
                }
                (end, name)
            }
        }
    }

    fn is_spent(&self) -> bool {
        let counted = &self.tokenizer.sink.builder.sink;
        counted.work.get() > self.allowed || counted.depths.borrow().len() as u64 > MAX_NODES.into()
    }

    /// Feeds the input up to `to`, in pieces, as long as there is work left.
    fn feed_to(&mut self, to: usize) {
        while self.fed < to && !self.is_spent() {
            let next = floor_char_boundary(&self.input[..to], self.fed + PIECE);
            let input = self.input;
            self.feed(&input[self.fed..next]);
            self.fed = next;
        }
    }

    fn feed(&self, text: &str) {
        self.queue.push_back(StrTendril::from_slice(text));
        // It stops at the end of a script, and goes on when it is asked again.
        while !self.queue.is_empty() {
            drop(self.tokenizer.feed(&self.queue));
        }
    }
}

/// May the content of such an element be text without markup?
fn starts_text(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "title",
        "textarea",
        "style",
        "xmp",
        "iframe",
        "noembed",
        "noframes",
        "script",
        "noscript",
        "plaintext",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Where `</name` comes next.
fn find_end_tag(input: &str, from: usize, name: &str) -> Option<usize> {
    let bytes = input.as_bytes();
    let mut at = from;
    while let Some(open) = flood::find(bytes, at, b'<') {
        let tail = &bytes[open + 1..];
        if tail.first() == Some(&b'/')
            && tail.get(1..=name.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(name.as_bytes()))
        {
            return Some(open);
        }
        at = open + 1;
    }
    None
}

/// Is there a style sheet, whose selectors may ask for any attribute?
fn mentions_style(input: &str) -> bool {
    let bytes = input.as_bytes();
    let mut at = 0;
    while let Some(open) = flood::find(bytes, at, b'<') {
        if bytes.get(open + 1..open + 6).is_some_and(|name| name.eq_ignore_ascii_case(b"style")) {
            return true;
        }
        at = open + 1;
    }
    false
}

/// The last character boundary at or before `at`.
pub(super) fn floor_char_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    (0..=at).rev().find(|&index| text.is_char_boundary(index)).unwrap_or(0)
}

/// A node of the tree with the place of its depth in [`CountingSink::depths`].
#[derive(Clone, Copy)]
struct Handle {
    id: NodeId,
    slot: usize,
}

/// scraper's sink with counters around it; attributes nobody reads are dropped on the way in.
struct CountingSink {
    inner: HtmlTreeSink,
    depths: RefCell<Vec<u32>>,
    /// Depth of the node hung last: about the number of open elements.
    depth: Cell<u32>,
    work: Cell<u64>,
    has_table: Cell<bool>,
    has_style: Cell<bool>,
    /// Are attributes that nobody reads kept, because selectors may ask for them?
    keeps_all: bool,
}

impl CountingSink {
    /// A sink with room for the nodes that so many bytes of real markup make.
    fn new(input_bytes: usize, keeps_all: bool) -> Self {
        let nodes = (input_bytes / BYTES_PER_NODE).min(ROOM_AHEAD);
        let mut html = Html::new_fragment();
        html.tree = Tree::with_capacity(Node::Fragment, nodes);
        let mut depths = Vec::with_capacity(nodes);
        depths.push(0);
        Self {
            inner: HtmlTreeSink::new(html),
            depths: RefCell::new(depths),
            depth: Cell::new(0),
            work: Cell::new(0),
            has_table: Cell::new(false),
            has_style: Cell::new(false),
            keeps_all,
        }
    }

    fn count(&self, steps: u64) {
        self.work.set(self.work.get() + steps);
    }

    fn register(&self, id: NodeId) -> Handle {
        let mut depths = self.depths.borrow_mut();
        depths.push(0);
        Handle { id, slot: depths.len() - 1 }
    }

    /// Counts a node or a piece of text that is put into the tree, and notes its depth.
    fn hang(&self, parent: &Handle, child: &NodeOrText<Handle>) {
        match child {
            NodeOrText::AppendNode(child) => {
                self.count(1);
                let mut depths = self.depths.borrow_mut();
                depths[child.slot] = depths[parent.slot] + 1;
                self.depth.set(depths[child.slot]);
            }
            NodeOrText::AppendText(_) => self.count(TEXT_WORK),
        }
    }

    /// Opening a formatting element compares it with every formatting element that is open.
    fn formatting_cost(&self, name: &LocalName) -> u64 {
        let formatting = matches!(
            &**name,
            "a" | "b"
                | "big"
                | "code"
                | "em"
                | "font"
                | "i"
                | "nobr"
                | "s"
                | "small"
                | "strike"
                | "strong"
                | "tt"
                | "u"
        );
        if formatting { 8 * u64::from(self.depth.get()) } else { 0 }
    }
}

fn unwrap_handle(child: NodeOrText<Handle>) -> NodeOrText<NodeId> {
    match child {
        NodeOrText::AppendNode(handle) => NodeOrText::AppendNode(handle.id),
        NodeOrText::AppendText(text) => NodeOrText::AppendText(text),
    }
}

/// Does anything in this module read the attribute?
fn is_read(name: &str) -> bool {
    matches!(
        name,
        "style"
            | "class"
            | "id"
            | "href"
            | "src"
            | "alt"
            | "hidden"
            | "width"
            | "height"
            | "color"
            | "bgcolor"
            | "size"
            | "start"
            | "type"
            | "value"
            | "reversed"
            | "colspan"
            | "rowspan"
            | "role"
            | "checked"
            | "open"
            | "popover"
            | "data-vss-mention"
            | "data"
            | "dir"
            | "nowrap"
            | "background"
            | "media"
            | "rel"
            | "selected"
            | "multiple"
            | "label"
            | "rows"
            | "cols"
            | "name"
            | "shadowrootmode"
    )
}

impl TreeSink for CountingSink {
    type Output = Html;
    type Handle = Handle;
    type ElemName<'a> = Ref<'a, QualName>;

    fn finish(self) -> Html {
        self.inner.finish()
    }

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.inner.set_quirks_mode(mode);
    }

    fn get_document(&self) -> Handle {
        Handle { id: self.inner.get_document(), slot: 0 }
    }

    fn same_node(&self, one: &Handle, other: &Handle) -> bool {
        self.count(1);
        one.id == other.id
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> Ref<'a, QualName> {
        self.count(1);
        self.inner.elem_name(&target.id)
    }

    fn create_element(
        &self,
        name: QualName,
        mut attributes: Vec<Attribute>,
        flags: ElementFlags,
    ) -> Handle {
        self.count(4 + self.formatting_cost(&name.local));
        match &*name.local {
            "table" => self.has_table.set(true),
            "style" | "link" => self.has_style.set(true),
            _ => {}
        }
        if !self.keeps_all && name.ns != ns!(mathml) {
            attributes.retain(|attribute| is_read(&attribute.name.local));
        }
        self.register(self.inner.create_element(name, attributes, flags))
    }

    fn create_comment(&self, _text: StrTendril) -> Handle {
        self.count(2);
        self.register(self.inner.create_comment(StrTendril::new()))
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> Handle {
        self.create_comment(StrTendril::new())
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.hang(parent, &child);
        self.inner.append(&parent.id, unwrap_handle(child));
    }

    fn append_before_sibling(&self, sibling: &Handle, new_node: NodeOrText<Handle>) {
        self.hang(sibling, &new_node);
        self.inner.append_before_sibling(&sibling.id, unwrap_handle(new_node));
    }

    fn append_based_on_parent_node(
        &self,
        element: &Handle,
        previous: &Handle,
        child: NodeOrText<Handle>,
    ) {
        self.hang(previous, &child);
        self.inner.append_based_on_parent_node(&element.id, &previous.id, unwrap_handle(child));
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn remove_from_parent(&self, target: &Handle) {
        self.count(1);
        self.inner.remove_from_parent(&target.id);
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        let moved =
            self.inner.0.borrow().tree.get(node.id).map_or(0, |node| node.children().count());
        self.count(1 + moved as u64);
        self.inner.reparent_children(&node.id, &new_parent.id);
    }

    fn add_attrs_if_missing(&self, target: &Handle, attributes: Vec<Attribute>) {
        self.count(attributes.len() as u64);
        self.inner.add_attrs_if_missing(&target.id, attributes);
    }

    fn get_template_contents(&self, target: &Handle) -> Handle {
        Handle { id: self.inner.get_template_contents(&target.id), slot: target.slot }
    }

    fn mark_script_already_started(&self, _node: &Handle) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_bounded_on_everything_that_is_quadratic_in_the_standard() {
        let formatting: String = (0..300).map(|n| format!("<b x={n}>")).collect();
        for (start, unit) in [
            ("", "<div>"),
            ("", "<b><p>x</b>"),
            ("", "<table><tr><td>"),
            ("", "<a><b><p></a></b>"),
            ("<table>", "x<b>y"),
            (&*"<span>".repeat(500), "</x>"),
            (&*"<div>".repeat(500), "<p></p>"),
            (&formatting, "<b x=1></b>"),
            ("", "<"),
        ] {
            let input = format!("{start}{}", unit.repeat(300_000 / unit.len()));
            let parsed = parse(&input, FIELD_WORK);
            let allowed = FIELD_WORK + WORK_PER_BYTE * input.len() as u64;
            // One piece may go over the limit before anybody looks.
            assert!(parsed.work <= 2 * allowed, "{unit}: {} of {allowed}", parsed.work);
            let nodes = parsed.html.tree.nodes().count() as u64;
            assert!(nodes <= u64::from(MAX_NODES) + PIECE as u64 * 600, "{unit}: {nodes} nodes");
        }
    }

    #[test]
    fn real_markup_needs_a_fraction_of_what_is_allowed() {
        let item = "<div style='color:red'><ul><li><b>a</b> <a href=x>b</a></li></ul></div>";
        let table = "<table><tr><td>cell &amp; more</td><td>x</td></tr></table><p>text<br></p>";
        let input = format!("{item}{table}").repeat(500);
        let parsed = parse(&input, FIELD_WORK);
        assert_eq!(parsed.cut_bytes, 0);
        assert!(parsed.work < 4 * input.len() as u64, "{} for {}", parsed.work, input.len());
    }

    #[test]
    fn attributes_that_nobody_reads_are_kept_only_for_a_style_sheet() {
        let attributes = |html: &str| -> Vec<String> {
            let parsed = parse(html, FIELD_WORK);
            let elements = parsed.html.tree.values().filter_map(|node| node.as_element());
            elements.flat_map(|element| element.attrs().map(|(name, _)| name.to_owned())).collect()
        };
        assert_eq!(attributes("<p title=x onclick=y class=z>text</p>"), ["class"]);
        assert_eq!(attributes("<p title=x>text</p><STYLE></STYLE>"), ["title"]);
    }

    #[test]
    fn a_flood_of_attributes_is_cut_wherever_the_tokenizer_meets_it() {
        let flood: String = (0..2_000).map(|n| format!(" a{n}")).collect();
        for start in [
            "<p",
            "<!--><p",
            "<!-- x --!><p",
            "<!---><p",
            "<textarea><p></textarea><p",
            "<style><p</style><p",
            "<script><!--<script></script><p></script><p",
            "<svg><title><p",
            "<svg><style><p",
            "<svg><![CDATA[<p]]><p",
            "<![CDATA[<p]]><p",
            "<title></title><p",
            "</p",
            "<textarea></textarea",
            "<math><mtext><p",
        ] {
            let parsed = parse(&format!("{start}{flood}>end"), FIELD_WORK);
            let most =
                parsed.html.tree.values().filter_map(Node::as_element).map(|e| e.attrs.len()).max();
            assert!(
                parsed.flood_bytes > 0 && most.unwrap_or(0) <= 70,
                "{start}: {}",
                parsed.flood_bytes
            );
        }
    }

    #[test]
    fn boundaries_are_found() {
        assert_eq!(floor_char_boundary("aé", 2), 1);
        assert_eq!(floor_char_boundary("aé", 1), 1);
        assert_eq!(floor_char_boundary("aé", 9), 3);
        assert_eq!(floor_char_boundary("é", 1), 0);
    }
}
