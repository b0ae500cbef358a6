//! Declarations reduced to what bears on visibility: values of the properties we evaluate, and a
//! doubt for everything that could hide text and is not evaluated.

use cssparser::{
    AtRuleParser, CowRcStr, DeclarationParser, ParseError, Parser, ParserState,
    QualifiedRuleParser, RuleBodyItemParser, RuleBodyParser,
};

use super::color::Color;
use super::length::Length;
use super::property::{self, physical, without_vendor};
use super::text::{Text, argument, words};
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
        read(&name, &Text::read(input), self.found);
        Ok(())
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
    let mut buffer = [0_u8; 48];
    let lower = match buffer.get_mut(..name.len()) {
        Some(lower) => {
            lower.copy_from_slice(name.as_bytes());
            lower.make_ascii_lowercase();
            std::str::from_utf8(lower).unwrap_or(name)
        }
        None => name,
    };
    let mut reader = Reader { important: text.important, found };
    if lower == "mso-list" {
        reader.word_list(&text.text);
    }
    if property::is_harmless(lower)
        && lower != "text-decoration-line"
        && lower != "white-space-collapse"
    {
        return;
    }
    if text.is_broken || text.has_braces {
        reader.other(lower, Some(Doubt::Malformed));
        return;
    }
    reader.property(physical(lower), text);
}

struct Reader<'a> {
    important: bool,
    found: &'a mut Vec<Declaration>,
}

