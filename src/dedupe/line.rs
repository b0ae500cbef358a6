//! Who comes first: a bounded line of work, so that memory does not grow with the backlog.
//!
//! Work left out by earlier runs comes first, so that nothing starves. Urgent items do not wait
//! behind it: they stand in a line of their own, and as long as others would come before them the
//! two lines are served in turn.

use std::collections::{BTreeMap, HashMap};

use crate::model::{Complexity, ItemId, WorkItem};
use crate::settings::{Order, OrderBy};

/// A place in the line. Smaller is earlier. The number makes it unique and the order total.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    ranks: Vec<i64>,
    id: ItemId,
    urgent: bool,
}

/// Where items without a priority stand among 1 (urgent) to 4.
const NO_PRIORITY: i64 = 3;
/// Where items without a severity stand among 1 (critical) to 4.
const NO_SEVERITY: i64 = 3;
/// Where items without a verdict stand among 1 (trivial) to 4.
const NO_COMPLEXITY: i64 = 2;

impl Place {
    /// Of an item that was left out `deferrals` times, with triage's word if there is one.
    pub fn of(
        item: &WorkItem,
        deferrals: u32,
        complexity: Option<Complexity>,
        order: &Order,
    ) -> Self {
        let rank = |by: &OrderBy| match by {
            OrderBy::Deferrals => -i64::from(deferrals),
            OrderBy::Priority => item.priority.unwrap_or(NO_PRIORITY),
            OrderBy::Severity => severity_rank(item.severity.as_deref()),
            OrderBy::Complexity => complexity.map_or(NO_COMPLEXITY, complexity_rank),
            OrderBy::Age => item.changed_at.as_millisecond(),
        };
        Self {
            ranks: order.by.iter().map(rank).collect(),
            id: item.id,
            urgent: item.priority.is_some_and(|priority| priority <= order.urgent_priority),
        }
    }
}

const fn complexity_rank(complexity: Complexity) -> i64 {
    match complexity {
        Complexity::Trivial => 1,
        Complexity::Simple => 2,
        Complexity::Moderate => 3,
        Complexity::Complex => 4,
    }
}

/// The tracker writes `1 - Critical` to `4 - Low`; the number is what does not get translated.
fn severity_rank(severity: Option<&str>) -> i64 {
    severity
        .and_then(|text| text.trim_start().chars().next())
        .and_then(|digit| digit.to_digit(10))
        .map_or(NO_SEVERITY, i64::from)
}

/// At most `limit` pieces of work, the first in line; what falls out is handed back.
#[derive(Debug)]
pub struct Line<T> {
    limit: usize,
    /// Urgent work, and the rest; each no longer than the whole line may become.
    lanes: [BTreeMap<Place, T>; 2],
    places: HashMap<ItemId, Place>,
}

impl<T> Line<T> {
    /// An empty line for `limit` pieces.
    pub fn new(limit: usize) -> Self {
        Self { limit, lanes: [BTreeMap::new(), BTreeMap::new()], places: HashMap::new() }
    }

    /// Joins the line; an older entry of the same item gives way. Hands back whoever has no chance
    /// any more: the newcomer or someone later than it.
    pub fn join(&mut self, place: Place, work: T) -> Option<T> {
        if let Some(older) = self.places.insert(place.id, place.clone()) {
            self.lane(older.urgent).remove(&older);
        }
        let limit = self.limit;
        let lane = self.lane(place.urgent);
        lane.insert(place, work);
        if lane.len() <= limit {
            return None;
        }
        let (last, out) = lane.pop_last()?;
        self.places.remove(&last.id);
        Some(out)
    }

    /// Those who have their turn, first in line first, and those who have not.
    pub fn serve(self) -> (Vec<T>, Vec<T>) {
        let [mut urgent, mut rest] = self.lanes;
        let mut order: Vec<T> = Vec::new();
        let mut urgent_gave_way = true;
        loop {
            let next = match (urgent.first_key_value(), rest.first_key_value()) {
                // Before its time only in turn with those it passes.
                (Some((hurried, _)), Some((first, _))) if first < hurried => {
                    urgent_gave_way = !urgent_gave_way;
                    if urgent_gave_way { rest.pop_first() } else { urgent.pop_first() }
                }
                (Some(_), _) => urgent.pop_first(),
                (None, _) => rest.pop_first(),
            };
            match next {
                Some((_, work)) => order.push(work),
                None => break,
            }
        }
        let left = order.split_off(self.limit.min(order.len()));
        (order, left)
    }

