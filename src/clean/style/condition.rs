//! Conditions of `@media`, `@supports` and so on, for a desktop browser with a mouse and a light
//! theme: true, false or unknown.

use super::length::Length;

/// Assumed range of window widths.
const WIDTHS: (f32, f32) = (900.0, 2600.0);
/// Assumed range of window heights.
const HEIGHTS: (f32, f32) = (500.0, 1600.0);
/// Maximum depth of nested brackets.
const MAX_DEPTH: usize = 8;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Yes,
    No,
    Unknown,
}

impl Holds {
    fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }

    /// Both must hold.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Unknown,
        }
    }

    fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }
}

/// A list of media queries, in lower case.
pub(super) fn media(queries: &str) -> Holds {
    if queries.trim().is_empty() {
        return Holds::Yes;
    }
    split(queries, ',').into_iter().map(query).fold(Holds::No, Holds::or)
}

fn query(query: &str) -> Holds {
    let query = query.trim();
    let (negated, rest) = match query.strip_prefix("not ") {
        Some(rest) if !rest.trim_start().starts_with('(') => (true, rest.trim()),
        _ => (false, query.strip_prefix("only ").unwrap_or(query).trim()),
    };
    let end = rest.find(|c: char| !c.is_ascii_alphabetic() && c != '-').unwrap_or(rest.len());
    let (kind, features) = rest.split_at(end);
    let medium = match kind {
        "" => return condition(rest, MAX_DEPTH, &feature),
        "not" if !negated => return condition(rest, MAX_DEPTH, &feature),
        "all" | "screen" => Holds::Yes,
        "print" | "speech" | "aural" | "braille" | "embossed" | "handheld" | "projection"
        | "tty" | "tv" => Holds::No,
        _ => Holds::Unknown,
    };
    let features = features.trim();
    let holds = match features.strip_prefix("and") {
        Some(features) => medium.and(condition(features, MAX_DEPTH, &feature)),
        None if features.is_empty() => medium,
        None => Holds::Unknown,
    };
    if negated { holds.not() } else { holds }
}

/// A condition of `@supports`, in lower case. `selects` tells whether a selector can be parsed.
pub(super) fn supports(text: &str, selects: &dyn Fn(&str) -> bool) -> Holds {
    condition(text, MAX_DEPTH, &|inside| match inside.strip_prefix("selector:") {
        Some(selector) if selects(selector) => Holds::Yes,
        Some(_) => Holds::Unknown,
        None => supports_declaration(inside),
    })
}

fn supports_declaration(inside: &str) -> Holds {
    let Some((name, value)) = inside.split_once(':') else { return Holds::Unknown };
    let (name, value) = (name.trim(), value.trim());
    let is_known = match name {
        "display" => matches!(
            value,
            "none"
                | "block"
                | "inline"
                | "flex"
                | "grid"
                | "inline-block"
                | "inline-flex"
                | "inline-grid"
                | "contents"
                | "flow-root"
                | "table"
                | "list-item"
        ),
        "position" => matches!(value, "static" | "relative" | "absolute" | "fixed" | "sticky"),
        "color" | "background-color" => super::color::Color::parse(value).is_some(),
        "opacity" => value.parse::<f32>().is_ok(),
        "visibility" => matches!(value, "hidden" | "visible" | "collapse"),
        "width" | "height" | "margin" | "padding" | "font-size" => Length::parse(value).is_some(),
        _ => false,
    };
    if is_known { Holds::Yes } else { Holds::Unknown }
}

/// `not`, `and`, `or` and brackets; `test` decides about the innermost ones.
fn condition(text: &str, depth: usize, test: &dyn Fn(&str) -> Holds) -> Holds {
    let text = text.trim();
    if depth == 0 {
        return Holds::Unknown;
    }
    let parts = parts(text);
    match &parts[..] {
        [] => Holds::Unknown,
        [one] => bracket(one, depth, test),
        ["not", one] => bracket(one, depth, test).not(),
        _ => {
            let joined = |word: &str| parts.iter().skip(1).step_by(2).all(|part| *part == word);
            let holds = parts.iter().step_by(2).map(|part| bracket(part, depth, test));
            if parts.len().is_multiple_of(2) {
                Holds::Unknown
            } else if joined("and") {
                holds.fold(Holds::Yes, Holds::and)
            } else if joined("or") {
                holds.fold(Holds::No, Holds::or)
            } else {
                Holds::Unknown
            }
        }
    }
}

fn bracket(part: &str, depth: usize, test: &dyn Fn(&str) -> Holds) -> Holds {
    if let Some(selector) = part.strip_prefix("selector(").and_then(|rest| rest.strip_suffix(')')) {
        return test(&format!("selector:{selector}"));
    }
    let Some(inside) = part.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return Holds::Unknown;
    };
    let inside = inside.trim();
    if inside.starts_with('(') || inside.starts_with("not ") || inside.starts_with("not(") {
        condition(inside, depth - 1, test)
    } else {
        test(inside)
    }
}

/// Words and bracketed groups, each in one piece.
fn parts(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut from) = (0_usize, None);
    for (at, byte) in text.bytes().enumerate() {
        if depth == 0 && byte.is_ascii_whitespace() {
            found.extend(from.take().map(|from: usize| &text[from..at]));
            continue;
        }
        // `and(` is a word and a bracket.
        if depth == 0
            && byte == b'('
            && from.is_some_and(|from: usize| matches!(&text[from..at], "and" | "or" | "not"))
        {
            found.extend(from.take().map(|from: usize| &text[from..at]));
        }
        from.get_or_insert(at);
        match byte {
            b'(' => depth += 1,
            b')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    found.extend(from.take().map(|from: usize| &text[from..=at]));
                }
            }
            _ => {}
        }
    }
    found.extend(from.map(|from| &text[from..]));
    found
}

