//! The gain of a change on held-back items (pure).

use serde::Serialize;

/// Fewer items, in either half, say nothing.
pub const MIN: usize = 8;
/// A gain that is more likely by chance does not count.
const BY_CHANCE: f64 = 0.01;
/// Number of files that an analysis gets first.
const FIRST: usize = 10;

/// Ranks of the first right file before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Gain {
    /// Held-back items that the change affects.
    pub held_back: usize,
    /// Percentage of them with the right file among the first ten.
    pub hit_10_before: f64,
    pub hit_10_after: f64,
    pub rank_before: f64,
    pub rank_after: f64,
    /// Items whose right file moved up, and down.
    pub better: usize,
    pub worse: usize,
}

impl Gain {
    /// From ranks, counted from one; `None`: not ranked.
    pub fn of(places: impl Iterator<Item = (Option<usize>, Option<usize>)>) -> Self {
        let mut gain = Self::default();
        let hit = |place: Option<usize>| f64::from(place.is_some_and(|place| place <= FIRST));
        let share = |place: Option<usize>| place.map_or(0.0, |place| 1.0 / place as f64);
        for (before, after) in places {
            gain.held_back += 1;
            gain.hit_10_before += hit(before);
            gain.hit_10_after += hit(after);
            gain.rank_before += share(before);
            gain.rank_after += share(after);
            let far = |place: Option<usize>| place.unwrap_or(usize::MAX);
            gain.better += usize::from(far(after) < far(before));
            gain.worse += usize::from(far(after) > far(before));
        }
        let count = gain.held_back.max(1) as f64;
        gain.hit_10_before *= 100.0 / count;
        gain.hit_10_after *= 100.0 / count;
        gain.rank_before /= count;
        gain.rank_after /= count;
        gain
    }

    /// Whether it is better beyond chance, and worse in no respect.
    pub fn is_significant(&self) -> bool {
        self.held_back >= MIN
            && self.hit_10_after >= self.hit_10_before
            && self.rank_after > self.rank_before
            && by_chance(self.better, self.worse) <= BY_CHANCE
    }

    /// The gain over all items together.
    pub fn total(&self) -> f64 {
        (self.rank_after - self.rank_before) * self.held_back as f64
    }
}

/// The probability that at least this many of these items are better if a change makes no
/// difference, so that better and worse are equally likely.
fn by_chance(better: usize, worse: usize) -> f64 {
    let count = better + worse;
    let half = 0.5_f64.ln() * count as f64;
    // The number of combinations, by its logarithm, from one to the next.
    let (mut ways, mut sum) = (0.0_f64, 0.0);
    for chosen in 0..=count {
        if chosen >= better {
            sum += (ways + half).exp();
        }
        ways += ((count - chosen).max(1) as f64).ln() - ((chosen + 1) as f64).ln();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_that_of_a_coin() {
        assert!((by_chance(0, 0) - 1.0).abs() < 1e-9);
        assert!((by_chance(7, 0) - 0.5_f64.powi(7)).abs() < 1e-12);
        assert!((by_chance(2, 1) - 0.5).abs() < 1e-9);
        assert!((by_chance(0, 5) - 1.0).abs() < 1e-9);
        assert!(by_chance(600, 400) < 1e-6 && by_chance(510, 490) > 0.2);
    }

    #[test]
    fn a_gain_is_more_than_luck_and_costs_no_hit() {
        let of = |better: usize, worse: usize, same: usize| {
            let all = std::iter::repeat_n((Some(4), Some(2)), better)
                .chain(std::iter::repeat_n((Some(2), Some(4)), worse))
                .chain(std::iter::repeat_n((Some(3), Some(3)), same));
            Gain::of(all)
        };
        assert!(
            of(9, 1, 5).is_significant() == (by_chance(9, 1) <= BY_CHANCE)
                && of(12, 1, 5).is_significant()
        );
        assert!(!of(5, 4, 50).is_significant(), "luck");
        assert!(!of(7, 0, 0).is_significant(), "too few");
        let lost = [(Some(9), Some(12))].into_iter();
        let lost = Gain::of(lost.chain(std::iter::repeat_n((Some(4), Some(2)), 40)));
        assert!(!lost.is_significant(), "{lost:?}");
        assert_eq!((lost.better, lost.worse, lost.held_back), (40, 1, 41));
    }
}
