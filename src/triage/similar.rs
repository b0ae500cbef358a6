//! Known items whose titles resemble those of new ones: candidates for duplicates.
//!
//! Two passes over all titles, so that memory does not grow with the backlog: the first counts how
//! common each word is, the second compares.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::{ItemId, KnownTitle, Phase};

/// Candidates for one item.
const MOST: usize = 3;
/// How much of the two titles, rare words first, has to be the same.
const LEAST: f64 = 0.45;
const SHORTEST_WORD: usize = 3;

/// The search for items like these.
#[derive(Debug, Default)]
pub struct SimilarTitles {
    wanted: Vec<(ItemId, BTreeSet<String>)>,
    holders: HashMap<String, f64>,
    total: f64,
    found: BTreeMap<ItemId, Vec<(f64, KnownTitle)>>,
}

impl SimilarTitles {
    pub fn to<'a>(items: impl IntoIterator<Item = (ItemId, &'a str)>) -> Self {
        let wanted: Vec<_> = items.into_iter().map(|(id, title)| (id, words(title))).collect();
        let holders = wanted.iter().flat_map(|(_, words)| words.clone()).map(|word| (word, 0.0));
        Self { holders: holders.collect(), wanted, ..Self::default() }
    }

    /// The first pass.
    pub fn count(&mut self, title: &str) {
        self.total += 1.0;
        for word in words(title) {
            if let Some(holders) = self.holders.get_mut(&word) {
                *holders += 1.0;
            }
        }
    }

    /// The second pass.
    pub fn compare(&mut self, id: ItemId, phase: Phase, title: &str) {
        let theirs = words(title);
        if !theirs.iter().any(|word| self.holders.contains_key(word)) {
            return;
        }
        let all: f64 = theirs.iter().map(|word| self.rarity(word)).sum();
        for (item, own) in self.wanted.iter().filter(|(item, _)| *item != id) {
            let same: f64 = own.intersection(&theirs).map(|word| self.rarity(word)).sum();
            let own: f64 = own.iter().map(|word| self.rarity(word)).sum();
            let likeness = 2.0 * same / (own + all).max(f64::MIN_POSITIVE);
            if likeness >= LEAST {
                let found = self.found.entry(*item).or_default();
                found.push((likeness, KnownTitle { id, phase, title: title.to_owned() }));
                // The newer item, where two are equally similar.
                found.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.id.cmp(&a.1.id)));
                found.truncate(MOST);
            }
        }
    }

    /// The candidates of this item, the most similar first.
    pub fn of(&mut self, item: ItemId) -> Vec<KnownTitle> {
        let found = self.found.remove(&item).unwrap_or_default();
        found.into_iter().map(|(_, known)| known).collect()
    }

    /// A word that no title of ours has is as rare as a word can be.
    fn rarity(&self, word: &str) -> f64 {
        let holders = self.holders.get(word).copied().unwrap_or(1.0);
        (1.0 + self.total / holders.max(1.0)).ln()
    }
}

fn words(title: &str) -> BTreeSet<String> {
    let words = title.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let words = words.filter(|word| word.chars().count() >= SHORTEST_WORD);
    words.map(|word| word.strip_suffix('s').map(str::to_owned).unwrap_or(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(title: &str, known: &[(i64, &str)]) -> Vec<i64> {
        let mut search = SimilarTitles::to([(ItemId(1), title)]);
        known.iter().for_each(|(_, title)| search.count(title));
        for (id, title) in known {
            search.compare(ItemId(*id), Phase::Done, title);
        }
        search.of(ItemId(1)).into_iter().map(|known| known.id.0).collect()
    }

    #[test]
    fn rare_words_make_a_candidate_and_common_ones_do_not() {
        let known = [
            (1, "Invoice total is wrong by a cent"),
            (2, "Totals of invoices wrong: one cent missing"),
            (3, "The page is wrong"),
            (4, "Login page is slow"),
            (5, "The button is wrong"),
        ];
        assert_eq!(search("Invoice total is wrong by a cent", &known), [2]);
        assert_eq!(search("Xyzzy", &known), Vec::<i64>::new());
    }

    #[test]
    fn an_item_has_a_few_candidates_the_most_similar_and_newest_first() {
        let known: Vec<(i64, String)> =
            (2..40).map(|id| (id, "Cart total differs".to_owned())).collect();
        let known: Vec<(i64, &str)> = known.iter().map(|(id, t)| (*id, t.as_str())).collect();
        assert_eq!(search("Cart total differs", &known), [39, 38, 37]);
    }
}
