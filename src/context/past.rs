//! What the repository's history says about the query: files that changed for the same words, and
//! files that change at all.

use std::collections::{BTreeMap, HashMap};

use super::index::Index;
use super::query::Query;
use super::signals::Signals;

/// Commits that count as being about the same thing.
const MOST_ALIKE: usize = 60;
/// After this many commits a change counts for a third.
const MEMORY: f64 = 800.0;

/// Adds what history says to the signals.
pub(super) fn add(index: &Index, query: &Query, all: &mut [Signals]) {
    let history = index.history();
    let files: Vec<Option<u32>> = history.paths.iter().map(|path| index.find(path)).collect();
    let file_of = |number: &u32| files.get(*number as usize).copied().flatten();
    for (age, commit) in history.commits.iter().enumerate() {
        let worth = (-(age as f64) / MEMORY).exp();
        for file in commit.files.iter().filter_map(file_of) {
            all[file as usize].habit += worth;
        }
    }
    for signals in all.iter_mut() {
        signals.habit = signals.habit.ln_1p();
    }
    let alike = alike(index, query);
    let best = alike.first().map_or(1.0, |(score, _)| *score);
    for (score, number) in alike.iter().take(MOST_ALIKE) {
        let commit = &history.commits[*number];
        let worth = (score / best).powi(2) / (commit.files.len() as f64).sqrt();
        for file in commit.files.iter().filter_map(file_of) {
            all[file as usize].past += worth;
        }
    }
}

/// Commits by how much their messages share with the query, best first.
fn alike(index: &Index, query: &Query) -> Vec<(f64, usize)> {
    let commits = &index.history().commits;
    let weights: HashMap<u64, f64> =
        query.words.iter().chain(&query.identifiers).map(|word| (word.term, word.weight)).collect();
    let mut holders: BTreeMap<u64, f64> = BTreeMap::new();
    for commit in commits {
        for term in commit.terms.iter().filter(|term| weights.contains_key(term)) {
            *holders.entry(*term).or_default() += 1.0;
        }
    }
    let total = commits.len() as f64;
    let usual =
        commits.iter().map(|commit| commit.terms.len()).sum::<usize>() as f64 / total.max(1.0);
    let mut scored: Vec<(f64, usize)> = Vec::new();
    for (number, commit) in commits.iter().enumerate() {
        let norm = 1.2 * (0.25 + 0.75 * commit.terms.len() as f64 / usual.max(1.0));
        let score: f64 = commit
            .terms
            .iter()
            .filter_map(|term| Some((weights.get(term)?, holders.get(term)?)))
            .map(|(weight, holders)| {
                weight * (1.0 + (total - holders + 0.5) / (holders + 0.5)).ln() * 2.2 / (1.0 + norm)
            })
            .sum();
        if score > 0.0 {
            scored.push((score, number));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scored
}