    fn lane(&mut self, urgent: bool) -> &mut BTreeMap<Place, T> {
        &mut self.lanes[usize::from(!urgent)]
    }
}

/// Everyone of a finished line in order, by a fresh look at their places.
pub fn in_order<T>(work: Vec<T>, place: impl Fn(&T) -> Place) -> Vec<T> {
    let mut line = Line::new(usize::MAX);
    for one in work {
        let place = place(&one);
        line.join(place, one);
    }
    line.serve().0
}

#[cfg(test)]
mod tests {
    use super::super::fingerprint::tests::item;
    use super::*;
    use proptest::prelude::*;

    fn order() -> Order {
        let by = vec![OrderBy::Deferrals, OrderBy::Priority, OrderBy::Severity, OrderBy::Age];
        Order { by, urgent_priority: 1 }
    }

    fn place(id: i64, deferrals: u32, priority: Option<i64>) -> Place {
        let mut item = item(id, "").item;
        item.priority = priority;
        Place::of(&item, deferrals, None, &order())
    }

    #[test]
    fn those_left_out_before_come_first_then_priority() {
        let mut line = Line::new(10);
        for (id, deferrals, priority) in
            [(1, 0, Some(2)), (2, 0, None), (3, 1, Some(4)), (4, 2, None)]
        {
            assert!(line.join(place(id, deferrals, priority), id).is_none());
        }
        assert_eq!(line.serve().0, [4, 3, 1, 2]);
    }

    #[test]
    fn an_urgent_item_passes_an_endless_backlog_and_does_not_starve_it() {
        let mut line = Line::new(4);
        for id in 0..100 {
            line.join(place(id, 50, Some(2)), id);
        }
        for id in 100..200 {
            line.join(place(id, 0, Some(1)), id);
        }
        let (served, left) = line.serve();
        assert_eq!(served, [100, 0, 101, 1]);
        assert_eq!(left.len(), 4);
    }

    #[test]
    fn an_urgent_item_gives_way_only_to_what_was_left_out() {
        let mut line = Line::new(4);
        for (id, deferrals, priority) in
            [(1, 0, Some(3)), (2, 0, Some(1)), (3, 1, Some(4)), (4, 0, Some(1)), (5, 0, Some(1))]
        {
            line.join(place(id, deferrals, priority), id);
        }
        assert_eq!(line.serve().0, [2, 3, 4, 5]);
    }

    #[test]
    fn the_order_is_as_configured() {
        let order = Order { by: vec![OrderBy::Complexity, OrderBy::Age], urgent_priority: 0 };
        let at = |id, complexity| Place::of(&item(id, "").item, 9, Some(complexity), &order);
        let mut line = Line::new(3);
        line.join(at(1, Complexity::Complex), 1);
        line.join(at(2, Complexity::Trivial), 2);
        assert_eq!(line.serve().0, [2, 1]);
    }

    #[test]
    fn an_item_stands_in_line_once_whatever_changes() {
        let mut line = Line::new(3);
        assert_eq!(line.join(place(1, 0, Some(2)), "old"), None);
        assert_eq!(line.join(place(1, 0, Some(1)), "new"), None);
        assert_eq!(line.serve().0, ["new"]);
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
            entries in prop::collection::vec((0_u32..4, prop::option::of(2_i64..5)), 0..40),
            limit in 0_usize..10,
        ) {
            let mut line = Line::new(limit);
            let mut out = Vec::new();
            let mut all = Vec::new();
            for (id, (deferrals, priority)) in (0_i64..).zip(entries) {
                let place = place(id, deferrals, priority);
                all.push(place.clone());
                out.extend(line.join(place.clone(), place));
            }
            all.sort();
            let (kept, left) = line.serve();
            prop_assert_eq!(&kept[..], &all[..limit.min(all.len())]);
            prop_assert_eq!(kept.len() + out.len() + left.len(), all.len());
        }

        #[test]
        fn both_lanes_get_their_share(urgent in 0_usize..20, rest in 0_usize..20, limit in 1_usize..9) {
            let mut line = Line::new(limit);
            for id in 0..urgent { line.join(place(id as i64, 0, Some(1)), true); }
            for id in 0..rest { line.join(place(100 + id as i64, 3, Some(4)), false); }
            let (served, _) = line.serve();
            let count = served.iter().filter(|urgent| **urgent).count();
            prop_assert!(count >= urgent.min(limit / 2));
            prop_assert!(served.len() - count >= rest.min(limit / 2));
            prop_assert_eq!(served.len(), limit.min(urgent + rest));
        }
    }
}
