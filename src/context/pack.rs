//! The context of a prompt: the ranked files with their outlines and the few spans that matter, the
//! tests beside them and what changed there lately, inside a budget of tokens. Deterministic.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::ops::Range;

use super::build::read_text;
use super::bytes::cut;
use super::document::Definition;
use super::index::Index;
use super::query::Query;
use super::rank::RankedFile;
use super::spans::{self, Span};
use super::term::Term;
use super::{ContextError, area};
use crate::model::estimate_tokens;

/// Files that get an outline and spans; the others are named.
const MOST_SHOWN: usize = 8;
/// Files of which is said what they hold.
const MOST_EXPLAINED: usize = 12;
const MOST_WORDS: usize = 4;
const MOST_OUTLINE: usize = 20;
/// A span must be worth this share of the best one of all files.
const LEAST_WORTH: f64 = 0.2;
const LONGEST_LINE: usize = 140;
const LONGEST_DEFINITION: usize = 100;

/// A context ready for a prompt.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Packed {
    /// The text itself.
    pub text: String,
    /// The ranked files it shows, best first.
    pub files: Vec<String>,
    /// An estimate of its size.
    pub tokens: usize,
}

/// A text that never grows beyond its budget.
struct Page {
    text: String,
    budget: usize,
}

impl Page {
    /// Adds a piece if it fits as a whole.
    fn add(&mut self, piece: &str) -> bool {
        let fits = (self.text.len() + piece.len()).div_ceil(4) <= self.budget;
        if fits {
            self.text.push_str(piece);
        }
        fits
    }

    fn left(&self) -> usize {
        (self.budget * 4).saturating_sub(self.text.len())
    }
}

/// Packs the ranked files into `token_budget` tokens at most.
pub fn pack(
    index: &Index,
    query: &Query,
    ranked: &[RankedFile],
    token_budget: usize,
) -> Result<Packed, ContextError> {
    let mut page = Page { text: String::new(), budget: token_budget };
    let mut files = Vec::new();
    let wanted = Wanted::of(index, query, ranked)?;
    page.add("Files most likely to matter, best first [lines], with the item's words they hold:\n");
    for (place, file) in ranked.iter().enumerate() {
        let Some(number) = index.find(&file.path) else { continue };
        let lines = index.files()[number as usize].lines;
        let words = if place < MOST_EXPLAINED { wanted.words_in(number) } else { String::new() };
        let line = format!("- {} [{lines}]{words}\n", file.path);
        if page.add(&line) {
            files.push(file.path.clone());
        }
    }
    let tail = tail(index, ranked);
    // What follows the files is small and always wanted, so its room is set apart.
    let reserved = tail.len().min(page.left() / 4);
    let mut shown = Vec::new();
    for file in ranked.iter().take(MOST_SHOWN) {
        shown.extend(Shown::of(index, &file.path, &wanted.rarity)?);
    }
    let best = shown.iter().flat_map(|file| &file.spans).map(|span| span.worth).fold(0.0, f64::max);
    for (place, file) in shown.iter().enumerate() {
        let room = page.left().saturating_sub(reserved) * 2 / (shown.len() - place + 1).max(2);
        page.add(&file.in_room(room, best * LEAST_WORTH));
    }
    for line in tail.split_inclusive('\n') {
        if !page.add(line) {
            break;
        }
    }
    let tokens = usize::try_from(estimate_tokens(&page.text)).unwrap_or(usize::MAX);
    Ok(Packed { text: page.text, files, tokens })
}

/// What the item asks for, as the files answer it.
struct Wanted {
    /// What each of the query's terms is worth in a line: heavy and rare ones more.
    rarity: HashMap<Term, f64>,
    /// The words each ranked file holds, with their worth.
    words: HashMap<u32, Vec<(f64, String)>>,
}

impl Wanted {
    fn of(index: &Index, query: &Query, ranked: &[RankedFile]) -> Result<Self, ContextError> {
        let total = index.files().len() as f64;
        let mut wanted = Self { rarity: HashMap::new(), words: HashMap::new() };
        let numbers: HashSet<u32> =
            ranked.iter().filter_map(|file| index.find(&file.path)).collect();
        for word in query.words.iter().chain(&query.identifiers).chain(&query.symbols) {
            let mut holders = 0.0;
            let mut among = Vec::new();
            index.postings(word.term, |file, _| {
                holders += 1.0;
                if numbers.contains(&file) {
                    among.push(file);
                }
            })?;
            if holders == 0.0 {
                continue;
            }
            let worth = word.weight * (1.0 + total / holders).ln();
            wanted.rarity.insert(word.term, worth);
            for file in among {
                wanted.words.entry(file).or_default().push((worth, word.text.clone()));
            }
        }
        Ok(wanted)
    }

