//! Untrusted text, which must be made plain before it is shown.

use std::fmt;

use serde_json::Value;

use super::text::clip;
use super::{plain_json, plain_text};

/// Text from elsewhere: a tracker, an agent, a helper command, a model provider.
///
/// It cannot be printed by accident: it has no `Display`, and `Debug` hides the content. The
/// methods return text without characters that act on a terminal or a reader; a report, message or
/// comment then escapes it for its own format.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Untrusted<T = String>(T);

impl<T> Untrusted<T> {
    pub fn new(content: impl Into<T>) -> Self {
        Self(content.into())
    }

    /// The unchanged value: for decisions only, never for output.
    pub fn raw(&self) -> &T {
        &self.0
    }
}

impl Untrusted {
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(String::from_utf8_lossy(bytes).into_owned())
    }

    pub fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }

    /// The beginning, as one line of at most `longest` characters.
    pub fn line(&self, longest: usize) -> String {
        let text = plain_text(&self.0);
        clip(&text.split_whitespace().collect::<Vec<_>>().join(" "), longest)
    }

    /// The end, as one line of at most `longest` characters. Words that look like tokens are
    /// removed: programs that handle credentials may write them to standard error, and this text is
    /// stored and shown.
    pub fn tail_line(&self, longest: usize) -> String {
        let text = plain_text(&self.0);
        let words = text.split_whitespace();
        let words = words.map(|word| if is_secret(word) { "[removed]" } else { word });
        let line = words.collect::<Vec<_>>().join(" ");
        let cut = line.char_indices().rev().nth(longest.saturating_sub(1)).map_or(0, |(at, _)| at);
        match line.get(cut..) {
            Some(end) if cut > 0 => format!("…{end}"),
            _ => line,
        }
    }

    /// The last non-empty line, cleaned like [`Untrusted::tail_line`].
    pub fn last_line(&self, longest: usize) -> String {
        let last = self.0.lines().rev().find(|line| !line.trim().is_empty());
        Self::new(last.unwrap_or_default()).tail_line(longest)
    }
}

impl Untrusted<Value> {
    /// Makes every text in the value plain.
    pub fn into_plain(self) -> Value {
        plain_json(self.0)
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl<T> fmt::Debug for Untrusted<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Untrusted(…)")
    }
}

/// Whether a word looks like a token or a key: long, letters and digits, not a path or an address.
fn is_secret(word: &str) -> bool {
    const MIN_LEN: usize = 20;
    let body = word.rsplit(['=', ':', '"', '\'']).find(|part| !part.is_empty()).unwrap_or(word);
    let is_token =
        |character: char| character.is_ascii_alphanumeric() || "-_+.~=".contains(character);
    body.len() >= MIN_LEN
        && body.chars().all(is_token)
        && body.chars().any(|character| character.is_ascii_digit())
        && body.chars().any(|character| character.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::is_acting;

    struct Prints<T>(PhantomData<T>);

    /// Fallback for types without the inherent method below.
    trait Otherwise {
        fn is_printable(&self) -> bool {
            false
        }
    }

    impl<T> Otherwise for Prints<T> {}

    impl<T: fmt::Display> Prints<T> {
        #[expect(clippy::unused_self, reason = "found by method lookup")]
        fn is_printable(&self) -> bool {
            true
        }
    }

    #[test]
    fn it_cannot_be_printed_by_accident() {
        assert!(Prints::<String>(PhantomData).is_printable());
        assert!(!Prints::<Untrusted>(PhantomData).is_printable());
        assert!(!Prints::<Untrusted<Value>>(PhantomData).is_printable());
        let debug =
            format!("{:?} {:?}", Untrusted::from("word"), Untrusted::<Value>::new(json!("word")));
        assert!(!debug.contains("word"), "{debug}");
    }

    #[test]
    fn what_a_program_says_at_its_end_is_plain_and_holds_no_token() {
        let said = Untrusted::from_bytes(
            b"error: \x1b[31mdenied\x1b[0m for eyJhbGciOiJIUzI1NiJ9.x1y2z3\n\
              token=abcdefghij0123456789klmn at /usr/lib/git-core/git-remote-https-1.2.3\n\n",
        );
        let place = "[removed] at /usr/lib/git-core/git-remote-https-1.2.3";
        assert_eq!(said.tail_line(400), format!("error: [31mdenied[0m for [removed] {place}"));
        assert_eq!(said.last_line(400), place);
        assert_eq!(said.tail_line(5), "…1.2.3");
        assert_eq!(Untrusted::from(" \n ").last_line(400), "");
        assert!(Untrusted::from(" \n ").is_empty());
    }

    proptest! {
        #[test]
        fn whatever_it_is_one_plain_line_of_bounded_length_comes_out(
            text in "(\u{1b}|\u{202e}|\u{9b}|\r|\n|\t|\u{e0041}|\\PC|[a-z ]){0,60}",
            longest in 1_usize..50,
        ) {
            let untrusted = Untrusted::from(text.as_str());
            for line in [untrusted.line(longest), untrusted.tail_line(longest), untrusted.last_line(longest)] {
                prop_assert!(!line.chars().any(is_acting), "{:?}", line);
                prop_assert!(!line.contains(['\n', '\t']), "{:?}", line);
                prop_assert!(line.chars().count() <= longest + 1, "{:?}", line);
            }
        }
    }
}
