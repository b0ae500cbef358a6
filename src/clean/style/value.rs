//! Parses single CSS values; `None` is what a browser drops.

use super::color::Color;
use super::declaration::{Display, Overflow, Position, TextSpace, Value};
use super::length::Length;
use super::text::words;
use crate::model::VisibilityIssue;

pub(super) fn display(value: &str) -> Option<Value> {
    Some(Value::Display(match value {
        "none" | "table-column" | "table-column-group" => Display::None,
        "contents" => Display::Contents,
        "table-cell" => Display::TableCell,
        "table-row" | "table-row-group" | "table-header-group" | "table-footer-group" => {
            Display::TablePart
        }
        "inline" | "ruby" | "ruby-text" | "math" => Display::Inline,
        "block" | "list-item" | "flow-root" | "table" | "flow" | "table-caption" => Display::Block,
        "flex" | "grid" | "-webkit-box" | "-webkit-flex" => Display::Flex,
        "inline-block" | "inline-table" => Display::InlineBlock,
        "inline-flex" | "inline-grid" | "-webkit-inline-box" | "-webkit-inline-flex" => {
            Display::InlineFlex
        }
        _ if is_rare_display(value) => return Some(Value::Doubt(VisibilityIssue::UnknownStyle)),
        _ => return two_displays(value),
    }))
}

/// Values that only some browsers know.
fn is_rare_display(value: &str) -> bool {
    const RARE: [&str; 5] =
        ["grid-lanes", "masonry", "ruby-base", "ruby-base-container", "ruby-text-container"];
    value.split_ascii_whitespace().any(|word| RARE.contains(&word)) || value == "inline-grid-lanes"
}

/// `block flow`, `inline flex list-item` and the like: each part at most once.
fn two_displays(value: &str) -> Option<Value> {
    let (mut outside, mut inside, mut is_item) = (None, None, false);
    for word in value.split_ascii_whitespace() {
        let is_new = match word {
            "block" | "inline" => outside.replace(word).is_none(),
            "flow" | "flow-root" | "table" | "flex" | "grid" | "ruby" | "math" => {
                inside.replace(word).is_none()
            }
            "list-item" => !std::mem::replace(&mut is_item, true),
            _ => false,
        };
        if !is_new {
            return None;
        }
    }
    if is_item && !matches!(inside, None | Some("flow" | "flow-root")) {
        return None;
    }
    Some(Value::Display(match (outside, inside) {
        (Some("inline"), Some("flex" | "grid")) => Display::InlineFlex,
        (_, Some("flex" | "grid")) => Display::Flex,
        (Some("inline"), Some("math")) => Display::Inline,
        (Some("inline"), _) => Display::InlineBlock,
        (None, None) if !is_item => return None,
        _ => Display::Block,
    }))
}

pub(super) fn visibility(value: &str) -> Option<Value> {
    match value {
        "hidden" | "collapse" => Some(Value::Flag(true)),
        "visible" => Some(Value::Flag(false)),
        _ => None,
    }
}

pub(super) fn opacity(value: &str) -> Option<Value> {
    number(value).map(Value::Number)
}

pub(super) fn z_index(value: &str) -> Option<Value> {
    match value {
        "auto" => Some(Value::Initial),
        _ => value.parse().ok().map(Value::Number),
    }
}

pub(super) fn direction(value: &str) -> Option<Value> {
    match value {
        "rtl" => Some(Value::Flag(true)),
        "ltr" => Some(Value::Flag(false)),
        _ => None,
    }
}

pub(super) fn position(value: &str) -> Option<Value> {
    Some(match value {
        "static" => Value::Position(Position::Static),
        "relative" => Value::Position(Position::Relative),
        "absolute" | "fixed" => Value::Position(Position::Absolute),
        "sticky" | "-webkit-sticky" => Value::Doubt(VisibilityIssue::Moved),
        _ => return None,
    })
}

pub(super) fn overflow(value: &str) -> Option<Value> {
    Some(Value::Overflow(match value {
        "visible" => Overflow::Visible,
        "auto" | "scroll" | "overlay" => Overflow::Scrolls,
        "hidden" | "clip" | "-moz-hidden-unscrollable" => Overflow::Clips,
        _ => return None,
    }))
}

pub(super) fn white_space(value: &str) -> Option<Value> {
    let (mut space, mut nowrap) = (TextSpace::Collapse, false);
    let (mut spaces, mut wraps) = (0, 0);
    for word in value.split_ascii_whitespace() {
        match word {
            "normal" | "pre-line" | "pre" | "pre-wrap" => (spaces, wraps) = (spaces + 1, wraps + 1),
            "collapse" | "preserve-breaks" | "break-spaces" | "preserve" | "preserve-spaces" => {
                spaces += 1;
            }
            _ => wraps += 1,
        }
        match word {
            "normal" | "collapse" | "wrap" => {}
            "nowrap" => nowrap = true,
            "pre-line" | "preserve-breaks" => space = TextSpace::KeepLines,
            "pre" => (space, nowrap) = (TextSpace::Keep, true),
            "pre-wrap" | "break-spaces" | "preserve" | "preserve-spaces" => space = TextSpace::Keep,
            _ => return None,
        }
    }
    (spaces <= 1 && wraps <= 1 && spaces + wraps > 0).then_some(Value::Space(space, nowrap))
}

