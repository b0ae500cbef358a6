//! Writes the text line by line: white space as a browser collapses it, prefixes of quotes and
//! lists, table rows, and marks around text that was just written.

use super::Rendering;
use super::characters::STRIDE;
use super::sight::TextSpace;

/// Maximum columns of prefixes; deeper nesting adds none.
const MAX_INDENT: usize = 32;
/// Spaces kept at the start of a line that was indented with hard spaces.
const MAX_HARD_INDENT: usize = 12;

/// What must precede the next words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    None,
    Line,
    Blank,
}

/// Start of the lines of a quote, an item or a heading.
#[derive(Debug)]
struct Prefix {
    first: String,
    rest: String,
    /// Requested width in columns.
    width: usize,
    used: bool,
}

/// A table row under construction.
#[derive(Debug, Default)]
struct Row {
    /// Cells begun since the last words.
    pending_cells: usize,
    started: bool,
    /// Whether the current cell has any words.
    cell_started: bool,
    /// Number of prefixes that belong to the table, not to the cell.
    base: usize,
}

/// The text under construction.
#[derive(Debug)]
pub(super) struct Writer {
    out: String,
    rendering: Rendering,
    prefixes: Vec<Prefix>,
    indent: usize,
    gap: Gap,
    /// Spaces to write before the next word.
    spaces: usize,
    line_has_words: bool,
    row: Option<Row>,
    /// Start of each open span; the last `unset` of them have no words yet.
    marks: Vec<usize>,
    unset: usize,
    /// Nothing more is written after this many bytes.
    limit: usize,
    /// Bytes that did not fit.
    pub(super) overflow: usize,
}

