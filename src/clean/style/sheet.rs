//! Rules of `<style>` elements: nesting, layers, conditions, and which of them affect an element.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use cssparser::{
    AtRuleParser, BasicParseErrorKind, CowRcStr, DeclarationParser, ParseError, Parser,
    ParserState, QualifiedRuleParser, RuleBodyItemParser, RuleBodyParser, StyleSheetParser,
};
use scraper::node::Element as Tag;
use selectors::parser::{Selector, SelectorList};

use super::condition::{self, Holds};
use super::declaration::{self, Declaration};
use super::fonts::is_docs_font_kit;
use super::impact::{self, Generated};
use super::outer;
use super::property::rule_name;
use super::pseudo::PseudoElement;
use super::selector::{self, Matched, Style, Work};
use super::text::Text;
use crate::clean::element::attribute;
use crate::model::{VisibilityIssue, VisibilityIssues};

/// Maximum number of rules; a page with Word's styles has about a hundred.
const MAX_RULES: usize = 20_000;
/// Maximum depth of nested blocks.
const MAX_DEPTH: usize = 16;

/// The rules that affect visibility.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    rules: Vec<Rule>,
    declarations: Vec<Declaration>,
    buckets: HashMap<String, Vec<u32>>,
    general: Vec<u32>,
    /// The position of each layer: indices from the outermost layer inwards.
    layers: Vec<Vec<u16>>,
    layer_names: HashMap<String, usize>,
    sublayers: HashMap<String, u16>,
    /// Doubts about all text of the field.
    pub(super) doubts: VisibilityIssues,
    /// Whether the fonts of an exported document are loaded.
    pub(super) fetches_fonts: bool,
}

#[derive(Debug)]
struct Rule {
    selector: Selector<Style>,
    declarations: Range<usize>,
    layer: usize,
    is_certain: bool,
    pseudo: Option<PseudoElement>,
    /// Whether any element has matched.
    is_used: Cell<bool>,
}

/// The rules that apply to one element.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// By weight, weakest first.
    pub(super) declarations: Vec<Declaration>,
    /// Doubts from rules that may or may not match.
    pub(super) doubts: VisibilityIssues,
    /// The effects of generated boxes before and after its content.
    pub(super) generated: Generated,
    /// Whether it may place its children next to each other.
    pub(super) may_be_flex: bool,
}

impl Sheet {
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds the rules of one `<style>` element.
    pub(super) fn read(&mut self, css: &str, holds: Holds) {
        let mut input = Parser::new(css);
        let mut reader = Reader {
            sheet: self,
            holds,
            layer: String::new(),
            selectors: None,
            is_unread: false,
            pending: Vec::new(),
            depth: 0,
        };
        for rule in StyleSheetParser::new(&mut input, &mut reader) {
            // An invalid rule is dropped, as in a browser.
            drop(rule);
        }
    }

    /// Whether there is a rule that could hide text and matches nothing.
    pub(super) fn has_unused_hiding_rule(&self) -> bool {
        let is_hiding =
            |rule: &Rule| impact::could_hide(&self.declarations[rule.declarations.clone()]);
        self.rules.iter().any(|rule| !rule.is_used.get() && is_hiding(rule))
    }

