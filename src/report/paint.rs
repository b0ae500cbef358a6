//! Colour for terminals, none for pipes. Pure.

use std::ops::Range;

use crate::model::code_ranges;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Colour,
}

impl Paint {
    /// Follows the usual variables: `NO_COLOR` overrides `CLICOLOR_FORCE`, which overrides the
    /// terminal check.
    pub fn choose(no_color: Option<&str>, force: Option<&str>, is_terminal: bool) -> Self {
        let set = |value: Option<&str>| value.is_some_and(|value| !value.is_empty());
        let forced = set(force) && force != Some("0");
        if !set(no_color) && (forced || is_terminal) { Self::Colour } else { Self::Plain }
    }

    fn with(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub fn cyan(self, text: &str) -> String {
        self.with("36", text)
    }

    /// Colours a grade of a finding.
    pub fn grade(self, grade: &str, padded: &str) -> String {
        match grade {
            "high" => self.red(padded),
            "medium" => self.yellow(padded),
            _ => self.green(padded),
        }
    }

    /// Formats rows of `name value`: names are dimmed; names in capitals are alarms.
    pub fn rows(self, text: &str, indent: usize, width: usize) -> String {
        if self == Self::Plain {
            return text.to_owned();
        }
        let row = |line: &str| {
            let end = line.char_indices().nth(indent + width).map(|(end, _)| end);
            let Some((name, value)) = end.map(|end| line.split_at(end)) else {
                return line.to_owned();
            };
            let word = name.trim();
            let is_alarm = !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase());
            let name = if is_alarm { self.red(name) } else { self.dim(name) };
            let first = value.split([' ', ',', ':']).next().unwrap_or_default();
            let is_loud = first.len() > 2 && first.chars().all(|c| c.is_ascii_uppercase());
            format!("{name}{}", if is_loud { self.red(value) } else { value.to_owned() })
        };
        text.lines().map(|line| format!("{}\n", row(line))).collect()
    }

    /// Renders our own Markdown for a terminal: no markup, headings and emphasis in bold.
    pub fn markdown(self, text: &str) -> String {
        let code = code_ranges(text);
        let mut at = 0;
        let mut page = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let start = at;
            at += line.len();
            page.push_str(&self.markdown_line(&pieces(line.trim_end_matches('\n'), start, &code)));
            page.push('\n');
        }
        page
    }

    fn markdown_line(self, pieces: &[Piece<'_>]) -> String {
        if let [Piece::Text(line)] = pieces {
            let title = line.trim_start_matches('#');
            if title.len() < line.len() && title.starts_with(' ') {
                return self.bold(&unescape(title.trim()));
            }
        }
        let marks = pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.matches("**").count(),
            Piece::Code(_) => 0,
        });
        // A single mark stays as it is.
        let is_paired = marks.sum::<usize>().is_multiple_of(2);
        let (mut out, mut is_bold) = (String::new(), false);
        for piece in pieces {
            match piece {
                Piece::Code(code) if code.starts_with('`') && self == Self::Colour => {
                    out.push_str(&self.cyan(code.trim_matches('`')));
                }
                Piece::Code(code) => out.push_str(code),
                Piece::Text(text) => {
                    for (n, part) in text.split("**").enumerate() {
                        match (n > 0, is_paired) {
                            (true, true) => is_bold = !is_bold,
                            (true, false) => out.push_str("**"),
                            (false, _) => {}
                        }
                        let part = unescape(part);
                        let is_painted = is_bold && !part.is_empty();
                        out.push_str(&if is_painted { self.bold(&part) } else { part });
                    }
                }
            }
        }
        out
    }
}

/// A part of a line.
enum Piece<'a> {
    Code(&'a str),
    Text(&'a str),
}

/// The line that begins at `start`, divided at the code in it.
fn pieces<'a>(line: &'a str, start: usize, code: &[Range<usize>]) -> Vec<Piece<'a>> {
    let (mut pieces, mut done) = (Vec::new(), 0);
    let first = code.partition_point(|range| range.end <= start);
    for range in code[first..].iter().take_while(|range| range.start < start + line.len()) {
        let begin = range.start.saturating_sub(start);
        let end = (range.end - start).min(line.len());
        pieces.extend((done < begin).then(|| Piece::Text(&line[done..begin])));
        pieces.push(Piece::Code(&line[begin..end]));
        done = end;
    }
    pieces.extend((done < line.len()).then(|| Piece::Text(&line[done..])));
    pieces
}

/// The codes that [`Paint`] writes after an escape character.
const OWN_CODES: [&str; 7] = ["[0m", "[1m", "[2m", "[1;31m", "[33m", "[32m", "[36m"];

/// Whether the text after an escape character begins with one of our colour codes.
pub fn is_own_colour(text: &str) -> bool {
    OWN_CODES.iter().any(|code| text.starts_with(code))
}

/// Reverts the Markdown escapes of plain text.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) if c == '\\' && next.is_ascii_punctuation() => {
                out.extend(chars.next());
            }
            _ => out.push(c),
        }
    }
    out.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_variables_decide_about_colour() {
        for (no_color, force, terminal, expected) in [
            (None, None, true, Paint::Colour),
            (None, None, false, Paint::Plain),
            (Some("1"), None, true, Paint::Plain),
            (Some(""), None, true, Paint::Colour),
            (None, Some("1"), false, Paint::Colour),
            (None, Some("0"), false, Paint::Plain),
            (Some("1"), Some("1"), true, Paint::Plain),
        ] {
            assert_eq!(Paint::choose(no_color, force, terminal), expected);
        }
    }

    #[test]
    fn markdown_has_no_marks_left_on_a_terminal() {
        let text = "#### Likely causes\n\n- `a<b` is \\*wrong\\* &lt;here>\n\nrisk **high**\n";
        let plain = "Likely causes\n\n- `a<b` is *wrong* <here>\n\nrisk high\n";
        assert_eq!(Paint::Plain.markdown(text), plain);
        let coloured = Paint::Colour.markdown(text);
        assert!(coloured.contains("\x1b[1mLikely causes\x1b[0m"), "{coloured:?}");
        assert!(coloured.contains("\x1b[36ma<b\x1b[0m"), "{coloured:?}");
        assert_eq!(console::strip_ansi_codes(&coloured).replace('`', ""), plain.replace('`', ""));
    }

    #[test]
    fn code_stays_as_it_is_on_a_terminal() {
        let text = "**see `a ** b`** and `[a-z]\\(x &lt;`\n\n```\n\\d &amp; ** # **\n```\n";
        let plain = "see `a ** b` and `[a-z]\\(x &lt;`\n\n```\n\\d &amp; ** # **\n```\n";
        assert_eq!(Paint::Plain.markdown(text), plain);
        let coloured = Paint::Colour.markdown(text);
        assert!(coloured.contains("\x1b[36ma ** b\x1b[0m"), "{coloured:?}");
        assert_eq!(console::strip_ansi_codes(&coloured).replace('`', ""), plain.replace('`', ""));
    }

    #[test]
    fn rows_keep_their_words() {
        let text = "running     no\nAGENT       missing\n";
        assert_eq!(Paint::Plain.rows(text, 0, 12), text);
        let coloured = Paint::Colour.rows(text, 0, 12);
        assert!(coloured.contains("\x1b[1;31mAGENT"), "{coloured:?}");
        assert_eq!(console::strip_ansi_codes(&coloured), text);
    }
}
