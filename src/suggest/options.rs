//! The values that triage can choose from, and the check of its choice.

use std::fmt::Write as _;

use super::figures::Figures;
use super::vote::Candidate;
use crate::model::{ChosenBy, Field, ItemFields};

/// Values offered per field.
const MAX: usize = 3;
/// A value with less of the evidence is not worth its tokens.
const LEAST_SCORE: f64 = 0.1;
/// Of one value, in characters.
const MAX_VALUE_LEN: usize = 60;
/// Of all values of an item, in bytes; about 30 tokens.
const MAX_TEXT_LEN: usize = 110;

/// The values offered for one item. Their numbers count from 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    offered: Vec<(Field, Candidate)>,
}

/// A value that triage, or the evidence alone, decided for.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    pub field: Field,
    pub value: String,
    pub score: f64,
    pub by: ChosenBy,
}

impl Options {
    /// The likely values of the fields that differ from what the item has. A field without a record
    /// is not offered: what is chosen for it could not be shown.
    pub fn of(
        likely: impl IntoIterator<Item = (Field, Vec<Candidate>)>,
        own: &ItemFields,
        figures: &Figures,
    ) -> Self {
        let mut options = Self::default();
        let mut length = 0;
        for (field, found) in likely {
            let Some(best) = found.first() else { continue };
            // If the best one is what the item has, there is nothing to decide.
            if !figures.knows(field) || (own.has(field, &best.value) && !field.is_list()) {
                continue;
            }
            let fits = |one: &&Candidate| {
                one.score >= LEAST_SCORE
                    && !own.has(field, &one.value)
                    && one.value.chars().count() <= MAX_VALUE_LEN
            };
            for candidate in found.iter().filter(fits).take(MAX) {
                length += candidate.value.len() + field.word().len() + 5;
                if length <= MAX_TEXT_LEN {
                    options.offered.push((field, candidate.clone()));
                }
            }
        }
        options
    }

    pub fn is_empty(&self) -> bool {
        self.offered.is_empty()
    }

    /// `area: 1 Cart, 2 Search; owner: 3 Ann`. Not fenced yet.
    pub fn text(&self) -> String {
        let (mut text, mut last) = (String::new(), None);
        for (at, (field, candidate)) in self.offered.iter().enumerate() {
            let start = match last {
                Some(before) if before == *field => ", ".to_owned(),
                Some(_) => format!("; {}: ", field.word()),
                None => format!("{}: ", field.word()),
            };
            let value: Vec<&str> = candidate.value.split_whitespace().collect();
            let _: std::fmt::Result = write!(text, "{start}{} {}", at + 1, value.join(" "));
            last = Some(*field);
        }
        text
    }

    /// The values behind the chosen numbers, and how many numbers were not among those offered. A
    /// field that is not a list takes the first one. `None`: triage made no choice, so the evidence
    /// decides.
    pub fn check(&self, numbers: Option<&[i64]>) -> (Vec<Chosen>, u32) {
        let Some(numbers) = numbers else { return (self.most_likely(), 0) };
        let (mut chosen, mut unknown) = (Vec::<Chosen>::new(), 0);
        for number in numbers {
            let at = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
            let Some((field, candidate)) = at.and_then(|at| self.offered.get(at)) else {
                unknown += 1;
                continue;
            };
            let taken = |one: &Chosen| {
                one.field == *field && (!field.is_list() || one.value == candidate.value)
            };
            if chosen.iter().any(taken) {
                unknown += 1;
                continue;
            }
            chosen.push(Chosen {
                field: *field,
                value: candidate.value.clone(),
                score: candidate.score,
                by: self.by(*field, &candidate.value),
            });
        }
        (chosen, unknown)
    }

    /// The first value of each field.
    fn most_likely(&self) -> Vec<Chosen> {
        let mut chosen: Vec<Chosen> = Vec::new();
        for (field, candidate) in &self.offered {
            if field.is_list() || chosen.iter().all(|one| one.field != *field) {
                let (field, value, score) = (*field, candidate.value.clone(), candidate.score);
                chosen.push(Chosen { field, value, score, by: ChosenBy::History });
            }
        }
        chosen
    }

    fn by(&self, field: Field, value: &str) -> ChosenBy {
        let first = self.offered.iter().find(|(offered, _)| *offered == field);
        match first {
            Some((_, first)) if first.value == value || field.is_list() => ChosenBy::History,
            _ => ChosenBy::Triage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figure;
    use super::*;
    use crate::model::TrackRecord;

    fn options() -> Options {
        let candidate = |value: &str, score| Candidate { value: value.into(), score };
        let figure = |field| Figure {
            field,
            by: ChosenBy::History,
            area: String::new(),
            cutoff: 0.5,
            record: TrackRecord { right: 40, of: 50 },
            needed: 0,
            covered: 0,
        };
        let figures = Figures::new([Field::Area, Field::Owner, Field::Tags].map(figure), []);
        let likely = [
            (Field::Area, vec![candidate("Cart", 0.7), candidate("Search", 0.2)]),
            (Field::Priority, vec![candidate("1", 0.9)]),
            (Field::Tags, vec![candidate("ui", 0.6), candidate("old", 0.5), candidate("x", 0.4)]),
            (Field::Owner, vec![candidate("Ann", 0.5), candidate("Bob", 0.05)]),
        ];
        let own = ItemFields { tags: vec!["Old".into()], ..ItemFields::default() };
        Options::of(likely, &own, &figures)
    }

    #[test]
    fn real_values_are_offered_and_only_their_numbers_are_taken() {
        let options = options();
        assert_eq!(options.text(), "area: 1 Cart, 2 Search; tag: 3 ui, 4 x; owner: 5 Ann");
        let (chosen, unknown) = options.check(Some(&[2, 1, 4, 4, 0, -1, 99]));
        let values: Vec<(&str, ChosenBy)> =
            chosen.iter().map(|one| (one.value.as_str(), one.by)).collect();
        assert_eq!(values, [("Search", ChosenBy::Triage), ("x", ChosenBy::History)]);
        assert_eq!(unknown, 5);
        assert_eq!(options.check(Some(&[])), (Vec::new(), 0), "none of them");
        let (ours, _) = options.check(None);
        assert_eq!(
            ours.iter().map(|one| one.value.as_str()).collect::<Vec<_>>(),
            ["Cart", "ui", "x", "Ann"]
        );
    }

    #[test]
    fn what_the_item_has_is_not_offered() {
        let own = ItemFields { area: Some("cart".into()), ..ItemFields::default() };
        let best = vec![Candidate { value: "Cart".into(), score: 0.9 }];
        let record = TrackRecord { right: 40, of: 50 };
        let since = [((Field::Area, ChosenBy::History, String::new()), record)];
        let figures = Figures::new([], since);
        assert!(Options::of([(Field::Area, best.clone())], &own, &figures).is_empty());
        assert!(!Options::of([(Field::Area, best)], &ItemFields::default(), &figures).is_empty());
    }
}