    /// The rules that match an element, in the order of the cascade.
    pub(super) fn collect(
        &self,
        tag: Option<&Tag>,
        element: &Matched<'_>,
        work: &Work,
        found: &mut Matches,
    ) {
        let mut matching: Vec<(&Rule, usize)> = Vec::new();
        let mut look_up = |candidates: &[u32]| {
            for &at in candidates {
                if !work.spend(1) {
                    return;
                }
                let rule = &self.rules[at as usize];
                let matches = work.matches(&rule.selector, element);
                rule.is_used.set(rule.is_used.get() || matches == Some(true));
                match matches {
                    Some(false) => {}
                    Some(true) if rule.is_certain && rule.pseudo.is_none() => {
                        matching.push((rule, at as usize));
                    }
                    matches => self.note(rule, matches.is_some() && rule.is_certain, found),
                }
            }
        };
        look_up(&self.general);
        let mut bucket = |key: &str| {
            work.spend(1);
            look_up(self.buckets.get(key).map_or(&[], Vec::as_slice));
        };
        if element.is_outer() {
            let mut names: Vec<&String> =
                self.buckets.keys().filter(|name| outer::is_usual(name)).collect();
            names.sort_unstable();
            names.into_iter().for_each(|name| bucket(name));
        }
        let name = tag.map_or("", Tag::name);
        bucket(name);
        if let Some(id) = tag.and_then(|tag| attribute(tag, "id")) {
            bucket(&format!("#{id}"));
        }
        let classes = tag.and_then(|tag| attribute(tag, "class")).unwrap_or("");
        for class in classes.split_ascii_whitespace() {
            if work.is_spent() {
                break;
            }
            bucket(&format!(".{class}"));
        }
        for root in
            ["html", "body"].into_iter().filter(|root| element.is_root_named(root) && name != *root)
        {
            bucket(root);
        }
        self.cascade(matching, found);
    }

    /// A rule for a pseudo-element, or one that may or may not match.
    fn note(&self, rule: &Rule, is_certain: bool, found: &mut Matches) {
        let declarations = &self.declarations[rule.declarations.clone()];
        found.may_be_flex |= rule.pseudo.is_none() && outer::places_children(declarations);
        match rule.pseudo {
            Some(PseudoElement::Other) => {}
            Some(PseudoElement::Generated) => found.generated.note(declarations),
            _ if !impact::could_hide(declarations) => {}
            Some(PseudoElement::Text) => found.doubts.add(VisibilityIssue::Selector),
            None if is_certain => {}
            None if rule.is_certain => found.doubts.add(VisibilityIssue::Selector),
            None => found.doubts.add(VisibilityIssue::Condition),
        }
    }

    fn cascade(&self, mut matching: Vec<(&Rule, usize)>, found: &mut Matches) {
        let layer = |rule: &Rule| self.layers[rule.layer].as_slice();
        matching.sort_by(|(one, one_at), (other, other_at)| {
            let specificity = |rule: &Rule| rule.selector.specificity();
            layer(one)
                .cmp(layer(other))
                .then(specificity(one).cmp(&specificity(other)))
                .then(one_at.cmp(other_at))
        });
        matching.dedup_by_key(|(_, at)| *at);
        let mut important: Vec<(&Rule, Declaration)> = Vec::new();
        for (rule, _) in &matching {
            for declaration in &self.declarations[rule.declarations.clone()] {
                match declaration.important {
                    true => important.push((rule, *declaration)),
                    false => found.declarations.push(*declaration),
                }
            }
        }
        // Of two important ones the earlier layer wins.
        important.sort_by(|(one, _), (other, _)| layer(other).cmp(layer(one)));
        found.declarations.extend(important.into_iter().map(|(_, declaration)| declaration));
    }

    /// The number of a layer by its full name; each unnamed layer is separate.
    fn layer(&mut self, path: &str) -> usize {
        if let Some(&known) = self.layer_names.get(path) {
            return known;
        }
        let mut place = match path.rsplit_once('.') {
            _ if path.is_empty() => Vec::new(),
            Some((parent, _)) => self.place_of(parent),
            None => self.place_of(""),
        };
        if !path.is_empty() {
            let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
            let next = self.sublayers.entry(parent.to_owned()).or_default();
            place.push(*next);
            *next = next.saturating_add(1);
        }
        place.push(u16::MAX);
        self.layers.push(place);
        self.layer_names.insert(path.to_owned(), self.layers.len() - 1);
        self.layers.len() - 1
    }

    fn place_of(&mut self, path: &str) -> Vec<u16> {
        let at = self.layer(path);
        let mut place = self.layers[at].clone();
        place.pop();
        place
    }

