//! Who comes first: a bounded line of work, so that memory does not grow with the backlog.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::{ItemId, WorkItem};

/// A place in the line. Smaller is earlier: those left out before come first, the longest first,
/// then by priority, severity and age. The number makes it unique and the order total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    deferrals: Reverse<u32>,
    priority: i64,
    severity: u8,
    changed_at: Timestamp,
    id: ItemId,
}

/// Where items without a priority stand among 1 (urgent) to 4.
const NO_PRIORITY: i64 = 3;
/// Where items without a severity stand among 1 (critical) to 4.
const NO_SEVERITY: u8 = 3;

impl Place {
    /// Of an item that was left out `deferrals` times.
    pub fn of(item: &WorkItem, deferrals: u32) -> Self {
        Self {
            deferrals: Reverse(deferrals),
            priority: item.priority.unwrap_or(NO_PRIORITY),
            severity: severity_rank(item.severity.as_deref()),
            changed_at: item.changed_at,
            id: item.id,
        }
    }
}

/// The tracker writes `1 - Critical` to `4 - Low`; the number is what does not get translated.
fn severity_rank(severity: Option<&str>) -> u8 {
    severity
        .and_then(|text| text.trim_start().chars().next())
        .and_then(|digit| digit.to_digit(10))
        .and_then(|digit| u8::try_from(digit).ok())
        .unwrap_or(NO_SEVERITY)
}

/// At most `limit` pieces of work, the first in line; what falls out is handed back.
#[derive(Debug)]
pub struct Line<T> {
    limit: usize,
    places: BTreeMap<Place, T>,
}

impl<T> Line<T> {
    /// An empty line for `limit` pieces.
    pub fn new(limit: usize) -> Self {
        Self { limit, places: BTreeMap::new() }
    }

    /// Joins the line. Hands back whoever is beyond its end now: the newcomer, someone later than
    /// it, or the older entry of the same item.
    pub fn join(&mut self, place: Place, work: T) -> Option<T> {
        let replaced = self.places.insert(place, work);
        if replaced.is_some() || self.places.len() <= self.limit {
            return replaced;
        }
        self.places.pop_last().map(|(_, last)| last)
    }

    /// Everyone, first in line first.
    pub fn into_ordered(self) -> Vec<T> {
        self.places.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fingerprint::tests::item;
    use super::*;
    use proptest::prelude::*;

    fn place(id: i64, deferrals: u32, priority: Option<i64>) -> Place {
        let mut item = item(id, "").item;
        item.priority = priority;
        Place::of(&item, deferrals)
    }

    #[test]
    fn those_left_out_before_come_first_then_priority() {
        let mut line = Line::new(10);
        for (id, deferrals, priority) in
            [(1, 0, Some(1)), (2, 0, None), (3, 1, Some(4)), (4, 2, None)]
        {
            assert!(line.join(place(id, deferrals, priority), id).is_none());
        }
        assert_eq!(line.into_ordered(), [4, 3, 1, 2]);
    }

    #[test]
    fn severity_is_read_by_its_number() {
        assert_eq!(severity_rank(Some("1 - Critical")), 1);
        assert_eq!(severity_rank(Some("Kritisch")), NO_SEVERITY);
        assert_eq!(severity_rank(None), NO_SEVERITY);
    }

    proptest! {
        #[test]
        fn the_line_keeps_the_first_and_hands_back_the_rest(
            entries in prop::collection::vec((0_u32..4, prop::option::of(1_i64..5)), 0..40),
            limit in 0_usize..10,
        ) {
            let mut line = Line::new(limit);
            let mut out = Vec::new();
            let mut all = Vec::new();
            for (id, (deferrals, priority)) in (0_i64..).zip(entries) {
                let place = place(id, deferrals, priority);
                all.push(place);
                out.extend(line.join(place, place));
            }
            all.sort();
            let kept = line.into_ordered();
            prop_assert_eq!(&kept[..], &all[..limit.min(all.len())]);
            prop_assert_eq!(kept.len() + out.len(), all.len());
        }
    }
}
