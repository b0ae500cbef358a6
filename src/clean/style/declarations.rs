//! The declarations of a `style` attribute or of a rule that bear on what is seen, and how.

use std::borrow::Cow;

use super::color::Color;
use super::length::Length;

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
    /// On lines of its own.
    Block,
    /// On lines of its own, and each child too.
    Flex,
}

/// What a background declaration says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Background {
    /// One colour, perhaps a transparent one.
    Color(Color),
    /// A picture or gradient: nobody knows what the text stands on.
    Picture,
}

/// One property of those we read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Declared {
    Display(Display),
    Hidden(bool),
    Opacity(f32),
    FontSize(Length),
    Color(Color),
    Background(Background),
    WhiteSpace(super::TextSpace),
    Clips(bool),
    Width(Length),
    Height(Length),
    MaxWidth(Length),
    MaxHeight(Length),
    OutOfFlow(bool),
    Positioned(bool),
    Floats(bool),
    Shift(Length),
    OppositeShift(Length),
    TextIndent(Length),
    MarginStart(Length),
    ClippedAway(bool),
    LineThrough(bool),
    BorderNone(bool),
    WordListLevel(u8),
    WordIgnore,
}

/// Everything declared for one element; the last word on each property counts.
#[derive(Debug, Clone, Default)]
pub(in crate::clean) struct Declarations {
    list: Vec<(Declared, bool)>,
}

impl Declarations {
    /// Forgets everything, to be used for the next element.
    pub(in crate::clean) fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds what a `style` attribute says.
    pub(in crate::clean) fn read(&mut self, css: &str) {
        let css = plain(css);
        for declaration in split_declarations(&css) {
            let Some((name, value)) = declaration.split_once(':') else { continue };
            let (value, important) = without_important(value.trim());
            let list = &mut self.list;
            read_property(name.trim(), value, &mut |declared| list.push((declared, important)));
        }
    }

    /// Adds another set, such as a rule's.
    pub(super) fn extend(&mut self, other: &Self) {
        self.list.extend_from_slice(&other.list);
    }

    /// Is there nothing to know?
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The declarations in the order in which they take effect: important ones last.
    pub(super) fn iter(&self) -> impl Iterator<Item = Declared> + '_ {
        let of = |wanted: bool| {
            self.list.iter().filter(move |(_, important)| *important == wanted).map(|entry| entry.0)
        };
        of(false).chain(of(true))
    }

    /// Level of a list item written by Word as a paragraph, from 1.
    pub(in crate::clean) fn word_list_level(&self) -> Option<u8> {
        self.iter().find_map(|declared| match declared {
            Declared::WordListLevel(level) => Some(level),
            _ => None,
        })
    }

    /// Is this the span in which Word keeps an item's marker?
    pub(in crate::clean) fn is_word_marker(&self) -> bool {
        self.iter().any(|declared| declared == Declared::WordIgnore)
    }

    /// Is the text struck out?
    pub(in crate::clean) fn line_through(&self) -> bool {
        self.last_bool(|declared| match declared {
            Declared::LineThrough(on) => Some(on),
            _ => None,
        })
    }

    /// Is the border turned off, as editors do when they abuse a quote for indenting?
    pub(in crate::clean) fn border_none(&self) -> bool {
        self.last_bool(|declared| match declared {
            Declared::BorderNone(on) => Some(on),
            _ => None,
        })
    }

    fn last_bool(&self, pick: impl Fn(Declared) -> Option<bool>) -> bool {
        self.iter().filter_map(pick).last().unwrap_or(false)
    }
}

