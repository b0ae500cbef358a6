//! Variables: those that a text declares, and those of the page around it, which we do not know.

use std::borrow::Cow;

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

/// A value with what stands in it for variables that are not declared, and their names. `None` if
/// one of them is not by its name a variable for this property.
pub(super) fn without(property: &str, value: &str) -> Option<(String, Names)> {
    let (_, fitting) = FITTING.iter().find(|(start, _)| property.starts_with(start))?;
    let (mut value, mut names) = (value.to_owned(), 0);
    for _ in 0..8 {
        let Some(at) = value.find("var(") else { return Some((value, names)) };
        let mut depth = 0_usize;
        let end = at
            + value[at..].find(|character: char| {
                depth = match character {
                    '(' => depth + 1,
                    ')' => depth.saturating_sub(1),
                    _ => depth,
                };
                character == ')' && depth == 0
            })?;
        let inside = &value[at + 4..end];
        let (name, other) = inside.split_once(',').unwrap_or((inside, ""));
        if !fitting.split(' ').any(|part| name.contains(part)) {
            return None;
        }
        names |= name_of(name);
        if other.trim().is_empty() {
            // A browser takes the whole declaration for one that is not there.
            return Some(("unset".to_owned(), names));
        }
        let other = other.trim().to_owned();
        value.replace_range(at..=end, &other);
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
            let is_usable = is_plain(text) && text.text.len() <= 64 && !text.text.contains("var(");
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
        for _ in 0..4 {
            let Some((before, rest)) = color.split_once("var(") else { break };
            let Some((inside, after)) = rest.split_once(')') else { break };
            let variable = inside.split(',').next().unwrap_or("").trim();
            let Some(value) = value_of(variable) else { break };
            color = format!("{before}{value}{after}");
        }
        let is_color = |field| matches!(paint_word(&color, field), Some(Paint::Color(_)));
        if color != *text.text && field.is_none_or(is_color) {
            text.text = Cow::Owned(color);
        }
    }
}