impl Reader<'_> {
    fn push(&mut self, slot: Slot, value: Value) {
        let property = Property::Known(slot);
        self.found.push(Declaration { property, value, important: self.important });
    }

    /// A property without a slot: in doubt, or back to a value that hides nothing.
    fn other(&mut self, name: &str, doubt: Option<Doubt>) {
        let hash = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let value = doubt.map_or(Value::Initial, Value::Doubt);
        let property = Property::Other(hash | 0x100);
        self.found.push(Declaration { property, value, important: self.important });
    }

    /// A keyword of every property, a computed value, or `None` for the property's own values.
    fn common(text: &Text<'_>, inherits: bool) -> Option<Value> {
        match &*text.text {
            "inherit" => Some(Value::Inherit),
            "initial" => Some(Value::Initial),
            "unset" | "revert" if inherits => Some(Value::Inherit),
            "unset" | "revert" => Some(Value::Initial),
            "revert-layer" => Some(Value::Doubt(Doubt::UnknownStyle)),
            _ if text.is_computed() => Some(Value::Doubt(Doubt::Computed)),
            _ => None,
        }
    }

    /// Pushes the common value or what `own` makes of the text; nothing when it is not valid.
    fn one(
        &mut self,
        slot: Slot,
        inherits: bool,
        text: &Text<'_>,
        own: impl Fn(&str) -> Option<Value>,
    ) {
        if let Some(value) = Self::common(text, inherits).or_else(|| own(&text.text)) {
            self.push(slot, value);
        }
    }

    fn property(&mut self, name: &str, text: &Text<'_>) {
        let value = &*text.text;
        match without_vendor(name) {
            "display" => {
                self.one(Slot::Display, false, text, |value| display(value).map(Value::Display))
            }
            "visibility" => self.one(Slot::Visibility, true, text, |value| match value {
                "hidden" | "collapse" => Some(Value::Flag(true)),
                "visible" => Some(Value::Flag(false)),
                _ => None,
            }),
            "opacity" => {
                self.one(Slot::Opacity, false, text, |value| number(value).map(Value::Number))
            }
            "color" => self.one(Slot::Color, true, text, color),
            "text-fill-color" => self.one(Slot::TextFill, true, text, color),
            "background" => self.background(text),
            "background-color" => self.one(Slot::BackgroundColor, false, text, color),
            "background-image" => self.picture(text),
            "background-clip" => {
                let clips = words(value).contains(&"text");
                let doubt = (clips || text.is_computed()).then_some(Doubt::Painted);
                self.push(Slot::BackgroundClip, doubt.map_or(Value::Initial, Value::Doubt));
            }
            "font-size" => self.one(Slot::FontSize, true, text, font_size),
            "font" => self.font(text),
            "line-height" => self.one(Slot::LineHeight, true, text, line_height),
            "letter-spacing" => self.one(Slot::LetterSpacing, true, text, length),
            "word-spacing" => self.one(Slot::WordSpacing, true, text, length),
            "white-space" | "white-space-collapse" | "text-space-collapse" => {
                self.one(Slot::WhiteSpace, true, text, white_space);
            }
            "float" => {
                self.one(Slot::Float, false, text, |value| Some(Value::Flag(value != "none")))
            }
            "position" => self.one(Slot::Position, false, text, position),
            "z-index" => self.one(Slot::ZIndex, false, text, |value| {
                if value == "auto" {
                    Some(Value::Initial)
                } else {
                    value.parse().ok().map(Value::Number)
                }
            }),
            "direction" => self.one(Slot::Direction, true, text, |value| match value {
                "rtl" => Some(Value::Flag(true)),
                "ltr" => Some(Value::Flag(false)),
                _ => None,
            }),
            "text-indent" => self.one(Slot::TextIndent, true, text, length),
            "text-decoration" | "text-decoration-line" => self.text_decoration(text),
            "text-shadow" => self.shadow(Slot::TextShadow, text, 3.0),
            "box-shadow" => self.shadow(Slot::BoxShadow, text, 8.0),
            "text-stroke" | "text-stroke-width" => self.stroke(text),
            "text-stroke-color" => {}
            "table-layout" => {
                self.one(Slot::FixedTable, false, text, |value| {
                    Some(Value::Flag(value == "fixed"))
                });
            }
            "content-visibility" => self.one(Slot::ContentVisibility, false, text, |value| {
                matches!(value, "hidden" | "auto" | "visible")
                    .then_some(Value::Flag(value == "hidden"))
            }),
            "clip" => self.clip(text),
            "clip-path" => self.clip_path(text),
            "transform" | "translate" => self.movement(name, text),
            _ => self.box_property(name, text),
        }
    }

    fn box_property(&mut self, name: &str, text: &Text<'_>) {
        let sides = |prefix: &str| match prefix {
            "margin" => [Slot::MarginTop, Slot::MarginRight, Slot::MarginBottom, Slot::MarginLeft],
            "padding" => {
                [Slot::PaddingTop, Slot::PaddingRight, Slot::PaddingBottom, Slot::PaddingLeft]
            }
            _ => [Slot::Top, Slot::Right, Slot::Bottom, Slot::Left],
        };
        match name {
            "width" => self.one(Slot::Width, false, text, length),
            "height" => self.one(Slot::Height, false, text, length),
            "max-width" => self.one(Slot::MaxWidth, false, text, length),
            "max-height" => self.one(Slot::MaxHeight, false, text, length),
            "top" => self.one(Slot::Top, false, text, length),
            "right" => self.one(Slot::Right, false, text, length),
            "bottom" => self.one(Slot::Bottom, false, text, length),
            "left" => self.one(Slot::Left, false, text, length),
            "margin-top" => self.one(Slot::MarginTop, false, text, length),
            "margin-right" => self.one(Slot::MarginRight, false, text, length),
            "margin-bottom" => self.one(Slot::MarginBottom, false, text, length),
            "margin-left" => self.one(Slot::MarginLeft, false, text, length),
            "padding-top" => self.one(Slot::PaddingTop, false, text, length),
            "padding-right" => self.one(Slot::PaddingRight, false, text, length),
            "padding-bottom" => self.one(Slot::PaddingBottom, false, text, length),
            "padding-left" => self.one(Slot::PaddingLeft, false, text, length),
            "margin" | "padding" | "inset" => self.four(sides(name), text),
            "margin-inline" => self.two([Slot::MarginLeft, Slot::MarginRight], text),
            "margin-block" => self.two([Slot::MarginTop, Slot::MarginBottom], text),
            "padding-inline" => self.two([Slot::PaddingLeft, Slot::PaddingRight], text),
            "padding-block" => self.two([Slot::PaddingTop, Slot::PaddingBottom], text),
            "inset-inline" => self.two([Slot::Left, Slot::Right], text),
            "inset-block" => self.two([Slot::Top, Slot::Bottom], text),
            "overflow" => self.overflow(text),
            "overflow-x" => self.one(Slot::OverflowX, false, text, overflow),
            "overflow-y" => self.one(Slot::OverflowY, false, text, overflow),
            "outline" | "outline-width" => self.outline(text),
            "border" => {
                let words = text.words();
                self.push(Slot::BorderNone, Value::Flag(words.contains(&"none")));
                self.near_zero(name, text);
            }
            _ => self.rarely_hiding(name, text),
        }
    }

    /// Properties that hide only with values out of the ordinary.
    fn rarely_hiding(&mut self, name: &str, text: &Text<'_>) {
        let value = &*text.text;
        let is_near_zero = name.starts_with("border")
            || name.starts_with("min-")
            || matches!(
                name,
                "gap"
                    | "row-gap"
                    | "column-gap"
                    | "grid-gap"
                    | "text-underline-offset"
                    | "flex"
                    | "flex-basis"
            );
        let number_in = |low: f32, high: f32| {
            number(value).is_some_and(|number| (low..=high).contains(&number))
        };
        let passes = match name {
            "unicode-bidi" => matches!(value, "embed" | "isolate" | "plaintext"),
            "writing-mode" => matches!(value, "horizontal-tb" | "lr" | "lr-tb"),
            "zoom" => number_in(0.5, 2.0),
            "color-scheme" => matches!(value, "light" | "only light"),
            "text-decoration-thickness" => small_lengths(value, 4.0),
            "backface-visibility" | "perspective-origin" | "transform-origin" => {
                name != "backface-visibility" || value == "visible"
            }
            "columns" | "column-count" => value == "1",
            "scale" => words(value).iter().all(|word| *word == "1" || *word == "100%"),
            "rotate" => matches!(value, "0" | "0deg"),
            "mix-blend-mode" | "filter" | "backdrop-filter" => false,
            "contain" => value == "style",
            // Text generated for an element takes no place from its own.
            "content" => is_plain_string(value),
            "grid-template-columns"
            | "grid-template-rows"
            | "grid-auto-rows"
            | "grid-auto-columns" => {
                words(value).iter().all(|word| word.ends_with("fr") && !word.starts_with('0'))
            }
            "grid-auto-flow" | "grid-column-gap" | "grid-row-gap" => true,
            _ => false,
        };
        if passes || property::is_usual(value) {
            self.other(name, None);
        } else if is_near_zero {
            self.near_zero(name, text);
        } else {
            let doubt = property::doubt(name);
            let computed = text.is_computed() && doubt == Doubt::UnknownStyle;
            self.other(name, Some(if computed { Doubt::Computed } else { doubt }));
        }
    }

    /// Harmless with plain lengths up to 400 pixels.
    fn near_zero(&mut self, name: &str, text: &Text<'_>) {
        if name.starts_with("border") {
            let is_wide = |word: &&str| {
                Length::parse(word).is_some_and(|length| length.pixels(16.0, 16.0) > 3.0)
            };
            self.push(Slot::WideBorder, Value::Flag(text.words().iter().any(is_wide)));
        }
        let fits = !text.is_computed()
            && text.words().iter().all(|word| match Length::parse(word) {
                Some(Length::Px(px)) => px.abs() <= 400.0,
                Some(Length::Em(em)) => em.abs() <= 30.0,
                Some(Length::Share(share)) => (0.0..=1.0).contains(&share),
                None => {
                    word.parse::<f32>().is_ok()
                        || word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '#')
                }
            });
        self.other(
            name,
            (!fits).then_some(if text.is_computed() { Doubt::Computed } else { Doubt::Sized }),
        );
    }

    fn four(&mut self, slots: [Slot; 4], text: &Text<'_>) {
        if let Some(value) = Self::common(text, false) {
            slots.into_iter().for_each(|slot| self.push(slot, value));
            return;
        }
        let sides: Option<Vec<Value>> = text.words().into_iter().map(length).collect();
        let Some(sides) = sides else { return };
        let (top, right) = match sides[..] {
            [one] => (one, one),
            [top, right, ..] => (top, right),
            [] => return,
        };
        let bottom = sides.get(2).copied().unwrap_or(top);
        let left = sides.get(3).copied().unwrap_or(right);
        for (slot, value) in slots.into_iter().zip([top, right, bottom, left]) {
            self.push(slot, value);
        }
    }

    fn two(&mut self, slots: [Slot; 2], text: &Text<'_>) {
        let common = Self::common(text, false);
        let words = text.words();
        let (Some(first), last) = (words.first(), words.last()) else { return };
        let values = [length(first), last.and_then(|last| length(last))];
        for (slot, value) in slots.into_iter().zip(values) {
            if let Some(value) = common.or(value) {
                self.push(slot, value);
            }
        }
    }

    fn overflow(&mut self, text: &Text<'_>) {
        if let Some(value) = Self::common(text, false) {
            self.push(Slot::OverflowX, value);
            self.push(Slot::OverflowY, value);
            return;
        }
        let words = text.words();
        let (Some(x), Some(y)) = (words.first(), words.last()) else { return };
        if let (Some(x), Some(y)) = (overflow(x), overflow(y)) {
            self.push(Slot::OverflowX, x);
            self.push(Slot::OverflowY, y);
        }
    }

    fn background(&mut self, text: &Text<'_>) {
        let words = text.words();
        self.push(
            Slot::BackgroundClip,
            match words.contains(&"text") {
                true => Value::Doubt(Doubt::Painted),
                false => Value::Initial,
            },
        );
        if let Some(common) = Self::common(text, false) {
            let is_doubt = matches!(common, Value::Doubt(_));
            self.push(Slot::BackgroundColor, common);
            self.push(
                Slot::BackgroundImage,
                if is_doubt { Value::Doubt(Doubt::Painted) } else { common },
            );
            return;
        }
        let is_picture =
            words.iter().any(|word| word.starts_with("url(") || word.contains("gradient("));
        let painted = words.iter().find_map(|word| color(word));
        self.push(Slot::BackgroundColor, painted.unwrap_or(Value::Initial));
        self.push(
            Slot::BackgroundImage,
            match is_picture {
                true => Value::Doubt(Doubt::Painted),
                false => Value::Initial,
            },
        );
    }

    fn picture(&mut self, text: &Text<'_>) {
        let value = match &*text.text {
            "inherit" => Value::Inherit,
            "none" | "initial" | "unset" | "revert" => Value::Initial,
            _ => Value::Doubt(Doubt::Painted),
        };
        self.push(Slot::BackgroundImage, value);
    }

    fn font(&mut self, text: &Text<'_>) {
        if let Some(common) = Self::common(text, true) {
            self.push(Slot::FontSize, common);
            self.push(Slot::LineHeight, common);
            return;
        }
        let words = text.words();
        let Some(at) = words.iter().position(|word| font_size(word).is_some()) else { return };
        if let Some(size) = font_size(words[at]) {
            self.push(Slot::FontSize, size);
        }
        let has_height = text.text.contains('/');
        let height = words.get(at + 1).filter(|_| has_height).and_then(|word| line_height(word));
        self.push(Slot::LineHeight, height.unwrap_or(Value::Initial));
    }

    fn text_decoration(&mut self, text: &Text<'_>) {
        let words = text.words();
        self.push(Slot::LineThrough, Value::Flag(words.contains(&"line-through")));
        let lengths = words.iter().filter_map(|word| Length::parse(word));
        let thick = text.is_computed()
            || lengths.into_iter().any(|length| length.pixels(16.0, 16.0).abs() > 4.0);
        self.other("text-decoration", thick.then_some(Doubt::Covered));
    }

    /// A shadow: a flag for one that stays near, a doubt for one that could cover other text.
    fn shadow(&mut self, slot: Slot, text: &Text<'_>, reach: f32) {
        let is_inset = slot == Slot::BoxShadow && text.words().contains(&"inset");
        let value = match &*text.text {
            "none" | "initial" | "unset" | "revert" => Value::Flag(false),
            "inherit" => Value::Inherit,
            _ if text.is_computed() => Value::Doubt(Doubt::Computed),
            _ if is_inset => Value::Flag(false),
            value => match lengths_within(value, reach, 40.0) {
                true => Value::Flag(true),
                false => Value::Doubt(Doubt::Covered),
            },
        };
        self.push(slot, value);
    }

    fn stroke(&mut self, text: &Text<'_>) {
        let value = match &*text.text {
            "0" | "initial" | "unset" | "revert" => Value::Flag(false),
            "inherit" => Value::Inherit,
            value if !text.is_computed() && small_lengths(value, 1.0) => Value::Flag(true),
            _ => Value::Doubt(Doubt::Painted),
        };
        self.push(Slot::Stroke, value);
    }

    fn outline(&mut self, text: &Text<'_>) {
        let is_none = text.words().iter().any(|word| matches!(*word, "none" | "0" | "hidden"));
        let value = match is_none || (!text.is_computed() && small_lengths(&text.text, 6.0)) {
            true => Value::Initial,
            false => Value::Doubt(Doubt::Covered),
        };
        self.push(Slot::Outline, value);
    }

    fn clip(&mut self, text: &Text<'_>) {
        let value = match &*text.text {
            "auto" | "initial" | "unset" | "revert" => Value::Initial,
            value => match argument(value, "rect").map(plain_lengths) {
                Some(Some(sides)) => match sides[..] {
                    [top, right, bottom, left] if right - left <= 1.0 || bottom - top <= 1.0 => {
                        Value::Flag(true)
                    }
                    _ => Value::Doubt(Doubt::Clipped),
                },
                _ => Value::Doubt(Doubt::Clipped),
            },
        };
        self.push(Slot::Clip, value);
    }

    fn clip_path(&mut self, text: &Text<'_>) {
        let value = match &*text.text {
            "none" | "initial" | "unset" | "revert" => Value::Initial,
            value => {
                let inset =
                    argument(value, "inset").map(|inset| inset.split("round").next().unwrap_or(""));
                match inset.and_then(plain_lengths) {
                    Some(sides) if sides.iter().all(|side| *side <= 0.0) => Value::Initial,
                    _ => Value::Doubt(Doubt::Clipped),
                }
            }
        };
        self.push(Slot::ClipPath, value);
    }

    /// `transform` and `translate`, as far as they only shift.
    fn movement(&mut self, name: &str, text: &Text<'_>) {
        let value = &*text.text;
        if property::is_usual(value) {
            self.push(Slot::TranslateX, Value::Initial);
            self.push(Slot::TranslateY, Value::Initial);
            self.other(name, None);
            return;
        }
        let shift = |inside: &str| -> Option<(Value, Value)> {
            let parts = words(inside);
            let zero = Value::Length(Length::Px(0.0));
            let read = |at: usize| {
                parts.get(at).map_or(Some(zero), |part| Length::parse(part).map(Value::Length))
            };
            (1..=2).contains(&parts.len()).then_some((read(0)?, read(1)?))
        };
        let zero = Value::Length(Length::Px(0.0));
        let shifted = match without_vendor(name) {
            "translate" => shift(value),
            _ => argument(value, "translate")
                .and_then(shift)
                .or_else(|| argument(value, "translatex").and_then(shift).map(|(x, _)| (x, zero)))
                .or_else(|| argument(value, "translatey").and_then(shift).map(|(y, _)| (zero, y))),
        };
        let changes_nothing = matches!(
            value,
            "scale(1)"
                | "rotate(0)"
                | "rotate(0deg)"
                | "translatez(0)"
                | "translate3d(0,0,0)"
                | "translate3d(0, 0, 0)"
        );
        match shifted {
            Some((x, y)) => {
                self.push(Slot::TranslateX, x);
                self.push(Slot::TranslateY, y);
                self.other(name, None);
            }
            None => self.other(name, (!changes_nothing).then_some(Doubt::Moved)),
        }
    }

    /// Word writes `mso-list:l0 level2 lfo1` on an item and `mso-list:Ignore` on its marker.
    fn word_list(&mut self, value: &str) {
        if value == "ignore" {
            self.push(Slot::WordMarker, Value::Flag(true));
        }
        let level = value
            .split_ascii_whitespace()
            .find_map(|word| word.strip_prefix("level")?.parse::<u8>().ok());
        if let Some(level) = level {
            self.push(Slot::WordListLevel, Value::Number(f32::from(level.clamp(1, 9))));
        }
    }
}

