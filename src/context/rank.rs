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
const WEIGHTS: [f64; SIGNALS] = [1.0, 1.75, 0.5, 0.6, 0.3, 0.5, 0.25, 0.3, 0.3, 0.5, 0.2, 0.15];
/// A long file holds every word by chance.
const SIZE_PENALTY: f64 = 0.035;

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

/// The `top` files for a query, best first. The same index and query always give the same answer.
pub fn rank(index: &Index, query: &Query, top: usize) -> Result<Vec<RankedFile>, ContextError> {
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let all = signals(index, query)?;
    let mut scored = order(index, query, &all);
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
    let words: u32 = entry.lengths[3..].iter().sum();
    let set_aside = match entry.kind {
        Kind::Source => 0.0,
        Kind::Test if query.about_tests => 0.3,
        Kind::Document if query.about_documents => 0.3,
        Kind::Test | Kind::Example => 1.8,
        Kind::Document => 2.5,
        Kind::Setting => 1.1,
        Kind::Generated => 0.2,
        Kind::Vendored => 0.4,
    };
    sum - set_aside - SIZE_PENALTY * f64::from(words.max(1)).ln()
}

/// What spoke for a file, in words.
fn reasons(signals: &Signals) -> Vec<String> {
    const NAMES: [&str; SIGNALS] = [
        "holds the item's words",
        "holds them close together",
        "its folder is named like the item",
        "its name is in the item",
        "defines what the item names",
        "is mentioned by path",
        "is mentioned as a module or type",
        "changed for similar reasons before",
        "changes often",
        "is used by other good files",
        "uses other good files",
        "its tests hold the item's words",
    ];
    let mut parts: Vec<(f64, &str)> = signals
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
