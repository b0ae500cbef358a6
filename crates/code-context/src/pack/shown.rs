//! One file of a packed context: complete if it is short, else its outline and the complete
//! functions that matter.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

use crate::ContextError;
use crate::pack::pieces::{Piece, pieces, whole_definition};
use crate::pack::spans;
use crate::parts::Part;
use crate::rank::query::Query;
use crate::text::bytes::cut;
use crate::text::document::Definition;
use crate::text::term::Term;

/// A file of at most this many lines is shown completely if it fits.
const SHORT: usize = 300;
const MAX_OUTLINE: usize = 14;
const MAX_LINE_LEN: usize = 140;
const MAX_DEFINITION_LEN: usize = 100;
/// Divisor of a file's bytes for the outline.
const OUTLINE_SHARE: usize = 6;
/// Gaps of at most this many lines between two parts are shown too.
const GAP: usize = 2;
/// Weight of a function that a reader chose, between a line that the item names and its words.
const CHOSEN: f64 = 500.0;
/// Weight of a line that the item names, relative to all its words.
const NAMED_LINE: f64 = 1000.0;

/// A file that is shown.
pub(crate) struct Shown {
    path: String,
    /// With the name of its part.
    title: String,
    text: String,
    definitions: Vec<Definition>,
    scores: Vec<f64>,
    /// With their scores, best first.
    pieces: Vec<(f64, Piece)>,
}

impl Shown {
    pub(crate) fn of(
        part: &Part<'_>,
        query: &Query,
        path: &str,
        rarity: &HashMap<Term, f64>,
        functions: &[String],
    ) -> Result<Option<Self>, ContextError> {
        let index = part.index;
        let Some(number) = index.find(path) else { return Ok(None) };
        let text = index.text(path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let definitions = index.definitions(number)?;
        let language = index.files()[number as usize].language;
        let weighed = spans::weigh(&lines, language, rarity);
        let named = query.lines_of(path);
        let mut pieces: Vec<(f64, Piece)> = pieces(&lines, &definitions)
            .into_iter()
            .map(|piece| {
                let words = spans::worth(&weighed[piece.lines.clone()]);
                let named = named.iter().any(|line| piece.lines.contains(&(line - 1)));
                // A long part has more words because it is long.
                let size = (piece.lines.len() as f64 + 10.0).sqrt();
                (words / size + if named { NAMED_LINE } else { 0.0 }, piece)
            })
            .filter(|(worth, _)| *worth > 0.0)
            .collect();
        for piece in chosen_pieces(&lines, &definitions, functions) {
            let words = spans::worth(&weighed[piece.lines.clone()]);
            pieces.push((words + CHOSEN, piece));
        }
        pieces.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.lines.start.cmp(&b.1.lines.start)));
        let scores = weighed.iter().map(spans::Line::score).collect();
        Ok(Some(Self {
            path: path.to_owned(),
            title: part.full(path),
            text,
            definitions,
            scores,
            pieces,
        }))
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The text of its first few best parts.
    pub(crate) fn best_text(&self) -> String {
        let lines: Vec<&str> = self.text.lines().collect();
        let best = self.pieces.iter().take(4).map(|(_, piece)| piece.lines.clone());
        best.map(|range| lines.get(range).unwrap_or_default().join("\n") + "\n").collect()
    }

    /// The file in at most `room` bytes.
    pub(crate) fn in_room(&self, room: usize) -> String {
        let lines: Vec<&str> = self.text.lines().collect();
        let title = format!("\n## {}\n", self.title);
        let whole = excerpt(&(0..lines.len()), &lines);
        if lines.len() <= SHORT && !lines.is_empty() && title.len() + whole.len() <= room {
            return title + &whole;
        }
        let outline_room = room / OUTLINE_SHARE;
        let spans = self.spans_in(room.saturating_sub(title.len() + outline_room), &lines);
        let excerpts: String = spans.iter().map(|span| excerpt(span, &lines)).collect();
        let seen = |one: &Definition| spans.iter().any(|span| span.contains(&line_of(one)));
        let unseen: Vec<Definition> =
            self.definitions.iter().filter(|one| !seen(one)).cloned().collect();
        let (mut out, mut named) = (title, 0);
        for line in outline(&spans::worthy_definitions(&unseen, &self.scores, MAX_OUTLINE), &lines)
        {
            if out.len() + excerpts.len() + line.len() > room {
                break;
            }
            out.push_str(&line);
            named += 1;
        }
        let rest = match unseen.len() - named {
            0 => String::new(),
            rest => format!("       left out: {rest} more of {} lines\n", lines.len()),
        };
        if out.len() + rest.len() + excerpts.len() <= room {
            out.push_str(&rest);
        }
        let out = out + &excerpts;
        // A title alone repeats the list of names.
        if out.len() > room || out.lines().count() < 3 { String::new() } else { out }
    }

