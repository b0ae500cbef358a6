//! How close the ranking came to the fix (pure).

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Outcome, Report};
use crate::fixes::{Change, Reason};

/// Rank of a file that the fix changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub path: String,
    /// From 1; `None`: not among the ranked files.
    pub rank: Option<usize>,
}

/// One item compared with its fix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The commit before the fix.
    pub base: String,
    /// The commits that fixed it, and how they name the item.
    pub fixes: Vec<(String, Reason)>,
    pub places: Vec<Place>,
    /// The first files of the ranking.
    pub first: Vec<String>,
    /// Share of the changed lines that the packed context shows.
    pub visible: f64,
}

impl Scored {
    pub fn of(
        base: &str,
        fixes: &[(String, Reason)],
        gold: &[Change],
        ranked: &[String],
        shown: &BTreeMap<String, Vec<usize>>,
    ) -> Self {
        let rank = |path: &str| ranked.iter().position(|ranked| ranked == path).map(|at| at + 1);
        let place = |change: &Change| Place { path: change.path.clone(), rank: rank(&change.path) };
        Self {
            base: base.to_owned(),
            fixes: fixes.to_vec(),
            places: gold.iter().map(place).collect(),
            first: ranked.to_vec(),
            visible: visible(gold, shown),
        }
    }

    /// The rank of the first file of the fix.
    pub fn best(&self) -> Option<usize> {
        self.places.iter().filter_map(|place| place.rank).min()
    }

    fn hit(&self, within: usize) -> bool {
        self.best().is_some_and(|rank| rank <= within)
    }

    fn all(&self, within: usize) -> bool {
        self.places.iter().all(|place| place.rank.is_some_and(|rank| rank <= within))
    }
}

fn visible(gold: &[Change], shown: &BTreeMap<String, Vec<usize>>) -> f64 {
    let (mut seen, mut all) = (0usize, 0usize);
    for change in gold {
        let lines = shown.get(&change.path).map(Vec::as_slice).unwrap_or_default();
        for (first, last) in &change.lines {
            let range = *first as usize..=*last as usize;
            all += range.clone().count();
            seen += range.filter(|line| lines.contains(line)).count();
        }
    }
    seen as f64 / all.max(1) as f64
}

/// Figures of a group of items; shares are percentages.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Table {
    pub items: usize,
    pub hit_1: f64,
    pub hit_5: f64,
    pub hit_10: f64,
    /// Every file of the fix is among the first ten.
    pub all_10: f64,
    /// Mean of 1 / rank of the first file of the fix.
    pub mean_reciprocal_rank: f64,
    /// Share of the changed lines that the packed context shows.
    pub changed_lines_visible: f64,
}

impl Table {
    fn of(scored: &[&Scored]) -> Self {
        let count = scored.len().max(1) as f64;
        let mean = |value: &dyn Fn(&Scored) -> f64| {
            scored.iter().map(|one| value(one)).sum::<f64>() / count
        };
        let share =
            |test: &dyn Fn(&Scored) -> bool| 100.0 * mean(&|one| f64::from(u8::from(test(one))));
        Self {
            items: scored.len(),
            hit_1: share(&|one| one.hit(1)),
            hit_5: share(&|one| one.hit(5)),
            hit_10: share(&|one| one.hit(10)),
            all_10: share(&|one| one.all(10)),
            mean_reciprocal_rank: mean(&|one| one.best().map_or(0.0, |rank| 1.0 / rank as f64)),
            changed_lines_visible: 100.0 * mean(&|one| one.visible),
        }
    }
}

pub fn report(outcomes: Vec<Outcome>, notes: Vec<String>) -> Report {
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    let mut all: Vec<&Scored> = Vec::new();
    let mut groups: BTreeMap<&'static str, BTreeMap<String, Vec<&Scored>>> = BTreeMap::new();
    for outcome in &outcomes {
        let scored = match &outcome.result {
            Ok(scored) => scored,
            Err(why) => {
                *left.entry(why.text().to_owned()).or_default() += 1;
                continue;
            }
        };
        all.push(scored);
        let kind = scored.places.first().and_then(|place| Path::new(&place.path).extension());
        let kind = kind.map(|kind| kind.to_string_lossy().into_owned());
        let names = [
            ("area", outcome.area.clone()),
            ("type", outcome.item_type.clone()),
            ("repository", outcome.repository.clone()),
            ("file type", kind.unwrap_or_default()),
        ];
        for (group, name) in names.into_iter().filter(|(_, name)| !name.is_empty()) {
            groups.entry(group).or_default().entry(name).or_default().push(scored);
        }
    }
    let groups = groups.into_iter().map(|(group, names)| {
        (group, names.into_iter().map(|(name, scored)| (name, Table::of(&scored))).collect())
    });
    let (total, groups) = (Table::of(&all), groups.collect());
    Report { total, groups, left, outcomes, notes, suggestions: Vec::new(), analysis: None }
}
