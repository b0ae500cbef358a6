//! What single values do, by lists.

use super::color::Color;
use super::declared::{Display, Effect, TextSpace};
use super::length::Length;
use super::text::{argument, words};
use crate::VisibilityIssue;

/// Text may be shifted by this many pixels and is still where a reader looks.
pub(super) const NEAR: f32 = 12.0;

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

/// Whether text under a shadow can be read: each of its colours is nearly transparent.
pub(super) fn is_faint_shadow(value: &str) -> bool {
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
pub(super) fn names_animation(value: &str) -> bool {
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
    !words(value).iter().all(is_part)
}

/// Whether a filter changes text so little that it can still be read.
pub(super) fn is_mild_filter(value: &str) -> bool {
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
pub(super) fn is_slight_turn(angle: &str) -> bool {
    let Some(degrees) = angle.strip_suffix("deg").and_then(number) else { return angle == "0" };
    let degrees = degrees.abs();
    degrees <= 10.0 || (170.0..=190.0).contains(&degrees) || (350.0..=360.0).contains(&degrees)
}

pub(super) fn clip_path(value: &str) -> Option<Effect> {
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

pub(super) fn transform_list(value: &str) -> Option<Effect> {
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

pub(super) fn scaled(parts: &[f32]) -> Option<Effect> {
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
pub(super) fn lengths(list: &str) -> Option<Vec<f32>> {
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
pub(super) fn small_lengths(value: &str, most: f32) -> bool {
    words(value).iter().all(|word| match *word {
        "thick" => most >= 5.0,
        word => Length::parse(word).is_none_or(|length| length.pixels(16.0, 160.0).abs() <= most),
    })
}

/// The same for shadows, whose third length is a blur.
pub(super) fn shadow_within(value: &str, most: f32) -> bool {
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
