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
use selectors::parser::{self, Component, ParseRelative, Selector, SelectorList};
use selectors::{Element, OpaqueElement};

use super::outer;
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

/// The most specific part of the last compound: an id, a class or a name.
pub(super) fn bucket_of(selector: &Selector<Style>) -> Option<String> {
    let mut best = None;
    let mut iter = selector.iter();
    for component in iter.by_ref() {
        match component {
            Component::ID(id) => return Some(format!("#{}", id.0)),
            Component::Class(class) => best = Some(format!(".{}", class.0)),
            Component::LocalName(name) if best.is_none() => {
                best = Some(name.lower_name.0.to_string());
            }
            Component::PseudoElement(_) => {
                // The element of a pseudo-element is before another combinator.
                return None;
            }
            _ => {}
        }
    }
    best
}

/// The step budget of matching, and whether something unknown was found.
pub(super) struct Work {
    left: Cell<u64>,
    unsure: Cell<bool>,
    /// Whether an element may have the focus from the start.
    pub(super) has_focus: Cell<bool>,
    /// Whether the selector counts generations: the number of elements around the text is unknown.
    counts: Cell<bool>,
    /// Whether the attributes of the root's tags count.
    pub(super) reads_root: Cell<bool>,
    caches: std::cell::RefCell<SelectorCaches>,
}

impl Work {
    pub(super) fn new(steps: u64) -> Self {
        Self {
            left: Cell::new(steps),
            unsure: Cell::new(false),
            has_focus: Cell::new(false),
            counts: Cell::new(false),
            reads_root: Cell::new(false),
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

    /// Whether it needs a state that no element has from the start.
    fn never_matches(&self, selector: &Selector<Style>) -> bool {
        selector.iter_raw_match_order().any(|component| match component {
            Component::NonTSPseudoClass(PseudoClass::Never) => true,
            Component::NonTSPseudoClass(PseudoClass::Focus) => !self.has_focus.get(),
            _ => false,
        })
    }

    /// Whether the selector matches the element. `None` if that depends on something unknown.
    pub(super) fn matches(
        &self,
        selector: &Selector<Style>,
        element: &Matched<'_>,
    ) -> Option<bool> {
        if self.never_matches(selector) {
            return Some(false);
        }
        self.unsure.set(false);
        self.counts.set(outer::counts_generations(selector));
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
        if self.unsure.get() {
            // They would answer the next time without saying that it is unknown.
            *caches = SelectorCaches::default();
            return None;
        }
        Some(matches)
    }
}

/// Which element a node represents: the fragment's root is `html`, `body` and the elements in which
/// the tracker shows the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Html,
    Body,
    /// An element of the tracker around the text: hardly anything about it is known.
    Outer,
    Below,
}

/// An element as seen by the selectors.
#[derive(Clone)]
pub(super) struct Matched<'a> {
    node: NodeRef<'a, Node>,
    level: Level,
    /// Whether it is the element to be styled, or the page around one of its own elements.
    is_subject: bool,
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
        Self { node, level: Level::Below, is_subject: true, work }
    }

    /// The root as `html`, then as `body`, then as an element of the tracker.
    pub(super) fn roots(node: NodeRef<'a, Node>, work: &'a Work) -> [Self; 3] {
        let of = |level: Level| Self { node, level, is_subject: true, work };
        [Level::Html, Level::Body, Level::Outer].map(of)
    }

    /// Whether it is an element of the tracker around the text.
    pub(super) fn is_outer(&self) -> bool {
        self.level == Level::Outer
    }

    /// Notes that something about the tracker's page is unknown.
    fn unknown(&self) -> bool {
        self.work.unsure.set(true);
        true
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
            Level::Html | Level::Body => {
                let is_named = name == if self.level == Level::Html { "html" } else { "body" };
                is_named && (self.is_subject || !self.work.counts.get() || self.unknown())
            }
            Level::Outer if self.is_subject => outer::is_usual(name) && self.unknown(),
            // Some trackers show the text as a page of its own.
            Level::Outer if name == "body" => self.work.counts.get() && self.unknown(),
            Level::Outer => outer::is_possible(name) && self.unknown(),
            Level::Below => self.tag().is_some_and(|tag| tag.name() == name),
        }
    }

    fn attributes(&self) -> impl Iterator<Item = (&'a html5ever::QualName, &'a str)> + use<'a> {
        let is_read = match self.level {
            Level::Below => true,
            Level::Body => self.work.reads_root.get(),
            Level::Html | Level::Outer => false,
        };
        let own = is_read.then(|| self.tag()).flatten();
        own.into_iter().flat_map(|tag| tag.attrs.iter()).map(|(name, value)| (name, &**value))
    }

    fn sibling(
        &self,
        next: impl Fn(NodeRef<'a, Node>) -> Option<NodeRef<'a, Node>>,
    ) -> Option<Self> {
        if matches!(self.level, Level::Outer | Level::Body) && !self.is_subject {
            self.unknown();
        }
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
            // The root represents three elements, which need three addresses.
            Level::Body => OpaqueElement::new(&self.work.left),
            Level::Outer => OpaqueElement::new(&self.work.unsure),
            _ => OpaqueElement::new(self.node.value()),
        }
    }

    fn parent_element(&self) -> Option<Self> {
        if !self.work.spend(1) {
            return None;
        }
        match self.level {
            Level::Html => {
                // There may be more elements around the text.
                let _ = !self.is_subject && self.work.counts.get() && self.unknown();
                None
            }
            Level::Body => Some(Self { level: Level::Html, ..self.clone() }),
            Level::Outer => Some(Self { level: Level::Body, ..self.clone() }),
            Level::Below => {
                let parent = self.node.parent().filter(|parent| parent.value().is_element())?;
                let above = parent.parent().is_some_and(|above| above.value().is_element());
                let level = if above { Level::Below } else { Level::Outer };
                Some(Self { node: parent, level, is_subject: false, work: self.work })
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
            return Some(Self { level: Level::Body, is_subject: false, ..self.clone() });
        }
        if self.level == Level::Outer {
            self.unknown();
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
        if self.level != Level::Below {
            let is_present = matches!(operation, AttrSelectorOperation::Exists);
            let is_usual = is_present && outer::is_usual_attribute(&name.0);
            return (is_usual || !(self.is_subject || outer::is_of_mail(&name.0)))
                && self.unknown();
        }
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
        self.level == Level::Below
            && (self.is_named("a") || self.is_named("area"))
            && self.attributes().any(|(name, _)| &*name.local == "href")
    }

    fn is_html_slot_element(&self) -> bool {
        false
    }

    fn has_id(&self, id: &CssLocalName, case: CaseSensitivity) -> bool {
        if self.level != Level::Below && !self.is_subject {
            return self.unknown();
        }
        self.attributes()
            .any(|(name, value)| &*name.local == "id" && case.eq(id.0.as_bytes(), value.as_bytes()))
    }

    fn has_class(&self, class: &CssLocalName, case: CaseSensitivity) -> bool {
        if self.level != Level::Below && !self.is_subject {
            return !outer::is_of_mail(&class.0) && self.unknown();
        }
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