fn display(value: &str) -> Option<Display> {
    let parts = words(value);
    let has = |word: &str| parts.contains(&word);
    Some(match value {
        "none" => Display::None,
        "contents" => Display::Contents,
        "table-cell" => Display::TableCell,
        "table-column" | "table-column-group" => Display::None,
        "table-row" | "table-row-group" | "table-header-group" | "table-footer-group"
        | "table-caption" => Display::TablePart,
        "inline" | "ruby" | "ruby-text" | "ruby-base" | "run-in" | "math" => Display::Inline,
        "block" | "list-item" | "flow-root" | "table" => Display::Block,
        "flex" | "grid" | "-webkit-box" | "-webkit-flex" | "-ms-flexbox" | "-ms-grid"
        | "-moz-box" => Display::Flex,
        _ if value.starts_with("inline-") || value.starts_with("-webkit-inline-") => {
            Display::InlineBlock
        }
        _ if parts.len() > 1 && has("none") => return None,
        _ if parts.len() > 1 && (has("flex") || has("grid")) => Display::Flex,
        _ if parts.len() > 1 && has("inline") => Display::InlineBlock,
        _ if parts.len() > 1 && (has("block") || has("flow") || has("list-item")) => Display::Block,
        _ => return None,
    })
}

fn position(value: &str) -> Option<Value> {
    Some(match value {
        "static" => Value::Position(Position::Static),
        "relative" => Value::Position(Position::Relative),
        "absolute" | "fixed" => Value::Position(Position::Absolute),
        "sticky" | "-webkit-sticky" => Value::Doubt(Doubt::Moved),
        _ => return None,
    })
}

