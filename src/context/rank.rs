//! Which files matter for a query, best first, and why.

use super::ContextError;
use super::index::Index;
use super::kind::Kind;
use super::query::Query;
use super::segment::Entry;
use super::signals::{SIGNALS, Signals, signals};

/// What each signal weighs, in the order of [`Signals::values`].
///
/// Rounded by hand. Halving or doubling any one of them moves the measured hits by a point or so.
const WEIGHTS: [f64; SIGNALS] =
    [1.0, 1.5, 0.3, 0.4, 1.0, 0.8, 0.6, 1.2, 0.3, 0.25, 0.2, 0.3, 0.0, -0.5, 0.4];

/// The place that is given to a neighbour, from zero, among how many, and what its own score counts.
const LAST_PLACE: usize = 9;
const NEIGHBOURS: usize = 50;
const NEIGHBOUR_SCORE: f64 = 0.3;

/// A file with what speaks for it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RankedFile {
    /// Relative to the repository's root.
    pub path: String,
    /// Comparable within one ranking only.
    pub score: f64,
    /// For people, strongest first.
    pub reasons: Vec<String>,
}

/// All files by their score, best first; equal ones in the order of their paths.
pub(super) fn order(index: &Index, query: &Query, all: &[Signals]) -> Vec<(f64, usize)> {
    let scores = all.iter().zip(index.files()).map(|(signals, entry)| score(signals, entry, query));
    let mut scored: Vec<(f64, usize)> = scores.zip(0..).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scored
}

/// The signals of every file by number, and all files with their scores, best first.
type Scored = (Vec<Signals>, Vec<(f64, usize)>);

/// Judges every file of the index.
pub fn scored(index: &Index, query: &Query) -> Result<Scored, ContextError> {
    let all = signals(index, query)?;
    let mut order = order(index, query, &all);
    admit_neighbour(&all, &mut order);
    Ok((all, order))
}

/// A fix often changes a second file in the folder of the first. Which one the words do not say, so
/// the last of the first ten places goes to the likeliest of them.
fn admit_neighbour(all: &[Signals], order: &mut [(f64, usize)]) {
    let Some(candidates) = order.get_mut(LAST_PLACE..) else { return };
    let candidates = &mut candidates[..];
    let worth = |(score, file): &(f64, usize)| all[*file].beside + NEIGHBOUR_SCORE * score;
    let within = candidates.len().min(NEIGHBOURS);
    let best = (0..within)
        .max_by(|a, b| worth(&candidates[*a]).total_cmp(&worth(&candidates[*b])).then(b.cmp(a)));
    if let Some(best) = best.filter(|best| all[candidates[*best].1].beside > 0.0) {
        // The others move down by one; the score stays what it was, so that chances stay honest.
        candidates[..=best].rotate_right(1);
    }
}

/// The `top` files for a query, best first. The same index and query always give the same answer.
pub fn rank(index: &Index, query: &Query, top: usize) -> Result<Vec<RankedFile>, ContextError> {
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let (all, mut scored) = scored(index, query)?;
    scored.retain(|(_, file)| all[*file].speaks());
    scored.truncate(top);
    let ranked = scored.into_iter().map(|(score, file)| RankedFile {
        path: index.files()[file].path.clone(),
        score,
        reasons: reasons(&all[file]),
    });
    Ok(ranked.collect())
}

fn score(signals: &Signals, entry: &Entry, query: &Query) -> f64 {
    let sum: f64 = signals.values().iter().zip(WEIGHTS).map(|(value, weight)| value * weight).sum();
    let set_aside = match entry.kind {
        Kind::Source => 0.0,
        Kind::Test if query.about_tests => 0.9,
        Kind::Document if query.about_documents => 0.3,
        Kind::Test => 1.5,
        Kind::Example => 0.8,
        Kind::Document => 0.6,
        Kind::Setting => 0.4,
        Kind::Generated => 0.1,
        Kind::Vendored => 0.2,
    };
    sum - set_aside
}

/// What spoke for a file, in words; its language speaks for too many to be told.
fn reasons(signals: &Signals) -> Vec<String> {
    const NAMES: [&str; SIGNALS] = [
        "holds the item's words",
        "holds them close together",
        "its folder is named like the item",
        "its name is in the item",
        "is mentioned by path",
        "bears a name that the item mentions",
        "changed for similar reasons before",
        "is in the product's main language",
        "defines what the item speaks of",
        "is used by other good files",
        "its tests hold the item's words",
        "holds a rare phrase of the item",
        "lies beside other good files",
        "declares what another file holds",
        "is a part of a good file",
    ];
    let told = Signals { home: 0.0, declares: 0.0, ..*signals };
    let mut parts: Vec<(f64, &str)> = told
        .values()
        .iter()
        .zip(WEIGHTS)
        .map(|(value, weight)| value * weight)
        .zip(NAMES)
        .filter(|(share, _)| *share > 0.05)
        .collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    parts.into_iter().map(|(share, name)| format!("{name} ({share:.2})")).collect()
}
