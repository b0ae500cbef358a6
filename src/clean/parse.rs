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
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{Attribute, LocalName, QualName, driver, local_name, ns};
use scraper::{Html, HtmlTreeSink, Node};

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

/// A tree, and how much of the input it holds.
pub(super) struct Parsed {
    /// The tree.
    pub(super) html: Html,
    /// Bytes of input that were not parsed.
    pub(super) cut_bytes: usize,
    /// Steps it took, for tests of the bound.
    #[cfg(test)]
    work: u64,
    /// Is there a `<table>` anywhere?
    pub(super) has_table: bool,
    /// Is there a `<style>` anywhere?
    pub(super) has_style: bool,
}

/// Parses `input` as the body of a page, within limits: so many steps, and more by its length.
pub(super) fn parse(input: &str, base_work: u64) -> Parsed {
    let context = QualName::new(None, ns!(html), local_name!("body"));
    let sink = CountingSink::new(input.len());
    let mut parser =
        driver::parse_fragment(sink, driver::ParseOpts::default(), context, Vec::new(), false);
    let allowed = base_work + WORK_PER_BYTE * input.len() as u64;
    let end = floor_char_boundary(input, MAX_INPUT);
    let mut fed = 0;
    while fed < end {
        let next = floor_char_boundary(&input[..end], fed + PIECE);
        parser.process(StrTendril::from_slice(&input[fed..next]));
        fed = next;
        let counted = &parser.tokenizer.sink.sink;
        if counted.work.get() > allowed || counted.depths.borrow().len() as u64 > MAX_NODES.into() {
            break;
        }
    }
    let counted = &parser.tokenizer.sink.sink;
    let (has_table, has_style) = (counted.has_table.get(), counted.has_style.get());
    #[cfg(test)]
    let work = counted.work.get();
    Parsed {
        html: parser.finish(),
        cut_bytes: input.len() - fed,
        #[cfg(test)]
        work,
        has_table,
        has_style,
    }
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
}

impl CountingSink {
    /// A sink with room for the nodes that so many bytes of real markup make.
    fn new(input_bytes: usize) -> Self {
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

/// Does anything in this room read the attribute?
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
            | "itemtype"
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
            "style" => self.has_style.set(true),
            _ => {}
        }
        attributes.retain(|attribute| is_read(&attribute.name.local));
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

    fn add_attrs_if_missing(&self, _target: &Handle, _attributes: Vec<Attribute>) {}

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
    fn attributes_that_nobody_reads_are_not_kept() {
        let parsed = parse("<p title=x onclick=y class=z>text</p>", FIELD_WORK);
        let attributes: Vec<_> = parsed
            .html
            .tree
            .values()
            .filter_map(|node| node.as_element())
            .flat_map(|element| element.attrs().map(|(name, _)| name))
            .collect();
        assert_eq!(attributes, ["class"]);
    }

    #[test]
    fn boundaries_are_found() {
        assert_eq!(floor_char_boundary("aé", 2), 1);
        assert_eq!(floor_char_boundary("aé", 1), 1);
        assert_eq!(floor_char_boundary("aé", 9), 3);
        assert_eq!(floor_char_boundary("é", 1), 0);
    }
}
