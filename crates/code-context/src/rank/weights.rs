//! The weight of each signal: measured on public code bases. Runs, the command line and the
//! backtest use the same weights.

use crate::rank::signals::SIGNALS;

/// In the order of [`crate::Signals::values`].
///
/// Rounded by hand. Halving or doubling any one of them changes the measured hits by about a point.
const MEASURED: [f64; SIGNALS] =
    [1.0, 1.5, 0.3, 0.4, 1.0, 0.8, 0.6, 1.2, 0.3, 0.25, 0.2, 0.3, 0.0, -0.5, 0.4];

/// Bonus for a file of a preferred language, and penalty for one of a deprioritised language: as
/// large as that for a test.
const PREFERRED: f64 = 0.5;
const SET_ASIDE: f64 = 1.5;

/// How signals become a score.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    signals: [f64; SIGNALS],
    /// Extensions in lower case.
    prefer: Vec<String>,
    set_aside: Vec<String>,
}

impl Default for Weights {
    fn default() -> Self {
        Self { signals: MEASURED, prefer: Vec::new(), set_aside: Vec::new() }
    }
}

impl Weights {
    /// The measured weights, with a user's preferred and deprioritised languages: extensions in any
    /// spelling.
    pub fn of(prefer: &[String], set_aside: &[String]) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| plain(name)).collect();
        Self { prefer: lower(prefer), set_aside: lower(set_aside), ..Self::default() }
    }

    /// In the order of [`crate::Signals::values`].
    pub(crate) fn of_signals(&self) -> [f64; SIGNALS] {
        self.signals
    }

    /// The score of a file; `held_against` is the penalty for its kind.
    pub fn score(&self, values: &[f64; SIGNALS], held_against: f64, path: &str) -> f64 {
        let sum: f64 = values.iter().zip(self.signals).map(|(value, weight)| value * weight).sum();
        sum - held_against + self.for_language(path)
    }

    fn for_language(&self, path: &str) -> f64 {
        if self.prefer.is_empty() && self.set_aside.is_empty() {
            return 0.0;
        }
        let extension = extension_of(path);
        let is_in = |names: &[String]| names.contains(&extension);
        let preferred = if is_in(&self.prefer) { PREFERRED } else { 0.0 };
        let set_aside = if is_in(&self.set_aside) { SET_ASIDE } else { 0.0 };
        preferred - set_aside
    }
}

/// `.SQL`, `*.sql` and `sql` are the same.
fn plain(name: &str) -> String {
    name.trim_start_matches(['*', '.']).to_lowercase()
}

/// The extension of a file in lower case; empty if it has none.
pub fn extension_of(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map(|(_, extension)| extension.to_lowercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_count_for_or_against_a_file() {
        let weights = Weights::of(&["rs".to_owned()], &["*.SQL".to_owned()]);
        let story = |weights: &Weights, path: &str| weights.score(&[0.0; SIGNALS], 0.0, path);
        assert!(story(&weights, "a.py").abs() < 1e-9);
        assert!((story(&weights, "a/b.RS") - PREFERRED).abs() < 1e-9);
        assert!((story(&weights, "a/b.sql") + SET_ASIDE).abs() < 1e-9);
        assert!(story(&weights, "rs").abs() < 1e-9, "a name is no extension");
    }
}