    /// The best parts that fit, in the file's order; adjacent ones are merged.
    fn spans_in(&self, mut room: usize, lines: &[&str]) -> Vec<Range<usize>> {
        let mut chosen: Vec<Range<usize>> = Vec::new();
        for (_, piece) in &self.pieces {
            // A part of what is shown already, such as of a chosen function.
            if chosen
                .iter()
                .any(|span| span.start <= piece.lines.start && piece.lines.end <= span.end)
            {
                continue;
            }
            let head = piece.head.filter(|head| !chosen.iter().any(|span| span.contains(head)));
            let head = head.map(|head| head..head + 1);
            let parts: Vec<Range<usize>> = head.into_iter().chain([piece.lines.clone()]).collect();
            let size: usize = parts.iter().map(|part| excerpt(part, lines).len()).sum();
            if size <= room {
                room -= size;
                chosen.extend(parts);
            }
        }
        chosen.sort_by_key(|span| span.start);
        chosen.dedup_by(|next, before| {
            let close = next.start <= before.end + GAP;
            if close {
                before.end = before.end.max(next.end);
            }
            close
        });
        chosen
    }
}

/// The chosen functions, each complete however long it is; `Type.name` and `name()` mean `name`.
fn chosen_pieces(lines: &[&str], definitions: &[Definition], functions: &[String]) -> Vec<Piece> {
    let bare = |name: &str| {
        let name = name.split('(').next().unwrap_or(name).trim();
        name.rsplit(['.', ':', '#', '>']).next().unwrap_or(name).to_owned()
    };
    let wanted: Vec<String> = functions.iter().map(|name| bare(name)).collect();
    let meant = definitions.iter().filter(|one| wanted.contains(&bare(&one.name)));
    meant.filter_map(|one| whole_definition(lines, line_of(one))).collect()
}

/// Line of a definition, from zero.
fn line_of(definition: &Definition) -> usize {
    (definition.line as usize).saturating_sub(1)
}

/// Lines of a file as shown, without their common indentation.
fn excerpt(span: &Range<usize>, lines: &[&str]) -> String {
    let shown = lines.get(span.clone()).unwrap_or_default();
    let indents = shown.iter().filter(|line| !line.trim().is_empty());
    let indent = indents.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    let mut piece = format!("lines {}-{}:\n", span.start + 1, span.end);
    for line in shown {
        let line = line.get(indent..).unwrap_or_default().trim_end();
        // Writing to a string cannot fail.
        let _infallible = writeln!(piece, "|{}", cut(line, MAX_LINE_LEN));
    }
    piece
}

/// Definitions as written, with their line and nesting depth.
fn outline(definitions: &[Definition], lines: &[&str]) -> Vec<String> {
    let written = |definition: &Definition| {
        let line = lines.get(line_of(definition)).copied()?;
        // The file may have changed since.
        line.contains(definition.name.as_str()).then_some(line)
    };
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut depths: Vec<usize> = definitions.iter().filter_map(written).map(indent).collect();
    depths.sort_unstable();
    depths.dedup();
    let one = |definition: &Definition| {
        let line = written(definition).unwrap_or(definition.name.as_str());
        let depth = depths.iter().position(|depth| *depth == indent(line)).unwrap_or(0).min(2);
        let shown = cut(line.trim().trim_end_matches(['{', ' ']), MAX_DEFINITION_LEN);
        format!("{:>5}: {:indent$}{shown}\n", definition.line, "", indent = depth * 2)
    };
    definitions.iter().map(one).collect()
}
