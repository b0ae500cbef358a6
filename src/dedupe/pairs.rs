//! Pairs of items that probably report the same problem, by their words alone.

use std::collections::HashMap;

use super::words::ItemWords;

/// A word that more items have says little about any two of them.
const MAX_HOLDERS: usize = 40;
/// The share of words, weighted by how rare they are, from which on two items are a pair.
const LEAST: f64 = 0.5;

/// Two places in the list, and how similar they are, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    pub first: usize,
    pub second: usize,
    pub similarity: f64,
}

/// Most similar first, at most `limit`.
#[expect(clippy::cast_precision_loss, reason = "numbers of items")]
pub fn similar_pairs(items: &[ItemWords], limit: usize) -> Vec<Pair> {
    let mut holders: HashMap<&str, Vec<(usize, f64)>> = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        for (word, weight) in item.weighted() {
            holders.entry(word).or_default().push((at, f64::from(weight)));
        }
    }
    let (mut lengths, mut shared) = (vec![0.0; items.len()], HashMap::<(usize, usize), f64>::new());
    let all = items.len() as f64;
    for found in holders.values() {
        let rarity = (1.0 + all / found.len() as f64).ln();
        for (at, weight) in found {
            lengths[*at] += (weight * rarity).powi(2);
        }
        if found.len() > MAX_HOLDERS {
            continue;
        }
        for (n, (first, weight)) in found.iter().enumerate() {
            for (second, other) in &found[n + 1..] {
                *shared.entry((*first, *second)).or_default() += weight * other * rarity.powi(2);
            }
        }
    }
    let pair = |((first, second), product): ((usize, usize), f64)| {
        let similarity = product / (lengths[first] * lengths[second]).sqrt();
        (similarity >= LEAST).then_some(Pair { first, second, similarity })
    };
    let mut pairs: Vec<Pair> = shared.into_iter().filter_map(pair).collect();
    pairs.sort_by(|a, b| {
        let places = (a.first, a.second).cmp(&(b.first, b.second));
        b.similarity.total_cmp(&a.similarity).then(places)
    });
    pairs.truncate(limit);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_reports_of_one_problem_are_a_pair_and_others_are_not() {
        let items: Vec<ItemWords> = [
            "Invoice total is rounded twice\nThe sum on the invoice differs by a cent.",
            "Export to CSV loses umlauts\nNames look broken in the file.",
            "Total of the invoice rounded twice\nSum differs by one cent on invoices.",
            "Dashboard is slow\nIt takes ten seconds to load.",
        ]
        .map(ItemWords::of_text)
        .into();
        let pairs = similar_pairs(&items, 10);
        let places: Vec<_> = pairs.iter().map(|pair| (pair.first, pair.second)).collect();
        assert_eq!(places, [(0, 2)], "{pairs:?}");
        assert!(similar_pairs(&items, 0).is_empty() && similar_pairs(&[], 5).is_empty());
    }
}
