//! Colours of text and of what is behind it, as they are declared.

use super::color::Color;
use super::length::Length;
use super::text::{Text, argument, words};
use super::variables::{Names, first_variable, is_of_tracker, name_of};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Paint {
    Color(Color),
    /// The colour of the text.
    Current,
    /// As if nothing was declared.
    Unset,
    /// The page's own: black for text, none for a background.
    Initial,
    /// That of a variable of the page: this colour, or as if nothing was declared, unless the text
    /// declares the variable.
    Undeclared(Option<Color>, Names),
    Unknown,
}

impl Paint {
    /// What it is where the text declares these variables.
    pub(super) fn among(self, declared: Names) -> Self {
        match self {
            Self::Undeclared(_, names) if names & declared != 0 => Self::Unknown,
            Self::Undeclared(Some(color), _) => Self::Color(color),
            Self::Undeclared(None, _) => Self::Unset,
            paint => paint,
        }
    }

    pub(super) fn is_clear(self) -> bool {
        matches!(self, Self::Initial | Self::Unset)
            || matches!(self, Self::Color(color) if color.alpha() <= 0.0)
    }
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
    // Azure DevOps writes `rgba(var(--palette-neutral-100,0, 0, 0),.9)`.
    if let Some((at, name, other)) = first_variable(word) {
        let around = format!("{}{other}{}", &word[..at.start], &word[at.end..]);
        return Some(variable(name, if other.is_empty() { "" } else { &around }, field));
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

/// Parts of the names of variables for text, and for what is behind it.
const OF_TEXT: &str = "text foreground fg font link";
const ON_DARK: &str = "invers invert onbrand onaccent static";
const BEHIND: &str = "background surface bg canvas inverse white light page paper base card panel \
    layer neutral fill transparent hidden none";

/// Editors of web pages write `var(--ds-text, #172b4d)`. Where the page has no such variable, the
/// colour after it counts, or none. Where it may have one, its name says whether it is for text: one
/// for what is behind the text makes text invisible. A background has to be named as one.
fn variable(name: &str, other: &str, field: Field) -> Paint {
    if let Some(paint) = palette(name, other) {
        return paint;
    }
    // The colour of code: neither light nor `high`.
    let names = name_of(name);
    let is_foreign = !is_of_tracker(name);
    let name = name.replace("highlight", "");
    let is_of = |list: &str| list.split_ascii_whitespace().any(|word| name.contains(word));
    let fits = match field {
        Field::Background if is_foreign => true,
        // Only a name that says otherwise is no colour of text.
        _ if is_foreign => !is_of("background bg canvas surface") && !is_of(ON_DARK),
        Field::Background => is_of(BEHIND) && !is_of(OF_TEXT),
        _ if name.ends_with("text") || name.contains("foreground") => !is_of(ON_DARK),
        _ => !is_of(BEHIND),
    };
    match (fits, paint_word(other, field)) {
        (true, _) if other.is_empty() => Paint::Undeclared(None, names),
        (true, Some(Paint::Color(color))) => Paint::Undeclared(Some(color), names),
        // What counts without it may name another one.
        (true, Some(Paint::Undeclared(color, more))) => Paint::Undeclared(color, names | more),
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
    let found = color.filter(fits);
    if other.is_empty() && kind.ends_with("-text") {
        return Some(Paint::Undeclared(None, name_of(name)));
    }
    Some(found.map_or(Paint::Unknown, |color| Paint::Undeclared(Some(color), name_of(name))))
}

/// System colours that differ between browsers and themes.
fn is_theme_color(value: &str) -> bool {
    let names = "accentcolor accentcolortext activetext graytext highlight highlighttext mark marktext \
        selecteditem selecteditemtext visitedtext menu buttonhighlight buttonshadow";
    names.split_ascii_whitespace().any(|name| name == value)
}

/// What a `background` shorthand paints.
#[derive(Debug, Clone, Copy)]
pub(super) struct Background {
    pub(super) color: Paint,
    /// A picture or a gradient.
    pub(super) picture: bool,
    pub(super) gradient: Option<(Color, Color)>,
    /// Whether the picture has a size, a place or a repetition of its own.
    pub(super) is_placed: bool,
    /// Whether it is painted in the shape of the letters only.
    pub(super) clips_to_text: bool,
    /// Whether it is painted on less than what is behind the letters.
    pub(super) clips: bool,
}

impl Background {
    pub(super) const NONE: Self = Self {
        color: Paint::Initial,
        picture: false,
        gradient: None,
        is_placed: false,
        clips_to_text: false,
        clips: false,
    };

    /// `None` if a browser drops it.
    pub(super) fn read(value: &str) -> Option<Self> {
        const PLACES: &str = "none repeat no-repeat repeat-x repeat-y space round scroll fixed local \
            left right top bottom center cover contain auto border-box padding-box";
        let is_picture = |word: &str| {
            word.starts_with("url(") || word.contains("gradient(") || word.contains("image")
        };
        let mut found = Self::NONE;
        for word in words(value) {
            if is_picture(word) {
                // Of several pictures the first covers the others, as far as it reaches.
                found.gradient = gradient(word).filter(|_| !found.picture);
                found.picture = true;
            } else if word == "text" {
                found.clips_to_text = true;
            } else if matches!(word, "content-box" | "border-area") {
                found.clips = true;
            } else if let Some(color) = paint_word(word, Field::Background) {
                if found.color != Paint::Initial {
                    return None;
                }
                found.color = color;
            } else {
                let is_place = PLACES.split_ascii_whitespace().any(|place| place == word);
                if !is_place && Length::parse(word).is_none() && !word.contains('(') {
                    return None;
                }
                found.is_placed = true;
            }
        }
        (!value.ends_with(',') && !value.starts_with(',')).then_some(found)
    }
}

/// Of a gradient of solid colours the first, and the one that differs most from it.
pub(super) fn gradient(value: &str) -> Option<(Color, Color)> {
    let inside = argument(value, "linear-gradient").or(argument(value, "radial-gradient"))?;
    let mut colors = Vec::new();
    for word in words(inside) {
        match Color::parse(word) {
            Some(color) if color.alpha() >= 1.0 => colors.push(color),
            None if !word.contains('(') => {}
            _ => return None,
        }
    }
    let (first, others) = colors.split_first()?;
    let distance = |color: &&Color| color.distance(*first);
    let other = others.iter().max_by(|one, two| distance(one).total_cmp(&distance(two)))?;
    Some((*first, *other))
}
