//! Declarations, judged by lists.

use cssparser::{
    AtRuleParser, CowRcStr, DeclarationParser, ParseError, Parser, ParserState,
    QualifiedRuleParser, RuleBodyItemParser, RuleBodyParser,
};

use std::borrow::Cow;

use super::color::Color;
use super::length::Length;
use super::text::{Text, argument, words};
use crate::VisibilityIssue;

/// A longer `style` attribute is not read to its end, in bytes.
const MAX_INLINE: usize = 16 << 10;
/// Declarations read of one list.
const MAX_DECLARATIONS: usize = 200;
/// Text may be shifted by this many pixels and is still where a reader looks.
const NEAR: f32 = 12.0;

/// How an element takes part in the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Display {
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
pub(crate) enum TextSpace {
    /// Runs become one space.
    Collapse,
    /// Line ends stay, runs become one space.
    KeepLines,
    /// Everything stays.
    Keep,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Paint {
    Color(Color),
    /// The colour of the text.
    Current,
    /// As if nothing was declared.
    Unset,
    /// The page's own: black for text, none for a background.
    Initial,
    /// That of a variable which the text does not declare: this colour, or as if nothing was declared.
    Undeclared(Option<Color>),
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Static,
    Relative,
    Absolute,
    Sticky,
}

/// What a declaration without a field of its own does to the text under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Hides,
    /// Its own text may be hidden.
    May(VisibilityIssue),
    /// It may lie over other text, or take it along.
    Covers(VisibilityIssue),
}

/// The sides of a box: top, right, bottom, left.
pub(super) type Sides = [Option<Length>; 4];

/// The declarations of one element; a later one of the same property replaces an earlier one.
#[derive(Debug, Clone, Default)]
pub(super) struct Declared {
    pub(super) display: Option<Display>,
    /// `Some(false)`: hidden.
    pub(super) visible: Option<bool>,
    pub(super) collapsed: bool,
    pub(super) opacity: Option<f32>,
    pub(super) color: Option<Paint>,
    pub(super) fill: Option<Paint>,
    pub(super) background: Option<Paint>,
    /// A picture or a gradient.
    pub(super) picture: bool,
    pub(super) font: Option<Length>,
    pub(super) space: Option<TextSpace>,
    pub(super) nowrap: Option<bool>,
    pub(super) position: Option<Position>,
    pub(super) inset: Sides,
    pub(super) margin: Sides,
    pub(super) padding: Sides,
    /// Width, height and their maxima.
    pub(super) size: Sides,
    /// `overflow`, across and down: `Some(true)` clips.
    pub(super) clips: [Option<bool>; 2],
    pub(super) indent: Option<Length>,
    pub(super) floats: bool,
    pub(super) behind_others: bool,
    /// A border wider than a line.
    pub(super) wide_border: bool,
    pub(super) rtl: Option<bool>,
    pub(super) line_through: bool,
    pub(super) border_none: bool,
    pub(super) word_marker: bool,
    pub(super) word_list_level: u8,
    /// The effects of all other properties, by name.
    pub(super) effects: Vec<(&'static str, Effect)>,
    /// The same for properties that children inherit.
    pub(super) inherited: Vec<(Inherited, Option<VisibilityIssue>)>,
    pub(super) declares_variable: bool,
    /// A picture that a variable names: there is none unless the text declares variables.
    pub(super) picture_of_variable: bool,
    /// `display` is set back to what it is without any style.
    pub(super) display_reset: bool,
    pub(super) zoom: Option<f32>,
    /// A minimum of the width or height that gives text some room.
    pub(super) has_least: bool,
    /// The element may take no room among its neighbours.
    pub(super) basis_zero: bool,
    /// Something clips what leaves the box although it does not say so in `overflow`.
    pub(super) clips_paint: bool,
    /// A shadow, a stroke or a background in the shape of the letters may make letters visible whose
    /// colour is not.
    pub(super) outlined: bool,
    /// The first colour of a gradient behind the text, and how much the others differ from it.
    pub(super) gradient: Option<(Color, f32)>,
    /// The picture behind the text has a size, a place or a repetition of its own.
    pub(super) picture_placed: bool,
    /// At most this many lines are shown.
    pub(super) line_clamp: Option<f32>,
    /// In columns: what does not fit a height goes to the right.
    pub(super) in_columns: bool,
    /// Whether it has a row and a column of a grid: another element may be put there too.
    pub(super) grid_place: [bool; 2],
}

/// Inherited properties whose unusual values make text doubtful until a child declares a usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Inherited {
    LineHeight,
    LetterSpacing,
    WordSpacing,
    Stroke,
    Security,
    Shadow,
}

pub(super) const INHERITED: usize = Inherited::Shadow as usize + 1;

/// Reads a `style` attribute; what cannot be read of it is an effect.
pub(super) fn read_inline<'i>(css: &'i str, into: &mut Declared) -> Vec<(String, Text<'i>)> {
    let mut found = read_list(css, into);
    if css.contains("--") {
        use_own_variables(&mut found);
    }
    found
}

