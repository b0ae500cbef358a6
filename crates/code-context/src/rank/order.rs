//! Ranks the files for a query, best first, with reasons.

use crate::ContextError;
use crate::index::open::Index;
use crate::index::segment::Entry;
use crate::parts::Part;
use crate::rank::query::Query;
use crate::rank::signals::{SIGNALS, Scale, Signals, signals_among};
use crate::rank::weights::Weights;
use crate::text::kind::Kind;

/// The position given to a neighbour, from zero, among how many, and the weight of its own score.
const LAST_PLACE: usize = 9;
const NEIGHBOURS: usize = 50;
const NEIGHBOUR_SCORE: f64 = 0.3;

/// A file with its evidence.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RankedFile {
    /// Relative to the repository's root; after the name of its part if there are several.
    pub path: String,
    /// Comparable within one ranking only.
    pub score: f64,
    /// For display, strongest first.
    pub reasons: Vec<String>,
}

/// All files by score, best first; equal ones ordered by path.
pub(crate) fn order(
    index: &Index,
    query: &Query,
    weights: &Weights,
    all: &[Signals],
) -> Vec<(f64, usize)> {
    let score = |(signals, entry): (&Signals, &Entry)| {
        weights.score(&signals.values(), held_against(entry, query), &entry.path)
    };
    let scores = all.iter().zip(index.files()).map(score);
    let mut scored: Vec<(f64, usize)> = scores.zip(0..).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scored
}

/// The signals of every file by number, and all files with their scores, best first.
type ScoredFiles = (Vec<Signals>, Vec<(f64, usize)>);

/// Scores every file of the index.
pub fn scored(
    index: &Index,
    query: &Query,
    weights: &Weights,
) -> Result<ScoredFiles, ContextError> {
    scored_among(index, query, weights, None)
}

fn scored_among(
    index: &Index,
    query: &Query,
    weights: &Weights,
    among: Option<&Scale>,
) -> Result<ScoredFiles, ContextError> {
    let all = signals_among(index, query, weights, among)?;
    let mut order = order(index, query, weights, &all);
    admit_neighbour(&all, &mut order);
    Ok((all, order))
}

/// A fix often changes a second file in the folder of the first. The words do not tell which one,
/// so the last of the first ten places goes to the most likely of them.
fn admit_neighbour(all: &[Signals], order: &mut [(f64, usize)]) {
    let Some(candidates) = order.get_mut(LAST_PLACE..) else { return };
    let candidates = &mut candidates[..];
    let worth = |(score, file): &(f64, usize)| all[*file].same_folder + NEIGHBOUR_SCORE * score;
    let within = candidates.len().min(NEIGHBOURS);
    let best = (0..within)
        .max_by(|a, b| worth(&candidates[*a]).total_cmp(&worth(&candidates[*b])).then(b.cmp(a)));
    if let Some(best) = best.filter(|best| all[candidates[*best].1].same_folder > 0.0) {
        // The others move down by one; scores are unchanged, so that likelihoods stay correct.
        candidates[..=best].rotate_right(1);
    }
}

/// The `top` files for a query, best first. Deterministic for the same index, query and weights.
pub fn rank(
    index: &Index,
    query: &Query,
    weights: &Weights,
    top: usize,
) -> Result<Vec<RankedFile>, ContextError> {
    rank_among(index, query, weights, top, None)
}

/// The `top` files of all parts in one ranking, best first, by their names with that of their part.
pub fn rank_all(
    parts: &[Part<'_>],
    query: &Query,
    weights: &Weights,
    top: usize,
) -> Result<Vec<RankedFile>, ContextError> {
    let indexes: Vec<&Index> = parts.iter().map(|part| part.index).collect();
    let among = Scale::among(&indexes, query)?;
    let mut lists = Vec::new();
    for part in parts {
        let mut ranked = rank_among(part.index, query, weights, top, among.as_ref())?;
        ranked.iter_mut().for_each(|file| file.path = part.full(&file.path));
        lists.push(ranked.into_iter().peekable());
    }
    // Each part keeps its own order, which is not always that of the scores.
    let mut merged = Vec::new();
    while merged.len() < top {
        let score = |list: &mut std::iter::Peekable<_>| {
            list.peek().map_or(f64::NEG_INFINITY, |file: &RankedFile| file.score)
        };
        let scores: Vec<f64> = lists.iter_mut().map(score).collect();
        let best =
            (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b]).then(b.cmp(a)));
        match best.and_then(|best| lists[best].next()) {
            Some(file) => merged.push(file),
            None => break,
        }
    }
    Ok(merged)
}

