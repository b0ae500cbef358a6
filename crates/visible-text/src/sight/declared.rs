//! Declarations of one element.

use super::color::Color;
use super::length::Length;
use super::lists::{
    Effect, INHERITED, LISTED, bare, display, font_size, is_keyword, is_listed, listed_name, may,
    number, small_lengths, white_space,
};
use super::paint::{Background, Field, Paint, gradient, paint};
use super::text::{Text, argument, words};
use super::variables::{Names, name_of, without};
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
}

/// The sides of a box: top, right, bottom, left.
pub(super) type Sides = [Option<Length>; 4];

/// The declarations of one element; a later one of the same property replaces an earlier one.
#[derive(Debug, Default)]
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
    /// A border wider than a line.
    pub(super) wide_border: bool,
    pub(super) rtl: Option<bool>,
    pub(super) line_through: bool,
    pub(super) border_none: bool,
    pub(super) word_marker: bool,
    pub(super) word_list_level: u8,
    /// The effects of all other properties, by name.
    pub(super) effects: Vec<(&'static str, Option<Effect>)>,
    /// Variables that it declares.
    pub(super) variables: Names,
    /// Variables of the page that it uses: as if not declared, unless the text declares them.
    pub(super) uses: Names,
    /// `display` is set back to what it is without any style.
    pub(super) display_reset: bool,
    pub(super) zoom: Option<f32>,
    /// The height of its lines, if it is a length or a factor of the size of the font.
    pub(super) line_height: Option<Length>,
    /// A minimum of the width or height that gives text some room.
    pub(super) has_least: bool,
    /// The element may take less room than its text: as a part of a row, or in columns.
    pub(super) squeezed: bool,
    /// Something clips what leaves the box although it does not say so in `overflow`.
    pub(super) clips_paint: bool,
    /// The background is painted in the shape of the letters.
    pub(super) clips_to_text: bool,
    /// Below others of its own stack.
    pub(super) behind_others: bool,
    /// A shadow or a stroke may make letters visible whose colour is not.
    pub(super) outlined: bool,
    /// The first colour of a gradient behind the text, and the one that differs most from it.
    pub(super) gradient: Option<(Color, Color)>,
    /// The picture behind the text has a size, a place or a repetition of its own.
    pub(super) picture_placed: bool,
    /// At most this many lines are shown.
    pub(super) line_clamp: Option<f32>,
    /// Whether it has a row and a column of a grid: another element may be put there too.
    pub(super) grid_place: [bool; 2],
}