    fn add(
        &mut self,
        list: &SelectorList<Style>,
        declarations: &[Declaration],
        layer: &str,
        holds: Holds,
    ) {
        let start = self.declarations.len();
        self.declarations.extend_from_slice(declarations);
        let layer = self.layer(layer);
        for selector in list.slice() {
            if self.rules.len() >= MAX_RULES {
                self.doubts.add(VisibilityIssue::Budget);
                return;
            }
            let at = u32::try_from(self.rules.len()).unwrap_or(u32::MAX);
            let bucket = selector::bucket_of(selector);
            bucket.map_or(&mut self.general, |key| self.buckets.entry(key).or_default()).push(at);
            self.rules.push(Rule {
                pseudo: selector.pseudo_element().copied(),
                selector: selector.clone(),
                declarations: start..self.declarations.len(),
                layer,
                is_certain: holds == Holds::Yes,
                is_used: Cell::new(false),
            });
        }
    }
}

struct Reader<'s> {
    sheet: &'s mut Sheet,
    holds: Holds,
    /// Full name of the current layer.
    layer: String,
    /// Selectors of the current rule; `None` outside of rules.
    selectors: Option<Rc<SelectorList<Style>>>,
    /// Whether we are in a rule with unreadable selectors, or in a scope.
    is_unread: bool,
    pending: Vec<Declaration>,
    depth: usize,
}

impl Reader<'_> {
    /// Makes a rule of the declarations read so far.
    fn flush(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() || self.holds == Holds::No {
            return;
        }
        match self.selectors.clone() {
            Some(list) if !self.is_unread => {
                self.sheet.add(&list, &pending, &self.layer, self.holds);
            }
            _ if impact::could_hide(&pending) => self.sheet.doubts.add(VisibilityIssue::Selector),
            _ => {}
        }
    }

    /// Reads a block with other selectors, conditions or layers.
    fn block(&mut self, input: &mut Parser<'_>, change: impl FnOnce(&mut Reader<'_>)) {
        self.flush();
        if self.depth >= MAX_DEPTH {
            self.sheet.doubts.add(VisibilityIssue::Budget);
            return;
        }
        let mut inner = Reader {
            holds: self.holds,
            layer: self.layer.clone(),
            selectors: self.selectors.clone(),
            is_unread: self.is_unread,
            pending: Vec::new(),
            depth: self.depth + 1,
            sheet: self.sheet,
        };
        change(&mut inner);
        for item in RuleBodyParser::new(input, &mut inner) {
            drop(item);
        }
        inner.flush();
    }

    fn sublayer(&self, name: &str) -> String {
        match self.layer.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.layer),
        }
    }
}

/// The effect of an at-rule on its content.
enum AtRule {
    /// Its rules apply under a condition.
    Condition(Holds),
    /// Its rules are in a layer; with several names it only defines their order.
    Layers(Vec<String>),
    /// Its rules apply to a part of the page.
    Scope,
    /// It cannot hide anything.
    Harmless,
    /// A font: doubtful if it is remote.
    FontFace,
    /// It only loads fonts.
    Fonts,
    /// All text is doubtful.
    Doubt(VisibilityIssue),
}