impl Writer {
    /// Writes at most about `limit` bytes, with memory reserved for `expected`.
    pub(super) fn new(rendering: Rendering, limit: usize, expected: usize) -> Self {
        Self {
            out: String::with_capacity(expected),
            rendering,
            prefixes: Vec::new(),
            indent: 0,
            gap: Gap::None,
            spaces: 0,
            line_has_words: false,
            row: None,
            marks: Vec::new(),
            unset: 0,
            limit,
            overflow: 0,
        }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    /// Requests a gap before the next words. Inside an item without words, and in a table, a new
    /// line is the maximum.
    pub(super) fn gap(&mut self, gap: Gap) {
        let fresh = self.row.is_some() || self.prefixes.last().is_some_and(|prefix| !prefix.used);
        self.gap = self.gap.max(if fresh { gap.min(Gap::Line) } else { gap });
        self.spaces = 0;
    }

    /// Requests exactly a new line, replacing earlier requests.
    pub(super) fn close_line(&mut self) {
        self.gap = Gap::Line;
        self.spaces = 0;
    }

    /// A `<br>`: the second in a row makes an empty line.
    pub(super) fn line_break(&mut self) {
        if self.gap == Gap::None && self.line_has_words {
            self.gap = Gap::Line;
        } else if !self.out.is_empty() {
            self.gap(Gap::Blank);
        }
        self.spaces = 0;
    }

    /// The next line begins with `first`, later ones with `rest`.
    pub(super) fn push_prefix(&mut self, first: &str, rest: &str) {
        let width = rest.len();
        let has_room = self.indent + width <= MAX_INDENT;
        self.indent += width;
        let rest = if has_room { rest.to_owned() } else { String::new() };
        self.prefixes.push(Prefix { first: first.to_owned(), rest, width, used: false });
    }

    /// Adds the prefix of a list item. An outer item that contains only this one gets no bullet.
    pub(super) fn push_item(&mut self, marker: &str) {
        if let Some(outer) = self.prefixes.last_mut().filter(|outer| !outer.used)
            && outer.first == "- "
        {
            outer.first.clone_from(&outer.rest);
        }
        let indent = match self.rendering {
            Rendering::Full => marker.len(),
            Rendering::Tight => 1,
        };
        self.push_prefix(marker, &" ".repeat(indent));
    }

    pub(super) fn pop_prefix(&mut self) {
        if let Some(prefix) = self.prefixes.pop() {
            self.indent -= prefix.width;
        }
    }

    /// Writes text of the page.
    pub(super) fn text(&mut self, text: &str, space: TextSpace) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if is_space(first) {
                rest = self.white_space(rest, space);
                continue;
            }
            let run = if space == TextSpace::Keep { "" } else { plain_words(rest) };
            let end = if !run.is_empty() && self.takes_as_it_is(run) {
                self.start_words();
                self.out.push_str(run);
                run.len()
            } else {
                let end = rest.find(is_space).unwrap_or(rest.len());
                self.word(&rest[..end]);
                end
            };
            rest = &rest[end..];
        }
    }

    /// Whether these words can be written at once. Not in a table, where `|` is escaped, nor where
    /// they do not all fit.
    fn takes_as_it_is(&self, words: &str) -> bool {
        self.row.is_none() && self.out.len() + words.len() < self.limit.saturating_sub(MAX_INDENT)
    }

    /// Consumes one white-space character and returns the rest.
    fn white_space<'a>(&mut self, text: &'a str, space: TextSpace) -> &'a str {
        let mut characters = text.chars();
        let first = characters.next();
        let hard = first == Some('\u{a0}');
        let at_line_start = !self.line_has_words || self.gap != Gap::None;
        match first {
            Some('\n' | '\u{2028}' | '\u{2029}') if space != TextSpace::Collapse => {
                self.line_break();
            }
            _ if at_line_start => {
                // Hard spaces indent; others only count between them or where they are kept.
                if hard || space == TextSpace::Keep || self.spaces > 0 {
                    self.spaces += 1;
                }
            }
            Some('\t') if space == TextSpace::Keep => self.spaces += 4,
            _ if space == TextSpace::Keep => self.spaces += 1,
            _ => self.spaces = self.spaces.max(1),
        }
        characters.as_str()
    }

    /// Writes text without white space at its ends, such as a word.
    pub(super) fn word(&mut self, word: &str) {
        if self.out.len() + word.len() > self.limit {
            self.overflow += word.len();
            return;
        }
        self.start_words();
        if self.row.is_some() && word.contains('|') {
            self.out.push_str(&word.replace('|', "\\|"));
        } else {
            self.out.push_str(word);
        }
    }

    /// Appends a mark to the last word, before any pending white space.
    pub(super) fn append(&mut self, mark: &str) {
        self.out.push_str(mark);
    }

    /// Writes pending line, prefix, cell and space before the next words.
    fn start_words(&mut self) {
        if let Some(row) = &self.row {
            if row.pending_cells > 0 || self.gap != Gap::None || !row.cell_started {
                self.start_in_cell();
            }
        } else if self.gap != Gap::None || !self.line_has_words {
            self.start_line();
        }
        let spaces =
            if self.line_has_words { self.spaces } else { self.spaces.min(MAX_HARD_INDENT) };
        for _ in 0..spaces {
            self.out.push(' ');
        }
        self.spaces = 0;
        self.line_has_words = true;
        if self.unset > 0 {
            let first = self.marks.len() - self.unset;
            self.marks[first..].fill(self.out.len());
            self.unset = 0;
        }
    }

    fn start_line(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
            if self.gap == Gap::Blank {
                self.out.push('\n');
            }
        }
        self.gap = Gap::None;
        self.line_has_words = false;
        let mut marked = false;
        for prefix in &mut self.prefixes {
            self.out.push_str(if prefix.used { &prefix.rest } else { &prefix.first });
            marked |= !prefix.used;
            prefix.used = true;
        }
        if marked {
            self.spaces = 0;
        }
    }

    /// The same inside a table, where a row is one line and `<br>` is a line break.
    fn start_in_cell(&mut self) {
        let Some(mut row) = self.row.take() else { return };
        if !row.started {
            self.start_line_of_row(row.base);
            row.started = true;
            row.pending_cells = row.pending_cells.max(1);
            row.pending_cells -= 1;
            if self.rendering == Rendering::Full || row.pending_cells > 0 {
                self.out.push('|');
            } else {
                row.cell_started = true;
            }
        } else if row.cell_started && self.gap != Gap::None && row.pending_cells == 0 {
            self.out.push_str("<br>");
            self.spaces = 0;
        }
        for _ in 0..row.pending_cells {
            self.out.push_str(" |");
        }
        if row.pending_cells > 0 || !row.cell_started {
            self.out.push(' ');
            self.spaces = 0;
        }
        row.pending_cells = 0;
        row.cell_started = true;
        self.gap = Gap::None;
        for prefix in self.prefixes.iter_mut().skip(row.base).filter(|prefix| !prefix.used) {
            self.out.push_str(&prefix.first);
            prefix.used = true;
        }
        self.row = Some(row);
    }

    fn start_line_of_row(&mut self, base: usize) {
        let inner: Vec<Prefix> = self.prefixes.drain(base..).collect();
        self.gap = self.gap.max(Gap::Line);
        self.start_line();
        self.prefixes.extend(inner);
    }

    pub(super) fn begin_row(&mut self) {
        self.gap(Gap::Line);
        self.row = Some(Row { base: self.prefixes.len(), ..Row::default() });
    }

    pub(super) fn begin_cell(&mut self) {
        if let Some(row) = &mut self.row {
            row.pending_cells += 1;
            row.cell_started = false;
            if row.started {
                self.gap = Gap::None;
            }
            self.spaces = 0;
        }
    }

    /// Ends the row. Returns whether anything was written.
    pub(super) fn end_row(&mut self) -> bool {
        let Some(row) = self.row.take() else { return false };
        if row.started {
            if self.rendering == Rendering::Full {
                self.out.push_str(" |");
            }
            self.close_line();
        }
        row.started
    }

    /// Whether a table cell is being written.
    pub(super) fn in_cell(&self) -> bool {
        self.row.is_some()
    }

    /// Writes a line unchanged, after the prefixes.
    pub(super) fn verbatim_line(&mut self, line: &str) {
        if self.out.len() + line.len() > self.limit {
            self.overflow += line.len();
            return;
        }
        self.gap(Gap::Line);
        self.start_words();
        self.out.push_str(line);
        self.gap(Gap::Line);
    }

    /// Opens a span; the position of its first word will be recorded.
    pub(super) fn open_span(&mut self) {
        self.marks.push(usize::MAX);
        self.unset += 1;
    }

    /// Closes the last span and returns where its words begin, if it has any.
    pub(super) fn close_span(&mut self) -> Option<usize> {
        let start = self.marks.pop()?;
        if self.unset > 0 {
            self.unset -= 1;
            return None;
        }
        Some(start)
    }

    /// Whether an open span begins here, so that its text must not move.
    pub(super) fn begins_span(&self, start: usize) -> bool {
        let set = &self.marks[..self.marks.len() - self.unset];
        set.last().is_some_and(|mark| *mark >= start)
    }

    pub(super) fn ends_with(&self, end: &str) -> bool {
        self.out.ends_with(end)
    }

    pub(super) fn since(&self, start: usize) -> &str {
        self.out.get(start..).unwrap_or("")
    }

    pub(super) fn before(&self, start: usize) -> Option<char> {
        self.out.get(..start)?.chars().next_back()
    }

    /// Puts marks around the text since `start`.
    pub(super) fn wrap(&mut self, start: usize, open: &str, close: &str) {
        self.out.insert_str(start, open);
        self.out.push_str(close);
    }

    /// Replaces the text since `start`.
    pub(super) fn replace(&mut self, start: usize, text: &str) {
        self.out.truncate(start);
        self.out.push_str(text);
    }
}

