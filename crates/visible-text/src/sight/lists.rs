//! The lists: which properties can hide text, and with which values.

use super::color::Color;
use super::declared::{Display, TextSpace};
use super::length::Length;
use super::text::{Text, argument, words};
use crate::VisibilityIssue::{self, Animated, Clipped, Covered, Moved, Painted, Sized};

/// What a declaration without a field of its own does to the text under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Hides,
    /// Its own text may be hidden.
    May(VisibilityIssue),
    /// It may lie over other text, or take it along.
    Covers(VisibilityIssue),
}

/// What a value does; `none` and the like are not asked for.
type Judge = fn(&Text<'_>) -> Option<Effect>;

/// Properties that children inherit: unusual values count until a child declares a usual one.
pub(super) const INHERITED: [&str; 6] = [
    "line-height",
    "letter-spacing",
    "word-spacing",
    "text-stroke",
    "text-security",
    "text-shadow",
];

/// Properties that may hide with some of their values.
pub(super) const LISTED: &[(&str, Judge)] = &[
    ("all", |_| may(VisibilityIssue::UnknownStyle, true)),
    ("animation", |text| may(Animated, names_animation(&text.text))),
    ("backdrop-filter", |_| may(Painted, true)),
    ("border-image", |text| may(Painted, text.is_computed_or_url())),
    ("box-reflect", |_| may(Painted, true)),
    ("box-shadow", box_shadow),
    ("clip", clip),
    ("clip-path", |text| clip_path(&text.text)),
    ("color-scheme", |text| {
        // `light dark` is for pages that look right in both.
        may(Painted, text.text.contains("dark") && !text.text.contains("light"))
    }),
    ("contain", |text| {
        let odd = ["size", "paint", "strict", "content"];
        may(Clipped, text.is_computed() || words(&text.text).iter().any(|word| odd.contains(word)))
    }),
    ("content", |text| may(Painted, text.is_computed_or_url())),
    ("content-visibility", |text| match &*text.text {
        "hidden" => Some(Effect::Hides),
        _ => may(Clipped, text.is_computed()),
    }),
    ("filter", |text| may(Painted, !is_mild_filter(&text.text))),
    ("font-size-adjust", |text| {
        let least = words(&text.text).iter().filter_map(|word| number(word)).fold(1.0, f32::min);
        may(Sized, least < 0.3 || text.is_computed())
    }),
    ("grid", |text| {
        let is_zero = |word: &&str| {
            let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            digits.parse::<f32>().is_ok_and(|number| number < 0.2)
        };
        may(Clipped, words(&text.text).iter().any(is_zero))
    }),
    ("grid-area", |_| may(Moved, true)),
    ("letter-spacing", |text| may(Sized, is_outside(text, -2.5, 40.0))),
    ("line-clamp", |text| may(Clipped, number(&text.text).is_none_or(|lines| lines < 1.0))),
    ("line-height", |text| may(Sized, is_odd_line(text))),
    ("mask", |_| may(Clipped, true)),
    ("max-lines", |_| may(Clipped, true)),
    ("mix-blend-mode", |_| may(Painted, true)),
    ("offset", |_| may(Moved, true)),
    ("outline", |text| covers(Covered, text.is_computed() || !small_lengths(&text.text, 8.0))),
    ("perspective", |_| may(Moved, true)),
    ("position-area", |_| may(Moved, true)),
    ("rotate", |text| covers(Moved, !is_slight_turn(&text.text))),
    ("scale", |text| scaled(&text.text)),
    ("tab-size", |text| {
        let is_wide = number(&text.text).map(|spaces| spaces > 16.0);
        may(Moved, is_wide.unwrap_or_else(|| !small_lengths(&text.text, 200.0)))
    }),
    ("text-decoration", |text| may(Covered, !small_lengths(&text.text, 4.0))),
    ("text-decoration-thickness", |text| may(Covered, !small_lengths(&text.text, 4.0))),
    ("text-security", |_| may(Painted, true)),
    ("text-shadow", |text| may(Covered, text.is_computed() || !small_lengths(&text.text, 12.0))),
    ("text-stroke", |text| may(Painted, !small_lengths(&text.text, 1.0))),
    ("transform", |text| transform(&text.text)),
    ("transform-origin", |text| {
        let is_near = |word: &&str| match Length::parse(word) {
            Some(length) => (-20.0..=200.0).contains(&length.pixels(16.0, 200.0)),
            None => !word.contains('('),
        };
        covers(Moved, !words(&text.text).iter().all(is_near))
    }),
    ("translate", |text| covers(Moved, !is_near(&text.text))),
    ("unicode-bidi", |text| may(Moved, text.text.contains("override"))),
    ("vertical-align", |text| may(Moved, is_outside(text, -20.0, 20.0))),
    ("word-spacing", |text| may(Sized, is_outside(text, -8.0, 100.0))),
    ("zoom", |text| {
        let zoom = number(&text.text).unwrap_or(1.0);
        may(Sized, text.is_computed() || (zoom > 0.0 && !(0.5..=3.0).contains(&zoom)))
    }),
];

/// How the names of properties with a field of their own begin.
const FIELDS: &str = "display visibility opacity position overflow text-indent color background font \
    margin width height max- left top";

/// How the names begin that browsers know with a vendor's prefix.
const PREFIXED: &str = "transform filter mask clip-path text-fill-color text-stroke text-security \
    line-clamp box-reflect animation column perspective background-clip margin padding box-shadow \
    opacity initial-letter max- logical";

fn begins_with_one_of(name: &str, list: &str) -> bool {
    list.split_ascii_whitespace().any(|start| name.starts_with(start))
}

/// Whether the name is on any list of what can hide.
pub(super) fn is_listed(name: &str) -> bool {
    LISTED.iter().any(|(known, _)| *known == name) || begins_with_one_of(name, FIELDS)
}

/// The name without a vendor's prefix; `None` if no browser knows it with that prefix.
pub(super) fn bare(name: &str) -> Option<&str> {
    let bare = ["-webkit-", "-moz-"].iter().find_map(|vendor| name.strip_prefix(vendor));
    match bare {
        Some(bare) => begins_with_one_of(bare, PREFIXED).then_some(bare),
        None => (!name.starts_with('-')).then_some(name),
    }
}

/// The name under which a property is listed: of a logical one the physical one for left-to-right
/// text, of a part the whole.
pub(super) fn listed_name(name: &str) -> &str {
    match name {
        "inline-size" => "width",
        "block-size" => "height",
        "max-inline-size" => "max-width",
        "max-block-size" => "max-height",
        "min-height" | "min-inline-size" | "min-block-size" => "min-width",
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
        "text-stroke-width" => "text-stroke",
        "text-decoration-line" => "text-decoration",
        "text-wrap-mode" => "text-wrap",
        "white-space-collapse" => "white-space",
        "outline-width" | "outline-offset" => "outline",
        "animation-name" => "animation",
        "border-image-source" => "border-image",
        "mask-image" | "mask-border" | "mask-box-image" => "mask",
        "offset-path" | "offset-distance" | "offset-position" => "offset",
        "column-count" | "column-width" => "columns",
        "flex-basis" => "flex",
        "grid-template"
        | "grid-template-rows"
        | "grid-template-columns"
        | "grid-auto-rows"
        | "grid-auto-columns" => "grid",
        "grid-row-start" | "grid-row-end" => "grid-row",
        "grid-column-start" | "grid-column-end" => "grid-column",
        other => other,
    }
}

pub(super) fn may(issue: VisibilityIssue, is_odd: bool) -> Option<Effect> {
    is_odd.then_some(Effect::May(issue))
}

fn covers(issue: VisibilityIssue, is_odd: bool) -> Option<Effect> {
    is_odd.then_some(Effect::Covers(issue))
}

pub(super) fn is_keyword(value: &str) -> bool {
    matches!(value, "inherit" | "initial" | "unset" | "revert" | "revert-layer")
}

pub(super) fn display(value: &str) -> Option<Display> {
    Some(match value {
        "none" | "table-column" | "table-column-group" => Display::None,
        "contents" => Display::Contents,
        "table-cell" => Display::TableCell,
        "table-row" | "table-row-group" | "table-header-group" | "table-footer-group" => {
            Display::TablePart
        }
        "inline" | "ruby" | "ruby-text" | "math" | "inline flow" => Display::Inline,
        "block" | "list-item" | "flow-root" | "table" | "flow" | "table-caption" => Display::Block,
        "inline-block" | "inline-table" | "inline flow-root" | "inline table" => {
            Display::InlineBlock
        }
        "flex" | "grid" | "block flex" | "block grid" | "-webkit-box" | "-webkit-flex" => {
            Display::Flex
        }
        "inline-flex"
        | "inline-grid"
        | "inline flex"
        | "inline grid"
        | "-webkit-inline-box"
        | "-webkit-inline-flex" => Display::InlineFlex,
        "block flow" | "block flow-root" | "block table" => Display::Block,
        _ => return None,
    })
}

pub(super) fn white_space(value: &str) -> Option<(TextSpace, bool)> {
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

pub(super) fn font_size(value: &str) -> Option<Length> {
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

/// Whether a length is less or more, in pixels, or computed.
fn is_outside(text: &Text<'_>, least: f32, most: f32) -> bool {
    match Length::parse(&text.text) {
        Some(length) => !(least..=most).contains(&length.pixels(16.0, 16.0)),
        None => text.is_computed(),
    }
}

fn is_odd_line(text: &Text<'_>) -> bool {
    let length = || Some(Length::parse(&text.text)?.pixels(16.0, 16.0) / 16.0);
    let factor = number(&text.text).or_else(length);
    factor.map_or_else(|| text.is_computed(), |f| f >= 0.0 && !(0.45..=8.0).contains(&f))
}

fn clip(text: &Text<'_>) -> Option<Effect> {
    match lengths(argument(&text.text, "rect")?).as_deref() {
        Some([top, right, bottom, left]) if bottom - top < 2.0 || right - left < 2.0 => {
            Some(Effect::Hides)
        }
        _ => may(Clipped, true),
    }
}

/// Text under a shadow can be read if each of its colours is nearly transparent.
fn box_shadow(text: &Text<'_>) -> Option<Effect> {
    let value = &*text.text;
    let is_inset = words(value).contains(&"inset");
    if shadow_within(value, if is_inset { 6.0 } else { 14.0 }) || is_faint_shadow(value) {
        return None;
    }
    Some(if is_inset { Effect::May(Painted) } else { Effect::Covers(Covered) })
}

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
    const PARTS: &str = "none normal running linear auto both forwards backwards infinite \
        alternate reverse";
    let is_part = |word: &&str| {
        number(word.trim_end_matches('s').trim_end_matches('m')).is_some()
            || word.starts_with("ease")
            || word.starts_with("cubic-bezier(")
            || PARTS.split_ascii_whitespace().any(|part| part == *word)
    };
    !words(value).iter().all(is_part)
}

/// The functions of a list, each with its argument; `None` for what is no function.
fn functions(value: &str) -> impl Iterator<Item = Option<(&str, &str)>> {
    value.split_inclusive(')').map(|part| part.trim().strip_suffix(')')?.split_once('('))
}

/// Whether a filter changes text so little that it can still be read.
fn is_mild_filter(value: &str) -> bool {
    functions(value).all(|function| match function {
        Some(("brightness" | "contrast" | "saturate" | "opacity", inside)) => {
            number(inside).is_some_and(|factor| (0.7..=1.3).contains(&factor))
        }
        Some(("blur", inside)) => small_lengths(inside, 0.6),
        Some(("drop-shadow", inside)) => shadow_within(inside, 6.0),
        _ => false,
    })
}

fn clip_path(value: &str) -> Option<Effect> {
    if value.ends_with("-box") && !value.contains('(') {
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
    Some(if is_point { Effect::Hides } else { Effect::May(Clipped) })
}

fn transform(value: &str) -> Option<Effect> {
    let mut all = None;
    for function in functions(value) {
        let effect = match function {
            Some((
                "translate" | "translatex" | "translatey" | "translate3d" | "translatez",
                to,
            )) => covers(Moved, !is_near(to)),
            Some(("scale" | "scalex" | "scaley" | "scale3d", to)) => scaled(to),
            Some(("rotate" | "rotatez", angle)) => covers(Moved, !is_slight_turn(angle.trim())),
            _ => covers(Moved, true),
        };
        all = if all == Some(Effect::Hides) { all } else { effect.or(all) };
    }
    all
}

/// Whether it shifts by so little that text is still where a reader looks.
fn is_near(list: &str) -> bool {
    lengths(list).is_some_and(|parts| parts.iter().all(|part| part.abs() <= 16.0))
}

/// Whether a box turned by this angle stays about where it is.
fn is_slight_turn(angle: &str) -> bool {
    let Some(degrees) = angle.strip_suffix("deg").and_then(number) else { return angle == "0" };
    let degrees = degrees.abs();
    degrees <= 10.0 || (170.0..=190.0).contains(&degrees) || (350.0..=360.0).contains(&degrees)
}

fn scaled(list: &str) -> Option<Effect> {
    let parts: Vec<f32> = words(list).iter().filter_map(|word| number(word)).collect();
    match &parts[..] {
        _ if parts.iter().any(|part| part.abs() < 0.02) => Some(Effect::Hides),
        [_, ..] if parts.iter().all(|part| (0.6..=2.0).contains(part)) => None,
        _ => covers(Moved, true),
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
    let pixels = |word: &str| match word {
        "auto" => Some(0.0),
        _ => Some(Length::parse(word)?.pixels(16.0, 1000.0)),
    };
    words(list).into_iter().map(pixels).collect()
}

/// Whether every length in it is at most `most` pixels; words are not looked at.
pub(super) fn small_lengths(value: &str, most: f32) -> bool {
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
        None => !word.starts_with("calc") && !word.starts_with("var"),
    })
}
