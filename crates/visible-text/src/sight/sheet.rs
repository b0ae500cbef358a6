//! The rules of `<style>` elements, and which of them could apply to an element.
//!
//! Only the last part of a selector is matched, by its tag, id and classes: everything else in it
//! is taken to match. There is no cascade: a rule that could apply makes doubtful what it could hide.

use std::cell::Cell;

use cssparser::{Delimiter, ParseError, Parser, Token};
use scraper::node::Element;

use super::declared::Declared;
use super::inline::declaration;
use super::length::Length;
use super::text::Text;
use super::variables::{Names, name_of, use_own};
use crate::element::attribute;
use crate::{VisibilityIssue, VisibilityIssues};

/// A page with Word's styles has about a hundred.
const MAX_RULES: usize = 20_000;
const MAX_DEPTH: usize = 16;
/// Rules compared with elements in one text.
const MAX_MATCHING: u64 = 3_000_000;
/// A reader's window is at least this wide, in pixels.
const NARROWEST: f32 = 900.0;
/// And at most this.
const WIDEST: f32 = 2_600.0;

/// Attributes that mail programs give to a mail which they show in dark colours. Mails have rules for
/// them, which do nothing elsewhere.
pub(super) const MAIL_PROGRAMS: [&str; 6] =
    ["data-ogsc", "data-ogsb", "data-ogac", "data-ogab", "owa", "x-apple-data-detectors"];

/// The last part of a selector.
#[derive(Debug, Default, Clone)]
struct Subject {
    tag: Option<String>,
    id: Option<String>,
    classes: Vec<String>,
    /// Whether it is for a box that is generated before or after the content.
    is_generated: bool,
    /// Whether it can be no element of the text: a state such as `:hover`, or a part such as
    /// `::selection`.
    is_never: bool,
    /// Whether that is a state in which a control may be from the start, such as `:checked`: what
    /// stands after such a control can be text.
    is_of_control: bool,
    /// Whether there is more in the selector, or around the rule, that could keep it from applying.
    is_conditional: bool,
}

/// How a rule relates to an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applies {
    Surely,
    Perhaps,
    /// To a box before or after the content.
    Generated,
}

#[derive(Debug, Default)]
pub(super) struct Sheet {
    /// Each with the place of its declarations.
    rules: Vec<(Subject, usize)>,
    declared: Vec<Declared>,
    /// Doubts about all text of the field.
    pub(super) doubts: VisibilityIssues,
    /// Attributes of [`MAIL_PROGRAMS`] that no element of the text has.
    pub(super) absent: Vec<&'static str>,
    /// Variables that any rule declares.
    pub(super) variables: Names,
    matching: Cell<u64>,
}

impl Sheet {
    pub(super) fn steps(&self) -> u64 {
        self.matching.get()
    }

    pub(super) fn is_spent(&self) -> bool {
        self.steps() > MAX_MATCHING
    }

    /// Adds the rules of one `<style>` element with this `media`.
    pub(super) fn read(&mut self, css: &str, media: &str) {
        if is_for_screens(media) {
            self.block(&mut Parser::new(css), None, 0);
        }
    }

    /// The rules that could apply to an element.
    pub(super) fn rules_for(&self, element: &Element) -> Vec<(Applies, &Declared)> {
        self.matching.set(self.steps() + self.rules.len() as u64);
        if self.is_spent() {
            return Vec::new();
        }
        let classes: Vec<&str> =
            attribute(element, "class").unwrap_or("").split_ascii_whitespace().collect();
        let found = self.rules.iter().filter(|(subject, _)| subject.fits(element, &classes));
        let found: Vec<_> =
            found.map(|(subject, at)| (subject.applies(), &self.declared[*at])).collect();
        // What a rule declares is more work than to compare it.
        self.matching.set(self.steps() + 3 * found.len() as u64);
        found
    }

    /// The rules that could apply to the page around the text.
    pub(super) fn rules_around(&self) -> impl Iterator<Item = (Applies, &Declared)> {
        let is_around = |(subject, _): &&(Subject, usize)| {
            subject.id.is_none()
                && subject.classes.is_empty()
                && subject.tag.as_deref().is_none_or(|tag| {
                    matches!(tag, "html" | "body" | "div" | "section" | "main" | "article" | "form")
                        || tag.contains('-')
                })
        };
        let around = self.rules.iter().filter(is_around);
        around.map(|(subject, at)| (subject.applies(), &self.declared[*at]))
    }

