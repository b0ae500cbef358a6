//! Colours of text and of what is behind it, as they are declared.

use super::color::Color;
use super::length::Length;
use super::text::{Text, argument, words};

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

/// Which property a colour is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Color,
    Fill,
    Background,
}

/// `None` if a browser drops it.
pub(super) fn paint(text: &Text<'_>, field: Field) -> Option<Paint> {
    match &*text.text {
        "initial" => Some(Paint::Initial),
        "inherit" => Some(Paint::Unset),
        "unset" | "revert" | "revert-layer" if field == Field::Background => Some(Paint::Initial),
        "unset" | "revert" | "revert-layer" => Some(Paint::Unset),
        word => paint_word(word, field),
    }
}

pub(super) fn paint_word(word: &str, field: Field) -> Option<Paint> {
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

pub(super) fn is_background_word(word: &str) -> bool {
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
pub(super) fn gradient(value: &str) -> Option<(Color, f32)> {
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
