//! Proposes weights and languages from the seen items (pure). Proposals are measured on the other
//! items before they are shown.

use std::collections::{BTreeMap, BTreeSet};

use super::gain::Gain;
use crate::context::{Candidate, Weights, extension_of, weights_of};
use crate::settings::Ranking;

/// Values that are tried for a factor; they are within [`Ranking::BOUNDS`].
const TRIED: [f64; 4] = [0.0, 0.5, 1.0, 2.0];
/// Most changes proposed.
const MAX: usize = 4;
/// Minimum gain of the mean reciprocal rank.
const LEAST: f64 = 0.005;
/// A language must be ranked above the right file of at least this many items.
const IN_THE_WAY: usize = 3;

/// An item with its candidate files.
pub struct Seen {
    pub candidates: Vec<Candidate>,
    /// Files changed by the fix.
    pub right: BTreeSet<String>,
}

impl Seen {
    /// The rank of the first right file; `None` if none is a candidate.
    fn place(&self, weights: &Weights) -> Option<usize> {
        let score = |one: &Candidate| weights.score(&one.signals, one.held_against, &one.path);
        let right = self.candidates.iter().filter(|one| self.right.contains(&one.path));
        let best = right
            .map(|one| (score(one), one))
            .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.path.cmp(&a.1.path)))?;
        let is_above = |one: &&Candidate| {
            let order = score(one).total_cmp(&best.0);
            order.is_gt() || (order.is_eq() && one.path < best.1.path)
        };
        Some(1 + self.candidates.iter().filter(is_above).count())
    }
}

/// One configuration change.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Factor(&'static str, f64),
    SetAside(String),
    Prefer(String),
}

impl Change {
    pub fn apply(&self, ranking: &Ranking) -> Ranking {
        let mut changed = ranking.clone();
        match self {
            Self::Factor(key, value) => {
                let factors = changed.factors_mut();
                let own = factors.into_iter().find(|(name, _)| name == key);
                own.into_iter().for_each(|(_, factor)| *factor = *value);
            }
            Self::SetAside(name) => changed.set_aside.push(name.clone()),
            Self::Prefer(name) => changed.prefer.push(name.clone()),
        }
        changed
    }

    /// What and why, for display.
    pub fn what(&self) -> String {
        match self {
            Self::Factor(key, value) if *value == 0.0 => {
                format!(
                    "`{key}` is misleading in this history: without it the right file is found for more items"
                )
            }
            Self::Factor(key, value) => {
                let word = if *value < 1.0 { "less" } else { "more" };
                format!("`{key}` should count {word} than by default")
            }
            Self::SetAside(name) => {
                format!(
                    "files in {name} are ranked above the right ones, and no fix changed any of them"
                )
            }
            Self::Prefer(name) => format!("fixes change files in {name} more often than others"),
        }
    }

    /// Whether both change the same setting.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Factor(a, _), Self::Factor(b, _)) => a == b,
            (Self::SetAside(a) | Self::Prefer(a), Self::SetAside(b) | Self::Prefer(b)) => a == b,
            _ => false,
        }
    }
}

/// The lines of `[ranking]` that differ from another configuration.
pub fn written(ranking: &Ranking, before: &Ranking) -> String {
    let (mut ranking, mut before) = (ranking.clone(), before.clone());
    let mut lines = String::from("[ranking]");
    for (changed, names) in [
        (ranking.prefer != before.prefer, ("prefer", &ranking.prefer)),
        (ranking.set_aside != before.set_aside, ("set_aside", &ranking.set_aside)),
    ] {
        if changed {
            lines += &format!("\n{} = {:?}", names.0, names.1);
        }
    }
    for ((key, now), (_, then)) in ranking.factors_mut().into_iter().zip(before.factors_mut()) {
        if now != then {
            lines += &format!("\n{key} = {now:?}");
        }
    }
    lines
}

/// The changes that the items support, best first, each on top of those before it.
pub fn propose(seen: &[Seen], ranking: &Ranking) -> Vec<Change> {
    let (mut found, mut now): (Vec<Change>, Ranking) = (Vec::new(), ranking.clone());
    let possible = possible(seen, ranking);
    while found.len() < MAX {
        let weights = weights_of(&now);
        let before: Vec<Option<usize>> = seen.iter().map(|item| item.place(&weights)).collect();
        let gain = |change: &Change| {
            let weights = weights_of(&change.apply(&now));
            let after = seen.iter().map(|item| item.place(&weights));
            let gain = Gain::of(before.iter().copied().zip(after));
            (gain.is_significant() && gain.rank_after - gain.rank_before >= LEAST)
                .then_some(gain.total())
        };
        let open = possible.iter().filter(|one| !found.iter().any(|known| known.is_like(one)));
        let gains = open.filter_map(|change| Some((gain(change)?, change)));
        let Some((_, best)) = gains.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        now = best.apply(&now);
        found.push(best.clone());
    }
    found
}