/// Puts variables that a list declares into its own colours: pages copied from the web have
/// `--text-opacity:1;color:rgb(0 0 0/var(--text-opacity))`. Only into colours that can then be read:
/// a browser takes any other for the one further out.
fn use_own_variables(list: &mut [(String, Text<'_>)]) {
    // A value in small letters is as it was written, so its names are the variables' names.
    let is_plain = |text: &Text<'_>| {
        matches!(text.text, Cow::Borrowed(_)) && !text.is_broken && !text.has_braces
    };
    let is_variable = |name: &str| name.starts_with("--");
    let variables: Vec<(String, Option<String>)> = list
        .iter()
        .filter(|(name, _)| is_variable(name))
        .map(|(name, text)| {
            let is_usable = is_plain(text) && text.text.len() <= 64 && !text.text.contains("var(");
            (name.clone(), is_usable.then(|| text.text.to_string()))
        })
        .collect();
    let value_of = |name: &str| {
        let mut of_name = variables.iter().filter(|(known, _)| known == name);
        of_name.next().filter(|_| of_name.next().is_none())?.1.as_deref()
    };
    for (name, text) in list.iter_mut().filter(|(name, text)| !is_variable(name) && is_plain(text))
    {
        let field = match bare(name) {
            Some("color") => Field::Color,
            Some("text-fill-color") => Field::Fill,
            Some("background" | "background-color") => Field::Background,
            _ => continue,
        };
        let Some((before, rest)) = text.text.split_once("var(") else { continue };
        let Some((inside, after)) = rest.split_once(')') else { continue };
        let variable = inside.split(',').next().unwrap_or("").trim();
        let Some(value) = value_of(variable) else { continue };
        let color = format!("{before}{value}{after}");
        if matches!(paint_word(&color, field), Some(Paint::Color(_))) {
            text.text = Cow::Owned(color);
        }
    }
}

fn read_list<'i>(css: &'i str, into: &mut Declared) -> Vec<(String, Text<'i>)> {
    // cssparser skips a stray brace, a browser drops its declaration.
    if css.contains(['{', '}']) {
        into.effect("style", Some(Effect::May(VisibilityIssue::Malformed)));
    }
    if css.len() > MAX_INLINE {
        into.effect("style", Some(Effect::May(VisibilityIssue::Budget)));
        return Vec::new();
    }
    let mut input = Parser::new(css);
    let mut list = Inline { found: Vec::new() };
    for item in RuleBodyParser::new(&mut input, &mut list).take(MAX_DECLARATIONS) {
        // An invalid declaration is dropped, as in a browser.
        drop(item);
    }
    let found = list.found;
    if !input.is_exhausted() {
        into.effect("style", Some(Effect::May(VisibilityIssue::Budget)));
    }
    found
}

struct Inline<'i> {
    found: Vec<(String, Text<'i>)>,
}

impl<'i> DeclarationParser<'i> for Inline<'i> {
    type Declaration = ();
    type Error = ();

    fn parse_value(
        &mut self,
        name: CowRcStr<'i>,
        input: &mut Parser<'i>,
        _start: &ParserState,
    ) -> Result<(), ParseError<()>> {
        let text = Text::read(input);
        // The names of variables are the only ones in which capitals count.
        let is_variable = name.starts_with("--");
        let name = if is_variable { name.to_string() } else { name.to_ascii_lowercase() };
        self.found.push((name, text));
        Ok(())
    }
}

impl<'i> AtRuleParser<'i> for Inline<'i> {
    type Prelude = ();
    type AtRule = ();
    type Error = ();
}

impl<'i> QualifiedRuleParser<'i> for Inline<'i> {
    type Prelude = ();
    type QualifiedRule = ();
    type Error = ();
}

impl<'i> RuleBodyItemParser<'i, (), ()> for Inline<'i> {
    fn parse_declarations(&self) -> bool {
        true
    }

    fn parse_qualified(&self) -> bool {
        false
    }
}

