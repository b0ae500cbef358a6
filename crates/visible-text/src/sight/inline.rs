//! Reads a `style` attribute.

use std::borrow::Cow;

use cssparser::{Delimiter, ParseError, Parser};

use super::declared::Declared;
use super::lists::{Effect, bare};
use super::paint::{Field, Paint, paint_word};
use super::text::Text;
use crate::VisibilityIssue;
use crate::parse::floor_char_boundary;

/// A longer `style` attribute is not read to its end, in bytes.
const MAX_INLINE: usize = 16 << 10;

/// Declarations read of one list.
const MAX_DECLARATIONS: usize = 200;

/// Reads a `style` attribute; what cannot be read of it is an effect.
pub(super) fn read_inline<'i>(css: &'i str, into: &mut Declared) -> Vec<(String, Text<'i>)> {
    let mut found = read_list(css, into);
    use_own_variables(&mut found);
    found
}

/// Puts variables that a list declares into its own colours: pages copied from the web have
/// `--text-opacity:1;color:rgb(0 0 0/var(--text-opacity))`. Only into colours that can then be read:
/// a browser takes any other for the one further out.
pub(super) fn use_own_variables(list: &mut [(String, Text<'_>)]) {
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
        let field = match bare(name) {
            Some("color") => Field::Color,
            Some("text-fill-color") => Field::Fill,
            Some("background" | "background-color") => Field::Background,
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
        if color != *text.text && matches!(paint_word(&color, field), Some(Paint::Color(_))) {
            text.text = Cow::Owned(color);
        }
    }
}

fn read_list<'i>(css: &'i str, into: &mut Declared) -> Vec<(String, Text<'i>)> {
    let mut list = Vec::new();
    // cssparser skips a stray brace, a browser drops its declaration.
    if css.contains(['{', '}']) {
        into.effect("style", Some(Effect::May(VisibilityIssue::Malformed)));
    }
    let mut input = Parser::new(&css[..floor_char_boundary(css, MAX_INLINE)]);
    while !input.is_exhausted() && list.len() < MAX_DECLARATIONS {
        // An invalid declaration is dropped, as in a browser.
        list.extend(input.parse_until_after(Delimiter::Semicolon, declaration).ok());
    }
    if !input.is_exhausted() || css.len() > MAX_INLINE {
        into.effect("style", Some(Effect::May(VisibilityIssue::Budget)));
    }
    list
}

/// A name in small letters, and its value.
pub(super) fn declaration<'i>(
    input: &mut Parser<'i>,
) -> Result<(String, Text<'i>), ParseError<()>> {
    let name = input.expect_ident_cloned()?;
    input.expect_colon()?;
    // The names of variables are the only ones in which capitals count.
    let is_variable = name.starts_with("--");
    let name = if is_variable { name.to_string() } else { name.to_ascii_lowercase() };
    Ok((name, Text::read(input)))
}
