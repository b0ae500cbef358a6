//! Declarations reduced to what bears on visibility: values of the properties we evaluate, and a
//! doubt for everything that could hide text and is not evaluated.

use cssparser::{
    AtRuleParser, BasicParseErrorKind, CowRcStr, DeclarationParser, ParseError, Parser,
    ParserState, QualifiedRuleParser, RuleBodyItemParser, RuleBodyParser,
};

use super::color::Color;
use super::length::Length;
use super::property::{self, physical};
use super::reader::Reader;
use super::text::Text;
use crate::model::Doubt;

/// Bytes a `style` attribute may have; a longer one is not evaluated.
const MAX_INLINE: usize = 16 << 10;
/// Declarations evaluated in one list.
const MAX_DECLARATIONS: usize = 200;

/// How an element takes part in the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clean) enum Display {
    /// Not at all.
    None,
    /// In the line.
    Inline,
    /// In the line, as a box of its own.
    InlineBlock,
    /// Beside its neighbours, with space between.
    TableCell,
    /// Another part of a table.
    TablePart,
    /// On lines of its own.
    Block,
    /// On lines of its own, and each child too.
    Flex,
    /// Only its children do.
    Contents,
}

/// What becomes of white space in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clean) enum TextSpace {
    /// Runs become one space.
    Collapse,
    /// Line ends stay, runs become one space.
    KeepLines,
    /// Everything stays.
    Keep,
}

/// What happens to content that is larger than its box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overflow {
    Visible,
    Scrolls,
    Clips,
}

/// `position`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Static,
    Relative,
    Absolute,
}

/// The properties we evaluate.
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

/// What a declaration says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    /// The parent's value.
    Inherit,
    /// The value it has when nobody says anything.
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
    Doubt(Doubt),
}

impl Value {
    /// The doubt that it raises, if it does.
    pub(super) fn doubt(self) -> Option<Doubt> {
        match self {
            Self::Doubt(doubt) => Some(doubt),
            _ => None,
        }
    }
}

/// The property a declaration is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    Known(Slot),
    /// One that we do not evaluate, by a hash of its name.
    Other(u32),
}

/// One declaration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Declaration {
    pub(super) property: Property,
    pub(super) value: Value,
    pub(super) important: bool,
}

/// Reads a `style` attribute.
pub(super) fn read_inline(css: &str, found: &mut Vec<Declaration>) {
    // cssparser passes over a stray brace, a browser drops the declaration it stands in.
    if css.contains(['{', '}']) {
        found.push(in_doubt(Doubt::Malformed));
    }
    if css.len() > MAX_INLINE {
        found.push(in_doubt(Doubt::Budget));
        return;
    }
    let mut input = Parser::new(css);
    let mut list = Inline { found };
    for item in RuleBodyParser::new(&mut input, &mut list).take(MAX_DECLARATIONS) {
        // A declaration that cannot be read is dropped, as a browser does.
        drop(item);
    }
    if !input.is_exhausted() {
        found.push(in_doubt(Doubt::Budget));
    }
}

/// A doubt that no other declaration takes away.
pub(super) fn in_doubt(doubt: Doubt) -> Declaration {
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
                // What is left of it is stepped over.
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

/// Reads one declaration.
pub(super) fn read(name: &str, text: &Text<'_>, found: &mut Vec<Declaration>) {
    with_lower_case(name, |name| {
        if property::is_read(name) {
            evaluate(name, text, found);
        }
    });
}

/// The name in lower case; one that is longer than all known names stays as it is.
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
    let mut reader = Reader { important: text.important, found };
    if name == "mso-list" {
        reader.word_list(&text.text);
    } else if text.is_broken || text.has_braces {
        reader.other(name, Some(Doubt::Malformed));
    } else {
        reader.property(physical(name), text);
    }
}