fn split(text: &str, at: char) -> Vec<&str> {
    let mut depth = 0_i32;
    text.split(move |character: char| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        character == at && depth <= 0
    })
    .collect()
}

fn feature(inside: &str) -> Holds {
    if let Some((name, value)) = inside.split_once(':') {
        return plain_feature(name.trim(), value.trim());
    }
    if inside.contains(['<', '>', '=']) {
        return range(inside);
    }
    match inside {
        "color" | "width" | "height" | "hover" | "any-hover" | "pointer" | "any-pointer" => {
            Holds::Yes
        }
        "monochrome" | "grid" => Holds::No,
        _ => Holds::Unknown,
    }
}

fn plain_feature(name: &str, value: &str) -> Holds {
    let (prefix, bare) = match name.split_at_checked(4) {
        Some(("min-" | "max-", bare)) => (&name[..3], bare),
        _ => ("", name),
    };
    let values = match bare {
        "width" | "device-width" => Some(WIDTHS),
        "height" | "device-height" => Some(HEIGHTS),
        _ => None,
    };
    if let (Some(values), Some(length)) = (values, Length::parse(value)) {
        let length = length.pixels(16.0, f32::NAN);
        return match prefix {
            "min" => between(values, |size| size >= length),
            "max" => between(values, |size| size <= length),
            _ if length < values.0 || length > values.1 => Holds::No,
            _ => Holds::Unknown,
        };
    }
    match (name, value) {
        ("prefers-color-scheme", _) => Holds::of(value == "light"),
        ("hover" | "any-hover", _) => Holds::of(value == "hover"),
        ("pointer" | "any-pointer", "fine") => Holds::Yes,
        ("pointer", _) => Holds::No,
        ("orientation", _) => Holds::of(value == "landscape"),
        ("min-color", "1" | "8") | ("grid", "0") => Holds::Yes,
        _ => Holds::Unknown,
    }
}

/// `width >= 400px`, `400px < width <= 900px`.
fn range(inside: &str) -> Holds {
    let spaced = inside
        .replace("<=", " ≤ ")
        .replace(">=", " ≥ ")
        .replace('<', " < ")
        .replace('>', " > ")
        .replace('=', " = ");
    let parts: Vec<&str> = spaced.split_whitespace().collect();
    let sizes = |name: &str| match name {
        "width" | "device-width" => Some(WIDTHS),
        "height" | "device-height" => Some(HEIGHTS),
        _ => None,
    };
    let compare = |name: &str, sign: &str, value: &str| {
        let (Some(values), Some(length)) = (sizes(name), Length::parse(value)) else {
            return Holds::Unknown;
        };
        let length = length.pixels(16.0, f32::NAN);
        match sign {
            "<" => between(values, |size| size < length),
            "≤" => between(values, |size| size <= length),
            ">" => between(values, |size| size > length),
            "≥" => between(values, |size| size >= length),
            _ => Holds::Unknown,
        }
    };
    let turned = |sign: &str| match sign {
        "<" => ">",
        "≤" => "≥",
        ">" => "<",
        "≥" => "≤",
        _ => "=",
    };
    match parts[..] {
        [name, sign, value] if sizes(name).is_some() => compare(name, sign, value),
        [value, sign, name] => compare(name, turned(sign), value),
        [low, first, name, second, high] => {
            compare(name, turned(first), low).and(compare(name, second, high))
        }
        _ => Holds::Unknown,
    }
}

/// True if it holds for the smallest and the largest value.
fn between((low, high): (f32, f32), test: impl Fn(f32) -> bool) -> Holds {
    match (test(low), test(high)) {
        (true, true) => Holds::Yes,
        (false, false) => Holds::No,
        _ => Holds::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_queries_hold_on_a_desktop() {
        for query in [
            "",
            "all",
            "screen",
            "only screen",
            "not print",
            "screen and (min-width:1px)",
            "print, screen",
            "(prefers-color-scheme:light)",
            "(min-width: 40em)",
            "not (max-width: 600px)",
            "(width >= 1px)",
            "(10px < width)",
            "(hover) and (pointer: fine)",
            "not all and (monochrome)",
            "(min-width:1px) or (max-width:2px)",
        ] {
            assert_eq!(media(query), Holds::Yes, "{query}");
        }
        for query in [
            "print",
            "not screen",
            "screen and (max-width:600px)",
            "(prefers-color-scheme: dark)",
            "(max-device-width: 480px)",
            "(100px < width < 200px)",
            "speech, print",
        ] {
            assert_eq!(media(query), Holds::No, "{query}");
        }
        for query in [
            "(min-width: 1200px)",
            "(scripting: enabled)",
            "(foo)",
            "squid",
            "(resolution: 1dppx)",
            "((((((((((width))))))))))",
        ] {
            assert_eq!(media(query), Holds::Unknown, "{query}");
        }
    }

    #[test]
    fn supports_what_every_browser_does() {
        let selects = |selector: &str| !selector.contains('!');
        for text in [
            "(display:grid)",
            "(display:grid) and (not (display: squid)) or (x:y)",
            "selector(:has(a))",
            "not (foo: bar)",
        ] {
            let holds = supports(text, &selects);
            assert!(holds != Holds::No, "{text}");
        }
        assert_eq!(supports("(display:grid)", &selects), Holds::Yes);
        assert_eq!(supports("not (display:grid)", &selects), Holds::No);
        assert_eq!(supports("selector(a)", &selects), Holds::Yes);
        assert_eq!(supports("(foo:bar)", &selects), Holds::Unknown);
    }
}
