//! Suggests configuration changes that the user's own history supports (pure). Half of the items
//! suggest what to try; the other half measures the gain. Nothing is changed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::gain::{Gain, MIN};
use super::{Outcome, Report, Scored};

/// Required share of an area's changed files in one folder.
const CONCENTRATED: f64 = 0.9;
/// A folder must be ranked above the right file at least this often.
const IN_THE_WAY: usize = 3;

/// A suggestion with its gain on the held-back items.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suggestion {
    /// What and why.
    pub what: String,
    /// What to write, and where.
    pub setting: String,
    #[serde(flatten)]
    pub gain: Gain,
}

/// Suggested routes and folders, best first; empty if the history supports none.
pub fn suggest(report: &Report, seed: u64) -> Vec<Suggestion> {
    let mut by_code_base: BTreeMap<&str, Vec<(&Outcome, &Scored)>> = BTreeMap::new();
    for outcome in &report.outcomes {
        if let Ok(scored) = &outcome.result {
            by_code_base.entry(&outcome.repository).or_default().push((outcome, scored));
        }
    }
    let mut found = Vec::new();
    for (code_base, items) in by_code_base {
        let (seen, held_back): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|(outcome, _)| is_seen(outcome.item, seed));
        found.extend(folders_to_leave_out(code_base, &seen, &held_back));
        found.extend(routes(code_base, &seen, &held_back));
    }
    found.sort_by(|a, b| b.gain.total().total_cmp(&a.gain.total()));
    found
}

/// A pseudo-random number of an item: the same for the same seed, and independent of its
/// neighbours'.
pub(super) const fn drawn(item: i64, seed: u64) -> u64 {
    let mixed = (item.cast_unsigned() ^ seed.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Which half an item belongs to.
pub(super) const fn is_seen(item: i64, seed: u64) -> bool {
    drawn(item, seed) >> 63 == 0
}

type Item<'a> = (&'a Outcome, &'a Scored);

/// The folder of a file and its parent.
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
        let Some(gain) = gain(held_back, |path| !inside(path)) else { continue };
        // A folder inside a suggested one adds nothing.
        if found.iter().any(|one| one.setting.contains(&format!("`/{folder}`"))) {
            continue;
        }
        found.push(Suggestion {
            what: format!(
                "{folder} was ranked above the right file of {count} items, and no fix changed a file in it"
            ),
            setting: format!("write `/{folder}` into {code_base}/.ignore"),
            gain,
        });
    }
    found
}

/// Areas whose fixes are in one folder.
fn routes(code_base: &str, seen: &[Item<'_>], held_back: &[Item<'_>]) -> Vec<Suggestion> {
    let areas: BTreeSet<&str> = seen.iter().map(|(outcome, _)| outcome.area.as_str()).collect();
    let mut found = Vec::new();
    for area in areas.into_iter().filter(|area| !area.is_empty()) {
        let here = || seen.iter().filter(|(outcome, _)| outcome.area == area);
        if here().count() < MIN {
            continue;
        }
        let Some(folder) = concentration(here().map(|(_, scored)| *scored)) else { continue };
        let theirs: Vec<Item<'_>> =
            held_back.iter().filter(|(outcome, _)| outcome.area == area).copied().collect();
        let Some(gain) = gain(&theirs, |path| path.starts_with(folder)) else { continue };
        found.push(Suggestion {
            what: format!("the fixes of {area} are in {folder}"),
            setting: format!(
                "repository.routes = [{{ area = {area:?}, path = \"{code_base}/{}\" }}]",
                folder.trim_end_matches('/')
            ),
            gain,
        });
    }
    found
}

/// The folder that contains nearly all files these fixes changed; the deeper one of two.
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

/// The gain for items if only some files of the ranking are kept; `None` if it does not help enough
/// of them.
fn gain(items: &[Item<'_>], keep: impl Fn(&str) -> bool) -> Option<Gain> {
    let places = items.iter().map(|(_, scored)| {
        let is_right = |path: &str| scored.places.iter().any(|place| place.path == path);
        let before = scored.first.iter().position(|path| is_right(path));
        let mut kept = scored.first.iter().filter(|path| keep(path));
        let after = kept.position(|path| is_right(path));
        (before.map(|at| at + 1), after.map(|at| at + 1))
    });
    Some(Gain::of(places)).filter(Gain::is_significant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backtest::{Place, SkipReason, score};

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
            name: format!("#{item}"),
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
        let found = suggest(&score::report(outcomes, Vec::new()), 1);
        let route = found.iter().find(|one| one.setting.contains("repository.routes")).unwrap();
        assert!(route.setting.contains("/code/web/src"), "{route:?}");
        assert!(route.gain.rank_before < 0.34 && route.gain.rank_after == 1.0, "{route:?}");
        let ignored = found.iter().find(|one| one.setting.contains(".ignore")).unwrap();
        assert!(ignored.setting.contains("`/old/`") && ignored.gain.held_back > 0, "{ignored:?}");
        assert!(ignored.gain.rank_after > ignored.gain.rank_before);
    }

    #[test]
    fn too_little_history_and_what_does_not_help_suggest_nothing() {
        let few: Vec<Outcome> =
            (0..6).map(|item| outcome(item, "A", "x/a.rs", &["y/b.rs", "x/a.rs"])).collect();
        assert_eq!(suggest(&score::report(few, Vec::new()), 1), vec![]);
        let fine: Vec<Outcome> =
            (0..80).map(|item| outcome(item, "A", "x/a.rs", &["x/a.rs", "y/b.rs"])).collect();
        assert_eq!(suggest(&score::report(fine, Vec::new()), 1), vec![]);
        let mut left = outcome(1, "A", "x", &[]);
        left.result = Err(SkipReason::NoCommit);
        assert_eq!(suggest(&score::report(vec![left], Vec::new()), 1), vec![]);
    }
}
