//! Declarations, judged by lists.

use super::color::Color;
use super::length::Length;
use super::names::{LISTED, bare, is_listed, physical};
use super::paint::{Field, Paint, gradient, is_background_word, paint, paint_word};
use super::text::{Text, argument, words};
use super::values::{
    NEAR, clip_path, display, font_size, is_faint_shadow, is_mild_filter, is_slight_turn, lengths,
    names_animation, number, scaled, shadow_within, small_lengths, transform_list, white_space,
};
use crate::VisibilityIssue;

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
