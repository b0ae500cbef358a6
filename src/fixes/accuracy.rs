//! Compares findings with the later fixes, as figures.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{FixScore, Opinion, Usd};

/// What is known of one finding so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// `None`: no commit names the item yet.
    pub score: Option<FixScore>,
    pub opinion: Option<Opinion>,
    pub cost: Option<Usd>,
}

/// How often findings were right. Shares are percentages of the findings made before their fix.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Accuracy {
    pub findings: usize,
    /// Findings whose items were fixed afterwards.
    pub fixed: usize,
    /// Findings whose items had been fixed before; not counted elsewhere.
    pub too_late: usize,
    /// Findings that name a file changed by the fix.
    pub confirmed: usize,
    pub confirmed_share: f64,
    /// Average share of the finding's files to change that the fix changed.
    pub precision: f64,
    /// Average share of the changed files that the finding names.
    pub recall: f64,
    /// Median time from finding to fix.
    pub median_seconds_to_fix: Option<i64>,
    pub opinions: BTreeMap<&'static str, usize>,
    /// Of all these findings.
    pub cost: Usd,
    /// `None` before the first one is confirmed.
    pub cost_per_confirmed: Option<Usd>,
}

impl Accuracy {
    pub fn of(findings: &[Judged]) -> Self {
        let scores: Vec<FixScore> = findings.iter().filter_map(|finding| finding.score).collect();
        let (in_time, late): (Vec<_>, Vec<_>) = scores.into_iter().partition(|s| s.in_time);
        let confirmed = in_time.iter().filter(|score| score.confirmed()).count();
        let mean = |of: fn(&FixScore) -> f64| {
            100.0 * in_time.iter().map(of).sum::<f64>() / in_time.len().max(1) as f64
        };
        let mut opinions = BTreeMap::new();
        for opinion in findings.iter().filter_map(|finding| finding.opinion) {
            *opinions.entry(opinion.into_str()).or_default() += 1;
        }
        let cost: Usd = findings.iter().filter_map(|finding| finding.cost).sum();
        Self {
            findings: findings.len(),
            fixed: in_time.len(),
            too_late: late.len(),
            confirmed,
            confirmed_share: mean(|score| f64::from(u8::from(score.confirmed()))),
            precision: mean(FixScore::precision),
            recall: mean(FixScore::recall),
            median_seconds_to_fix: median(in_time.iter().map(|s| s.seconds_to_fix).collect()),
            opinions,
            cost,
            cost_per_confirmed: (confirmed > 0)
                .then(|| Usd::from_dollars(cost.dollars() / confirmed as f64)),
        }
    }
}

fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(hits: u32, named: u32, changed: u32, seconds_to_fix: i64) -> Judged {
        let in_time = seconds_to_fix > 0;
        let score = FixScore { hits, named, changed, in_time, seconds_to_fix };
        Judged { score: Some(score), opinion: None, cost: Some(Usd::from_dollars(0.5)) }
    }

    #[test]
    fn what_came_too_late_or_is_not_fixed_yet_counts_in_no_share() {
        let open = Judged { score: None, opinion: Some(Opinion::Wrong), cost: None };
        let all = [judged(1, 2, 1, 100), judged(0, 1, 4, 300), judged(2, 2, 2, -5), open];
        let accuracy = Accuracy::of(&all);
        assert_eq!((accuracy.findings, accuracy.fixed, accuracy.too_late), (4, 2, 1));
        assert_eq!((accuracy.confirmed, accuracy.confirmed_share), (1, 50.0));
        assert_eq!((accuracy.precision, accuracy.recall), (25.0, 50.0));
        assert_eq!(accuracy.median_seconds_to_fix, Some(100));
        assert_eq!(accuracy.opinions, BTreeMap::from([("wrong", 1)]));
        assert_eq!(accuracy.cost_per_confirmed, Some(Usd::from_dollars(1.5)));
    }

    #[test]
    fn nothing_gives_no_figures() {
        let accuracy = Accuracy::of(&[]);
        assert_eq!(accuracy, Accuracy::default());
    }
}
