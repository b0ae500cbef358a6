//! How often suggestions were right, and which may be shown.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::model::{ChosenBy, Field, TrackRecord};

/// Suggestions that a record needs before anything is shown by it.
const LEAST_MEASURED: u32 = 20;
/// The last suggestions that a record counts, and the very last ones, which have to be as good.
const LATELY: [usize; 2] = [100, 30];
/// What a record has to reach is the lower end of its interval of so many standard deviations: the
/// best of many records is better than what follows.
const CAUTION: f64 = 1.0;
/// How many measured suggestions of all areas an area's own ones have to outweigh.
const WEIGHT_OF_ALL: f64 = 20.0;
/// Without a measured one: most of the evidence.
const DEFAULT_CUTOFF: f64 = 0.5;

/// A measured record of the suggestions for one field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub field: Field,
    pub by: ChosenBy,
    /// Empty: all areas.
    pub area: String,
    /// Suggestions with a lower score are not made.
    pub cutoff: f64,
    #[serde(flatten)]
    pub record: TrackRecord,
    /// Items whose value a person set or changed, and how many of them had a suggestion.
    pub needed: u32,
    pub covered: u32,
}

/// The records of one source: measured on finished items, and what people did since.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    measured: HashMap<(Field, ChosenBy, String), Figure>,
    since: HashMap<(Field, ChosenBy, String), TrackRecord>,
}

impl Figures {
    /// `since` counts the suggestions that people kept or changed after the measurement, by area.
    pub fn new(
        measured: impl IntoIterator<Item = Figure>,
        since: impl IntoIterator<Item = ((Field, ChosenBy, String), TrackRecord)>,
    ) -> Self {
        let key = |figure: &Figure| (figure.field, figure.by, figure.area.clone());
        Self {
            measured: measured.into_iter().map(|figure| (key(&figure), figure)).collect(),
            since: since.into_iter().collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.measured.is_empty() && self.since.is_empty()
    }

    /// Whether anything is known about suggestions for this field.
    pub fn knows(&self, field: Field) -> bool {
        [ChosenBy::History, ChosenBy::Triage].into_iter().any(|by| self.of_all(field, by).is_some())
    }

    pub fn cutoff(&self, field: Field, by: ChosenBy) -> f64 {
        let measured = self.measured.get(&(field, by, String::new()));
        measured.map_or(DEFAULT_CUTOFF, |figure| figure.cutoff)
    }

    /// The record of all areas: as measured, else what people did.
    fn of_all(&self, field: Field, by: ChosenBy) -> Option<TrackRecord> {
        if let Some(figure) = self.measured.get(&(field, by, String::new())) {
            return Some(figure.record);
        }
        let since = self.since.iter().filter(|((f, b, _), _)| (*f, *b) == (field, by));
        let sum = since.fold(TrackRecord::default(), |sum, (_, one)| sum.plus(*one));
        (sum.of > 0).then_some(sum)
    }

    /// What the suggestions in an area were worth, and whether one may be shown. An area is judged
    /// by its own record, and by that of all areas where it has few: what people correct in one area
    /// does not move another.
    pub fn judge(
        &self,
        (field, by, area): (Field, ChosenBy, &str),
        min_precision: f64,
    ) -> Option<(TrackRecord, bool)> {
        let all = self.of_all(field, by)?;
        let key = (field, by, area.to_owned());
        let own = self.measured.get(&key).filter(|_| !area.is_empty());
        let own = own.map(|figure| figure.record).unwrap_or_default();
        let own = own.plus(self.since.get(&key).copied().unwrap_or_default());
        let expected = (f64::from(own.right) + WEIGHT_OF_ALL * all.precision())
            / (f64::from(own.of) + WEIGHT_OF_ALL);
        let shown = if own.of >= LEAST_MEASURED { own } else { all };
        Some((shown, is_reliable(all, min_precision) && expected >= min_precision))
    }
}

impl TrackRecord {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { right: self.right + other.right, of: self.of + other.of }
    }
}

/// Whether enough suggestions were measured, and right often enough.
pub fn is_reliable(record: TrackRecord, min_precision: f64) -> bool {
    record.of >= LEAST_MEASURED && wilson(record, CAUTION).0 >= min_precision
}

/// The record of the last suggestions, oldest first: the worse one where the very last differ.
pub(super) fn lately(right: &[bool]) -> TrackRecord {
    let record = |most: usize| {
        let last = right.iter().rev().take(most);
        last.fold(TrackRecord::default(), |sum, right| {
            sum.plus(TrackRecord { right: u32::from(*right), of: 1 })
        })
    };
    let worse = |a: &TrackRecord, b: &TrackRecord| a.precision().total_cmp(&b.precision());
    LATELY.map(record).into_iter().min_by(worse).unwrap_or_default()
}

/// The 95 % interval of a share.
pub fn interval(record: TrackRecord) -> (f64, f64) {
    wilson(record, 1.96)
}

/// Wilson's interval of so many standard deviations.
pub(super) fn wilson(record: TrackRecord, z: f64) -> (f64, f64) {
    if record.of == 0 {
        return (0.0, 1.0);
    }
    let (n, p) = (f64::from(record.of), record.precision());
    let middle = p + z * z / (2.0 * n);
    let spread = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let whole = 1.0 + z * z / n;
    (((middle - spread) / whole).max(0.0), ((middle + spread) / whole).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(field: Field, area: &str, right: u32, of: u32) -> Figure {
        let (by, record) = (ChosenBy::History, TrackRecord { right, of });
        Figure { field, by, area: area.into(), cutoff: 0.6, record, needed: 0, covered: 0 }
    }

    #[test]
    fn corrections_in_one_area_hide_its_suggestions_and_no_others() {
        let measured = || {
            [Field::Area, Field::Owner].map(|field| figure(field, "", 180, 200)).into_iter().chain(
                [figure(Field::Owner, "Cart", 45, 50), figure(Field::Owner, "Search", 45, 50)],
            )
        };
        let judge = |figures: &Figures, field, area: &str| {
            figures.judge((field, ChosenBy::History, area), 0.8).unwrap()
        };
        let before = Figures::new(measured(), []);
        assert!(judge(&before, Field::Owner, "Cart").1);
        let wrong = (
            (Field::Owner, ChosenBy::History, "Cart".to_owned()),
            TrackRecord { right: 0, of: 200 },
        );
        let after = Figures::new(measured(), [wrong]);
        assert!(!judge(&after, Field::Owner, "Cart").1);
        for (field, area) in
            [(Field::Owner, "Search"), (Field::Owner, "Other"), (Field::Area, "Cart")]
        {
            assert_eq!(judge(&after, field, area), judge(&before, field, area), "{area}");
        }
        assert_eq!(after.judge((Field::Tags, ChosenBy::History, ""), 0.8), None, "no history");
    }

    #[test]
    fn few_measured_items_show_nothing() {
        let few = Figures::new([figure(Field::Area, "", 10, 10)], []);
        assert!(!few.judge((Field::Area, ChosenBy::History, ""), 0.8).unwrap().1);
        // Right often, but not lately.
        let right: Vec<bool> = (0..200).map(|at| at < 180).collect();
        assert_eq!(lately(&right), TrackRecord { right: 10, of: 30 });
        let (low, high) = interval(TrackRecord { right: 87, of: 100 });
        assert!((0.78..0.80).contains(&low) && (0.92..0.93).contains(&high), "{low} {high}");
    }
}