impl Declared {
    /// Applies lists one after another: what is `!important` in them last.
    pub(super) fn apply(&mut self, lists: &[&[(String, Text<'_>)]]) {
        for important in [false, true] {
            let all = lists.iter().flat_map(|list| list.iter());
            for (name, text) in all.filter(|(_, text)| text.important == important) {
                self.declare(name, text);
            }
        }
    }

    pub(super) fn effect(&mut self, name: &'static str, effect: Option<Effect>) {
        self.effects.retain(|(known, _)| *known != name);
        self.effects.extend(effect.map(|effect| (name, effect)));
    }

    fn may(&mut self, name: &'static str, issue: VisibilityIssue, is_unusual: bool) {
        self.effect(name, is_unusual.then_some(Effect::May(issue)));
    }

    fn inherit(&mut self, name: Inherited, issue: VisibilityIssue, is_unusual: bool) {
        self.inherited.push((name, is_unusual.then_some(issue)));
    }

    fn declare(&mut self, name: &str, text: &Text<'_>) {
        if text.is_invalid {
            return;
        }
        if name.starts_with("--") {
            self.declares_variable = true;
            return;
        }
        if name == "mso-list" {
            self.word_list(&text.text);
            return;
        }
        let Some(name) = bare(name) else { return };
        if !text.is_broken && !text.has_braces {
            self.property(physical(name), text);
        } else if is_listed(name) {
            self.effect("broken", Some(Effect::May(VisibilityIssue::Malformed)));
        }
    }

    #[expect(clippy::too_many_lines, reason = "one list, an entry for each property")]
    fn property(&mut self, name: &str, text: &Text<'_>) {
        let value = &*text.text;
        let is_keyword =
            matches!(value, "inherit" | "initial" | "unset" | "revert" | "revert-layer");
        match name {
            "display" if is_keyword => {
                self.display = None;
                self.display_reset = true;
            }
            "display" => self.set_display(value),
            "visibility" => {
                match value {
                    "visible" | "initial" => self.visible = Some(true),
                    "hidden" | "collapse" => self.visible = Some(false),
                    _ if is_keyword => self.visible = None,
                    _ => {}
                }
                self.collapsed = value == "collapse";
            }
            "opacity" => match number(value) {
                Some(opacity) => self.opacity = Some(opacity.clamp(0.0, 1.0)),
                None if is_keyword => self.opacity = None,
                None => self.computed("opacity", text),
            },
            "color" => self.set_paint(text, Field::Color),
            "text-fill-color" => self.set_paint(text, Field::Fill),
            "background" => self.set_background(text),
            "background-color" => self.set_paint(text, Field::Background),
            "background-image" => {
                self.picture_of_variable = value.starts_with("var(") && !value.contains("url(");
                self.picture = text.is_computed_or_url() && !self.picture_of_variable;
                self.gradient = gradient(value);
            }
            "background-size"
            | "background-repeat"
            | "background-position"
            | "background-position-x"
            | "background-position-y"
            | "background-origin"
            | "background-attachment"
            | "background-blend-mode" => {
                let is_usual = matches!(value, "auto" | "repeat" | "0 0" | "0% 0%" | "scroll");
                self.picture_placed |= !is_usual && !is_keyword;
            }
            "background-clip" => {
                let is_odd = value.contains("text") || value.contains("content-box");
                self.may("background-clip", VisibilityIssue::Painted, is_odd);
                self.outlined |= is_odd;
            }
            "font-size" => self.set_font_size(value, text),
            "font" => self.set_font(text),
            "white-space" | "white-space-collapse" => {
                if let Some((space, nowrap)) = white_space(value) {
                    self.space = Some(space);
                    if name == "white-space" {
                        self.nowrap = Some(nowrap);
                    }
                }
            }
            "text-wrap" | "text-wrap-mode" => self.nowrap = Some(value == "nowrap"),
            "position" => {
                self.position = match value {
                    "static" => Some(Position::Static),
                    "relative" => Some(Position::Relative),
                    "absolute" | "fixed" => Some(Position::Absolute),
                    "sticky" | "-webkit-sticky" => Some(Position::Sticky),
                    _ if is_keyword => None,
                    _ => self.position,
                }
            }
            "float" => self.floats = !matches!(value, "none") && !is_keyword,
            "z-index" => {
                self.behind_others = value.parse::<f32>().is_ok_and(|place| place < 0.0);
            }
            "direction" => self.rtl = Some(value == "rtl"),
            _ => self.box_property(name, text, is_keyword),
        }
    }

    fn box_property(&mut self, name: &str, text: &Text<'_>, is_keyword: bool) {
        let value = &*text.text;
        match name {
            "width" => self.set_size(0, text),
            "height" => self.set_size(1, text),
            "max-width" => self.set_size(2, text),
            "max-height" => self.set_size(3, text),
            "margin" | "padding" | "inset" => self.set_sides(name, &[0, 1, 2, 3], text),
            "margin-top" | "padding-top" | "top" => self.set_sides(name, &[0], text),
            "margin-right" | "padding-right" | "right" => self.set_sides(name, &[1], text),
            "margin-bottom" | "padding-bottom" | "bottom" => self.set_sides(name, &[2], text),
            "margin-left" | "padding-left" | "left" => self.set_sides(name, &[3], text),
            "margin-inline" | "padding-inline" | "inset-inline" => {
                self.set_sides(name, &[3, 1], text);
            }
            "margin-block" | "padding-block" | "inset-block" => {
                self.set_sides(name, &[0, 2], text);
            }
            "overflow" => {
                let words = words(value);
                if words.len() > 2 {
                    return;
                }
                for (at, word) in [words.first(), words.last()].into_iter().enumerate().take(2) {
                    self.set_overflow(at, word.copied().unwrap_or(""));
                }
            }
            "overflow-x" => self.set_overflow(0, value),
            "overflow-y" => self.set_overflow(1, value),
            "text-indent" => match Length::parse(value) {
                Some(length) => self.indent = Some(length),
                None if is_keyword => self.indent = None,
                None => self.computed("text-indent", text),
            },
            "text-decoration" | "text-decoration-line" => {
                self.line_through = value.split_ascii_whitespace().any(|w| w == "line-through");
                let is_thick = !small_lengths(value, 4.0);
                self.may("text-decoration", VisibilityIssue::Covered, is_thick);
            }
            "text-decoration-thickness" => {
                self.may("text-decoration", VisibilityIssue::Covered, !small_lengths(value, 4.0));
            }
            "all" if matches!(value, "initial" | "unset" | "revert") => *self = Self::default(),
            "all" => self.may("all", VisibilityIssue::UnknownStyle, true),
            _ if name.starts_with("border") => self.border(name, text),
            _ if is_keyword => self.reset(name),
            _ => self.listed(name, text),
        }
    }

    /// `inherit`, `initial` and the like of a property that is only on a list.
    fn reset(&mut self, name: &str) {
        if let Some(known) = LISTED.iter().find(|known| **known == name) {
            self.effect(known, None);
        }
    }

    /// Properties that hide with some of their values.
    #[expect(clippy::too_many_lines, reason = "one list, an entry for each property")]
    fn listed(&mut self, name: &str, text: &Text<'_>) {
        use VisibilityIssue::{Clipped, Covered, Painted, Sized};
        let value = &*text.text;
        let is_none = matches!(value, "none" | "normal" | "auto" | "visible");
        match name {
            "line-height" => {
                let factor = match (number(value), Length::parse(value)) {
                    (Some(factor), _) => Some(factor),
                    (_, Some(length)) => Some(length.pixels(16.0, 16.0) / 16.0),
                    _ if is_none => Some(1.0),
                    _ => None,
                };
                let is_odd = factor.map_or_else(
                    || text.is_computed(),
                    |factor| factor >= 0.0 && !(0.45..=8.0).contains(&factor),
                );
                self.inherit(Inherited::LineHeight, Sized, is_odd);
            }
            "letter-spacing" => {
                let is_odd = match Length::parse(value) {
                    Some(length) => !(-2.5..=40.0).contains(&length.pixels(16.0, 16.0)),
                    None => text.is_computed(),
                };
                self.inherit(Inherited::LetterSpacing, Sized, is_odd);
            }
            "word-spacing" => {
                let is_odd = match Length::parse(value) {
                    Some(length) => !(-8.0..=100.0).contains(&length.pixels(16.0, 16.0)),
                    None => text.is_computed(),
                };
                self.inherit(Inherited::WordSpacing, Sized, is_odd);
            }
            "text-stroke" | "text-stroke-width" => {
                self.inherit(Inherited::Stroke, Painted, !small_lengths(value, 1.0));
                self.outlined |= !small_lengths(value, 0.0);
            }
            "font-size-adjust" => {
                let least = words(value).iter().filter_map(|word| number(word)).fold(1.0, f32::min);
                self.may("font-size-adjust", Sized, least < 0.3 || text.is_computed());
            }
            "grid-template"
            | "grid-template-rows"
            | "grid-template-columns"
            | "grid-auto-rows"
            | "grid-auto-columns"
            | "grid" => {
                let is_zero = |word: &&str| {
                    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
                    digits.parse::<f32>().is_ok_and(|number| number < 0.2)
                };
                self.may("grid", Clipped, words(value).iter().any(is_zero));
            }
            "min-width" | "min-height" | "min-inline-size" | "min-block-size" => {
                let px = Length::parse(value).map_or(0.0, |length| length.pixels(16.0, 0.0));
                self.has_least |= px > 8.0;
            }
            "text-security" => self.inherit(Inherited::Security, Painted, !is_none),
            "text-shadow" => {
                let is_far = !is_none && (text.is_computed() || !small_lengths(value, 12.0));
                self.inherit(Inherited::Shadow, Covered, is_far);
                self.outlined |= !is_none;
            }
            _ => self.listed_box(name, text, is_none),
        }
    }

    /// The same for properties of boxes.
    #[expect(clippy::too_many_lines, reason = "one list, an entry for each property")]
    fn listed_box(&mut self, name: &str, text: &Text<'_>, is_none: bool) {
        use VisibilityIssue::{Animated, Clipped, Covered, Moved, Painted, Sized};
        let value = &*text.text;
        match name {
            "transform" | "translate" | "scale" | "rotate" => self.transform(name, text),
            "zoom" => {
                let zoom = number(value).unwrap_or(1.0);
                let is_odd = text.is_computed() || (zoom > 0.0 && !(0.5..=3.0).contains(&zoom));
                self.zoom = (!is_odd && zoom > 0.0).then_some(zoom);
                self.may("zoom", Sized, is_odd);
            }
            "clip" => {
                let corners = argument(value, "rect").map(|list| lengths(list).unwrap_or_default());
                let effect = match corners.as_deref() {
                    Some([top, right, bottom, left])
                        if bottom - top < 2.0 || right - left < 2.0 =>
                    {
                        Some(Effect::Hides)
                    }
                    Some(_) => Some(Effect::May(Clipped)),
                    None => None,
                };
                self.effect("clip", effect);
            }
            "clip-path" => {
                self.effect("clip-path", clip_path(value));
                self.clips_paint |= value != "none";
            }
            "content-visibility" => {
                self.clips_paint |= value == "auto";
                self.effect(
                    "content-visibility",
                    match value {
                        "hidden" => Some(Effect::Hides),
                        _ if text.is_computed() => Some(Effect::May(Clipped)),
                        _ => None,
                    },
                );
            }
            "box-shadow" => {
                let is_inset = words(value).contains(&"inset");
                let is_large = !is_none
                    && !shadow_within(value, if is_inset { 6.0 } else { 14.0 })
                    && !is_faint_shadow(value);
                let effect = if is_inset { Effect::May(Painted) } else { Effect::Covers(Covered) };
                self.effect("box-shadow", is_large.then_some(effect));
            }
            "outline" | "outline-width" | "outline-offset" => {
                let is_wide = text.is_computed() || !small_lengths(value, 8.0);
                let key = if name == "outline-offset" { "outline-offset" } else { "outline" };
                self.effect(key, is_wide.then_some(Effect::Covers(Covered)));
            }
            "animation" | "animation-name" => {
                self.may("animation", Animated, !is_none && names_animation(value));
            }
            "contain" => {
                let is_odd =
                    ["size", "paint", "strict", "content"].iter().any(|word| value.contains(word))
                        || text.is_computed();
                self.may("contain", Clipped, is_odd);
            }
            "unicode-bidi" => self.may("unicode-bidi", Moved, value.contains("override")),
            "content" => {
                let is_picture = value.contains("url(") || text.is_computed();
                self.may("content", Painted, is_picture);
            }
            "vertical-align" => {
                let length = Length::parse(value).map_or(0.0, |l| l.pixels(16.0, 16.0));
                self.may("vertical-align", Moved, text.is_computed() || length.abs() > 20.0);
            }
            // `light dark` is for pages that look right in both.
            "color-scheme" => {
                let is_dark = value.contains("dark") && !value.contains("light");
                self.may("color-scheme", Painted, is_dark);
            }
            "filter" => self.may("filter", Painted, !is_none && !is_mild_filter(value)),
            "transform-origin" => {
                let is_near = words(value).iter().all(|word| match Length::parse(word) {
                    Some(length) => (-20.0..=200.0).contains(&length.pixels(16.0, 200.0)),
                    None => !word.contains('('),
                });
                let effect = (!is_near).then_some(Effect::Covers(Moved));
                self.effect("transform-origin", effect);
            }
            "grid-row" | "grid-row-start" | "grid-row-end" | "grid-column"
            | "grid-column-start" | "grid-column-end" => {
                let is_far = |word: &&str| number(word).is_some_and(|line| line.abs() > 24.0);
                let is_odd = text.is_computed() || words(value).iter().any(is_far);
                self.may(
                    if name.contains("row") { "grid-row" } else { "grid-column" },
                    Moved,
                    is_odd,
                );
                self.grid_place[usize::from(name.contains("column"))] |= !is_none;
            }
            "columns" | "column-count" | "column-width" => self.in_columns = !is_none,
            "line-clamp" => {
                self.line_clamp = number(value).filter(|lines| *lines >= 1.0);
                self.may("line-clamp", Clipped, !is_none && self.line_clamp.is_none());
            }
            "flex" | "flex-basis" => {
                let is_zero = words(value).iter().any(|word| {
                    Length::parse(word).is_some_and(|length| length.pixels(16.0, 16.0) == 0.0)
                        && (*word != "0" || name == "flex-basis")
                }) || matches!(value, "0 0 0" | "0 1 0" | "0");
                self.basis_zero = is_zero;
            }
            "tab-size" => {
                let is_wide = number(value)
                    .map_or_else(|| !small_lengths(value, 200.0), |spaces| spaces > 16.0);
                self.may("tab-size", Moved, is_wide);
            }
            _ => self.always_listed(name, is_none),
        }
    }

    /// Properties that may hide with any value but their first.
    fn always_listed(&mut self, name: &str, is_none: bool) {
        let Some(&known) = LISTED.iter().find(|known| **known == name) else { return };
        let issue = match known {
            "mask" | "mask-image" | "max-lines" | "mask-box-image" | "mask-border"
            | "block-ellipsis" => VisibilityIssue::Clipped,
            "backdrop-filter" | "mix-blend-mode" | "box-reflect" => VisibilityIssue::Painted,
            _ => VisibilityIssue::Moved,
        };
        self.may(known, issue, !is_none);
    }

    /// A value that a function computes.
    fn computed(&mut self, name: &'static str, text: &Text<'_>) {
        if text.is_computed() {
            self.effect(name, Some(Effect::May(VisibilityIssue::Computed)));
        }
    }

    fn set_display(&mut self, value: &str) {
        self.effect("display", None);
        match display(value) {
            Some(display) => self.display = Some(display),
            None if value.contains('(') => {
                self.effect("display", Some(Effect::May(VisibilityIssue::Computed)));
            }
            None => {}
        }
    }

    fn set_paint(&mut self, text: &Text<'_>, field: Field) {
        let Some(paint) = paint(text, field) else { return };
        match field {
            Field::Color => self.color = Some(paint),
            Field::Fill => self.fill = Some(paint),
            Field::Background => self.background = Some(paint),
        }
    }

    fn set_background(&mut self, text: &Text<'_>) {
        let value = &*text.text;
        if matches!(value, "inherit" | "initial" | "unset" | "revert" | "revert-layer") {
            self.background = Some(if value == "inherit" { Paint::Unset } else { Paint::Initial });
            self.picture = value == "inherit";
            return;
        }
        if value.ends_with(',') || value.starts_with(',') {
            return;
        }
        let is_picture = |word: &str| {
            word.starts_with("url(") || word.contains("gradient(") || word.contains("image")
        };
        let mut found = Paint::Initial;
        let mut picture = false;
        let mut clips = false;
        let mut stops = None;
        let mut placed = false;
        for word in words(value) {
            if is_picture(word) {
                // Of several pictures the first covers the others, as far as it reaches.
                stops = if picture { None } else { gradient(word) };
                picture = true;
            } else if matches!(word, "text" | "content-box" | "border-area") {
                clips = true;
            } else if let Some(color) = paint_word(word, Field::Background) {
                if found != Paint::Initial {
                    return;
                }
                found = color;
            } else if is_background_word(word) {
                placed = true;
            } else {
                // A browser drops the whole declaration.
                return;
            }
        }
        self.background = Some(found);
        self.picture = picture;
        self.gradient = stops;
        self.picture_placed = placed;
        self.may("background-clip", VisibilityIssue::Painted, clips);
        self.outlined |= clips;
    }

    fn set_font_size(&mut self, value: &str, text: &Text<'_>) {
        match font_size(value) {
            Some(size) => {
                self.font = Some(size);
                self.effect("font-size", None);
            }
            None if matches!(value, "inherit" | "unset" | "revert") => self.font = None,
            None if value == "initial" => self.font = Some(Length::Px(16.0)),
            None if text.is_computed() => {
                self.effect("font-size", Some(Effect::May(VisibilityIssue::Sized)));
            }
            None => {}
        }
    }

    fn set_font(&mut self, text: &Text<'_>) {
        let words = text.words();
        let Some(at) = words.iter().position(|word| font_size(word).is_some()) else {
            self.computed("font-size", text);
            return;
        };
        // Without a family it is invalid.
        if words.len() > at + 1 + usize::from(text.text.contains('/')) {
            self.set_font_size(words[at], text);
            let height = words.get(at + 1).filter(|_| text.text.contains('/'));
            let height = height.and_then(|word| number(word)).unwrap_or(1.0);
            self.inherit(
                Inherited::LineHeight,
                VisibilityIssue::Sized,
                !(0.45..=8.0).contains(&height) && self.font != Some(Length::Px(0.0)),
            );
        }
    }

    fn set_size(&mut self, at: usize, text: &Text<'_>) {
        const NAMES: [&str; 4] = ["width", "height", "max-width", "max-height"];
        self.effect(NAMES[at], None);
        match Length::parse(&text.text) {
            Some(length) if length.pixels(1.0, 1.0) >= 0.0 => self.size[at] = Some(length),
            Some(_) => {}
            None if &*text.text == "min-content" => self.size[at] = Some(Length::Px(10.0)),
            None if text.is_computed() => {
                self.size[at] = Some(Length::Unknown);
            }
            None => {
                if text.text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
                    self.size[at] = None;
                }
            }
        }
    }

    fn set_sides(&mut self, name: &str, sides: &[usize], text: &Text<'_>) {
        let mut found: Vec<Option<Length>> = Vec::new();
        for word in text.words() {
            match Length::parse(word) {
                Some(length) => found.push(Some(length)),
                None if word.contains('(') => found.push(Some(Length::Unknown)),
                None if matches!(word, "auto" | "inherit" | "initial" | "unset" | "revert") => {
                    found.push(None);
                }
                None => return,
            }
        }
        if found.is_empty() || found.len() > sides.len() {
            return;
        }
        let target = if name.starts_with("margin") {
            &mut self.margin
        } else if name.starts_with("padding") {
            &mut self.padding
        } else {
            &mut self.inset
        };
        for (at, side) in sides.iter().enumerate() {
            let opposite = at.checked_sub(2).and_then(|at| found.get(at));
            let value = found.get(at).or(opposite).or_else(|| found.get(1)).or(found.first());
            target[*side] = value.copied().flatten();
        }
    }

    fn set_overflow(&mut self, at: usize, value: &str) {
        self.clips[at] = match value {
            "hidden" | "clip" | "-moz-hidden-unscrollable" => Some(true),
            "auto" | "scroll" | "overlay" => Some(false),
            "visible" | "initial" | "unset" | "revert" => None,
            _ if value.contains('(') || value == "inherit" => Some(true),
            _ => self.clips[at],
        };
    }

    fn border(&mut self, name: &str, text: &Text<'_>) {
        if name == "border" {
            self.border_none = text.words().contains(&"none");
        }
        if name == "border-spacing" {
            let is_wide = !small_lengths(&text.text, 60.0);
            self.may("border-spacing", VisibilityIssue::Moved, is_wide);
        } else if name.starts_with("border-image") {
            if matches!(name, "border-image" | "border-image-source") {
                let is_picture = text.is_computed_or_url();
                self.may("border-image", VisibilityIssue::Painted, is_picture);
            }
        } else if !name.contains("radius") && !name.contains("color") {
            self.wide_border |= text.is_computed() || !small_lengths(&text.text, 12.0);
        }
    }

    fn transform(&mut self, name: &str, text: &Text<'_>) {
        use VisibilityIssue::Moved;
        let value = &*text.text;
        let effect = match name {
            _ if value == "none" => None,
            "scale" => {
                let parts: Vec<f32> = words(value).iter().filter_map(|word| number(word)).collect();
                scaled(&parts)
            }
            "translate" => match lengths(value) {
                Some(parts) if parts.iter().all(|part| part.abs() <= NEAR) => None,
                _ => Some(Effect::Covers(Moved)),
            },
            "rotate" => (!is_slight_turn(value)).then_some(Effect::Covers(Moved)),
            _ => transform_list(value),
        };
        let key = LISTED.iter().find(|known| **known == name).copied().unwrap_or("transform");
        self.effect(key, effect);
    }

    /// Word writes `mso-list:l0 level2 lfo1` on an item and `mso-list:Ignore` on its marker.
    fn word_list(&mut self, value: &str) {
        self.word_marker |= value == "ignore";
        let level = value
            .split_ascii_whitespace()
            .find_map(|word| word.strip_prefix("level")?.parse::<u8>().ok());
        if let Some(level) = level {
            self.word_list_level = level.clamp(1, 9);
        }
    }
}

/// Properties that may hide with any value but `none`, `normal` and `auto`, and those with lists of
/// their own.
const LISTED: &[&str] = &[
    "transform",
    "transform-origin",
    "translate",
    "scale",
    "rotate",
    "mask",
    "mask-image",
    "mask-border",
    "mask-box-image",
    "filter",
    "backdrop-filter",
    "mix-blend-mode",
    "box-reflect",
    "line-clamp",
    "max-lines",
    "block-ellipsis",
    "columns",
    "column-count",
    "column-width",
    "perspective",
    "offset",
    "offset-path",
    "offset-distance",
    "offset-position",
    "position-anchor",
    "position-area",
    "inset-area",
    "grid-area",
    "grid-row",
    "grid-row-start",
    "grid-row-end",
    "grid-column",
    "grid-column-start",
    "grid-column-end",
    "initial-letter",
    "shape-outside",
    "zoom",
    "clip",
    "clip-path",
    "content-visibility",
    "box-shadow",
    "outline",
    "outline-offset",
    "animation",
    "contain",
    "unicode-bidi",
    "content",
    "vertical-align",
    "color-scheme",
    "flex",
    "tab-size",
    "font-size-adjust",
    "grid",
    "all",
];

/// Whether the name is on any list of what can hide.
fn is_listed(name: &str) -> bool {
    LISTED.contains(&name)
        || ["display", "visibility", "opacity", "position", "overflow", "text-indent"]
            .contains(&name)
        || ["color", "background", "font", "margin", "width", "height", "max-", "left", "top"]
            .iter()
            .any(|start| name.starts_with(start))
}

/// The name without a vendor's prefix; `None` if no browser knows it with that prefix.
fn bare(name: &str) -> Option<&str> {
    const PREFIXED: [&str; 16] = [
        "transform",
        "filter",
        "mask",
        "clip-path",
        "text-fill-color",
        "text-stroke",
        "text-security",
        "line-clamp",
        "box-reflect",
        "animation",
        "column",
        "perspective",
        "background-clip",
        "margin",
        "padding",
        "box-shadow",
    ];
    let Some(rest) = ["-webkit-", "-moz-"].iter().find_map(|vendor| name.strip_prefix(vendor))
    else {
        return (!name.starts_with('-')).then_some(name);
    };
    let is_known = PREFIXED.iter().any(|known| rest.starts_with(known))
        || rest == "opacity"
        || rest.starts_with("initial-letter")
        || rest.starts_with("max-")
        || rest.starts_with("logical");
    is_known.then_some(rest)
}

/// The physical property of a logical one, for left-to-right text.
fn physical(name: &str) -> &str {
    match name {
        "inline-size" => "width",
        "block-size" => "height",
        "max-inline-size" => "max-width",
        "max-block-size" => "max-height",
        "margin-inline-start" | "margin-start" => "margin-left",
        "margin-inline-end" | "margin-end" => "margin-right",
        "margin-block-start" | "margin-before" => "margin-top",
        "margin-block-end" | "margin-after" => "margin-bottom",
        "padding-inline-start" | "padding-start" => "padding-left",
        "padding-inline-end" | "padding-end" => "padding-right",
        "padding-block-start" | "padding-before" => "padding-top",
        "padding-block-end" | "padding-after" => "padding-bottom",
        "inset-inline-start" => "left",
        "inset-inline-end" => "right",
        "inset-block-start" => "top",
        "inset-block-end" => "bottom",
        "overflow-inline" => "overflow-x",
        "overflow-block" => "overflow-y",
        other => other,
    }
}

fn display(value: &str) -> Option<Display> {
    Some(match value {
        "none" | "table-column" | "table-column-group" => Display::None,
        "contents" => Display::Contents,
        "table-cell" => Display::TableCell,
        "table-row" | "table-row-group" | "table-header-group" | "table-footer-group" => {
            Display::TablePart
        }
        "inline" | "ruby" | "ruby-text" | "math" | "inline flow" => Display::Inline,
        "block" | "list-item" | "flow-root" | "table" | "flow" | "table-caption" => Display::Block,
        "flex" | "grid" | "-webkit-box" | "-webkit-flex" => Display::Flex,
        "inline-block" | "inline-table" | "inline flow-root" | "inline table" => {
            Display::InlineBlock
        }
        "inline-flex" | "inline-grid" | "-webkit-inline-box" | "-webkit-inline-flex" => {
            Display::InlineFlex
        }
        _ => {
            let is_part = |word: &str| {
                matches!(word, "block" | "inline" | "flow" | "flow-root" | "table" | "flex")
                    || matches!(word, "grid" | "ruby" | "math" | "list-item")
            };
            let parts: Vec<&str> = value.split_ascii_whitespace().collect();
            let mut unique = parts.clone();
            unique.sort_unstable();
            unique.dedup();
            let is_pair = parts.len() > 1
                && parts.len() <= 3
                && parts.iter().all(|w| is_part(w))
                && unique.len() == parts.len()
                && !(parts.contains(&"block") && parts.contains(&"inline"));
            return is_pair.then_some(match parts.contains(&"inline") {
                true if parts.contains(&"math") => Display::Inline,
                true if parts.contains(&"flex") || parts.contains(&"grid") => Display::InlineFlex,
                true => Display::InlineBlock,
                false if parts.contains(&"flex") || parts.contains(&"grid") => Display::Flex,
                false => Display::Block,
            });
        }
    })
}

fn white_space(value: &str) -> Option<(TextSpace, bool)> {
    let (mut space, mut nowrap) = (TextSpace::Collapse, false);
    for word in value.split_ascii_whitespace() {
        match word {
            "normal" | "collapse" | "wrap" | "initial" => {}
            "nowrap" => nowrap = true,
            "pre-line" | "preserve-breaks" => space = TextSpace::KeepLines,
            "pre" => (space, nowrap) = (TextSpace::Keep, true),
            "pre-wrap" | "break-spaces" | "preserve" | "preserve-spaces" => space = TextSpace::Keep,
            _ => return None,
        }
    }
    Some((space, nowrap))
}

fn font_size(value: &str) -> Option<Length> {
    Some(match value {
        "xx-small" => Length::Px(9.0),
        "x-small" => Length::Px(10.0),
        "small" => Length::Px(13.0),
        "medium" => Length::Px(16.0),
        "large" => Length::Px(18.0),
        "x-large" => Length::Px(24.0),
        "xx-large" => Length::Px(32.0),
        "xxx-large" => Length::Px(48.0),
        "smaller" => Length::Em(0.83),
        "larger" => Length::Em(1.2),
        _ => return Length::parse(value).filter(|length| length.pixels(1.0, 1.0) >= 0.0),
    })
}

/// Which property a colour is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Color,
    Fill,
    Background,
}

/// `None` if a browser drops it.
fn paint(text: &Text<'_>, field: Field) -> Option<Paint> {
    match &*text.text {
        "initial" => Some(Paint::Initial),
        "inherit" => Some(Paint::Unset),
        "unset" | "revert" | "revert-layer" if field == Field::Background => Some(Paint::Initial),
        "unset" | "revert" | "revert-layer" => Some(Paint::Unset),
        word => paint_word(word, field),
    }
}

fn paint_word(word: &str, field: Field) -> Option<Paint> {
    if word == "currentcolor" {
        return Some(Paint::Current);
    }
    if let Some(inside) = argument(word, "var") {
        let (name, other) = inside.split_once(',').unwrap_or((inside, ""));
        return Some(variable(name, other, field));
    }
    // Azure DevOps writes `rgba(var(--palette-neutral-100,0, 0, 0),.9)`.
    let in_function = word.split_once("var(").and_then(|(before, rest)| {
        let (inside, after) = rest.split_once(')')?;
        let (name, other) = inside.split_once(',')?;
        Some(variable(name, &format!("{before}{}{after}", other.trim()), field))
    });
    if let Some(paint) = in_function {
        return Some(paint);
    }
    match Color::parse(word) {
        Some(color) => Some(Paint::Color(color)),
        None if word.contains('(') && !word.starts_with("url(") && !word.contains("gradient(") => {
            Some(Paint::Unknown)
        }
        None if is_theme_color(word) => Some(Paint::Unknown),
        None => None,
    }
}

/// Editors of web pages write `var(--ds-text, #172b4d)`. Where the page has no such variable, the
/// colour after it counts, or none. Where it has one, its name says whether it is for text: one for
/// what is behind the text makes text invisible. A background has to be named as one.
fn variable(name: &str, other: &str, field: Field) -> Paint {
    if let Some(paint) = palette(name, other) {
        return paint;
    }
    let of_text = ["text", "foreground", "fg", "font", "link"];
    let behind = [
        "background",
        "surface",
        "bg",
        "canvas",
        "inverse",
        "white",
        "light",
        "page",
        "paper",
        "base",
        "card",
        "panel",
        "layer",
        "neutral",
        "fill",
        "transparent",
        "hidden",
        "none",
    ];
    let is_of = |list: &[&str]| list.iter().any(|word| name.contains(word));
    let fits = match field {
        Field::Background => is_of(&behind) && !is_of(&of_text),
        _ => !is_of(&behind) || (name.ends_with("text") && !name.contains("inverse")),
    };
    match Color::parse(other.trim()) {
        Some(color) if fits => Paint::Undeclared(Some(color)),
        None if fits && other.trim().is_empty() => Paint::Undeclared(None),
        _ => Paint::Unknown,
    }
}

/// The colours that Azure DevOps puts into what is copied from its pages: neutral ones from 0, the
/// page, to 100, its text, and those of signs and links. Only as what they are there.
fn palette(name: &str, other: &str) -> Option<Paint> {
    let kind = name.trim().strip_prefix("--palette-")?;
    let color = Color::parse(other.trim());
    let is_light = |color: Color| color.over(Color::WHITE).distance(Color::WHITE) < 0.12;
    let fits = |color: &Color| match kind.strip_prefix("neutral-").map(str::parse::<u8>) {
        Some(Ok(0..=10)) => is_light(*color),
        Some(Ok(60..=100)) => color.distance(Color::WHITE) > 0.5,
        Some(_) => false,
        None => !kind.contains("tint") && color.distance(Color::WHITE) > 0.5,
    };
    Some(color.filter(fits).map_or(Paint::Unknown, |color| Paint::Undeclared(Some(color))))
}

/// System colours that differ between browsers and themes.
fn is_theme_color(value: &str) -> bool {
    const NAMES: [&str; 16] = [
        "accentcolor",
        "accentcolortext",
        "activetext",
        "graytext",
        "highlight",
        "highlighttext",
        "mark",
        "marktext",
        "selecteditem",
        "selecteditemtext",
        "visitedtext",
        "menu",
        "buttonhighlight",
        "buttonshadow",
        "threedhighlight",
        "threedshadow",
    ];
    NAMES.contains(&value)
}

fn is_background_word(word: &str) -> bool {
    Length::parse(word).is_some()
        || word.contains('(')
        || matches!(
            word,
            "none"
                | "repeat"
                | "no-repeat"
                | "repeat-x"
                | "repeat-y"
                | "space"
                | "round"
                | "scroll"
                | "fixed"
                | "local"
                | "left"
                | "right"
                | "top"
                | "bottom"
                | "center"
                | "cover"
                | "contain"
                | "auto"
                | "border-box"
                | "padding-box"
        )
}

/// The first colour of a gradient of solid colours, and by how much the others differ from it.
fn gradient(value: &str) -> Option<(Color, f32)> {
    let inside = argument(value, "linear-gradient").or(argument(value, "radial-gradient"))?;
    let mut colors = Vec::new();
    for word in words(inside) {
        match Color::parse(word) {
            Some(color) => colors.push(color),
            None if word.contains('(') => return None,
            None => {}
        }
    }
    let first = *colors.first().filter(|_| colors.len() > 1)?;
    let is_solid = colors.iter().all(|color| color.alpha() >= 1.0);
    let spread = colors.iter().map(|color| color.distance(first)).fold(0.0, f32::max);
    is_solid.then_some((first, spread))
}

/// Whether text under a shadow can be read: each of its colours is nearly transparent.
fn is_faint_shadow(value: &str) -> bool {
    let mut depth = 0_usize;
    let mut layers = value.split(|character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    });
    // Without a colour it has that of the text.
    layers.all(|layer| {
        let color = words(layer).iter().find_map(|word| Color::parse(word));
        color.is_some_and(|color| color.alpha() <= 0.3)
    })
}