fn rank_among(
    index: &Index,
    query: &Query,
    weights: &Weights,
    top: usize,
    among: Option<&Scale>,
) -> Result<Vec<RankedFile>, ContextError> {
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let (all, mut scored) = scored_among(index, query, weights, among)?;
    scored.retain(|(_, file)| all[*file].has_evidence());
    scored.truncate(top);
    let ranked = scored.into_iter().map(|(score, file)| RankedFile {
        path: index.files()[file].path.clone(),
        score,
        reasons: reasons(&all[file], weights),
    });
    Ok(ranked.collect())
}

/// A file with its signals for one query, to be scored with other weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub path: String,
    /// In the order of [`Signals::values`].
    pub signals: [f64; SIGNALS],
    /// Penalty for its kind.
    pub held_against: f64,
}

/// The `top` files for a query, best first, then those of `also` that are not among them.
pub fn candidates(
    index: &Index,
    query: &Query,
    weights: &Weights,
    top: usize,
    also: &[&str],
) -> Result<Vec<Candidate>, ContextError> {
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let (all, mut scored) = scored(index, query, weights)?;
    scored.retain(|(_, file)| all[*file].has_evidence());
    let is_wanted = |file: usize| also.contains(&index.files()[file].path.as_str());
    let (first, rest) = scored.split_at(scored.len().min(top));
    let rest = rest.iter().filter(|(_, file)| is_wanted(*file));
    let candidate = |(_, file): &(f64, usize)| {
        let entry = &index.files()[*file];
        Candidate {
            path: entry.path.clone(),
            signals: all[*file].values(),
            held_against: held_against(entry, query),
        }
    };
    Ok(first.iter().chain(rest).map(candidate).collect())
}

/// Penalty for the kind of a file.
fn held_against(entry: &Entry, query: &Query) -> f64 {
    match entry.kind {
        Kind::Source => 0.0,
        Kind::Test if query.about_tests => 0.9,
        Kind::Document if query.about_documents => 0.3,
        Kind::Test => 1.5,
        Kind::Example => 0.8,
        Kind::Document => 0.6,
        Kind::Setting => 0.4,
        Kind::Generated => 0.1,
        Kind::Vendored => 0.2,
    }
}

/// Each signal as a reason for people, and in a word where many files share a prompt; without one
/// where nearly every file has it.
const REASONS: [(&str, &str); SIGNALS] = [
    ("contains the item's words", ""),
    ("contains them close together", ""),
    ("its folder's name matches the item", "folder"),
    ("its name matches the item", "name"),
    ("is mentioned by path", "path"),
    ("has a name that the item mentions", "mentioned"),
    ("was changed by commits about the same words", "commits"),
    ("is in the product's main language", ""),
    ("defines a name made of the item's words", "definition"),
    ("is used by other likely files", "used"),
    ("its tests contain the item's words", "tests"),
    ("contains a rare phrase of the item", "phrase"),
    ("is next to other likely files", "neighbour"),
    ("only declares what another file implements", "declares"),
    ("is part of a likely file", "part"),
];

impl RankedFile {
    /// The strongest reasons that not every file has, in a word each.
    pub(crate) fn short_reasons(&self, most: usize) -> Vec<&'static str> {
        let short = |reason: &String| {
            let known = REASONS.iter().find(|(long, _)| reason.starts_with(long));
            known.map(|(_, short)| *short).filter(|short| !short.is_empty())
        };
        self.reasons.iter().filter_map(short).take(most).collect()
    }
}

/// The reasons for a file, as text; its language is omitted, since it applies to too many.
fn reasons(signals: &Signals, weights: &Weights) -> Vec<String> {
    let shown = Signals { main_language: 0.0, declares: 0.0, ..*signals };
    let mut parts: Vec<(f64, &str)> = shown
        .values()
        .iter()
        .zip(weights.of_signals())
        .map(|(value, weight)| value * weight)
        .zip(REASONS.map(|(long, _)| long))
        .filter(|(share, _)| *share > 0.05)
        .collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    parts.into_iter().map(|(share, name)| format!("{name} ({share:.2})")).collect()
}
