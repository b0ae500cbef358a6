//! The value of a declaration as text: tokenised once, in lower case, without comments or escapes.

use std::borrow::Cow;

use cssparser::{Parser, ToCss, Token};

/// A value with more tokens is not evaluated.
const MAX_TOKENS: usize = 400;

/// A complete value.
#[derive(Debug, Clone, Default)]
pub(super) struct Text<'i> {
    /// In lower case, trimmed.
    pub(super) text: Cow<'i, str>,
    /// Whether it ends with `!important`.
    pub(super) important: bool,
    /// Whether it contains a block in braces, and may be a nested rule.
    pub(super) has_braces: bool,
    /// Whether it cannot be parsed as a browser does.
    pub(super) is_broken: bool,
    /// Whether something other than one `important` follows a `!`; a browser drops the declaration.
    pub(super) is_invalid: bool,
}

impl<'i> Text<'i> {
    /// Reads the rest of `input`.
    pub(super) fn read(input: &mut Parser<'i>) -> Self {
        let mut text = Text::default();
        input.skip_whitespace();
        let start = input.position();
        let mut end = start;
        let mut after_bang = false;
        let mut count = 0_usize;
        while let Ok(token) = input.next_including_whitespace_and_comments() {
            count += 1;
            if count > MAX_TOKENS {
                text.is_broken = true;
                while input.next().is_ok() {}
                break;
            }
            if after_bang {
                match token {
                    Token::WhiteSpace(_) | Token::Comment(_) => {}
                    Token::Ident(name)
                        if !text.important && name.eq_ignore_ascii_case("important") =>
                    {
                        text.important = true;
                    }
                    _ => text.is_invalid = true,
                }
                continue;
            }
            match token {
                Token::Delim('!') => {
                    after_bang = true;
                    // Not the place before it: after a function that is the place of its argument.
                    end = input.position();
                }
                Token::CurlyBracketBlock => text.has_braces = true,
                Token::BadString(_)
                | Token::BadUrl(_)
                | Token::CloseParenthesis
                | Token::CloseSquareBracket
                | Token::CloseCurlyBracket => text.is_broken = true,
                _ => {}
            }
        }
        text.is_invalid |= after_bang && !text.important;
        let slice = match after_bang {
            true => input.slice(start..end).trim_end_matches('!'),
            false => input.slice_from(start),
        };
        let plain_text: Cow<'i, str> = match slice.contains(['\\', '*']) {
            true => Cow::Owned(plain(slice)),
            false => Cow::Borrowed(slice.trim_matches(is_space)),
        };
        text.text = match plain_text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(plain_text.to_ascii_lowercase()),
            false => plain_text,
        };
        text
    }

    pub(super) fn is_computed_or_url(&self) -> bool {
        self.text.contains("url(") || self.is_computed()
    }

    /// Whether it contains a function that is not a colour.
    pub(super) fn is_computed(&self) -> bool {
        const COLORS: [&str; 12] = [
            "rgb", "rgba", "hsl", "hsla", "hwb", "lab", "lch", "oklab", "oklch", "color", "url",
            "format",
        ];
        let is_named = |before: &str| {
            let name = before
                .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
                .next()
                .unwrap_or("");
            COLORS.contains(&name)
        };
        self.text.match_indices('(').any(|(at, _)| !is_named(&self.text[..at]))
    }
}

/// The value without comments and escapes.
fn plain(value: &str) -> String {
    let mut input = Parser::new(value);
    let mut rebuilt = String::new();
    for _ in 0..MAX_TOKENS {
        let Ok(token) = input.next_including_whitespace_and_comments() else { break };
        write_plain(token, &mut rebuilt);
    }
    rebuilt.trim_matches(' ').to_owned()
}

/// White space of CSS, which has fewer kinds than Unicode: a value with another kind is invalid.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

/// The token without escapes; bracketed content is omitted, so that it is not mistaken for a known
/// value.
fn write_plain(token: &Token<'_>, out: &mut String) {
    match token {
        Token::Comment(_) => {}
        Token::WhiteSpace(_) => out.push(' '),
        Token::Ident(name) => out.push_str(name),
        Token::Function(_) | Token::ParenthesisBlock | Token::SquareBracketBlock => {
            out.push_str("unread()");
        }
        token => {
            // Writing to a string cannot fail.
            let _: std::fmt::Result = token.to_css(out);
        }
    }
}

/// The parts between white space, commas and slashes outside brackets and quotes.
pub(super) fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut depth, mut quote, mut from) = (0_usize, None, None);
    for (at, byte) in text.bytes().enumerate() {
        let splits = depth == 0
            && quote.is_none()
            && (byte.is_ascii_whitespace() || byte == b',' || byte == b'/');
        if splits {
            words.extend(from.take().map(|from: usize| &text[from..at]));
            continue;
        }
        match (quote, byte) {
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        from.get_or_insert(at);
    }
    words.extend(from.map(|from| &text[from..]));
    words
}

/// The argument of `name(…)`, if that is the whole word.
pub(super) fn argument<'a>(word: &'a str, name: &str) -> Option<&'a str> {
    word.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(css: &str) -> (String, bool, bool) {
        let text = Text::read(&mut Parser::new(css));
        (text.text.to_string(), text.important, text.is_broken || text.has_braces)
    }

    #[test]
    fn values_are_plain() {
        for (css, text, important) in [
            (" none ", "none", false),
            ("NONE !important", "none", true),
            ("rgb(1, 2, 3)!important", "rgb(1, 2, 3)", true),
            ("n\\6fne", "none", false),
            ("/* x */ none/**/!/**/important", "none", true),
            ("rgb(1, 2, 3) url(A.png)", "rgb(1, 2, 3) url(a.png)", false),
            ("calc(1px/**/)", "unread()", false),
        ] {
            assert_eq!(read(css), (text.to_owned(), important, false), "{css}");
        }
        let is_invalid = |css: &str| Text::read(&mut Parser::new(css)).is_invalid;
        assert!(!is_invalid("none ! important /**/") && !is_invalid("none"));
        for css in ["a !", "a !foo", "a !important !important", "a !important b", "a !import ant"] {
            assert!(is_invalid(css), "{css}");
        }
        assert!(read("a { b }").2 && read("a ) b").2 && read(&"x ".repeat(500)).2);
    }

    #[test]
    fn letters_of_any_length_stand_before_a_function() {
        let is_computed = |css: &str| Text::read(&mut Parser::new(css)).is_computed();
        assert!(is_computed("é\u{fffd}irgb(1)") && is_computed("日本(1)"));
        assert!(!is_computed("日 rgb(1,2,3)"));
    }

    #[test]
    fn words_end_outside_brackets() {
        assert_eq!(
            words("1px  solid rgb(1, 2, 3),x/y 'a b'"),
            ["1px", "solid", "rgb(1, 2, 3)", "x", "y", "'a b'"]
        );
        assert_eq!(argument("rect(0 1)", "rect"), Some("0 1"));
        assert_eq!(argument("rect(0 1", "rect"), None);
    }
}
