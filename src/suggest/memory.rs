//! Earlier items, by their words: which of them are most like a new one.
//!
//! BM25 over the words that the index of all items uses, relative to the new item's own score, so
//! that a similarity means the same in a small backlog and in a large one. The same code answers a
//! run and the backtest: what is measured is what is shown.

use std::collections::{BTreeMap, HashMap};

/// How fast a repeated word stops counting, and how much long texts are discounted.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.4;
/// Distinct words of a text that are remembered; those of the title always are.
const MAX_WORDS: usize = 80;
/// Weight of a title word relative to a text word.
const TITLE: f64 = 2.0;

/// An earlier item: its words, title first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Example {
    pub title: String,
    pub text: String,
}

/// The words of an item that are worth remembering, of those that the index of all items has.
pub fn words_kept(title: &str, text: &str) -> Example {
    let mut seen = std::collections::HashSet::new();
    let fresh = text.split(' ').filter(|word| word.len() > 1 && seen.insert(*word));
    let text: Vec<&str> = fresh.take(MAX_WORDS).collect();
    Example { title: title.to_owned(), text: text.join(" ") }
}

impl Example {
    fn weighted(&self) -> BTreeMap<&str, f64> {
        let mut weights: BTreeMap<&str, f64> = BTreeMap::new();
        for word in self.text.split(' ').filter(|word| !word.is_empty()) {
            weights.insert(word, 1.0);
        }
        for word in self.title.split(' ').filter(|word| !word.is_empty()) {
            *weights.entry(word).or_default() += TITLE;
        }
        weights
    }
}

/// The words of many items; each has the number under which it was added.
#[derive(Debug, Default)]
pub struct Memory {
    holders: HashMap<String, Vec<(u32, f64)>>,
    lengths: Vec<f64>,
    length: f64,
}

impl Memory {
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Adds an item; its number is the count of those before it.
    pub fn add(&mut self, example: &Example) {
        let number = u32::try_from(self.lengths.len()).unwrap_or(u32::MAX);
        let weights = example.weighted();
        let length: f64 = weights.values().sum();
        for (word, weight) in weights {
            match self.holders.get_mut(word) {
                Some(holders) => holders.push((number, weight)),
                None => drop(self.holders.insert(word.to_owned(), vec![(number, weight)])),
            }
        }
        self.lengths.push(length);
        self.length += length;
    }

    /// The items most like this one, most similar first, with their similarity from 0 to 1.
    pub fn nearest(&self, example: &Example, most: usize) -> Vec<(usize, f64)> {
        if self.is_empty() {
            return Vec::new();
        }
        let total = count(self.lengths.len());
        let average = (self.length / total).max(1.0);
        let weights = example.weighted();
        let own_length: f64 = weights.values().sum();
        let (mut scores, mut own) = (HashMap::<u32, f64>::new(), 0.0);
        for (word, weight) in weights {
            let holders = self.holders.get(word).map(Vec::as_slice).unwrap_or_default();
            let held = count(holders.len());
            let rarity = ((total - held + 0.5) / (held + 0.5)).ln_1p();
            own += weight * rarity * part(weight, own_length / average);
            // A word that half of the items have tells nothing and takes longest.
            if held * 2.0 > total.max(8.0) {
                continue;
            }
            for (number, found) in holders {
                let length = self.lengths.get(*number as usize).copied().unwrap_or(average);
                let share = weight * rarity * part(*found, length / average);
                *scores.entry(*number).or_default() += share;
            }
        }
        let mut best: Vec<(usize, f64)> = scores
            .into_iter()
            .map(|(number, score)| (number as usize, (score / own.max(1e-9)).min(1.0)))
            .collect();
        // The newer one first if equal: it says more about the team of today.
        best.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        best.truncate(most);
        best
    }
}

fn part(weight: f64, relative_length: f64) -> f64 {
    let damped = SATURATION * (1.0 - LENGTH + LENGTH * relative_length);
    weight * (SATURATION + 1.0) / (weight + damped)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of items")]
pub(super) fn count(items: usize) -> f64 {
    items as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(text: &str) -> Example {
        let plain = text.to_lowercase().replace(|c: char| !c.is_alphanumeric() && c != '\n', " ");
        let (title, text) = plain.split_once('\n').unwrap_or((&plain, ""));
        words_kept(title, text)
    }

    #[test]
    fn the_most_similar_comes_first_and_the_same_text_is_fully_similar() {
        let mut memory = Memory::default();
        let texts = [
            "Invoice total wrong\nThe sum differs by a cent.",
            "Login page slow\nTen seconds to load.",
            "Export loses umlauts\nNames look broken.",
            "Totals of the invoice wrong\nOne cent is missing in the sum.",
        ];
        texts.iter().for_each(|text| memory.add(&example(text)));
        let near = memory.nearest(&example(texts[0]), 3);
        assert_eq!((near[0].0, near[1].0), (0, 3), "{near:?}");
        assert!(near[0].1 > 0.9 && near[1].1 < near[0].1, "{near:?}");
        assert!(memory.nearest(&example("zzz"), 3).is_empty());
        assert!(Memory::default().nearest(&example("a b c"), 3).is_empty());
    }
}