/// The text without comments and with escapes resolved; nearly always the text itself.
pub(super) fn plain(css: &str) -> Cow<'_, str> {
    if !css.contains('\\') && !css.contains("/*") {
        return Cow::Borrowed(css);
    }
    let mut plain = String::with_capacity(css.len());
    let mut rest = css;
    while let Some(at) = rest.find(['\\', '/']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.find("*/").map_or("", |end| &comment[end + 2..]);
        } else if let Some(escaped) = rest.strip_prefix('\\') {
            rest = unescape(escaped, &mut plain);
        } else {
            plain.push('/');
            rest = &rest[1..];
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

fn unescape<'a>(escaped: &'a str, plain: &mut String) -> &'a str {
    let digits = escaped.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
    if digits == 0 {
        let mut characters = escaped.chars();
        plain.extend(characters.next().filter(|&character| character != '\n'));
        return characters.as_str();
    }
    let code = u32::from_str_radix(&escaped[..digits], 16).unwrap_or(0);
    plain.push(char::from_u32(code).filter(|&c| c != '\0').unwrap_or('\u{fffd}'));
    let rest = &escaped[digits..];
    rest.strip_prefix([' ', '\t', '\n']).unwrap_or(rest)
}

/// Declarations separated by semicolons that are not inside quotes or brackets.
fn split_declarations(css: &str) -> impl Iterator<Item = &str> {
    let mut rest = css;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (mut depth, mut quote) = (0_u32, None);
        let end = rest.bytes().position(|byte| {
            match (quote, byte) {
                (Some(open), _) if open == byte => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'(') => depth += 1,
                (None, b')') => depth = depth.saturating_sub(1),
                (None, b';') => return depth == 0,
                _ => {}
            }
            false
        });
        let declaration = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or("", |end| &rest[end + 1..]);
        Some(declaration)
    })
}

fn without_important(value: &str) -> (&str, bool) {
    match value.rfind('!') {
        Some(at) if value[at + 1..].trim().eq_ignore_ascii_case("important") => {
            (value[..at].trim_end(), true)
        }
        _ => (value, false),
    }
}

/// Reads one property; what is unknown or not valid is passed over, as a browser does.
fn read_property(name: &str, value: &str, found: &mut dyn FnMut(Declared)) {
    // Most properties of real markup are about fonts, margins and borders that nobody reads here.
    let mut buffer = [0_u8; 24];
    let Some(lower) = buffer.get_mut(..name.len()) else { return };
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    let lower = &*lower;
    let declared = match lower {
        b"color" | b"-webkit-text-fill-color" => Color::parse(value).map(Declared::Color),
        b"background" | b"background-color" | b"background-image" => {
            background(value).map(Declared::Background)
        }
        b"font-size" => font_size(value).map(Declared::FontSize),
        b"font" => value
            .split([' ', '/'])
            .find_map(|part| Length::parse(part).filter(|_| !part.is_empty()))
            .map(Declared::FontSize),
        b"display" => super::computed::display(value).map(Declared::Display),
        b"visibility" => super::computed::visibility(value).map(Declared::Hidden),
        b"content-visibility" => Some(Declared::ClippedAway(value.eq_ignore_ascii_case("hidden"))),
        b"opacity" => number(value).map(Declared::Opacity),
        b"filter" => function_argument(value, "opacity").and_then(number).map(Declared::Opacity),
        b"white-space" | b"white-space-collapse" => {
            super::TextSpace::parse(value).map(Declared::WhiteSpace)
        }
        b"float" => Some(Declared::Floats(!value.eq_ignore_ascii_case("none"))),
        b"text-decoration" | b"text-decoration-line" => {
            Some(Declared::LineThrough(contains_word(value, "line-through")))
        }
        b"border" => Some(Declared::BorderNone(contains_word(value, "none"))),
        b"mso-list" => return word_list(value, found),
        _ => return read_box_property(lower, value, found),
    };
    if let Some(declared) = declared {
        found(declared);
    }
}

