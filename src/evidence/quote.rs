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
}

impl Squeezed {
    pub fn of(text: &str) -> Self {
        let mut squeezed =
            Self { text: Vec::with_capacity(text.len()), ascii: Vec::new(), lines: vec![(0, 0)] };
        let mut buffer = [0; 4];
        let plain = text.is_ascii();
        for c in text.chars() {
            if is_blank(c) {
                if c == '\n' {
                    squeezed.lines.push((squeezed.text.len(), squeezed.ascii.len()));
                }
                continue;
            }
            squeezed.text.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            if !plain && c.is_ascii() {
                squeezed.ascii.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            }
        }
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

    fn places_of(&self, pieces: &[Vec<u8>], ascii: bool) -> Vec<(u32, u32)> {
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

fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}')
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
        self.readings.is_empty()
            || self.text.chars().filter(|c| c.is_alphanumeric()).count() < LEAST
    }

    /// Whether it can be told from other code.
    pub fn is_telling(&self) -> bool {
        let length = |pieces: &Vec<Vec<u8>>| pieces.iter().map(Vec::len).max().unwrap_or_default();
        self.readings.iter().map(length).max().unwrap_or_default() >= TELLING
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
    let mut all = vec![Vec::new()];
    let mut buffer = [0; 4];
    for line in text.lines() {
        let bare = line.trim().trim_start_matches(['/', '#', '-', ' ']);
        if matches!(bare, "..." | "\u{2026}" | "[...]" | "(...)") {
            all.push(Vec::new());
            continue;
        }
        let Some(piece) = all.last_mut() else { continue };
        for c in line.chars().filter(|c| !is_blank(*c) && (!ascii || c.is_ascii())) {
            piece.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        }
    }
    all.retain(|piece| !piece.is_empty());
    all
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