/// The words at the beginning of `text` that are separated by single spaces and need no special
/// handling; most text is of that kind.
pub(super) fn plain_words(text: &str) -> &str {
    let bytes = text.as_bytes();
    // Many at a time, as long as none of them and no two spaces are in the way.
    let mut from = 0;
    while let Some(chunk) = bytes.get(from..=from + STRIDE) {
        let pairs = chunk.iter().zip(&chunk[1..]);
        let is_odd =
            |byte: u8, next: u8| !(0x20..=0x7e).contains(&byte) | ((byte == b' ') & (next == b' '));
        if pairs.fold(false, |odd, (&byte, &next)| odd | is_odd(byte, next)) {
            break;
        }
        from += STRIDE;
    }
    // A space at the end of what was passed is taken back if nothing follows it.
    let mut end = from - usize::from(from > 0 && bytes[from - 1] == b' ');
    for (at, byte) in text.bytes().enumerate().skip(end) {
        match byte {
            b' ' if end == at => {}
            0x21..=0x7e => end = at + 1,
            _ => break,
        }
    }
    &text[..end]
}

fn is_space(character: char) -> bool {
    matches!(
        character,
        ' ' | '\t' | '\n' | '\r' | '\u{c}' | '\u{a0}' | '\u{2000}'
            ..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}'
    )
}