/// Properties of size and place, with which text can be put out of sight.
fn read_box_property(name: &[u8], value: &str, found: &mut dyn FnMut(Declared)) {
    let length = || Length::parse(value);
    let declared = match name {
        b"overflow" | b"overflow-x" | b"overflow-y" => {
            let visible = value.eq_ignore_ascii_case("visible");
            Some(Declared::Clips(!visible))
        }
        b"width" | b"inline-size" => length().map(Declared::Width),
        b"height" | b"block-size" => length().map(Declared::Height),
        b"max-width" => length().map(Declared::MaxWidth),
        b"max-height" => length().map(Declared::MaxHeight),
        b"position" => {
            let out = ["absolute", "fixed"].iter().any(|kind| value.eq_ignore_ascii_case(kind));
            found(Declared::OutOfFlow(out));
            Some(Declared::Positioned(!value.eq_ignore_ascii_case("static")))
        }
        b"left" | b"top" => length().map(Declared::Shift),
        b"right" | b"bottom" => length().map(Declared::OppositeShift),
        b"text-indent" => length().map(Declared::TextIndent),
        b"margin-left" | b"margin-top" => length().map(Declared::MarginStart),
        b"margin" => {
            let sides: Vec<_> = value.split_ascii_whitespace().map(Length::parse).collect();
            for side in [sides.first(), sides.get(3).or(sides.get(1))] {
                if let Some(&Some(length)) = side {
                    found(Declared::MarginStart(length));
                }
            }
            None
        }
        b"clip" | b"clip-path" | b"transform" | b"scale" | b"translate" => {
            super::computed::takes_away(name, value).map(Declared::ClippedAway)
        }
        _ => None,
    };
    if let Some(declared) = declared {
        found(declared);
    }
}

fn background(value: &str) -> Option<Background> {
    let is_picture = |part: &str| part.contains("url(") || part.contains("gradient(");
    let lower = value.to_ascii_lowercase();
    if is_picture(&lower) {
        return Some(Background::Picture);
    }
    // A colour function may hold spaces; otherwise the colour is one of the words.
    let whole = Color::parse(value);
    whole
        .or_else(|| {
            let open = lower.find("rgb").or_else(|| lower.find("hsl"))?;
            let close = lower[open..].find(')')? + open;
            Color::parse(&lower[open..=close])
        })
        .or_else(|| value.split_ascii_whitespace().find_map(Color::parse))
        .map(Background::Color)
}

fn font_size(value: &str) -> Option<Length> {
    const WORDS: &[(&str, f32)] = &[
        ("xx-small", 9.0),
        ("x-small", 10.0),
        ("small", 13.0),
        ("medium", 16.0),
        ("large", 18.0),
        ("x-large", 24.0),
        ("xx-large", 32.0),
        ("initial", 16.0),
    ];
    Length::parse(value).filter(|length| length.pixels(1.0) >= 0.0).or_else(|| {
        WORDS
            .iter()
            .find(|(word, _)| value.eq_ignore_ascii_case(word))
            .map(|&(_, px)| Length::Px(px))
    })
}

fn number(value: &str) -> Option<f32> {
    let value = value.trim();
    match value.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f32>().ok().map(|number| number / 100.0),
        None => value.parse().ok(),
    }
}

/// What stands in the brackets of `name(…)`.
pub(super) fn function_argument<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let at = value.to_ascii_lowercase().find(&format!("{name}("))?;
    let inside = &value[at + name.len() + 1..];
    Some(&inside[..inside.find(')').unwrap_or(inside.len())])
}

fn contains_word(value: &str, word: &str) -> bool {
    value.split([' ', '\t', '\n']).any(|part| part.eq_ignore_ascii_case(word))
}

/// Word writes `mso-list:l0 level2 lfo1` on an item and `mso-list:Ignore` on its marker.
fn word_list(value: &str, found: &mut dyn FnMut(Declared)) {
    if value.eq_ignore_ascii_case("ignore") {
        found(Declared::WordIgnore);
    }
    let level = value
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("level")?.parse::<u8>().ok());
    if let Some(level) = level {
        found(Declared::WordListLevel(level.clamp(1, 9)));
    }
}