fn overflow(value: &str) -> Option<Value> {
    Some(Value::Overflow(match value {
        "visible" => Overflow::Visible,
        "auto" | "scroll" | "overlay" => Overflow::Scrolls,
        "hidden" | "clip" | "-moz-hidden-unscrollable" => Overflow::Clips,
        _ => return None,
    }))
}

fn white_space(value: &str) -> Option<Value> {
    let (mut space, mut nowrap) = (TextSpace::Collapse, false);
    for word in words(value) {
        match word {
            "normal" | "collapse" | "wrap" | "discard" => {}
            "nowrap" => nowrap = true,
            "pre-line" | "preserve-breaks" => space = TextSpace::KeepLines,
            "pre" => (space, nowrap) = (TextSpace::Keep, true),
            "pre-wrap" | "break-spaces" | "preserve" | "preserve-spaces" => space = TextSpace::Keep,
            _ => return None,
        }
    }
    Some(Value::Space(space, nowrap))
}

fn color(value: &str) -> Option<Value> {
    if value == "currentcolor" {
        return Some(Value::CurrentColor);
    }
    match Color::parse(value) {
        Some(color) => Some(Value::Color(color)),
        None if value.contains('(')
            && !value.starts_with("url(")
            && !value.contains("gradient(") =>
        {
            Some(Value::Doubt(Doubt::Painted))
        }
        None if is_unusual_system_color(value) => Some(Value::Doubt(Doubt::Painted)),
        None => None,
    }
}