/// Whether it names a list of steps; browsers write all other parts into what is copied.
fn names_animation(value: &str) -> bool {
    let is_part = |word: &&str| {
        let is_time = |unit| word.strip_suffix(unit).is_some_and(|time| number(time).is_some());
        number(word).is_some()
            || is_time("s")
            || is_time("ms")
            || word.starts_with("ease")
            || word.starts_with("cubic-bezier(")
            || matches!(*word, "none" | "normal" | "running" | "linear" | "auto" | "both")
            || matches!(*word, "forwards" | "backwards" | "infinite" | "alternate" | "reverse")
    };
    !words(value).iter().all(|word| is_part(word))
}

/// Whether a filter changes text so little that it can still be read.
fn is_mild_filter(value: &str) -> bool {
    value.split_inclusive(')').all(|function| {
        let Some((name, inside)) =
            function.trim().strip_suffix(')').and_then(|f| f.split_once('('))
        else {
            return false;
        };
        match name {
            "brightness" | "contrast" | "saturate" | "opacity" => {
                number(inside).is_some_and(|factor| (0.7..=1.3).contains(&factor))
            }
            "blur" => small_lengths(inside, 0.6),
            "drop-shadow" => shadow_within(inside, 6.0),
            _ => false,
        }
    })
}

/// Whether a box turned by this angle stays about where it is.
fn is_slight_turn(angle: &str) -> bool {
    let Some(degrees) = angle.strip_suffix("deg").and_then(number) else { return angle == "0" };
    let degrees = degrees.abs();
    degrees <= 10.0 || (170.0..=190.0).contains(&degrees) || (350.0..=360.0).contains(&degrees)
}

