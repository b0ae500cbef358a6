//! Selectors of the `selectors` crate, matched on scraper's tree within a budget of steps.

use std::cell::Cell;
use std::fmt;

use cssparser::Parser as CssParser;
use ego_tree::NodeRef;
use html5ever::{Namespace, ns};
use scraper::Node;
use scraper::node::Element as Tag;
use scraper::selector::{CssLocalName, CssString};
use selectors::attr::{AttrSelectorOperation, CaseSensitivity, NamespaceConstraint};
use selectors::bloom::BloomFilter;
use selectors::matching::{self, MatchingContext, MatchingMode, SelectorCaches};
use selectors::parser::{self, ParseRelative, Selector, SelectorList};
use selectors::{Element, OpaqueElement};

use super::pseudo::{PseudoClass, PseudoElement, Reader};

/// The supported selectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style;

impl parser::SelectorImpl for Style {
    type AttrValue = CssString;
    type Identifier = CssLocalName;
    type LocalName = CssLocalName;
    type NamespacePrefix = CssLocalName;
    type NamespaceUrl = Namespace;
    type BorrowedNamespaceUrl = Namespace;
    type BorrowedLocalName = CssLocalName;
    type NonTSPseudoClass = PseudoClass;
    type PseudoElement = PseudoElement;
    type ExtraMatchingData<'a> = ();
}

/// Parses a list of selectors; `parent` is the list of the rule around a nested one. Also returns
/// whether every browser knows all of them: one that does not drops the whole rule.
pub(super) fn parse(
    input: &mut CssParser<'_>,
    parent: Option<&SelectorList<Style>>,
) -> Option<(SelectorList<Style>, bool)> {
    let relative = if parent.is_some() { ParseRelative::ForNesting } else { ParseRelative::No };
    let reader = Reader { is_foreign: Cell::new(false) };
    let list = SelectorList::parse(&reader, input, relative).ok()?;
    let is_known = !reader.is_foreign.get();
    Some(match parent {
        Some(parent) => (list.replace_parent_selector(parent), is_known),
        None => (list, is_known),
    })
}

/// Whether every browser knows the selector.
pub(super) fn is_known(text: &str) -> bool {
    parse(&mut CssParser::new(text), None).is_some_and(|(_, is_known)| is_known)
}

/// The step budget of matching, and whether something unknown was found.
pub(super) struct Work {
    left: Cell<u64>,
    unsure: Cell<bool>,
    /// Whether an element may have the focus from the start.
    pub(super) has_focus: Cell<bool>,
    caches: std::cell::RefCell<SelectorCaches>,
}

impl Work {
    pub(super) fn new(steps: u64) -> Self {
        Self {
            left: Cell::new(steps),
            unsure: Cell::new(false),
            has_focus: Cell::new(false),
            caches: std::cell::RefCell::default(),
        }
    }

    /// Counts steps; `false` if none are left.
    pub(super) fn spend(&self, steps: u64) -> bool {
        let left = self.left.get().saturating_sub(steps);
        self.left.set(left);
        left > 0
    }

    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// Whether the selector matches the element. `None` if that depends on something unknown.
    pub(super) fn matches(
        &self,
        selector: &Selector<Style>,
        element: &Matched<'_>,
    ) -> Option<bool> {
        self.unsure.set(false);
        let mode = match selector.pseudo_element() {
            Some(_) => MatchingMode::ForStatelessPseudoElement,
            None => MatchingMode::Normal,
        };
        let mut caches = self.caches.borrow_mut();
        let mut context = MatchingContext::new(
            mode,
            None,
            &mut caches,
            matching::QuirksMode::NoQuirks,
            matching::NeedsSelectorFlags::No,
            matching::MatchingForInvalidation::No,
        );
        let matches = matching::matches_selector(selector, 0, None, element, &mut context);
        (!self.unsure.get()).then_some(matches)
    }
}

/// Which element a node represents: the fragment's root is both `body` and `html`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Html,
    Body,
    Below,
}

/// An element as seen by the selectors.
#[derive(Clone)]
pub(super) struct Matched<'a> {
    node: NodeRef<'a, Node>,
    level: Level,
    work: &'a Work,
}

impl fmt::Debug for Matched<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} at {:?}", self.level, self.node.id())
    }
}

impl<'a> Matched<'a> {
    /// An element below the root.
    pub(super) fn new(node: NodeRef<'a, Node>, work: &'a Work) -> Self {
        Self { node, level: Level::Below, work }
    }

    /// The root as `html`, then as `body`.
    pub(super) fn roots(node: NodeRef<'a, Node>, work: &'a Work) -> [Self; 2] {
        [Level::Html, Level::Body].map(|level| Self { node, level, work })
    }

    /// Whether it is the root and represents this element.
    pub(super) fn is_root_named(&self, name: &str) -> bool {
        self.level != Level::Below && self.is_named(name)
    }

    fn tag(&self) -> Option<&'a Tag> {
        self.node.value().as_element()
    }

    fn is_named(&self, name: &str) -> bool {
        match self.level {
            Level::Html => name == "html",
            Level::Body => name == "body",
            Level::Below => self.tag().is_some_and(|tag| tag.name() == name),
        }
    }

    fn attributes(&self) -> impl Iterator<Item = (&'a html5ever::QualName, &'a str)> + use<'a> {
        let own = (self.level != Level::Html).then(|| self.tag()).flatten();
        own.into_iter().flat_map(|tag| tag.attrs.iter()).map(|(name, value)| (name, &**value))
    }

    fn sibling(
        &self,
        next: impl Fn(NodeRef<'a, Node>) -> Option<NodeRef<'a, Node>>,
    ) -> Option<Self> {
        if self.level != Level::Below {
            return None;
        }
        let mut at = self.node;
        loop {
            if !self.work.spend(1) {
                return None;
            }
            at = next(at)?;
            if at.value().is_element() {
                return Some(Self { node: at, ..self.clone() });
            }
        }
    }
}