    /// The words that speak most for a file.
    fn words_in(&self, file: u32) -> String {
        let mut words = self.words.get(&file).cloned().unwrap_or_default();
        words.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let mut said: Vec<String> = Vec::new();
        for (_, word) in words {
            // A part of what was said already says nothing new.
            let new = |other: &String| !other.to_lowercase().contains(&word.to_lowercase());
            if said.len() < MOST_WORDS && said.iter().all(new) {
                said.push(word);
            }
        }
        if said.is_empty() { String::new() } else { format!(" {}", said.join(", ")) }
    }
}

/// A file that is shown with its outline and spans.
struct Shown {
    path: String,
    text: String,
    definitions: Vec<Definition>,
    scores: Vec<f64>,
    /// Best first.
    spans: Vec<Span>,
}

impl Shown {
    fn of(
        index: &Index,
        path: &str,
        rarity: &HashMap<Term, f64>,
    ) -> Result<Option<Self>, ContextError> {
        let Some(number) = index.find(path) else { return Ok(None) };
        let text = read_text(&index.root().join(path)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let definitions = index.definitions(number)?;
        let language = index.files()[number as usize].language;
        let weighed = spans::weigh(&lines, language, rarity);
        let spans = spans::best(&weighed, &definitions);
        let scores = weighed.iter().map(spans::Line::score).collect();
        Ok(Some(Self { path: path.to_owned(), text, definitions, scores, spans }))
    }

    /// Its outline and its spans of at least this worth, in at most `room` bytes.
    fn in_room(&self, room: usize, least: f64) -> String {
        let mut out = format!("\n## {}\n", self.path);
        if out.len() + 40 > room {
            return String::new();
        }
        let lines: Vec<&str> = self.text.lines().collect();
        let spans = self.spans_in((room - out.len()) * 3 / 5, least, &lines);
        let excerpt: String = spans.iter().map(|span| excerpt(span, &lines)).collect();
        // A definition that is seen in a span need not be named again.
        let seen = |one: &Definition| spans.iter().any(|span| span.contains(&line_of(one)));
        let unseen: Vec<Definition> =
            self.definitions.iter().filter(|one| !seen(one)).cloned().collect();
        let chosen = spans::worthy_definitions(&unseen, &self.scores, MOST_OUTLINE);
        for line in outline(&chosen, &lines) {
            if out.len() + excerpt.len() + line.len() > room {
                break;
            }
            out.push_str(&line);
        }
        out + &excerpt
    }

    /// The best spans that fit, in the file's order; such as touch one another are one.
    fn spans_in(&self, mut room: usize, least: f64, lines: &[&str]) -> Vec<Range<usize>> {
        let mut chosen: Vec<Range<usize>> = Vec::new();
        for span in self.spans.iter().filter(|span| span.worth >= least) {
            let size = excerpt(&span.lines, lines).len();
            if size <= room {
                room -= size;
                chosen.push(span.lines.clone());
            }
        }
        chosen.sort_by_key(|span| span.start);
        chosen.dedup_by(|next, before| {
            let touching = next.start <= before.end;
            if touching {
                before.end = next.end;
            }
            touching
        });
        chosen
    }
}

/// Where a definition stands, from zero.
fn line_of(definition: &Definition) -> usize {
    (definition.line as usize).saturating_sub(1)
}

/// Lines of a file as they are shown.
fn excerpt(span: &Range<usize>, lines: &[&str]) -> String {
    let mut piece = format!("lines {}-{}:\n", span.start + 1, span.end);
    for line in lines.get(span.clone()).unwrap_or_default() {
        // Writing to a string cannot fail.
        let _infallible = writeln!(piece, "| {}", cut(line.trim_end(), LONGEST_LINE));
    }
    piece
}

/// Definitions as they are written, with their line and how deep they stand in one another.
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
        let shown = cut(line.trim().trim_end_matches(['{', ' ']), LONGEST_DEFINITION);
        format!("{:>5}: {:indent$}{shown}\n", definition.line, "", indent = depth * 2)
    };
    definitions.iter().map(one).collect()
}

/// The area, tests and recent commits of the best files.
fn tail(index: &Index, ranked: &[RankedFile]) -> String {
    let mut out = String::new();
    for (heading, lines) in [
        ("The area", area::map(index, ranked)),
        ("Tests of these files", area::tests(index, ranked)),
        ("Recent commits there", area::commits(index, ranked)),
    ] {
        if !lines.is_empty() {
            out.push_str(&format!("\n{heading}:\n"));
            lines.iter().for_each(|line| out.push_str(&format!("- {line}\n")));
        }
    }
    out
}
