//! The product's main languages: a fix is rarely in a language that few files use.

use std::collections::HashMap;

use crate::index::open::Index;
use crate::rank::signals::Signals;
use crate::text::kind::Kind;
use crate::text::language::Language;

/// Languages below this share of files all count as equally rare.
const LEAST: f64 = 0.01;

/// Adds the signal of each file's language: 1 if it is the only language of the product, 0 if it is
/// a rare one.
pub(crate) fn add(index: &Index, all: &mut [Signals]) {
    let mut files: HashMap<Language, f64> = HashMap::new();
    for entry in index.files().iter().filter(|entry| entry.kind == Kind::Source) {
        *files.entry(entry.language).or_default() += 1.0;
    }
    let total: f64 = files.values().sum();
    for (signals, entry) in all.iter_mut().zip(index.files()) {
        let own = files.get(&entry.language).copied().unwrap_or(0.0);
        signals.main_language = language_signal(own / total.max(1.0));
    }
}

/// Converts the share of a language to its signal.
fn language_signal(share: f64) -> f64 {
    1.0 - share.max(LEAST).ln() / LEAST.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_language_has_the_full_signal_and_a_rare_one_none() {
        assert!((language_signal(1.0) - 1.0).abs() < 1e-9);
        assert!(language_signal(0.5) > 0.8);
        assert!(language_signal(0.001).abs() < 1e-9);
    }
}
