//! What the figures mean for a team, in sentences (pure).

use std::collections::BTreeMap;

use super::{Outcome, Report, Scored, SkipReason};
use crate::model::text::clip;

/// Fewer items are too few to judge.
const MIN: usize = 10;
/// Examples of items whose file was missed.
const EXAMPLES: usize = 5;
/// Number of files that an analysis gets first.
const FIRST: usize = 10;
/// A reason is explained if it concerns at least this share of the items.
const NOTABLE: f64 = 0.1;

/// Whether it would have helped, and how reliable that is.
pub fn answer(report: &Report) -> Vec<String> {
    let items = report.total.items;
    if items == 0 {
        return vec![
            "There is nothing to compare with: no commit in the history could be linked to a finished item.".to_owned(),
        ];
    }
    let within = |most: usize| {
        let scored = report.outcomes.iter().filter_map(|outcome| outcome.result.as_ref().ok());
        scored.filter(|scored| scored.best().is_some_and(|best| best <= most)).count()
    };
    let (ten, first) = (within(FIRST), within(1));
    let word = match report.total.hit_10 {
        _ if items < MIN => "Too few items to say",
        share if share >= 75.0 => "Yes, mostly",
        share if share >= 50.0 => "Often",
        _ => "Seldom",
    };
    let (low, high) = likely_range(ten, items);
    vec![
        format!(
            "Would it have helped? {word}: for {ten} of {items} items ({:.0}%), a file that the fix changed is among the ten that an analysis gets first; for {first} ({:.0}%) it is the very first.",
            report.total.hit_10, report.total.hit_1
        ),
        format!(
            "For other items of this kind expect between {:.0}% and {:.0}% (95% confidence with {items} items). The ranking uses no model: this measures the search before the analysis, without the search terms that triage adds.",
            100.0 * low,
            100.0 * high
        ),
    ]
}

/// The 95% confidence interval of the share (Wilson).
fn likely_range(hits: usize, items: usize) -> (f64, f64) {
    let (count, z) = (items as f64, 1.96_f64);
    let share = hits as f64 / count;
    let middle = share + z * z / (2.0 * count);
    let spread = z * (share * (1.0 - share) / count + z * z / (4.0 * count * count)).sqrt();
    let scale = 1.0 + z * z / count;
    (((middle - spread) / scale).max(0.0), ((middle + spread) / scale).min(1.0))
}

/// Why items were not used: how many, why, and what to do about it where it matters.
pub fn skip_reasons(report: &Report) -> Vec<(usize, &'static str, Option<&'static str>)> {
    let mut counts: BTreeMap<SkipReason, usize> = BTreeMap::new();
    for why in report.outcomes.iter().filter_map(|outcome| outcome.result.as_ref().err()) {
        *counts.entry(*why).or_default() += 1;
    }
    let all = report.outcomes.len().max(1) as f64;
    let mut rows: Vec<_> = counts
        .into_iter()
        .map(|(why, count)| {
            let notable = count as f64 >= NOTABLE * all;
            (count, why.text(), remedy(why).filter(|_| notable))
        })
        .collect();
    rows.sort_by_key(|(count, why, _)| (std::cmp::Reverse(*count), *why));
    rows
}

fn remedy(why: SkipReason) -> Option<&'static str> {
    match why {
        SkipReason::NoCommit => Some(
            "Look at one of their fixes: if it does not name the item as #123 or AB#123, set fixes.patterns; --numbers says what a bare #123 means.",
        ),
        SkipReason::NoParent => Some("Run `git fetch --unshallow` to get the missing commits."),
        SkipReason::Elsewhere => Some(
            "Fetch the branch that contains them, or add the other repository to repository.routes.",
        ),
        SkipReason::NoFolder => {
            Some("Pass the folder that the code was in at that time with --repo.")
        }
        SkipReason::FixedBefore
        | SkipReason::Fix(_)
        | SkipReason::OtherCodeBase
        | SkipReason::NoText => None,
    }
}

/// Some items whose file was missed, worst first.
pub fn misses(report: &Report) -> Vec<String> {
    let missed = |outcome: &Outcome| outcome.result.as_ref().is_ok_and(is_missed);
    let mut all: Vec<&Outcome> = report.outcomes.iter().filter(|one| missed(one)).collect();
    let best = |outcome: &Outcome| outcome.result.as_ref().ok().and_then(Scored::best);
    all.sort_by_key(|outcome| {
        (std::cmp::Reverse(best(outcome).unwrap_or(usize::MAX)), outcome.item)
    });
    all.into_iter().take(EXAMPLES).filter_map(example).collect()
}

pub(super) fn is_missed(scored: &Scored) -> bool {
    scored.best().is_none_or(|best| best > FIRST)
}

/// `#12 Total is wrong: the fix changed src/total.rs and 2 more (place 34); first was src/basket.rs`
fn example(outcome: &Outcome) -> Option<String> {
    let scored = outcome.result.as_ref().ok()?;
    let changed = scored.places.iter().min_by_key(|place| place.rank.unwrap_or(usize::MAX))?;
    let more = match scored.places.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let place = match changed.rank {
        Some(rank) => format!("place {rank}"),
        None => format!("not among the first {}", scored.first.len()),
    };
    let first = scored.first.first().map_or("nothing", String::as_str);
    let (name, title) = (&outcome.name, clip(&outcome.title, 70));
    Some(format!(
        "{name} {title}: the fix changed {}{more} ({place}); first was {first}",
        changed.path
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backtest::{Place, score};

    fn outcome(item: i64, rank: Option<usize>) -> Outcome {
        let scored = Scored {
            base: String::new(),
            fixes: Vec::new(),
            places: vec![Place { path: "src/right.rs".to_owned(), rank }],
            first: vec!["src/first.rs".to_owned()],
            visible: 0.0,
        };
        Outcome {
            item,
            name: format!("#{item}"),
            title: "Total".to_owned(),
            area: String::new(),
            item_type: String::new(),
            repository: String::new(),
            result: Ok(scored),
        }
    }

    #[test]
    fn the_answer_says_how_often_and_how_sure_that_is() {
        let mut outcomes: Vec<Outcome> = (0..20).map(|item| outcome(item, Some(1))).collect();
        outcomes.extend((20..25).map(|item| outcome(item, None)));
        outcomes.push(outcome(25, Some(30)));
        let report = score::report(outcomes, Vec::new());
        let said = answer(&report);
        assert!(said[0].contains("Yes, mostly: for 20 of 26 items (77%)"), "{said:?}");
        assert!(said[1].contains("between 58% and 89% (95% confidence with 26 items)"), "{said:?}");
        let missed = misses(&report);
        assert_eq!(missed.len(), EXAMPLES);
        assert!(
            missed[0].contains("#20 Total: the fix changed src/right.rs (not among the first 1)")
        );
        let few = score::report(vec![outcome(1, Some(1))], Vec::new());
        assert!(answer(&few)[0].contains("Too few items to say"));
        assert!(answer(&score::report(Vec::new(), Vec::new()))[0].contains("nothing to compare"));
    }

    #[test]
    fn reasons_come_with_what_to_do_where_they_matter() {
        let left = |why| Outcome { result: Err(why), ..outcome(1, None) };
        let mut outcomes: Vec<Outcome> = (0..30).map(|_| left(SkipReason::NoCommit)).collect();
        outcomes.push(left(SkipReason::NoParent));
        let rows = skip_reasons(&score::report(outcomes, Vec::new()));
        assert_eq!((rows[0].0, rows[0].2.is_some()), (30, true));
        assert_eq!((rows[1].0, rows[1].2), (1, None));
    }
}