/// System colours that differ from one browser and theme to the next.
fn is_unusual_system_color(value: &str) -> bool {
    matches!(
        value,
        "accentcolor"
            | "accentcolortext"
            | "activetext"
            | "buttonborder"
            | "graytext"
            | "highlight"
            | "highlighttext"
            | "mark"
            | "marktext"
            | "selecteditem"
            | "selecteditemtext"
            | "visitedtext"
            | "activeborder"
            | "activecaption"
            | "appworkspace"
            | "buttonhighlight"
            | "buttonshadow"
            | "inactiveborder"
            | "inactivecaption"
            | "inactivecaptiontext"
            | "menu"
            | "scrollbar"
            | "threeddarkshadow"
            | "threedhighlight"
            | "threedlightshadow"
            | "threedshadow"
            | "windowframe"
            | "-webkit-link"
            | "-webkit-activelink"
            | "-internal-light-dark"
    )
}

/// A length, or `auto` and the like; `None` for what is not valid.
fn length(value: &str) -> Option<Value> {
    if let Some(length) = Length::parse(value) {
        return Some(Value::Length(length));
    }
    let is_word = value.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    match value {
        "auto" | "none" | "normal" | "max-content" | "fit-content" => Some(Value::Initial),
        "min-content" => Some(Value::Length(Length::Px(10.0))),
        _ if is_word || value.is_empty() => None,
        // A number without a unit is not valid.
        _ if value.parse::<f32>().is_ok() => None,
        _ => Some(Value::Doubt(Doubt::Sized)),
    }
}

