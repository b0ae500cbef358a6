//! History as evidence: files whose commits are about the query's words.

use std::collections::{BTreeMap, HashMap};

use crate::index::open::Index;
use crate::rank::query::Query;
use crate::rank::signals::Signals;

/// How much a long history counts against its file.
const LENGTH_PENALTY: f64 = 0.5;
/// How soon repetitions of a word stop counting.
const SATURATION: f64 = 1.2;

/// All messages of the commits that changed one file.
#[derive(Default)]
struct FileHistory {
    /// Number of commits, each by its share.
    length: f64,
    /// The query's words in them.
    words: BTreeMap<u64, f64>,
}

/// Adds the signals of history: each file is scored by the messages of its commits as one text. A
/// commit that changes many files counts less for each.
pub(crate) fn add(index: &Index, query: &Query, all: &mut [Signals]) {
    let weights: HashMap<u64, f64> =
        query.words.iter().chain(&query.identifiers).map(|word| (word.term, word.weight)).collect();
    let histories = file_histories(index, &weights);
    let total = histories.len() as f64;
    let mut holders: HashMap<u64, f64> = HashMap::new();
    for term in histories.values().flat_map(|history| history.words.keys()) {
        *holders.entry(*term).or_default() += 1.0;
    }
    let usual = histories.values().map(|history| history.length).sum::<f64>() / total.max(1.0);
    for (file, history) in &histories {
        let norm = 1.0 - LENGTH_PENALTY + LENGTH_PENALTY * history.length / usual;
        all[*file as usize].commit_history = history
            .words
            .iter()
            .map(|(term, count)| {
                let rare = (1.0 + (total - holders[term] + 0.5) / (holders[term] + 0.5)).ln();
                let frequency = count / norm;
                weights[term] * rare * frequency * (SATURATION + 1.0) / (frequency + SATURATION)
            })
            .sum();
    }
}

/// The histories of all existing files, by number.
fn file_histories(index: &Index, weights: &HashMap<u64, f64>) -> BTreeMap<u32, FileHistory> {
    let history = index.history();
    let files: Vec<Option<u32>> = history.paths.iter().map(|path| index.find(path)).collect();
    let mut histories: BTreeMap<u32, FileHistory> = BTreeMap::new();
    for commit in &history.commits {
        let held: Vec<u64> =
            commit.terms.iter().copied().filter(|term| weights.contains_key(term)).collect();
        let share = 1.0 / (commit.files.len() as f64).sqrt();
        for file in commit.files.iter().filter_map(|file| *files.get(*file as usize)?) {
            let history = histories.entry(file).or_default();
            history.length += share;
            for term in &held {
                *history.words.entry(*term).or_default() += share;
            }
        }
    }
    histories
}