    /// Reads rules, and inside of one, for these elements, its declarations.
    fn block(&mut self, input: &mut Parser<'_>, of: Option<&[Subject]>, depth: usize) {
        let mut list = Vec::new();
        while !input.is_exhausted() {
            let start = input.position();
            let end = Delimiter::CurlyBracketBlock | Delimiter::Semicolon;
            drop(input.parse_until_before(end, |before| {
                while before.next().is_ok() {}
                Ok::<(), ParseError<()>>(())
            }));
            let before = input.slice_from(start);
            if !matches!(input.next(), Ok(Token::CurlyBracketBlock)) {
                self.statement(before);
                let found = Parser::new(before).parse_entirely(declaration).ok();
                list.extend(found.filter(|_| of.is_some()));
            } else if depth >= MAX_DEPTH {
                self.doubts.add(VisibilityIssue::Budget);
            } else {
                drop(input.parse_nested_block(|inside| {
                    self.rule(before, inside, of, depth + 1);
                    Ok::<(), ParseError<()>>(())
                }));
            }
        }
        if list.is_empty() || self.rules.len() > MAX_RULES {
            return;
        }
        use_own(&mut list);
        let mut declared = Declared::default();
        declared.apply(&list);
        self.variables |= declared.variables;
        let subjects = of.into_iter().flatten().cloned();
        self.rules.extend(subjects.map(|subject| (subject, self.declared.len())));
        self.declared.push(declared);
        if self.rules.len() > MAX_RULES {
            self.doubts.add(VisibilityIssue::Budget);
        }
    }

    /// Reads a rule with a block, `inside`, for the elements that its selectors or those around name.
    fn rule(
        &mut self,
        before: &str,
        inside: &mut Parser<'_>,
        of: Option<&[Subject]>,
        depth: usize,
    ) {
        let Some((name, condition)) = at_rule(before) else {
            let mut subjects = Subject::read_all(&mut Parser::new(before), &self.absent);
            subjects.iter_mut().for_each(|subject| subject.is_conditional |= depth > 1);
            return self.block(inside, Some(&subjects), depth);
        };
        match &*name {
            "media" if !is_for_screens(&condition) => {}
            "supports" if matches!(&*condition, "not (display:grid)" | "not (display:flex)") => {}
            "media" | "supports" | "container" | "layer" | "scope" | "starting-style"
            | "document" | "-moz-document" | "when" | "else" => self.block(inside, of, depth),
            "property" => self.variables |= name_of(&condition),
            "font-face" => {
                let start = inside.position();
                while inside.next().is_ok() {}
                let rule = inside.slice_from(start).to_ascii_lowercase();
                let mut addresses = rule.split("url(").skip(1).peekable();
                let is_public = addresses.peek().is_some() && addresses.all(is_of_fonts);
                if rule.contains("src") && (!is_public || rule.contains('\\')) {
                    self.doubts.add(VisibilityIssue::Remote);
                }
            }
            _ => {}
        }
    }

    /// A rule without a block.
    fn statement(&mut self, rule: &str) {
        if at_rule(rule).is_some_and(|(name, what)| name == "import" && !is_of_fonts(&what)) {
            self.doubts.add(VisibilityIssue::Remote);
        }
    }
}

/// The name of an at-rule, and what it says.
fn at_rule(rule: &str) -> Option<(String, String)> {
    let mut input = Parser::new(rule);
    loop {
        match input.next() {
            // Word puts its style sheets into a comment of HTML.
            Ok(Token::CDO | Token::CDC) => {}
            Ok(Token::AtKeyword(name)) => {
                let name = name.to_ascii_lowercase();
                return Some((name, Text::read(&mut input).text.into_owned()));
            }
            _ => return None,
        }
    }
}

impl Subject {
    fn applies(&self) -> Applies {
        match (self.is_generated, self.is_conditional) {
            (true, _) => Applies::Generated,
            (false, true) => Applies::Perhaps,
            (false, false) => Applies::Surely,
        }
    }

    fn fits(&self, element: &Element, classes: &[&str]) -> bool {
        self.tag.as_deref().is_none_or(|tag| tag == element.name())
            && self.classes.iter().all(|class| classes.contains(&class.as_str()))
            && (self.id.is_none() || self.id.as_deref() == attribute(element, "id"))
    }