fn clip_path(value: &str) -> Option<Effect> {
    if matches!(value, "none" | "border-box" | "padding-box" | "content-box" | "margin-box") {
        return None;
    }
    let inset = argument(value, "inset").map(|list| list.split(" round").next().unwrap_or(list));
    if let Some(parts) = inset.and_then(lengths) {
        if parts.iter().all(|part| *part <= 0.5) {
            return None;
        }
        // Half of the box from each side; a share of 100 % counts as a thousand.
        if parts.len() == 1 && (500.0..=1000.0).contains(&parts[0]) && value.contains('%') {
            return Some(Effect::Hides);
        }
    }
    let is_point = argument(value, "circle").is_some_and(|inside| {
        words(inside).first().and_then(|word| Length::parse(word)) == Some(Length::Px(0.0))
    });
    Some(if is_point { Effect::Hides } else { Effect::May(VisibilityIssue::Clipped) })
}

fn transform_list(value: &str) -> Option<Effect> {
    let moved = Some(Effect::Covers(VisibilityIssue::Moved));
    let mut all = None;
    for function in value.split_inclusive(')') {
        let function = function.trim();
        let Some((name, inside)) = function.strip_suffix(')').and_then(|f| f.split_once('('))
        else {
            return moved;
        };
        let effect = match name.trim() {
            "translate" | "translatex" | "translatey" | "translate3d" | "translatez" => {
                match lengths(inside) {
                    Some(parts) if parts.iter().all(|part| part.abs() <= NEAR) => None,
                    _ => moved,
                }
            }
            "scale" | "scalex" | "scaley" | "scale3d" => {
                let parts: Vec<f32> = words(inside).iter().filter_map(|w| number(w)).collect();
                scaled(&parts)
            }
            "rotate" | "rotatez" if is_slight_turn(inside.trim()) => None,
            _ => moved,
        };
        all = match (all, effect) {
            (_, Some(Effect::Hides)) | (Some(Effect::Hides), _) => Some(Effect::Hides),
            (all, effect) => effect.or(all),
        };
    }
    all
}

