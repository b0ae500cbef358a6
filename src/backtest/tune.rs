//! What the user's own history supports changing (pure). Half of the items say what to try, the other
//! half, which had no say, what it is worth. Nothing is set.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Outcome, Report, Scored};

/// Fewer items than this, in either half, say nothing.
const FEWEST: usize = 8;
/// Share of an area's changed files that must lie in one folder.
const CONCENTRATED: f64 = 0.9;
/// A folder must push the right file down at least this often.
const IN_THE_WAY: usize = 3;

/// One thing to try, with what it was worth on the items that were held back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suggestion {
    /// What and why.
    pub what: String,
    /// What to write, and where.
    pub setting: String,
    /// Items that had no say in it and are touched by it.
    pub held_back: usize,
    /// Share of them with the right file among the first ten, in per cent.
    pub hit_10_before: f64,
    pub hit_10_after: f64,
    /// Mean reciprocal rank.
    pub rank_before: f64,
    pub rank_after: f64,
}

/// What to try, best first; empty if the history supports nothing.
pub fn suggest(report: &Report) -> Vec<Suggestion> {
    let mut by_code_base: BTreeMap<&str, Vec<(&Outcome, &Scored)>> = BTreeMap::new();
    for outcome in &report.outcomes {
        if let Ok(scored) = &outcome.result {
            by_code_base.entry(&outcome.repository).or_default().push((outcome, scored));
        }
    }
    let mut found = Vec::new();
    for (code_base, items) in by_code_base {
        let (seen, held_back): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|(outcome, _)| is_seen(outcome.item));
        found.extend(folders_to_leave_out(code_base, &seen, &held_back));
        found.extend(routes(code_base, &seen, &held_back));
    }
    found.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    found
}

fn gain(suggestion: &Suggestion) -> f64 {
    (suggestion.rank_after - suggestion.rank_before) * suggestion.held_back as f64
}

/// Which half an item belongs to: by its number, mixed, so that neighbours are parted.
const fn is_seen(item: i64) -> bool {
    item.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 0
}

type Item<'a> = (&'a Outcome, &'a Scored);

/// The folder and the one above it, without the file.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').take(2).map(|(at, _)| &path[..=at])
}

fn folders_to_leave_out(
    code_base: &str,
    seen: &[Item<'_>],
    held_back: &[Item<'_>],
) -> Vec<Suggestion> {
    let needed: BTreeSet<&str> = seen
        .iter()
        .flat_map(|(_, scored)| &scored.places)
        .flat_map(|place| folders(&place.path))
        .collect();
    let mut in_the_way: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, scored) in seen {
        let right = scored.best().unwrap_or(10).min(10);
        let above = scored.first.iter().take(right.saturating_sub(1));
        let here: BTreeSet<&str> = above.flat_map(|path| folders(path)).collect();
        for folder in here.difference(&needed) {
            *in_the_way.entry(folder).or_default() += 1;
        }
    }
    let candidates = in_the_way.into_iter().filter(|(_, count)| *count >= IN_THE_WAY);
    let mut found: Vec<Suggestion> = Vec::new();
    for (folder, count) in candidates {
        let inside = |path: &str| path.starts_with(folder);
        let Some(worth) = worth(held_back, |path| !inside(path)) else { continue };
        // A folder inside one that is suggested already says nothing new.
        if found.iter().any(|one| one.setting.contains(&format!("`/{folder}`"))) {
            continue;
        }
        found.push(Suggestion {
            what: format!(
                "{folder} stood above the right file of {count} items, and no fix changed anything there"
            ),
            setting: format!("write `/{folder}` into {code_base}/.ignore"),
            ..worth
        });
    }
    found
}

/// Areas whose fixes lie in one folder.
fn routes(code_base: &str, seen: &[Item<'_>], held_back: &[Item<'_>]) -> Vec<Suggestion> {
    let areas: BTreeSet<&str> = seen.iter().map(|(outcome, _)| outcome.area.as_str()).collect();
    let mut found = Vec::new();
    for area in areas.into_iter().filter(|area| !area.is_empty()) {
        let here = || seen.iter().filter(|(outcome, _)| outcome.area == area);
        if here().count() < FEWEST {
            continue;
        }
        let Some(folder) = concentration(here().map(|(_, scored)| *scored)) else { continue };
        let theirs: Vec<Item<'_>> =
            held_back.iter().filter(|(outcome, _)| outcome.area == area).copied().collect();
        let Some(worth) = worth(&theirs, |path| path.starts_with(folder)) else { continue };
        found.push(Suggestion {
            what: format!("the fixes of {area} lie in {folder}"),
            setting: format!(
                "repository.routes = [{{ area = {area:?}, path = \"{code_base}/{}\" }}]",
                folder.trim_end_matches('/')
            ),
            ..worth
        });
    }
    found
}

/// The folder that holds nearly all files these fixes changed; the deeper one of two.
pub fn concentration<'a>(items: impl Iterator<Item = &'a Scored>) -> Option<&'a str> {
    let (mut counts, mut all) = (BTreeMap::<&str, usize>::new(), 0_usize);
    for place in items.flat_map(|scored| &scored.places) {
        all += 1;
        folders(&place.path).for_each(|folder| *counts.entry(folder).or_default() += 1);
    }
    let enough = |(_, count): &(&str, usize)| *count as f64 >= CONCENTRATED * all.max(1) as f64;
    let folders = counts.into_iter().filter(enough).map(|(folder, _)| folder);
    folders.max_by_key(|folder| folder.len())
}

