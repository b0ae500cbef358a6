//! Finds quotes in a text, white space aside.

use memchr::memmem;

/// More places are not counted.
const MAX_PLACES: usize = 1_000;
/// Lines that dots in a quote may stand for.
const MAX_GAP: u32 = 200;
/// Characters that a quote needs to be searched for; fewer are found anywhere.
const TELLING: usize = 10;
/// Letters and digits that a quote needs to show anything.
const LEAST: usize = 3;
/// Lines around its quote that an entry may name.
const SLACK: u32 = 40;

/// A text without white space.
#[derive(Debug)]
pub struct Squeezed {
    text: Vec<u8>,
    /// The same with ASCII only, for quotes of which some characters were not readable.
    ascii: Vec<u8>,
    /// Where each line begins, in both.
    lines: Vec<(usize, usize)>,
    /// Lines that are a comment as a whole, in order.
    comments: Vec<u32>,
}

impl Squeezed {
    pub fn of(text: &str) -> Self {
        let (mut whole, mut ascii) = (Squeezer::default(), Squeezer::default());
        whole.text.reserve(text.len());
        let mut lines = vec![(0, 0)];
        let plain = text.is_ascii();
        for c in text.chars() {
            if c == '\n' {
                lines.push((whole.text.len(), ascii.text.len()));
            }
            whole.push(c);
            if !plain && c.is_ascii() {
                ascii.push(c);
            }
        }
        let comments = comments(text);
        let mut squeezed = Self { text: whole.text, ascii: ascii.text, lines, comments };
        if plain {
            squeezed.lines.iter_mut().for_each(|line| line.1 = line.0);
        }
        squeezed
    }

