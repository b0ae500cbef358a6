//! Definitions whose names are made of the query's words: `refreshToken()` for "the token is not
//! refreshed".

use std::collections::{BTreeSet, HashMap};

use crate::ContextError;
use crate::index::open::Index;
use crate::rank::signals::Signals;
use crate::text::kind::Kind;
use crate::text::term::{self, Space, Term};

/// Files whose definitions are read.
const FILES: usize = 200;

/// Adds the signals of the best files' definitions; `order` has the files by their score so far,
/// and `weights` the weight of each query word as a part of a name.
pub(crate) fn add(
    index: &Index,
    order: &[(f64, usize)],
    weights: &HashMap<Term, f64>,
    all: &mut [Signals],
) -> Result<(), ContextError> {
    let code = order.iter().filter(|(_, file)| index.files()[*file].kind != Kind::Document);
    for (_, file) in code.take(FILES) {
        let number = u32::try_from(*file).unwrap_or(u32::MAX);
        let definitions = index.definitions(number)?;
        let scores = definitions.iter().map(|definition| made_of(&definition.name, weights));
        all[*file].definition = scores.fold(0.0, f64::max);
    }
    Ok(())
}

/// How much of a name is made of the weighted words; a single word is not enough.
fn made_of(name: &str, weights: &HashMap<Term, f64>) -> f64 {
    let mut parts = 0.0;
    let mut found = 0.0;
    let mut distinct = BTreeSet::new();
    for (_, word) in term::identifiers(name.as_bytes()) {
        term::parts(word, |part| {
            parts += 1.0;
            let term = term::hash(Space::Word, term::stem(part));
            if weights.contains_key(&term) {
                found += 1.0;
                distinct.insert(term);
            }
        });
    }
    if distinct.len() < 2 {
        return 0.0;
    }
    distinct.iter().map(|term| weights[term]).sum::<f64>() * found / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_made_of_the_words_count_the_more_the_fuller_they_are() {
        let word = |text: &str| term::hash(Space::Word, term::stem(text.as_bytes()));
        let weights = HashMap::from([(word("refresh"), 2.0), (word("token"), 1.0)]);
        assert!((made_of("refreshToken", &weights) - 3.0).abs() < 1e-9);
        assert!((made_of("refresh_token_twice", &weights) - 2.0).abs() < 1e-9);
        assert!(made_of("token", &weights).abs() < 1e-9);
        assert!(made_of("", &weights).abs() < 1e-9);
    }
}