/// What keeping only some files of the ranking does for items; none if it does not help enough of
/// them.
fn worth(items: &[Item<'_>], keep: impl Fn(&str) -> bool) -> Option<Suggestion> {
    if items.len() < FEWEST {
        return None;
    }
    let (mut hits, mut ranks) = ((0, 0), (0.0, 0.0));
    for (_, scored) in items {
        let is_right = |path: &str| scored.places.iter().any(|place| place.path == path);
        let before = scored.first.iter().position(|path| is_right(path));
        let mut kept = scored.first.iter().filter(|path| keep(path));
        let after = kept.position(|path| is_right(path));
        hits.0 += usize::from(before.is_some_and(|at| at < 10));
        hits.1 += usize::from(after.is_some_and(|at| at < 10));
        ranks.0 += before.map_or(0.0, |at| 1.0 / (at + 1) as f64);
        ranks.1 += after.map_or(0.0, |at| 1.0 / (at + 1) as f64);
    }
    let count = items.len() as f64;
    let suggestion = Suggestion {
        what: String::new(),
        setting: String::new(),
        held_back: items.len(),
        hit_10_before: 100.0 * hits.0 as f64 / count,
        hit_10_after: 100.0 * hits.1 as f64 / count,
        rank_before: ranks.0 / count,
        rank_after: ranks.1 / count,
    };
    (hits.1 >= hits.0 && ranks.1 > ranks.0).then_some(suggestion)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backtest::{Left, Place, score};

    fn outcome(item: i64, area: &str, right: &str, first: &[&str]) -> Outcome {
        let first: Vec<String> = first.iter().map(|path| (*path).to_owned()).collect();
        let rank = first.iter().position(|path| path == right).map(|at| at + 1);
        let scored = Scored {
            base: String::new(),
            fixes: Vec::new(),
            places: vec![Place { path: right.to_owned(), rank }],
            first,
            visible: 0.0,
        };
        Outcome {
            item,
            title: String::new(),
            area: area.to_owned(),
            item_type: String::new(),
            repository: "/code".to_owned(),
            result: Ok(scored),
        }
    }

    #[test]
    fn a_folder_in_the_way_and_a_route_are_suggested_with_what_they_gain_on_held_back_items() {
        let mut outcomes: Vec<Outcome> = (0..80)
            .map(|item| {
                outcome(
                    item,
                    "Shop\\Web",
                    "web/src/a.rs",
                    &["old/a.rs", "api/b.rs", "web/src/a.rs"],
                )
            })
            .collect();
        outcomes.extend((80..120).map(|item| outcome(item, "Shop", "api/b.rs", &["api/b.rs"])));
        let found = suggest(&score::report(outcomes, Vec::new()));
        let route = found.iter().find(|one| one.setting.contains("repository.routes")).unwrap();
        assert!(route.setting.contains("/code/web/src"), "{route:?}");
        assert!(route.rank_before < 0.34 && route.rank_after == 1.0, "{route:?}");
        let ignored = found.iter().find(|one| one.setting.contains(".ignore")).unwrap();
        assert!(ignored.setting.contains("`/old/`") && ignored.held_back > 0, "{ignored:?}");
        assert!(ignored.rank_after > ignored.rank_before);
    }

    #[test]
    fn too_little_history_and_what_does_not_help_suggest_nothing() {
        let few: Vec<Outcome> =
            (0..6).map(|item| outcome(item, "A", "x/a.rs", &["y/b.rs", "x/a.rs"])).collect();
        assert_eq!(suggest(&score::report(few, Vec::new())), vec![]);
        let fine: Vec<Outcome> =
            (0..80).map(|item| outcome(item, "A", "x/a.rs", &["x/a.rs", "y/b.rs"])).collect();
        assert_eq!(suggest(&score::report(fine, Vec::new())), vec![]);
        let mut left = outcome(1, "A", "x", &[]);
        left.result = Err(Left::NoCommit);
        assert_eq!(suggest(&score::report(vec![left], Vec::new())), vec![]);
    }
}