fn scaled(parts: &[f32]) -> Option<Effect> {
    let is_usual = |part: &f32| (0.6..=2.0).contains(part);
    match parts {
        [] => Some(Effect::Covers(VisibilityIssue::Moved)),
        _ if parts.iter().any(|part| part.abs() < 0.02) => Some(Effect::Hides),
        _ if parts.iter().all(is_usual) => None,
        _ => Some(Effect::Covers(VisibilityIssue::Moved)),
    }
}

pub(super) fn number(value: &str) -> Option<f32> {
    match value.strip_suffix('%') {
        Some(percent) => percent.parse::<f32>().ok().map(|number| number / 100.0),
        None => value.parse().ok(),
    }
    .filter(|number| number.is_finite())
}

/// Pixels of a list of plain lengths; 100 % counts as a thousand.
fn lengths(list: &str) -> Option<Vec<f32>> {
    words(list)
        .into_iter()
        .map(|word| {
            if word == "auto" {
                return Some(0.0);
            }
            let length = Length::parse(word)?;
            (length != Length::Unknown).then(|| length.pixels(16.0, 1000.0))
        })
        .collect()
}

/// Whether every length in it is at most `most` pixels; words are not looked at.
fn small_lengths(value: &str, most: f32) -> bool {
    words(value).iter().all(|word| match *word {
        "thick" => most >= 5.0,
        word => Length::parse(word).is_none_or(|length| length.pixels(16.0, 160.0).abs() <= most),
    })
}

/// The same for shadows, whose third length is a blur.
fn shadow_within(value: &str, most: f32) -> bool {
    let mut at = 0;
    words(value).iter().all(|word| match Length::parse(word) {
        Some(length) => {
            at += 1;
            length.pixels(16.0, 160.0).abs() <= if at % 4 == 3 { 60.0 } else { most }
        }
        None => {
            if word.starts_with("calc") || word.starts_with("var") {
                return false;
            }
            true
        }
    })
}
