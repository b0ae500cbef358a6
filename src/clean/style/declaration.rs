//! Declarations reduced to what affects visibility: values of the evaluated properties, and a doubt
//! for everything else that could hide text.

use cssparser::{
    AtRuleParser, BasicParseErrorKind, CowRcStr, DeclarationParser, ParseError, Parser,
    ParserState, QualifiedRuleParser, RuleBodyItemParser, RuleBodyParser,
};

use super::color::Color;
use super::impact;
use super::length::Length;
use super::property::{self, is_of_few_browsers, is_of_no_browser, physical};
use super::reader::Reader;
use super::text::Text;
use crate::model::VisibilityIssue;

/// A longer `style` attribute is not evaluated, in bytes.
const MAX_INLINE: usize = 16 << 10;
/// Maximum declarations evaluated per list.
const MAX_DECLARATIONS: usize = 200;

/// How an element takes part in the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clean) enum Display {
    None,
    Inline,
    /// Inline, as a separate box.
    InlineBlock,
    /// Next to its neighbours, with space between.
    TableCell,
    /// Another part of a table.
    TablePart,
    /// On separate lines.
    Block,
    /// On separate lines, and each child too.
    Flex,
    /// Inline, as a separate box, and each child is a block.
    InlineFlex,
    /// Only its children do.
    Contents,
}

/// How white space in text is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clean) enum TextSpace {
    /// Runs become one space.
    Collapse,
    /// Line ends stay, runs become one space.
    KeepLines,
    /// Everything stays.
    Keep,
}

/// How content larger than its box is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overflow {
    Visible,
    Scrolls,
    Clips,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Static,
    Relative,
    Absolute,
}

/// The evaluated properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Slot {
    Display,
    Visibility,
    Opacity,
    Color,
    TextFill,
    Stroke,
    StrokeColor,
    TextShadow,
    BackgroundColor,
    BackgroundImage,
    BackgroundClip,
    FontSize,
    LineHeight,
    LetterSpacing,
    WordSpacing,
    WhiteSpace,
    Float,
    Position,
    Top,
    Right,
    Bottom,
    Left,
    ZIndex,
    Width,
    Height,
    MaxWidth,
    MaxHeight,
    MarginTop,
    MarginRight,
    MarginBottom,
    MarginLeft,
    PaddingTop,
    PaddingRight,
    PaddingBottom,
    PaddingLeft,
    TextIndent,
    OverflowX,
    OverflowY,
    Direction,
    Outline,
    BoxShadow,
    Clip,
    ClipPath,
    Zoom,
    Collapse,
    NoWrap,
    SpaceCollapse,
    MinSize,
    Fixed,
    Stacks,
    TranslateX,
    TranslateY,
    ContentVisibility,
    WideBorder,
    FixedTable,
    LineThrough,
    BorderNone,
    WordListLevel,
    WordMarker,
}

/// Number of [`Slot`]s.
pub(super) const SLOTS: usize = Slot::WordMarker as usize + 1;

/// The value of a declaration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    /// The parent's value.
    Inherit,
    /// The default value of the property.
    Initial,
    Display(Display),
    Flag(bool),
    Number(f32),
    Length(Length),
    Color(Color),
    CurrentColor,
    Space(TextSpace, bool),
    Overflow(Overflow),
    Position(Position),
    Doubt(VisibilityIssue),
}

impl Value {
    /// The doubt that it raises, if any.
    pub(super) fn doubt(self) -> Option<VisibilityIssue> {
        match self {
            Self::Doubt(doubt) => Some(doubt),
            _ => None,
        }
    }
}

/// The property of a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    Known(Slot),
    /// A property that is not evaluated, by a hash of its name.
    Other(u32),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Declaration {
    pub(super) property: Property,
    pub(super) value: Value,
    pub(super) important: bool,
}

/// Parses a `style` attribute.
pub(super) fn read_inline(css: &str, found: &mut Vec<Declaration>) {
    // cssparser skips a stray brace, a browser drops its declaration.
    if css.contains(['{', '}']) {
        found.push(in_doubt(VisibilityIssue::Malformed));
    }
    if css.len() > MAX_INLINE {
        found.push(in_doubt(VisibilityIssue::Budget));
        return;
    }
    let mut input = Parser::new(css);
    let mut list = Inline { found };
    for item in RuleBodyParser::new(&mut input, &mut list).take(MAX_DECLARATIONS) {
        // An invalid declaration is dropped, as in a browser.
        drop(item);
    }
    if !input.is_exhausted() {
        found.push(in_doubt(VisibilityIssue::Budget));
    }
}

/// A doubt that no other declaration removes.
pub(super) fn in_doubt(doubt: VisibilityIssue) -> Declaration {
    let property = Property::Other(doubt as u32);
    Declaration { property, value: Value::Doubt(doubt), important: true }
}

struct Inline<'a> {
    found: &'a mut Vec<Declaration>,
}

impl<'i> DeclarationParser<'i> for Inline<'_> {
    type Declaration = ();
    type Error = ();

    fn parse_value(
        &mut self,
        name: CowRcStr<'i>,
        input: &mut Parser<'i>,
        _start: &ParserState,
    ) -> Result<(), ParseError<()>> {
        with_lower_case(&name, |name| {
            if !property::is_read(name) {
                // The rest of it is skipped.
                return Err(ParseError::from_basic_kind(BasicParseErrorKind::EndOfInput));
            }
            evaluate(name, &Text::read(input), self.found);
            Ok(())
        })
    }
}

impl AtRuleParser<'_> for Inline<'_> {
    type Prelude = ();
    type AtRule = ();
    type Error = ();
}

impl QualifiedRuleParser<'_> for Inline<'_> {
    type Prelude = ();
    type QualifiedRule = ();
    type Error = ();
}

impl RuleBodyItemParser<'_, (), ()> for Inline<'_> {
    fn parse_declarations(&self) -> bool {
        true
    }

    fn parse_qualified(&self) -> bool {
        false
    }
}

/// Parses one declaration.
pub(super) fn read(name: &str, text: &Text<'_>, found: &mut Vec<Declaration>) {
    with_lower_case(name, |name| {
        if property::is_read(name) {
            evaluate(name, text, found);
        }
    });
}

/// The name in lower case; a name longer than all known ones stays unchanged.
fn with_lower_case<T>(name: &str, work: impl FnOnce(&str) -> T) -> T {
    let mut buffer = [0_u8; 48];
    match buffer.get_mut(..name.len()) {
        Some(lower) if name.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            lower.copy_from_slice(name.as_bytes());
            lower.make_ascii_lowercase();
            work(std::str::from_utf8(lower).unwrap_or(name))
        }
        _ => work(name),
    }
}

/// Evaluates a declaration of a property that is read.
fn evaluate(name: &str, text: &Text<'_>, found: &mut Vec<Declaration>) {
    if text.is_invalid || is_of_no_browser(name) {
        return;
    }
    if is_of_few_browsers(name) {
        // It can hide text in some browsers, and restore it in none for certain.
        let mut own = Vec::new();
        Reader { important: text.important, found: &mut own }.property(name, text);
        if impact::could_hide(&own) {
            let doubt = Some(VisibilityIssue::UnknownStyle);
            Reader { important: text.important, found }.other(name, doubt);
        }
        return;
    }
    let mut reader = Reader { important: text.important, found };
    if name == "mso-list" {
        reader.word_list(&text.text);
    } else if text.is_broken || text.has_braces {
        reader.other(name, Some(VisibilityIssue::Malformed));
    } else {
        reader.property(physical(name), text);
    }
}