fn font_size(value: &str) -> Option<Value> {
    let px = match value {
        "xx-small" => 9.0,
        "x-small" => 10.0,
        "small" => 13.0,
        "medium" => 16.0,
        "large" => 18.0,
        "x-large" => 24.0,
        "xx-large" => 32.0,
        "xxx-large" => 48.0,
        "smaller" => return Some(Value::Length(Length::Em(0.83))),
        "larger" => return Some(Value::Length(Length::Em(1.2))),
        _ => {
            return match length(value) {
                Some(Value::Length(length)) if length.pixels(1.0, 1.0) >= 0.0 => {
                    Some(Value::Length(length))
                }
                Some(Value::Doubt(doubt))
                    if value.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '+') =>
                {
                    Some(Value::Doubt(doubt))
                }
                _ => None,
            };
        }
    };
    Some(Value::Length(Length::Px(px)))
}

fn line_height(value: &str) -> Option<Value> {
    match value.parse::<f32>() {
        Ok(factor) => Some(Value::Length(Length::Em(factor))),
        Err(_) => match length(value) {
            Some(Value::Length(Length::Share(share))) => Some(Value::Length(Length::Em(share))),
            other => other,
        },
    }
}

fn number(value: &str) -> Option<f32> {
    match value.strip_suffix('%') {
        Some(percent) => percent.parse::<f32>().ok().map(|number| number / 100.0),
        None => value.parse().ok(),
    }
    .filter(|number| number.is_finite())
}