    /// First and last line of each place of a quote, in order.
    pub fn places(&self, quote: &Quote) -> Vec<(u32, u32)> {
        for pieces in &quote.readings {
            let found = self.places_of(pieces, quote.is_unreadable);
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// Whether a quote is code that somebody put behind a comment's mark, which it leaves out.
    pub fn is_commented_out(&self, quote: &Quote, place: (u32, u32)) -> bool {
        quote.is_bare_code() && self.comments.binary_search(&place.0).is_ok()
    }

    fn places_of(&self, pieces: &[Vec<u8>], ascii: bool) -> Vec<(u32, u32)> {
        // A text that is readable as a whole has nothing that could not be read.
        if ascii && self.ascii.is_empty() {
            return Vec::new();
        }
        let text = if ascii && !self.ascii.is_empty() { &self.ascii } else { &self.text };
        let in_ascii = ascii && !self.ascii.is_empty();
        let Some((first, rest)) = pieces.split_first() else { return Vec::new() };
        let mut places = Vec::new();
        for start in memmem::find_iter(text, first).take(MAX_PLACES) {
            let mut end = start + first.len();
            let from = self.line(start, in_ascii);
            let all = rest.iter().all(|piece| match memmem::find(&text[end..], piece) {
                Some(at) => {
                    let near =
                        self.line(end + at, in_ascii) - self.line(end - 1, in_ascii) <= MAX_GAP;
                    end += at + piece.len();
                    near
                }
                None => false,
            });
            if all {
                places.push((from, self.line(end - 1, in_ascii)));
            }
        }
        places
    }

    fn line(&self, offset: usize, in_ascii: bool) -> u32 {
        let begins = |line: &(usize, usize)| if in_ascii { line.1 } else { line.0 };
        let count = self.lines.partition_point(|line| begins(line) <= offset);
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

/// Drops white space, except where it keeps two words or signs apart: `a - -b` is not `a--b`.
#[derive(Default)]
struct Squeezer {
    text: Vec<u8>,
    last: Option<char>,
    gap: bool,
}

impl Squeezer {
    fn push(&mut self, c: char) {
        if matches!(c, '\u{feff}' | '\u{200b}') {
            return;
        }
        if c.is_whitespace() {
            self.gap = true;
            return;
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let parts =
            |last: char| (is_word(last) && is_word(c)) || (last == c && matches!(c, '+' | '-'));
        if self.gap && self.last.is_some_and(parts) {
            self.text.push(b' ');
        }
        self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        (self.last, self.gap) = (Some(c), false);
    }
}

/// Marks at the begin of a line that make it a comment.
const COMMENT_MARKS: [&str; 4] = ["//", "#", "-- ", "<!--"];

/// The lines that are a comment as a whole: by their mark, or from a line that begins with `/*` on.
fn comments(text: &str) -> Vec<u32> {
    let mut lines = Vec::new();
    let mut open = false;
    for (line, number) in text.lines().zip(1..) {
        let bare = line.trim_start();
        open |= bare.starts_with("/*");
        if open || COMMENT_MARKS.iter().any(|mark| bare.starts_with(mark)) {
            lines.push(number);
        }
        open &= !bare.contains("*/");
    }
    lines
}

/// Whether a place is the one that an entry names.
pub fn is_at(place: (u32, u32), named: (u32, u32)) -> bool {
    let length = place.1 - place.0;
    let within = place.0 >= named.0 && place.1 <= named.1;
    place.0 == named.0 || (within && named.1 - named.0 <= length + SLACK)
}

/// A quote, ready to be searched for.
#[derive(Debug)]
pub struct Quote {
    text: String,
    /// The quote as it may be meant: as it is, then without line numbers before each line. Each is
    /// a list of pieces with something left out between them.
    readings: Vec<Vec<Vec<u8>>>,
    /// It has replacement characters: the agent could not read these bytes.
    is_unreadable: bool,
}

impl Quote {
    pub fn of(quote: &str) -> Self {
        let quote = without_fence(quote);
        let is_unreadable = quote.contains('\u{fffd}');
        let mut readings = vec![pieces(&quote, is_unreadable)];
        if let Some(bare) = without_numbers(&quote) {
            readings.push(pieces(&bare, is_unreadable));
        }
        readings.retain(|pieces| !pieces.is_empty());
        Self { text: quote, readings, is_unreadable }
    }

    pub fn is_too_short(&self) -> bool {
        // Crumbs with gaps between them are found in almost any file.
        let crumbs = |pieces: &Vec<Vec<u8>>| {
            pieces.len() > 1 && pieces.iter().all(|piece| piece.len() < TELLING)
        };
        self.readings.is_empty()
            || self.readings.iter().all(crumbs)
            || self.text.chars().filter(|c| c.is_alphanumeric()).count() < LEAST
    }

    /// Whether it can be told from other code.
    pub fn is_telling(&self) -> bool {
        let length = |pieces: &Vec<Vec<u8>>| pieces.iter().map(Vec::len).max().unwrap_or_default();
        self.readings.iter().map(length).max().unwrap_or_default() >= TELLING
    }

    /// Code without a comment's mark before it.
    fn is_bare_code(&self) -> bool {
        let start = self.text.trim_start();
        self.text.contains(['(', ')', '{', '}', '=', ';'])
            && !COMMENT_MARKS.iter().chain(&["/*", "*"]).any(|mark| start.starts_with(mark))
    }

    /// Its longest words, to find files that may have it.
    pub fn words(&self) -> Vec<&str> {
        const MAX: usize = 6;
        let mut words: Vec<&str> = self
            .text
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| {
                word.len() > 2 && word.is_ascii() && !word.starts_with(|c: char| c.is_ascii_digit())
            })
            .collect();
        words.sort_unstable_by_key(|word| (std::cmp::Reverse(word.len()), *word));
        words.dedup();
        words.truncate(MAX);
        words
    }
}

fn without_fence(quote: &str) -> String {
    let trimmed = quote.trim_matches(|c: char| c == '\n' || c == '\r');
    if trimmed.trim_start().starts_with("```") {
        let lines = trimmed.lines().filter(|line| !line.trim_start().starts_with("```"));
        return lines.collect::<Vec<_>>().join("\n");
    }
    let inner = trimmed.trim();
    let marked = inner.len() > 2 && inner.starts_with('`') && inner.ends_with('`');
    match marked && !inner[1..inner.len() - 1].contains('`') {
        true => inner[1..inner.len() - 1].to_owned(),
        false => trimmed.to_owned(),
    }
}

/// The text between lines that consist of dots.
fn pieces(text: &str, ascii: bool) -> Vec<Vec<u8>> {
    let mut all = vec![Squeezer::default()];
    for line in text.lines() {
        let bare = line.trim().trim_start_matches(['/', '#', '-', ' ']);
        if matches!(bare, "..." | "\u{2026}" | "[...]" | "(...)") {
            all.push(Squeezer::default());
            continue;
        }
        let Some(piece) = all.last_mut() else { continue };
        line.chars().filter(|c| !ascii || c.is_ascii()).for_each(|c| piece.push(c));
        piece.push('\n');
    }
    all.into_iter().map(|piece| piece.text).filter(|piece| !piece.is_empty()).collect()
}

/// The quote without the line numbers that tools print: `12<tab>`, `12→`, `12:` or `12 |`.
fn without_numbers(quote: &str) -> Option<String> {
    let bare = |line: &str| -> Option<String> {
        if line.trim().is_empty() {
            return Some(String::new());
        }
        let rest = line.trim_start();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let rest = Some(&rest[digits..]).filter(|_| (1..8).contains(&digits))?;
        let rest = rest.trim_start_matches(' ');
        rest.strip_prefix(['\t', '\u{2192}', ':', '|', '.']).map(str::to_owned)
    };
    let lines: Option<Vec<String>> = quote.lines().map(bare).collect();
    lines.map(|lines| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str, quote: &str) -> Vec<(u32, u32)> {
        Squeezed::of(text).places(&Quote::of(quote))
    }

    const CODE: &str = "fn total() {\r\n\tlet sum = 0;\r\n\r\n    return round(sum);\r\n}\r\n";

    #[test]
    fn white_space_line_ends_and_printed_line_numbers_do_not_matter() {
        for quote in [
            "let sum = 0;\n\n  return round(sum);",
            "let sum=0; return round( sum );",
            "     2\tlet sum = 0;\n     3\t\n     4\t    return round(sum);",
            "  2→let sum = 0;\n  3→\n  4→return round(sum);",
            "```rust\nlet sum = 0;\n\nreturn round(sum);\n```",
            "let sum = 0;\n// ...\nreturn round(sum);",
        ] {
            assert_eq!(places(CODE, quote), [(2, 4)], "{quote}");
        }
        assert_eq!(places(CODE, "`return round(sum);`"), [(4, 4)]);
        assert_eq!(places(CODE, "return rounded(sum);"), []);
        assert_eq!(places(CODE, "return round(sum);\n...\nlet sum = 0;"), [], "in order");
    }

    #[test]
    fn characters_that_were_not_readable_are_passed_over() {
        let text = "a\n// Gr\u{f6}\u{df}e in Zoll\nb";
        assert_eq!(places(text, "// Gr\u{fffd}\u{fffd}e in Zoll"), [(2, 2)]);
        assert_eq!(places(text, "// Gr\u{f6}\u{df}e in Zoll"), [(2, 2)]);
        assert_eq!(places(text, "// Gr\u{e4}\u{df}e in Zoll"), []);
    }

    #[test]
    fn white_space_matters_where_it_keeps_words_and_signs_apart() {
        let text = "let total = a - -b;\nnot_found(is Valid);\n";
        assert_eq!(places(text, "lettotal = a - -b;"), []);
        assert_eq!(places(text, "let total = a--b;"), []);
        assert_eq!(places(text, "not_found(isValid);"), []);
        assert_eq!(places(text, "let\n  total=a - -b ;"), [(1, 1)]);
    }

    #[test]
    fn a_mark_for_the_unreadable_stands_for_nothing_else() {
        assert_eq!(places("if (isValid(x)) {\n", "if (is\u{fffd}Valid(x)) {"), []);
    }

    #[test]
    fn a_place_is_named_by_its_first_line_or_by_lines_around_it() {
        assert!(is_at((10, 12), (10, 10)) && is_at((10, 12), (8, 15)));
        assert!(!is_at((10, 12), (11, 13)) && !is_at((10, 10), (9, 9)));
        assert!(!is_at((10, 10), (1, 99_999)), "naming the whole file names nothing");
    }

    #[test]
    fn a_quote_that_stands_very_often_is_counted_up_to_a_bound() {
        assert_eq!(places(&"return null;\n".repeat(5_000), "return null;").len(), MAX_PLACES);
    }
}