pub(super) fn color(value: &str) -> Option<Value> {
    if value == "currentcolor" {
        return Some(Value::CurrentColor);
    }
    match Color::parse(value) {
        Some(color) => Some(Value::Color(color)),
        None if value.contains('(')
            && !value.starts_with("url(")
            && !value.contains("gradient(") =>
        {
            Some(Value::Doubt(VisibilityIssue::Painted))
        }
        None if is_unusual_system_color(value) => Some(Value::Doubt(VisibilityIssue::Painted)),
        None => None,
    }
}

/// System colours that differ between browsers and themes.
pub(super) fn is_unusual_system_color(value: &str) -> bool {
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

/// A length, or `auto` and the like; `None` if it is invalid.
pub(super) fn length(value: &str) -> Option<Value> {
    if let Some(length) = Length::parse(value) {
        return Some(Value::Length(length));
    }
    let is_word = value.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    match value {
        "auto" | "none" | "normal" | "max-content" | "fit-content" => Some(Value::Initial),
        "min-content" => Some(Value::Length(Length::Px(10.0))),
        _ if is_word || value.is_empty() => None,
        // A number without a unit is invalid.
        _ if value.parse::<f32>().is_ok() => None,
        _ => Some(Value::Doubt(VisibilityIssue::Sized)),
    }
}

/// A length or one of these keywords; other keywords are invalid.
fn length_or(value: &str, keywords: &[&str], low: f32) -> Option<Value> {
    let is_keyword = value.starts_with(|c: char| c.is_ascii_alphabetic()) && !value.contains('(');
    if is_keyword && !keywords.contains(&value) {
        return None;
    }
    length(value)
        .filter(|value| !matches!(value, Value::Length(length) if length.pixels(1.0, 1.0) < low))
}

/// `width` and `height`.
pub(super) fn size(value: &str) -> Option<Value> {
    length_or(value, &["auto", "max-content", "min-content", "fit-content"], 0.0)
}

/// `max-width` and `max-height`.
pub(super) fn max_size(value: &str) -> Option<Value> {
    length_or(value, &["none", "max-content", "min-content", "fit-content"], 0.0)
}

/// Margins and the offsets of a position.
pub(super) fn offset(value: &str) -> Option<Value> {
    length_or(value, &["auto"], f32::MIN)
}

pub(super) fn padding(value: &str) -> Option<Value> {
    length_or(value, &[], 0.0)
}

/// `letter-spacing` and `word-spacing`.
pub(super) fn spacing(value: &str) -> Option<Value> {
    length_or(value, &["normal"], f32::MIN)
}

pub(super) fn text_indent(value: &str) -> Option<Value> {
    length_or(value, &[], f32::MIN)
}

/// One of two keywords.
pub(super) fn flag(value: &str, on: &[&str], off: &[&str]) -> Option<Value> {
    match (on.contains(&value), off.contains(&value)) {
        (true, _) => Some(Value::Flag(true)),
        (_, true) => Some(Value::Flag(false)),
        _ => None,
    }
}

pub(super) fn font_size(value: &str) -> Option<Value> {
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

pub(super) fn line_height(value: &str) -> Option<Value> {
    match value.parse::<f32>() {
        Ok(factor) => (factor >= 0.0).then_some(Value::Length(Length::Em(factor))),
        Err(_) => match length_or(value, &["normal"], 0.0) {
            Some(Value::Length(Length::Share(share))) => Some(Value::Length(Length::Em(share))),
            other => other,
        },
    }
}

pub(super) fn number(value: &str) -> Option<f32> {
    match value.strip_suffix('%') {
        Some(percent) => percent.parse::<f32>().ok().map(|number| number / 100.0),
        None => value.parse().ok(),
    }
    .filter(|number| number.is_finite())
}

/// A quoted text without characters that fill their whole box.
pub(super) fn is_plain_string(value: &str) -> bool {
    let inside = value.strip_prefix(['"', '\'']).and_then(|rest| rest.strip_suffix(['"', '\'']));
    inside.is_some_and(|inside| inside.len() <= 40 && !inside.chars().any(fills_its_box))
}

/// Blocks, squares and pictures, which can cover other text like a box.
pub(super) fn fills_its_box(character: char) -> bool {
    matches!(character, '\u{2580}'..='\u{25ff}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' | '\u{e000}'..='\u{f8ff}')
}

/// Pixels of a list of plain lengths; 100 % counts as a thousand.
pub(super) fn plain_lengths(list: &str) -> Option<Vec<f32>> {
    words(list).into_iter().map(|word| Some(Length::parse(word)?.pixels(16.0, 1000.0))).collect()
}

/// Whether every length in it is at most `most` pixels.
pub(super) fn small_lengths(value: &str, most: f32) -> bool {
    words(value).iter().all(|word| match line_width(word) {
        Some(length) => length.pixels(16.0, 16.0).abs() <= most,
        None => word.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'#'),
    })
}

/// A length, or a keyword for a line width.
pub(super) fn line_width(word: &str) -> Option<Length> {
    match word {
        "thin" => Some(Length::Px(1.0)),
        "medium" => Some(Length::Px(3.0)),
        "thick" => Some(Length::Px(5.0)),
        _ => Length::parse(word),
    }
}

/// The same for a list of shadows, where the third length of each is a blur.
pub(super) fn lengths_within(value: &str, most: f32, most_blur: f32) -> bool {
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
