//! scraper's tree sink with counters: the parser queries its sink about each element it visits, so
//! the sink can count the work.

use std::borrow::Cow;
use std::cell::{Cell, Ref, RefCell};
use std::collections::HashSet;
use std::sync::LazyLock;

use ego_tree::{NodeId, Tree};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, LocalName, QualName, local_name, ns};
use scraper::{Html, HtmlTreeSink, Node};

/// Steps per piece of text. Stray `<`, `&` and NUL come one by one and are slow.
pub(super) const TEXT_WORK: u64 = 24;
/// Bytes of real markup per node.
pub(super) const BYTES_PER_NODE: usize = 24;
/// Maximum nodes allocated in advance.
pub(super) const ROOM_AHEAD: usize = 4096;
/// A node of the tree with its index in [`CountingSink::depths`].
#[derive(Clone, Copy)]
pub(super) struct Handle {
    id: NodeId,
    slot: usize,
}

/// scraper's sink with counters; attributes that are not read are dropped.
pub(super) struct CountingSink {
    inner: HtmlTreeSink,
    pub(super) depths: RefCell<Vec<u32>>,
    /// Depth of the node added last: about the number of open elements.
    depth: Cell<u32>,
    pub(super) work: Cell<u64>,
    pub(super) has_style: Cell<bool>,
    /// Whether unread attributes are kept, because selectors may refer to them.
    keeps_all: bool,
    /// Annotations of formulas that contain HTML: the parser queries them by a flag.
    html_notes: RefCell<HashSet<NodeId>>,
}

impl CountingSink {
    /// Reserves memory for the nodes of that many bytes of real markup.
    pub(super) fn new(input_bytes: usize, keeps_all: bool) -> Self {
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
            has_style: Cell::new(false),
            keeps_all,
            html_notes: RefCell::default(),
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

    /// Counts a node or a piece of text that is added to the tree, and records its depth.
    fn count_child(&self, parent: &Handle, child: &NodeOrText<Handle>) {
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

    /// Opening a formatting element compares it with every open one.
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
        if matches!(name.local, local_name!("style") | local_name!("link")) {
            self.has_style.set(true);
        }
        if flags.template {
            // Its content is attached to a separate node.
            self.depths.borrow_mut().push(0);
        }
        if !self.keeps_all && name.ns != ns!(mathml) {
            attributes.retain(|attribute| is_read(&attribute.name.local));
        }
        let holds_html = flags.mathml_annotation_xml_integration_point;
        let handle = self.register(self.inner.create_element(name, attributes, flags));
        if holds_html {
            self.html_notes.borrow_mut().insert(handle.id);
        }
        handle
    }

    fn is_mathml_annotation_xml_integration_point(&self, target: &Handle) -> bool {
        self.count(1);
        self.html_notes.borrow().contains(&target.id)
    }

    fn create_comment(&self, _text: StrTendril) -> Handle {
        self.count(2);
        self.register(self.inner.create_comment(StrTendril::new()))
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> Handle {
        self.create_comment(StrTendril::new())
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.count_child(parent, &child);
        self.inner.append(&parent.id, unwrap_handle(child));
    }

    fn append_before_sibling(&self, sibling: &Handle, new_node: NodeOrText<Handle>) {
        self.count_child(sibling, &new_node);
        self.inner.append_before_sibling(&sibling.id, unwrap_handle(new_node));
    }

    fn append_based_on_parent_node(
        &self,
        element: &Handle,
        previous: &Handle,
        child: NodeOrText<Handle>,
    ) {
        self.count_child(previous, &child);
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

fn unwrap_handle(child: NodeOrText<Handle>) -> NodeOrText<NodeId> {
    match child {
        NodeOrText::AppendNode(handle) => NodeOrText::AppendNode(handle.id),
        NodeOrText::AppendText(text) => NodeOrText::AppendText(text),
    }
}

/// Attributes that anything in this crate reads.
static READ: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let names = "style class id href src alt hidden width height color bgcolor align cellpadding \
        cellspacing size start type value reversed colspan rowspan role checked open popover \
        data-vss-mention data dir nowrap background media rel selected multiple disabled label rows \
        cols name shadowrootmode border";
    names.split_ascii_whitespace().collect()
});

pub(super) fn is_read(name: &str) -> bool {
    READ.contains(name)
}