/// A quoted text without the characters that fill their whole box.
fn is_plain_string(value: &str) -> bool {
    let inside = value.strip_prefix(['"', '\'']).and_then(|rest| rest.strip_suffix(['"', '\'']));
    inside.is_some_and(|inside| inside.len() <= 40 && !inside.chars().any(fills_its_box))
}

/// Blocks, squares and pictures, which can lie over other text like a box.
pub(super) fn fills_its_box(character: char) -> bool {
    matches!(character, '\u{2580}'..='\u{25ff}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' | '\u{e000}'..='\u{f8ff}')
}

/// Pixels of a list of plain lengths; a share counts a thousand for the whole.
fn plain_lengths(list: &str) -> Option<Vec<f32>> {
    words(list).into_iter().map(|word| Some(Length::parse(word)?.pixels(16.0, 1000.0))).collect()
}

/// Is every length in it at most so many pixels?
fn small_lengths(value: &str, most: f32) -> bool {
    words(value).iter().all(|word| match Length::parse(word) {
        Some(length) => length.pixels(16.0, 16.0).abs() <= most,
        None => word.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'#'),
    })
}

/// The same for a list of shadows, where the third length of each is a blur.
fn lengths_within(value: &str, most: f32, most_blur: f32) -> bool {
    let mut at = 0;
    let mut depth = 0_i32;
    let mut layers = vec![String::new()];
    for character in value.chars() {
        depth += i32::from(character == '(') - i32::from(character == ')');
        if character == ',' && depth == 0 {
            layers.push(String::new());
        } else if let Some(layer) = layers.last_mut() {
            layer.push(character);
        }
    }
    layers.iter().all(|layer| {
        at = 0;
        words(layer).iter().all(|word| match Length::parse(word) {
            Some(length) => {
                at += 1;
                length.pixels(16.0, 16.0).abs() <= if at == 3 { most_blur } else { most }
            }
            None => {
                word.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'#')
            }
        })
    })
}
