//! Inline markup of Jira's wiki format.

use super::adf::escaped;
use super::parse::floor_char_boundary;

/// How far to search for the end of a mark.
const MAX_SPAN: usize = 2_000;
/// Maximum depth of nested colours.
const MAX_COLOURS: usize = 20;

/// Converts lines; a colour may span several.
#[derive(Default)]
pub(super) struct Inline {
    colours: Vec<String>,
}

impl Inline {
    /// Converts one line to HTML. A colour that spans paragraphs, items or cells is started again
    /// in each, since those close what is open in them. Of several, only the innermost is visible.
    pub fn write(&mut self, line: &str, html: &mut String) {
        self.begin_colour(html);
        self.write_set(line, html);
        self.end_colour(html);
    }

    /// The current text colour, if it is not the default.
    pub fn colour(&self) -> Option<&str> {
        self.colours.last().map(String::as_str)
    }

    fn begin_colour(&self, html: &mut String) {
        if let Some(colour) = self.colours.last() {
            html.push_str(&format!("<span style=\"color:{colour}\">"));
        }
    }

    fn end_colour(&self, html: &mut String) {
        if !self.colours.is_empty() {
            html.push_str("</span>");
        }
    }

    fn write_set(&mut self, line: &str, html: &mut String) {
        // Positions where a mark ends, the nearest last.
        let mut ends: Vec<(usize, &'static str)> = Vec::new();
        let mut at = 0;
        while at < line.len() {
            if let Some(&(end, tag)) = ends.last()
                && at >= end
            {
                ends.pop();
                if at == end {
                    html.push_str(tag);
                    at += 1;
                    continue;
                }
            }
            let rest = &line[at..];
            let taken = self.link_or_macro(rest, html).or_else(|| {
                let before = line[..at].chars().next_back();
                let (open, close, length) = emphasis(before, rest)?;
                // Overlapping marks are treated as text.
                let end = at + length;
                if ends.last().is_some_and(|(outer, _)| end >= *outer) {
                    return None;
                }
                html.push_str(open);
                ends.push((end, close));
                Some(1)
            });
            at += taken.unwrap_or_else(|| {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                html.push_str(&escaped(&rest[..length]));
                length
            });
        }
    }

    /// A construct with its own sign; returns how many bytes it took.
    fn link_or_macro(&mut self, rest: &str, html: &mut String) -> Option<usize> {
        match rest.as_bytes()[0] {
            b'\\' if rest.starts_with("\\\\") => {
                html.push_str("<br>");
                Some(2)
            }
            b'\\' => {
                let next = rest[1..].chars().next().filter(char::is_ascii_punctuation)?;
                html.push_str(&escaped(&next.to_string()));
                Some(1 + next.len_utf8())
            }
            b'[' => link(rest, html),
            b'!' => picture(rest, html),
            b'{' => self.braces(rest, html),
            _ => None,
        }
    }

    fn braces(&mut self, rest: &str, html: &mut String) -> Option<usize> {
        if let Some(inside) = rest.strip_prefix("{{") {
            let looked_at = within(inside);
            let is_end = |at: &usize| !looked_at[..*at].ends_with('\\');
            let end = looked_at
                .match_indices('}')
                .map(|(at, _)| at)
                .find(|at| looked_at[*at..].starts_with("}}") && is_end(at))?;
            html.push_str(&format!("<code>{}</code>", escaped(&unescaped(&inside[..end]))));
            return Some(end + 4);
        }
        let (name, _) = within(rest).get(1..)?.split_once('}')?;
        let length = name.len() + 2;
        if name == "color" {
            self.end_colour(html);
            self.colours.pop();
            self.begin_colour(html);
            return Some(length);
        }
        if let Some(colour) = name.strip_prefix("color:") {
            if self.colours.len() < MAX_COLOURS {
                let plain = |c: &char| {
                    c.is_ascii_alphanumeric() || matches!(c, '#' | '(' | ')' | ',' | '.' | '%')
                };
                let colour: String = colour.chars().filter(plain).take(40).collect();
                self.end_colour(html);
                self.colours.push(colour);
                self.begin_colour(html);
            }
            return Some(length);
        }
        // Anchors and tables of contents display nothing.
        let is_unseen = name.starts_with("anchor:") || name == "toc" || name == "panel";
        is_unseen.then_some(length)
    }
}

/// Removes the backslash of escaped signs.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let is_stroke =
            character == '\\' && characters.peek().is_some_and(char::is_ascii_punctuation);
        out.extend(if is_stroke { characters.next() } else { Some(character) });
    }
    out
}

/// The part of a text that is searched for an end.
fn within(text: &str) -> &str {
    &text[..floor_char_boundary(text, MAX_SPAN)]
}

/// `[words|address]`, `[address]`, `[~user]`, `[^file]`, `[#place]`.
fn link(rest: &str, html: &mut String) -> Option<usize> {
    let end = within(rest).find(']')?;
    let inside = &rest[1..end];
    if inside.is_empty() || inside.contains('[') {
        return None;
    }
    let shown = if let Some(user) = inside.strip_prefix('~') {
        format!("@{}", escaped(user.trim_start_matches("accountid:")))
    } else if let Some(file) = inside.strip_prefix('^') {
        format!("[file {}]", escaped(file))
    } else {
        let (words, address) = match inside.split_once('|') {
            Some((words, address)) => (words, address.split('|').next().unwrap_or_default()),
            None => (inside, inside),
        };
        let address = address.trim();
        let user = address.strip_prefix('~').map(|_| words);
        match user {
            Some(words) => format!("@{}", escaped(words)),
            None if address.contains(':') || address.starts_with('#') => {
                let words = if words.trim().is_empty() { address } else { words };
                format!("<a href=\"{}\">{}</a>", escaped(address), escaped(words))
            }
            None => return None,
        }
    };
    html.push_str(&shown);
    Some(end + 1)
}

/// `!picture.png|options!`.
fn picture(rest: &str, html: &mut String) -> Option<usize> {
    let inside = within(rest).get(1..)?;
    let end = inside.find('!')?;
    let name = inside[..end].split('|').next().unwrap_or_default();
    let is_name = !name.is_empty()
        && !name.contains(char::is_whitespace)
        && (name.contains('.') || name.contains("://"));
    if !is_name {
        return None;
    }
    html.push_str(&format!("<img src=\"{}\">", escaped(name)));
    Some(end + 2)
}

/// A mark around words, such as `*bold*`: its tags, and where it ends.
fn emphasis(before: Option<char>, rest: &str) -> Option<(&'static str, &'static str, usize)> {
    let sign = rest.chars().next()?;
    let (open, close) = match sign {
        '*' => ("<b>", "</b>"),
        '_' => ("<i>", "</i>"),
        '+' => ("<u>", "</u>"),
        '-' => ("<s>", "</s>"),
        '^' => ("<sup>", "</sup>"),
        '~' => ("<sub>", "</sub>"),
        _ => return None,
    };
    let is_word = |c: char| c.is_alphanumeric();
    if before.is_some_and(|c| is_word(c) || c == sign) {
        return None;
    }
    let inside = &within(rest)[1..];
    if inside.starts_with(|c: char| c.is_whitespace() || c == sign) {
        return None;
    }
    let mut last = None;
    for (at, character) in inside.char_indices() {
        let ends = character == sign && last.is_some_and(|c: char| !c.is_whitespace() && c != '\\');
        if ends && !inside[at + 1..].starts_with(|c: char| is_word(c) || c == sign) {
            return Some((open, close, at + 1));
        }
        last = Some(character);
    }
    None
}