impl Element for Matched<'_> {
    type Impl = Style;

    fn opaque(&self) -> OpaqueElement {
        match self.level {
            // The root represents two elements, which need two addresses.
            Level::Body => OpaqueElement::new(&self.work.left),
            _ => OpaqueElement::new(self.node.value()),
        }
    }

    fn parent_element(&self) -> Option<Self> {
        if !self.work.spend(1) {
            return None;
        }
        match self.level {
            Level::Html => None,
            Level::Body => Some(Self { level: Level::Html, ..self.clone() }),
            Level::Below => {
                let parent = self.node.parent().filter(|parent| parent.value().is_element())?;
                let above = parent.parent().is_some_and(|above| above.value().is_element());
                let level = if above { Level::Below } else { Level::Body };
                Some(Self { node: parent, level, work: self.work })
            }
        }
    }

    fn parent_node_is_shadow_root(&self) -> bool {
        false
    }

    fn containing_shadow_host(&self) -> Option<Self> {
        None
    }

    fn is_pseudo_element(&self) -> bool {
        false
    }

    fn prev_sibling_element(&self) -> Option<Self> {
        self.sibling(|node| node.prev_sibling())
    }

    fn next_sibling_element(&self) -> Option<Self> {
        self.sibling(|node| node.next_sibling())
    }

    fn first_element_child(&self) -> Option<Self> {
        if self.level == Level::Html {
            return Some(Self { level: Level::Body, ..self.clone() });
        }
        self.work.spend(1);
        let child = self.node.children().find(|child| child.value().is_element())?;
        (!self.work.is_spent()).then(|| Self::new(child, self.work))
    }

    fn is_html_element_in_html_document(&self) -> bool {
        self.tag().is_some_and(|tag| tag.name.ns == ns!(html))
    }

    fn has_local_name(&self, name: &CssLocalName) -> bool {
        self.work.spend(1);
        self.is_named(&name.0)
    }

    fn has_namespace(&self, namespace: &Namespace) -> bool {
        self.tag().is_some_and(|tag| &tag.name.ns == namespace)
    }

    fn is_same_type(&self, other: &Self) -> bool {
        self.level == other.level
            && self.tag().map(|tag| &tag.name) == other.tag().map(|tag| &tag.name)
    }

    fn attr_matches(
        &self,
        namespace: &NamespaceConstraint<&Namespace>,
        name: &CssLocalName,
        operation: &AttrSelectorOperation<&CssString>,
    ) -> bool {
        self.attributes().any(|(key, value)| {
            self.work.spend(1 + value.len() as u64 / 64);
            !matches!(*namespace, NamespaceConstraint::Specific(url) if *url != key.ns)
                && name.0 == key.local
                && operation.eval_str(value)
        })
    }

    fn match_non_ts_pseudo_class(
        &self,
        class: &PseudoClass,
        _context: &mut MatchingContext<'_, Style>,
    ) -> bool {
        match class {
            PseudoClass::Never => false,
            PseudoClass::Link => self.is_link(),
            PseudoClass::Focus if !self.work.has_focus.get() => false,
            PseudoClass::Focus | PseudoClass::Unknown => {
                self.work.unsure.set(true);
                true
            }
        }
    }

    fn match_pseudo_element(
        &self,
        _element: &PseudoElement,
        _context: &mut MatchingContext<'_, Style>,
    ) -> bool {
        true
    }

    fn apply_selector_flags(&self, _flags: matching::ElementSelectorFlags) {}

    fn is_link(&self) -> bool {
        (self.is_named("a") || self.is_named("area"))
            && self.attributes().any(|(name, _)| &*name.local == "href")
    }

    fn is_html_slot_element(&self) -> bool {
        false
    }

    fn has_id(&self, id: &CssLocalName, case: CaseSensitivity) -> bool {
        self.attributes()
            .any(|(name, value)| &*name.local == "id" && case.eq(id.0.as_bytes(), value.as_bytes()))
    }

    fn has_class(&self, class: &CssLocalName, case: CaseSensitivity) -> bool {
        self.attributes().filter(|(name, _)| &*name.local == "class").any(|(_, value)| {
            self.work.spend(1 + value.len() as u64 / 16);
            value.split_ascii_whitespace().any(|one| case.eq(class.0.as_bytes(), one.as_bytes()))
        })
    }

    fn has_custom_state(&self, _name: &CssLocalName) -> bool {
        false
    }

    fn imported_part(&self, _name: &CssLocalName) -> Option<CssLocalName> {
        None
    }

    fn is_part(&self, _name: &CssLocalName) -> bool {
        false
    }

    fn is_empty(&self) -> bool {
        self.level == Level::Below
            && !self.node.children().any(|child| match child.value() {
                Node::Text(text) => !text.is_empty(),
                other => other.is_element(),
            })
    }

    fn is_root(&self) -> bool {
        self.level == Level::Html
    }

    fn add_element_unique_hashes(&self, _filter: &mut BloomFilter) -> bool {
        false
    }
}