    /// Reads the selectors of a rule.
    fn read_all(input: &mut Parser<'_>, absent: &[&str]) -> Vec<Self> {
        let mut all = Vec::new();
        let mut subject = Self::default();
        let mut ends = false;
        let mut colons = 0;
        let mut after_dot = false;
        while let Ok(token) = input.next_including_whitespace_and_comments() {
            let token = token.clone();
            if matches!(token, Token::Comment(_)) {
                continue;
            }
            if matches!(token, Token::SquareBracketBlock) {
                let name = input.parse_nested_block(|inside| {
                    inside.expect_ident_cloned().map_err(ParseError::<()>::from)
                });
                subject.is_never |=
                    name.is_ok_and(|name| absent.contains(&&*name.to_ascii_lowercase()));
            }
            if matches!(token, Token::Comma) {
                all.push(std::mem::take(&mut subject));
                ends = false;
                continue;
            }
            let is_combinator =
                matches!(token, Token::WhiteSpace(_) | Token::Delim('>' | '+' | '~'));
            if is_combinator {
                ends = true;
                continue;
            }
            if ends {
                ends = false;
                let is_never = subject.is_never && !subject.is_of_control;
                subject = Self { is_never, is_conditional: true, ..Self::default() };
            }
            subject.part(&token, &mut colons, &mut after_dot);
        }
        all.push(subject);
        all.retain(|subject| !subject.is_never);
        all
    }

    fn part(&mut self, token: &Token<'_>, colons: &mut usize, after_dot: &mut bool) {
        let is_after_dot = std::mem::take(after_dot);
        match token {
            Token::Ident(name) if *colons > 0 => {
                self.state(&name.to_ascii_lowercase(), *colons > 1);
                *colons = 0;
            }
            Token::Ident(name) if is_after_dot => self.classes.push(name.to_string()),
            Token::Ident(name) => self.tag = Some(name.to_ascii_lowercase()),
            Token::IDHash(name) | Token::Hash(name) => self.id = Some(name.to_string()),
            Token::Delim('.') => *after_dot = true,
            Token::Colon => *colons += 1,
            Token::Delim('*') => {}
            // A namespace: what stands before it is not the tag.
            Token::Delim('|') => self.tag = None,
            _ => (*colons, self.is_conditional) = (0, true),
        }
    }

    /// A pseudo-class or a pseudo-element.
    fn state(&mut self, name: &str, is_element: bool) {
        match name {
            "before" | "after" => self.is_generated = true,
            "hover" | "active" | "selection" | "placeholder" | "marker" | "backdrop"
            | "spelling-error" | "grammar-error" => {
                self.is_never = true;
            }
            "focus" | "focus-visible" | "visited" | "target" | "disabled" | "checked"
            | "invalid" => {
                self.is_never = true;
                self.is_of_control = true;
            }
            "root" => self.tag = Some("html".to_owned()),
            _ if is_element && name.starts_with('-') => self.is_never = true,
            _ => self.is_conditional = true,
        }
    }
}

/// Whether rules for these media could apply to a reader's screen.
fn is_for_screens(media: &str) -> bool {
    let media = media.trim().to_ascii_lowercase();
    media.is_empty()
        || media.split(',').any(|query| {
            let words: Vec<&str> =
                query.split([' ', '(', ')', ':']).filter(|word| !word.is_empty()).collect();
            let never =
                ["print", "speech", "tty", "handheld", "dark", "projection", "mso", "amzn-kf8"];
            let limit = |name: &str| {
                let at = words.iter().position(|word| word == &name)?;
                Some(Length::parse(words.get(at + 1)?)?.pixels(16.0, 16.0))
            };
            let most = limit("max-width").or(limit("max-device-width"));
            let least = limit("min-width").or(limit("min-device-width"));
            words.contains(&"not")
                || !(words.iter().any(|word| never.contains(word))
                    || most.is_some_and(|most| most <= NARROWEST)
                    || least.is_some_and(|least| least > WIDEST))
        })
}

/// Whether a style sheet or a font is one of the public fonts that mails and exported documents use.
/// Some of those draw bars instead of letters.
pub(super) fn is_of_fonts(address: &str) -> bool {
    let address = address.trim_start_matches("url(").trim_start_matches(['"', '\'', ' ']);
    let starts = [
        "https://themes.googleusercontent.com/fonts/css?kit=",
        "https://fonts.googleapis.com/css?family=",
        "https://fonts.googleapis.com/css2?family=",
        "https://fonts.gstatic.com/s/",
    ];
    let without_letters = ["redacted", "flow", "barcode", "blank", "text="];
    let address = address.to_ascii_lowercase();
    starts.iter().any(|start| address.starts_with(start))
        && !without_letters.iter().any(|word| address.contains(word))
}
