//! Selectors by the `selectors` crate, matched on scraper's tree within a budget of steps.

use std::cell::Cell;
use std::fmt;

use cssparser::{CowRcStr, ParseError, Parser as CssParser, ToCss};
use ego_tree::NodeRef;
use html5ever::{Namespace, ns};
use scraper::Node;
use scraper::node::Element as Tag;
use scraper::selector::{CssLocalName, CssString};
use selectors::attr::{AttrSelectorOperation, CaseSensitivity, NamespaceConstraint};
use selectors::bloom::BloomFilter;
use selectors::matching::{self, MatchingContext, MatchingMode, SelectorCaches};
use selectors::parser::{self, ParseRelative, Selector, SelectorList, SelectorParseErrorKind};
use selectors::{Element, OpaqueElement};

/// The selectors we can match.
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

/// Pseudo-classes by what is known about them on a page that nobody has touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PseudoClass {
    /// Matches nothing: nobody hovers.
    Never,
    /// A link that has a target.
    Link,
    /// Nobody can say.
    Unknown,
}

impl parser::NonTSPseudoClass for PseudoClass {
    fn is_active_or_hover(&self) -> bool {
        false
    }

    fn is_user_action_state(&self) -> bool {
        false
    }
}

impl ToCss for PseudoClass {
    fn to_css<W: fmt::Write>(&self, dest: &mut W) -> fmt::Result {
        dest.write_str(":")
    }
}

/// Pseudo-elements by what they can do to the text of their element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PseudoElement {
    /// `::before` and `::after`: a box that can cover text.
    Generated,
    /// Markers, selections, parts of controls: no text of the element.
    Other,
    /// Part of the element's own text.
    Text,
}

impl parser::PseudoElement for PseudoElement {
    fn accepts_state_pseudo_classes(&self) -> bool {
        true
    }

    fn is_before_or_after(&self) -> bool {
        *self == Self::Generated
    }
}

impl ToCss for PseudoElement {
    fn to_css<W: fmt::Write>(&self, dest: &mut W) -> fmt::Result {
        dest.write_str("::")
    }
}

struct Reader;

impl<'i> parser::Parser<'i> for Reader {
    type Impl = Style;
    type Error = SelectorParseErrorKind;

    fn parse_nth_child_of(&self) -> bool {
        true
    }

    fn parse_is_and_where(&self) -> bool {
        true
    }

    fn parse_has(&self) -> bool {
        true
    }

    fn parse_parent_selector(&self) -> bool {
        true
    }

    fn is_is_alias(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case("-webkit-any") || name.eq_ignore_ascii_case("matches")
    }

    fn allow_forgiving_selectors(&self) -> bool {
        false
    }

    fn parse_non_ts_pseudo_class(
        &self,
        name: CowRcStr<'i>,
    ) -> Result<PseudoClass, ParseError<Self::Error>> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "hover" | "active" | "focus" | "focus-visible" | "focus-within" | "target"
            | "target-within" | "visited" | "fullscreen" | "modal" | "picture-in-picture"
            | "user-invalid" | "user-valid" | "-moz-focusring" | "-webkit-drag" => {
                PseudoClass::Never
            }
            "link" | "any-link" | "-webkit-any-link" => PseudoClass::Link,
            _ => PseudoClass::Unknown,
        })
    }

    fn parse_non_ts_functional_pseudo_class(
        &self,
        _name: CowRcStr<'i>,
        arguments: &mut CssParser<'i>,
        _after_part: bool,
    ) -> Result<PseudoClass, ParseError<Self::Error>> {
        while arguments.next().is_ok() {}
        Ok(PseudoClass::Unknown)
    }

    fn parse_pseudo_element(
        &self,
        name: CowRcStr<'i>,
    ) -> Result<PseudoElement, ParseError<Self::Error>> {
        let name = name.to_ascii_lowercase();
        Ok(match name.as_str() {
            "before" | "after" => PseudoElement::Generated,
            "marker"
            | "selection"
            | "-moz-selection"
            | "backdrop"
            | "file-selector-button"
            | "spelling-error"
            | "grammar-error"
            | "target-text"
            | "cue"
            | "search-text" => PseudoElement::Other,
            _ if name.starts_with("-webkit-")
                || name.starts_with("-moz-")
                || name.starts_with("-ms-") =>
            {
                PseudoElement::Other
            }
            _ => PseudoElement::Text,
        })
    }

    fn parse_functional_pseudo_element(
        &self,
        _name: CowRcStr<'i>,
        arguments: &mut CssParser<'i>,
    ) -> Result<PseudoElement, ParseError<Self::Error>> {
        while arguments.next().is_ok() {}
        Ok(PseudoElement::Text)
    }
}

/// Reads a list of selectors; `parent` is the list of the rule around a nested one.
pub(super) fn parse(
    input: &mut CssParser<'_>,
    parent: Option<&SelectorList<Style>>,
) -> Option<SelectorList<Style>> {
    let relative = if parent.is_some() { ParseRelative::ForNesting } else { ParseRelative::No };
    let list = SelectorList::parse(&Reader, input, relative).ok()?;
    Some(match parent {
        Some(parent) => list.replace_parent_selector(parent),
        None => list,
    })
}

/// The steps that matching may take, and whether it came upon something unknown.
pub(super) struct Work {
    left: Cell<u64>,
    unsure: Cell<bool>,
    caches: std::cell::RefCell<SelectorCaches>,
}

impl Work {
    /// So many steps.
    pub(super) fn new(steps: u64) -> Self {
        Self {
            left: Cell::new(steps),
            unsure: Cell::new(false),
            caches: std::cell::RefCell::default(),
        }
    }

    /// Counts steps; `false` when there are none left.
    pub(super) fn spend(&self, steps: u64) -> bool {
        let left = self.left.get().saturating_sub(steps);
        self.left.set(left);
        left > 0
    }

    /// Steps that are left.
    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    /// Are all steps spent?
    pub(super) fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// Does the selector match the element? `None` when that depends on something unknown.
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

/// Which element a node stands for: the fragment's root is both `body` and `html`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Html,
    Body,
    Below,
}

/// An element as the selectors see it.
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

    /// Is it the root in the part of this element?
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
            // The root stands for two elements, which need two addresses.
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
            PseudoClass::Unknown => {
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