/// Every possible change.
fn possible(seen: &[Seen], ranking: &Ranking) -> Vec<Change> {
    let mut ranking = ranking.clone();
    let known: BTreeSet<String> =
        ranking.prefer.iter().chain(&ranking.set_aside).cloned().collect();
    let mut all = Vec::new();
    for (key, now) in ranking.factors_mut() {
        let others = TRIED.into_iter().filter(|value| (value - *now).abs() > 1e-9);
        all.extend(others.map(|value| Change::Factor(key, value)));
    }
    let languages = |items: &mut dyn Iterator<Item = &str>| -> BTreeSet<String> {
        items.map(extension_of).filter(|name| !name.is_empty()).collect()
    };
    let needed = languages(&mut seen.iter().flat_map(|item| &item.right).map(String::as_str));
    let mut in_the_way: BTreeMap<String, usize> = BTreeMap::new();
    for item in seen {
        let is_right = |one: &&Candidate| item.right.contains(&one.path);
        let above = item.candidates.iter().take_while(|one| !is_right(one));
        for name in languages(&mut above.map(|one| one.path.as_str())).difference(&needed) {
            *in_the_way.entry(name.clone()).or_default() += 1;
        }
    }
    let often = in_the_way.into_iter().filter(|(_, count)| *count >= IN_THE_WAY);
    // Of two with the same gain the last one is used: it is more specific.
    all.extend(needed.into_iter().map(Change::Prefer));
    all.extend(often.map(|(name, _)| Change::SetAside(name)));
    let is_new = |change: &Change| match change {
        Change::Factor(..) => true,
        Change::SetAside(name) | Change::Prefer(name) => !known.contains(name),
    };
    all.retain(is_new);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::SIGNALS;

    fn ranking() -> Ranking {
        toml::from_str::<crate::settings::Config>(crate::config::DEFAULT_TOML).unwrap().ranking
    }

    /// The right file has the words; the other one `signal`.
    fn item(right: &str, other: &str, signal: usize) -> Seen {
        let candidate = |path: &str, at: usize, value: f64| {
            let mut signals = [0.0; SIGNALS];
            signals[at] = value;
            Candidate { path: path.to_owned(), signals, held_against: 0.0 }
        };
        Seen {
            candidates: vec![candidate(other, signal, 1.0), candidate(right, 0, 0.5)],
            right: BTreeSet::from([right.to_owned()]),
        }
    }

    #[test]
    fn a_signal_that_misleads_counts_less() {
        let seen: Vec<Seen> = (0..30).map(|_| item("a.rs", "b.rs", 6)).collect();
        let found = propose(&seen, &ranking());
        assert!(
            matches!(found[..], [Change::Factor("history", value)] if value < 1.0),
            "{found:?}"
        );
        let changed = found[0].apply(&ranking());
        assert!(written(&changed, &ranking()).starts_with("[ranking]\nhistory = 0."));
    }

    #[test]
    fn a_language_that_no_fix_changed_is_set_aside() {
        // Each signal leads to the wrong file half of the time, so that no weight explains it.
        let other = |n: usize| item("a.rs", "b.sql", 1 + n % 2 * 5);
        let seen: Vec<Seen> = (0..60)
            .map(other)
            .chain((0..60).map(|n| {
                let right = item("a.rs", "b.rs", 0);
                let mut candidates = right.candidates;
                candidates[1].signals[1 + n % 2 * 5] = 1.0;
                Seen { candidates, right: right.right }
            }))
            .collect();
        let found = propose(&seen, &ranking());
        assert_eq!(found[0], Change::SetAside("sql".to_owned()), "{found:?}");
        assert_eq!(
            written(&found[0].apply(&ranking()), &ranking()),
            "[ranking]\nset_aside = [\"sql\"]"
        );
    }

    #[test]
    fn without_a_gain_nothing_is_proposed() {
        let fine: Vec<Seen> = (0..30).map(|_| item("a.rs", "b.rs", 10)).collect();
        assert_eq!(propose(&fine, &ranking()), []);
        let few: Vec<Seen> = (0..5).map(|_| item("a.rs", "b.rs", 6)).collect();
        assert_eq!(propose(&few, &ranking()), []);
        assert_eq!(propose(&[], &ranking()), []);
    }
}
