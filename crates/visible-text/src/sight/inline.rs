//! Reads a `style` attribute.

use cssparser::{Delimiter, ParseError, Parser};

use super::declared::Declared;
use super::lists::Effect;
use super::text::Text;
use super::variables::use_own;
use crate::VisibilityIssue;
use crate::parse::floor_char_boundary;

/// A longer `style` attribute is not read to its end, in bytes.
const MAX_INLINE: usize = 16 << 10;

/// Declarations read of one list.
const MAX_DECLARATIONS: usize = 200;

/// Reads a `style` attribute; what cannot be read of it is an effect.
pub(super) fn read_inline<'i>(css: &'i str, into: &mut Declared) -> Vec<(String, Text<'i>)> {
    let mut found = read_list(css, into);
    use_own(&mut found);
    found
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
