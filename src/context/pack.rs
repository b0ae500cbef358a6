//! The context of a prompt: the ranked files with their outlines and the few spans that matter, the
//! tests beside them and what changed there lately, inside a budget of tokens. Deterministic.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use super::build::read_text;
use super::bytes::cut;
use super::index::Index;
use super::kind::Kind;
use super::links::bare_name;
use super::query::Query;
use super::rank::RankedFile;
use super::term::Term;
use super::{ContextError, spans};

/// Files that get an outline and spans; the others are named.
const MOST_SHOWN: usize = 8;
const MOST_TESTS: usize = 5;
const MOST_COMMITS: usize = 6;
const MOST_OUTLINE: usize = 24;

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

/// How many tokens a text is, roughly: four bytes each, rounded up.
pub fn estimate_tokens(text: &str) -> usize {
    text.len().div_ceil(4)
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
    page.add("Files most likely to matter, best first (line counts in brackets):\n");
    for file in ranked {
        let Some(number) = index.find(&file.path) else { continue };
        let line = format!(
            "- {} [{}] {}\n",
            file.path,
            index.files()[number as usize].lines,
            file.reasons.first().map_or("", String::as_str).split(" (").next().unwrap_or_default()
        );
        if page.add(&line) {
            files.push(file.path.clone());
        }
    }
    let tail = tail(index, ranked)?;
    // What follows the files is small and always wanted, so its room is set apart.
    let reserved = tail.len().min(page.left() / 4);
    let rarity = rarity(index, query)?;
    let shown = ranked.iter().take(MOST_SHOWN).collect::<Vec<_>>();
    for (place, file) in shown.iter().enumerate() {
        let room = page.left().saturating_sub(reserved) * 2 / (shown.len() - place + 1).max(2);
        page.add(&details(index, &file.path, &rarity, room)?);
    }
    for line in tail.split_inclusive('\n') {
        if !page.add(line) {
            break;
        }
    }
    let tokens = estimate_tokens(&page.text);
    Ok(Packed { text: page.text, files, tokens })
}

/// What each of the query's terms is worth in a line: heavy and rare ones more.
fn rarity(index: &Index, query: &Query) -> Result<HashMap<Term, f64>, ContextError> {
    let total = index.files().len() as f64;
    let mut all = HashMap::new();
    for word in query.words.iter().chain(&query.identifiers).chain(&query.symbols) {
        let mut holders = 0.0;
        index.postings(word.term, |_, _| holders += 1.0)?;
        if holders > 0.0 {
            all.insert(word.term, word.weight * (1.0 + total / holders).ln());
        }
    }
    Ok(all)
}

/// The outline of a file and its best spans, in at most `room` bytes.
fn details(
    index: &Index,
    path: &str,
    rarity: &HashMap<Term, f64>,
    room: usize,
) -> Result<String, ContextError> {
    let Some(number) = index.find(path) else { return Ok(String::new()) };
    let text = read_text(&index.root().join(path)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let definitions = index.definitions(number)?;
    let scores = spans::line_scores(&lines, rarity);
    let mut out = format!("\n## {path}\n");
    if out.len() + 40 > room {
        return Ok(String::new());
    }
    let chosen = spans::worthy_definitions(&definitions, &scores, MOST_OUTLINE);
    for definition in &chosen {
        let shown = lines
            .get(definition.line as usize - 1)
            .filter(|line| line.contains(definition.name.as_str()))
            .map_or(definition.name.as_str(), |line| line.trim());
        let line = format!("{:>5}: {}\n", definition.line, cut(shown, 110));
        if out.len() + line.len() > room / 2 {
            break;
        }
        out.push_str(&line);
    }
    for span in spans::best(&lines, &scores, &definitions) {
        let mut piece = format!("lines {}-{}:\n", span.start + 1, span.end);
        for line in &lines[span.clone()] {
            // Writing to a string cannot fail.
            let _infallible = writeln!(piece, "| {}", cut(line.trim_end(), 160));
        }
        if out.len() + piece.len() <= room {
            out.push_str(&piece);
        }
    }
    Ok(out)
}

/// Neighbours, tests and recent commits of the best files.
fn tail(index: &Index, ranked: &[RankedFile]) -> Result<String, ContextError> {
    let best: Vec<&str> = ranked.iter().take(5).map(|file| file.path.as_str()).collect();
    let mut out = String::new();
    let tests = tests_of(index, &best);
    if !tests.is_empty() {
        out.push_str("\nTests beside them:\n");
        tests.iter().for_each(|path| out.push_str(&format!("- {path}\n")));
    }
    let neighbours = neighbours(index, &best);
    if !neighbours.is_empty() {
        out.push_str("\nIn the same folders:\n");
        neighbours.iter().for_each(|line| out.push_str(&format!("- {line}\n")));
    }
    let commits = commits_of(index, &best);
    if !commits.is_empty() {
        out.push_str("\nRecent commits there:\n");
        commits.iter().for_each(|line| out.push_str(&format!("- {line}\n")));
    }
    Ok(out)
}

fn tests_of(index: &Index, best: &[&str]) -> Vec<String> {
    let wanted: BTreeSet<String> =
        best.iter().map(|path| bare_name(path)).filter(|name| name.len() > 2).collect();
    let tests = index.files().iter().filter(|entry| {
        entry.kind == Kind::Test
            && entry.language.is_code()
            && wanted.contains(&bare_name(&entry.path))
    });
    tests.take(MOST_TESTS).map(|entry| entry.path.clone()).collect()
}

/// The folders of the best files with the names in them.
fn neighbours(index: &Index, best: &[&str]) -> Vec<String> {
    let mut folders: Vec<&str> = Vec::new();
    for path in best {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    let mut lines = Vec::new();
    for folder in folders.into_iter().take(3) {
        let inside = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder) == folder;
        let names: Vec<&str> = index
            .files()
            .iter()
            .filter(|entry| entry.language.is_code() && inside(&entry.path))
            .map(|entry| entry.path.rsplit('/').next().unwrap_or(&entry.path))
            .collect();
        if names.len() > 1 {
            let shown = names.iter().take(20).copied().collect::<Vec<_>>().join(" ");
            let more = if names.len() > 20 {
                format!(" and {} more", names.len() - 20)
            } else {
                String::new()
            };
            lines.push(format!("{}/: {shown}{more}", if folder.is_empty() { "." } else { folder }));
        }
    }
    lines
}

fn commits_of(index: &Index, best: &[&str]) -> Vec<String> {
    let history = index.history();
    let wanted: BTreeSet<u32> = history
        .paths
        .iter()
        .zip(0u32..)
        .filter(|(path, _)| best.contains(&path.as_str()))
        .map(|(_, number)| number)
        .collect();
    let touching = history
        .commits
        .iter()
        .filter(|commit| commit.files.iter().any(|file| wanted.contains(file)));
    touching
        .take(MOST_COMMITS)
        .map(|commit| {
            let day = i64::try_from(commit.time)
                .ok()
                .and_then(|time| jiff::Timestamp::from_second(time).ok())
                .map(|time| time.strftime("%Y-%m-%d").to_string())
                .unwrap_or_default();
            format!("{day} {}", cut(&commit.subject, 100))
        })
        .collect()
}