impl<'i> AtRuleParser<'i> for Reader<'_> {
    type Prelude = AtRule;
    type AtRule = ();
    type Error = ();

    fn parse_prelude(
        &mut self,
        name: CowRcStr<'i>,
        input: &mut Parser<'i>,
    ) -> Result<AtRule, ParseError<()>> {
        let text = Text::read(input);
        Ok(match rule_name(&name).as_str() {
            "media" => AtRule::Condition(condition::media(&text.text)),
            "supports" => AtRule::Condition(condition::supports(&text.text, &selector::is_known)),
            "container" | "document" | "starting-style" | "when" | "else" => {
                AtRule::Condition(Holds::Unknown)
            }
            "layer" => {
                AtRule::Layers(text.text.split(',').map(|name| name.trim().to_owned()).collect())
            }
            "scope" => AtRule::Scope,
            "font-face" => AtRule::FontFace,
            // Word's own, and rules for paper, counters and unused animations.
            "list"
            | "page"
            | "charset"
            | "keyframes"
            | "counter-style"
            | "property"
            | "font-feature-values"
            | "font-palette-values"
            | "viewport"
            | "color-profile"
            | "style-definitions"
            | "view-transition" => AtRule::Harmless,
            "import" if is_docs_font_kit(&text.text) => AtRule::Fonts,
            "import" => AtRule::Doubt(VisibilityIssue::Remote),
            _ => AtRule::Doubt(VisibilityIssue::UnknownStyle),
        })
    }

    fn rule_without_block(&mut self, prelude: AtRule, _start: &ParserState) -> Result<(), ()> {
        match prelude {
            AtRule::Layers(names) => {
                for name in names {
                    let path = self.sublayer(&name);
                    self.sheet.layer(&path);
                }
            }
            AtRule::Doubt(doubt) if self.holds != Holds::No => self.sheet.doubts.add(doubt),
            AtRule::Fonts => self.sheet.fetches_fonts = true,
            _ => {}
        }
        Ok(())
    }

    fn parse_block(
        &mut self,
        prelude: AtRule,
        _start: &ParserState,
        input: &mut Parser<'i>,
    ) -> Result<(), ParseError<()>> {
        match prelude {
            AtRule::Condition(holds) => {
                self.block(input, |inner| inner.holds = inner.holds.and(holds));
            }
            AtRule::Scope => self.block(input, |inner| inner.is_unread = true),
            AtRule::Layers(names) => {
                let own = format!("\u{1}{}", self.sheet.layers.len());
                let name = names.first().filter(|name| !name.is_empty()).unwrap_or(&own);
                let path = self.sublayer(name);
                self.sheet.layer(&path);
                self.block(input, |inner| inner.layer = path);
            }
            AtRule::FontFace => {
                while let Ok(token) = input.next() {
                    if matches!(token, cssparser::Token::Ident(name) if name.eq_ignore_ascii_case("src"))
                        && self.holds != Holds::No
                    {
                        self.sheet.doubts.add(VisibilityIssue::Remote);
                    }
                }
            }
            AtRule::Doubt(doubt) if self.holds != Holds::No => self.sheet.doubts.add(doubt),
            _ => {}
        }
        Ok(())
    }
}

impl<'i> QualifiedRuleParser<'i> for Reader<'_> {
    type Prelude = Option<(SelectorList<Style>, bool)>;
    type QualifiedRule = ();
    type Error = ();

    fn parse_prelude(&mut self, input: &mut Parser<'i>) -> Result<Self::Prelude, ParseError<()>> {
        let parent = self.selectors.clone();
        let list = selector::parse(input, parent.as_deref());
        // The unread part must be skipped.
        while input.next().is_ok() {}
        Ok(list)
    }

    fn parse_block(
        &mut self,
        prelude: Self::Prelude,
        _start: &ParserState,
        input: &mut Parser<'i>,
    ) -> Result<(), ParseError<()>> {
        self.block(input, |inner| {
            inner.is_unread |= prelude.is_none();
            if let Some((list, is_known)) = prelude {
                inner.selectors = Some(Rc::new(list));
                let holds = if is_known { Holds::Yes } else { Holds::Unknown };
                inner.holds = inner.holds.and(holds);
            } else if inner.selectors.is_none() {
                let all = selector::parse(&mut Parser::new("*"), None);
                inner.selectors = all.map(|(list, _)| Rc::new(list));
            }
        });
        Ok(())
    }
}

impl<'i> DeclarationParser<'i> for Reader<'_> {
    type Declaration = ();
    type Error = ();

    fn parse_value(
        &mut self,
        name: CowRcStr<'i>,
        input: &mut Parser<'i>,
        _start: &ParserState,
    ) -> Result<(), ParseError<()>> {
        let text = Text::read(input);
        if text.has_braces && !name.starts_with("--") {
            // It may be a nested rule that begins like a declaration.
            return Err(ParseError::from_basic_kind(BasicParseErrorKind::QualifiedRuleInvalid));
        }
        declaration::read(&name, &text, &mut self.pending);
        Ok(())
    }
}

impl RuleBodyItemParser<'_, (), ()> for Reader<'_> {
    fn parse_declarations(&self) -> bool {
        self.selectors.is_some()
    }

    fn parse_qualified(&self) -> bool {
        true
    }
}