impl Declared {
    /// Applies a list: what is `!important` in it last.
    pub(super) fn apply(&mut self, list: &[(String, Text<'_>)]) {
        for important in [false, true] {
            for (name, text) in list.iter().filter(|(_, text)| text.important == important) {
                self.declare(name, text);
            }
        }
    }

    pub(super) fn effect(&mut self, name: &'static str, effect: Option<Effect>) {
        self.effects.retain(|(known, _)| *known != name);
        self.effects.push((name, effect));
    }

    fn declare(&mut self, name: &str, text: &Text<'_>) {
        if text.is_invalid {
        } else if name.starts_with("--") {
            self.variables |= name_of(name);
        } else if name == "mso-list" {
            self.word_list(&text.text);
        } else if let Some(name) = bare(name) {
            let name = listed_name(name);
            if !text.is_broken && !text.has_braces {
                let is_of_page = text.text.contains("var(");
                match without(name, &text.text).filter(|_| is_of_page) {
                    Some((value, uses)) => {
                        self.uses |= uses;
                        self.property(name, &Text { text: value.into(), ..text.clone() });
                    }
                    None => self.property(name, text),
                }
            } else if is_listed(name) {
                self.effect("broken", Some(Effect::May(VisibilityIssue::Malformed)));
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "one list, an entry for each property")]
    fn property(&mut self, name: &str, text: &Text<'_>) {
        let value = &*text.text;
        let is_keyword = is_keyword(value);
        let is_none = is_keyword || matches!(value, "none" | "normal" | "auto" | "visible");
        match name {
            "display" if is_keyword => (self.display, self.display_reset) = (None, true),
            "display" => self.display = self.read("display", text, display(value)).or(self.display),
            "visibility" => {
                match value {
                    "visible" | "initial" => self.visible = Some(true),
                    "hidden" | "collapse" => self.visible = Some(false),
                    _ if is_keyword => self.visible = None,
                    _ => {}
                }
                self.collapsed = value == "collapse";
            }
            "opacity" if is_keyword => self.opacity = None,
            "opacity" => {
                let opacity = self.read("opacity", text, number(value));
                self.opacity = opacity.map(|share| share.clamp(0.0, 1.0)).or(self.opacity);
            }
            "color" => self.color = paint(text, Field::Color).or(self.color),
            "text-fill-color" => self.fill = paint(text, Field::Fill).or(self.fill),
            "background-color" => {
                self.background = paint(text, Field::Background).or(self.background);
            }
            "background" => self.set_background(value),
            "background-image" => {
                let variable = argument(value, "var").filter(|inside| !inside.contains("url("));
                self.uses |= variable.map_or(0, name_of);
                self.picture = text.is_computed_or_url() && variable.is_none();
                self.gradient = gradient(value);
            }
            "background-clip" => self.clip_background(
                value.contains("text"),
                value.contains("content-box") || value.contains("border-area"),
            ),
            _ if name.starts_with("background-") => {
                let is_usual = matches!(value, "auto" | "repeat" | "0 0" | "0% 0%" | "scroll");
                self.picture_placed |= !is_usual && !is_keyword;
            }
            "font-size" => self.set_font_size(value, text),
            "font" => self.set_font(text),
            "white-space" => {
                if let Some((space, nowrap)) = white_space(value) {
                    (self.space, self.nowrap) = (Some(space), Some(nowrap));
                }
            }
            "text-wrap" => self.nowrap = Some(value == "nowrap"),
            "position" => {
                self.position = match value {
                    "static" | "sticky" | "-webkit-sticky" => Some(Position::Static),
                    "relative" => Some(Position::Relative),
                    "absolute" | "fixed" => Some(Position::Absolute),
                    _ if is_keyword => None,
                    _ => self.position,
                }
            }
            "float" => self.floats = !is_none,
            "z-index" => self.behind_others = number(value).is_some_and(|place| place < 0.0),
            "direction" => self.rtl = Some(value == "rtl"),
            "width" => self.set_size(0, text),
            "height" => self.set_size(1, text),
            "max-width" => self.set_size(2, text),
            "max-height" => self.set_size(3, text),
            "min-width" => {
                let px = Length::parse(value).map_or(0.0, |length| length.pixels(16.0, 0.0));
                self.has_least |= px > 8.0;
            }
            "overflow" => {
                for (at, word) in words(value).into_iter().cycle().take(2).enumerate() {
                    self.set_overflow(at, word);
                }
            }
            "overflow-x" => self.set_overflow(0, value),
            "overflow-y" => self.set_overflow(1, value),
            "text-indent" if is_keyword => self.indent = None,
            "text-indent" => {
                self.indent = self.read("text-indent", text, Length::parse(value)).or(self.indent);
            }
            "all" if is_keyword && value != "inherit" => *self = Self::default(),
            "border" => {
                self.border_none = words(value).contains(&"none");
                self.wide_border |= text.is_computed() || !small_lengths(value, 12.0);
            }
            // Widths and sides, not `border-radius`.
            _ if name.starts_with("border-") && name.ends_with(['h', 't', 'p', 'm']) => {
                self.wide_border |= text.is_computed() || !small_lengths(value, 12.0);
            }
            _ => {
                if !self.set_sides(name, value) {
                    self.listed(name, text, is_none);
                }
            }
        }
    }

    /// Properties whose values are on lists.
    fn listed(&mut self, name: &str, text: &Text<'_>, is_none: bool) {
        let value = &*text.text;
        match name {
            "text-decoration" => {
                self.line_through = value.split_ascii_whitespace().any(|w| w == "line-through");
            }
            "text-stroke" => self.outlined |= !small_lengths(value, 0.0),
            "text-shadow" => self.outlined |= !is_none,
            "clip-path" => self.clips_paint |= value != "none",
            "content-visibility" => self.clips_paint |= value == "auto",
            "line-height" => {
                self.line_height = number(value).map(Length::Em).or_else(|| Length::parse(value));
            }
            "line-clamp" => self.line_clamp = number(value).filter(|lines| *lines >= 1.0),
            "zoom" => self.zoom = number(value).filter(|zoom| (0.5..=3.0).contains(zoom)),
            "columns" => self.squeezed |= !is_none,
            "flex" => {
                let is_zero = |word: &&str| {
                    *word != "0" && Length::parse(word).is_some_and(|l| l.pixels(16.0, 16.0) == 0.0)
                };
                self.squeezed =
                    words(value).iter().any(is_zero) || matches!(value, "0 0 0" | "0 1 0" | "0");
            }
            "grid-row" | "grid-column" => {
                self.grid_place[usize::from(name == "grid-column")] |= !is_none;
            }
            _ => {}
        }
        let Some((known, judge)) = LISTED.iter().find(|(known, _)| *known == name) else { return };
        if !is_none {
            self.effect(known, judge(text));
        } else if !INHERITED.contains(known) || !is_keyword(value) || value == "initial" {
            self.effect(known, None);
        }
    }

    /// What was read of a value; one that a function computes is doubtful.
    fn read<T>(&mut self, name: &'static str, text: &Text<'_>, found: Option<T>) -> Option<T> {
        if found.is_some() || text.is_computed() {
            self.effect(name, may(VisibilityIssue::Computed, found.is_none()));
        }
        found
    }

    fn set_background(&mut self, value: &str) {
        let found = match value {
            "inherit" => Background { color: Paint::Unset, picture: true, ..Background::NONE },
            _ if is_keyword(value) => Background::NONE,
            _ => match Background::read(value) {
                Some(found) => found,
                None => return,
            },
        };
        self.background = Some(found.color);
        (self.picture, self.gradient) = (found.picture, found.gradient);
        self.picture_placed = found.is_placed;
        self.clip_background(found.clips_to_text, found.clips);
    }

    fn clip_background(&mut self, to_text: bool, is_odd: bool) {
        self.clips_to_text = to_text;
        self.effect("background-clip", may(VisibilityIssue::Painted, is_odd));
    }

    fn set_font_size(&mut self, value: &str, text: &Text<'_>) {
        match value {
            "initial" => self.font = Some(Length::Px(16.0)),
            _ if is_keyword(value) => self.font = None,
            _ => self.font = self.read("font-size", text, font_size(value)).or(self.font),
        }
    }

    fn set_font(&mut self, text: &Text<'_>) {
        let words = words(&text.text);
        let Some(at) = words.iter().position(|word| font_size(word).is_some()) else {
            self.read::<Length>("font-size", text, None);
            return;
        };
        // Without a family it is invalid.
        let has_height = text.text.contains('/');
        if words.len() > at + 1 + usize::from(has_height) {
            self.set_font_size(words[at], text);
            let height = words.get(at + 1).filter(|_| has_height).and_then(|word| number(word));
            let is_odd = height.is_some_and(|height| !(0.45..=8.0).contains(&height))
                && self.font != Some(Length::Px(0.0));
            self.effect("line-height", may(VisibilityIssue::Sized, is_odd));
        }
    }

    fn set_size(&mut self, at: usize, text: &Text<'_>) {
        match Length::parse(&text.text) {
            Some(length) if length.pixels(1.0, 1.0) >= 0.0 => self.size[at] = Some(length),
            Some(_) => {}
            None if &*text.text == "min-content" => self.size[at] = Some(Length::Px(10.0)),
            None if text.is_computed() => self.size[at] = Some(Length::Unknown),
            None if text.text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') => {
                self.size[at] = None;
            }
            None => {}
        }
    }

    /// Sets sides of a box. Returns whether the property is about them.
    fn set_sides(&mut self, name: &str, value: &str) -> bool {
        let (target, part) = match name.split_once('-') {
            Some(("margin", part)) => (&mut self.margin, part),
            Some(("padding", part)) => (&mut self.padding, part),
            Some(("inset", part)) => (&mut self.inset, part),
            _ if name == "margin" => (&mut self.margin, ""),
            _ if name == "padding" => (&mut self.padding, ""),
            _ if name == "inset" => (&mut self.inset, ""),
            _ => (&mut self.inset, name),
        };
        let sides: &[usize] = match part {
            "" => &[0, 1, 2, 3],
            "top" => &[0],
            "right" => &[1],
            "bottom" => &[2],
            "left" => &[3],
            "inline" => &[3, 1],
            "block" => &[0, 2],
            _ => return false,
        };
        let length = |word: &str| match Length::parse(word) {
            None if word.contains('(') => Some(Some(Length::Unknown)),
            None if word == "auto" || is_keyword(word) => Some(None),
            length => length.map(Some),
        };
        let found: Option<Vec<Option<Length>>> = words(value).into_iter().map(length).collect();
        let Some(found) = found.filter(|found| (1..=sides.len()).contains(&found.len())) else {
            return true;
        };
        for (at, side) in sides.iter().enumerate() {
            let opposite = at.checked_sub(2).and_then(|at| found.get(at));
            let value = found.get(at).or(opposite).or_else(|| found.get(1)).or(found.first());
            target[*side] = value.copied().flatten();
        }
        true
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

    /// Word writes `mso-list:l0 level2 lfo1` on an item and `mso-list:Ignore` on its marker.
    fn word_list(&mut self, value: &str) {
        self.word_marker |= value == "ignore";
        let mut words = value.split_ascii_whitespace();
        let level = words.find_map(|word| word.strip_prefix("level")?.parse::<u8>().ok());
        self.word_list_level = level.map_or(self.word_list_level, |level| level.clamp(1, 9));
    }
}
