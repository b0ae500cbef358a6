//! Variables: those that a text declares, and those of the page around it, which we do not know.

use std::borrow::Cow;
use std::ops::Range;

use super::lists::bare;
use super::paint::{Field, Paint, paint_word};
use super::text::Text;

/// Names of variables, each as one of 64 bits: whether a text declares one that it uses.
pub(super) type Names = u64;

/// Small and capital letters count as the same here.
pub(super) fn name_of(variable: &str) -> Names {
    let bytes = variable.trim().bytes().map(|byte| byte.to_ascii_lowercase());
    1 << (bytes.fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 64)
}

/// Parts of the names of variables that fit a property: those of sizes and spaces hide no text.
const FITTING: [(&str, &str); 7] = [
    ("font", "font text size type heading body"),
    ("line-height", "line height leading font"),
    ("letter-spacing", "letter tracking spacing font"),
    ("box-shadow", "shadow ring elevation depth"),
    ("padding", "spac pad gap inset gutter"),
    ("margin", "spac margin gap gutter"),
    ("border", "border stroke line radius width color"),
];

/// The first `var(…)` of a value: where it is, its name, and what counts without it.
pub(super) fn first_variable(value: &str) -> Option<(Range<usize>, &str, &str)> {
    let from = value.find("var(")?;
    let mut depth = 0_usize;
    let length = value[from..].find(|character: char| {
        depth = match character {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        character == ')' && depth == 0
    })?;
    let inside = &value[from + 4..from + length];
    let (name, other) = inside.split_once(',').unwrap_or((inside, ""));
    Some((from..from + length + 1, name.trim(), other.trim()))
}

/// How the names of variables begin that pages of trackers declare, those of the code editor in them
/// included. Any other is one of the page that a text was copied from, and is not declared here.
const OF_TRACKERS: &str = "palette text background component communication callout status nav search \
    icon third focus selection primary accent vscode monaco link border foreground surface color";

pub(super) fn is_of_tracker(name: &str) -> bool {
    let name = name.trim_start_matches('-');
    let first = name.split('-').next().unwrap_or("");
    OF_TRACKERS.split_ascii_whitespace().any(|known| known == first)
}

/// A value with what stands in it for variables that are not declared, and their names. `None` if
/// one of them is not by its name a variable for this property.
pub(super) fn without(property: &str, value: &str) -> Option<(String, Names)> {
    let (_, fitting) = FITTING.iter().find(|(start, _)| property.starts_with(start))?;
    let (mut value, mut names) = (value.to_owned(), 0);
    for _ in 0..8 {
        if !value.contains("var(") {
            return Some((value, names));
        }
        let (at, name, other) = first_variable(&value)?;
        if !fitting.split(' ').any(|part| name.contains(part)) {
            return None;
        }
        names |= name_of(name);
        if other.is_empty() {
            // A browser takes the whole declaration for one that is not there.
            return Some(("unset".to_owned(), names));
        }
        let other = other.to_owned();
        value.replace_range(at, &other);
    }
    None
}

/// Puts variables that a list declares into its own colours and shadows: pages copied from the web have
/// `--text-opacity:1;color:rgb(0 0 0/var(--text-opacity))`. Only into colours that can then be read:
/// a browser takes any other for the one further out.
pub(super) fn use_own(list: &mut [(String, Text<'_>)]) {
    // A value in small letters is as it was written, so its names are the variables' names.
    let is_plain = |text: &Text<'_>| {
        matches!(text.text, Cow::Borrowed(_)) && !text.is_broken && !text.has_braces
    };
    let is_variable = |name: &str| name.starts_with("--");
    if !list.iter().any(|(name, _)| is_variable(name)) {
        return;
    }
    let variables: Vec<(String, Option<String>)> = list
        .iter()
        .filter(|(name, _)| is_variable(name))
        .map(|(name, text)| {
            let is_usable = is_plain(text) && text.text.len() <= 64;
            (name.clone(), is_usable.then(|| text.text.to_string()))
        })
        .collect();
    let value_of = |name: &str| {
        let mut of_name = variables.iter().filter(|(known, _)| known == name);
        of_name.next().filter(|_| of_name.next().is_none())?.1.as_deref()
    };
    for (name, text) in list.iter_mut().filter(|(name, text)| !is_variable(name) && is_plain(text))
    {
        let Some(name) = bare(name) else { continue };
        let field = match name {
            "color" => Some(Field::Color),
            "text-fill-color" => Some(Field::Fill),
            "background" | "background-color" => Some(Field::Background),
            "box-shadow" => None,
            _ => continue,
        };
        let mut color = text.text.to_string();
        for _ in 0..6 {
            let Some((at, variable, _)) = first_variable(&color) else { break };
            let Some(value) = value_of(variable) else { break };
            color.replace_range(at, value);
        }
        let is_color = |field| {
            matches!(paint_word(&color, field), Some(Paint::Color(_) | Paint::Undeclared(..)))
        };
        if color != *text.text && field.is_none_or(is_color) {
            text.text = Cow::Owned(color);
        }
    }
}
