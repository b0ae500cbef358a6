//! The order of work: a bounded queue, so that memory does not grow with the backlog.
//!
//! Items that earlier runs deferred come first, so that nothing starves. Urgent items have a
//! separate lane, so that they do not wait behind them: while deferred items are ahead of an urgent
//! one, the two lanes alternate.

use std::collections::{BTreeMap, HashMap};

use crate::event::Reason;
use crate::model::{CleanItem, Complexity, ItemId, ItemKey, Verdict, WorkItem};
use crate::settings::{Order, OrderBy};

/// An item with work to do: its text for the agent, why it is queued, and triage's verdict if an
/// earlier run has one.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedItem {
    /// As the agent would read it.
    pub item: CleanItem,
    /// Of the text that would be in the prompt.
    pub fingerprint: String,
    /// Triage's verdict on this text, if there is one.
    pub verdict: Option<Verdict>,
    pub reason: Reason,
    /// Number of runs that deferred it.
    pub deferrals: u32,
    /// Number of items among which triage failed with this one in it; 0: none.
    pub suspect_among: u32,
}

impl QueuedItem {
    /// Its number, title, state and so on.
    pub fn facts(&self) -> &WorkItem {
        &self.item.facts
    }

    pub fn key(&self) -> &ItemKey {
        &self.facts().key
    }

    /// Its number in the tracker.
    pub fn id(&self) -> ItemId {
        self.facts().id
    }

    /// The revision that was read.
    pub fn revision(&self) -> i64 {
        self.facts().rev
    }

    pub fn position(&self, order: &Order) -> QueuePosition {
        let complexity = self.verdict.as_ref().map(|verdict| verdict.complexity);
        QueuePosition::of(self.facts(), self.deferrals, complexity, order)
    }
}

/// A position in the queue; smaller is earlier. The key makes it unique and the order total: two
/// sources may use the same number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePosition {
    ranks: Vec<i64>,
    id: ItemId,
    key: ItemKey,
    urgent: bool,
}

/// Rank of items without a priority among 1 (urgent) to 4.
const NO_PRIORITY: i64 = 3;
/// Rank of items without a severity among 1 (critical) to 4.
const NO_SEVERITY: i64 = 3;
/// Rank of items without a verdict among 1 (trivial) to 4.
const NO_COMPLEXITY: i64 = 2;

impl QueuePosition {
    /// The position of an item that was deferred `deferrals` times.
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
            key: item.key.clone(),
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

/// The tracker writes `1 - Critical` to `4 - Low`; only the number is not translated.
fn severity_rank(severity: Option<&str>) -> i64 {
    severity
        .and_then(|text| text.trim_start().chars().next())
        .and_then(|digit| digit.to_digit(10))
        .map_or(NO_SEVERITY, i64::from)
}

/// Keeps the first `limit` entries and returns the others.
#[derive(Debug)]
pub struct Queue<T> {
    limit: usize,
    /// Urgent entries, and the rest; each lane has at most `limit` entries.
    lanes: [BTreeMap<QueuePosition, T>; 2],
    positions: HashMap<ItemKey, QueuePosition>,
}

impl<T> Queue<T> {
    pub fn new(limit: usize) -> Self {
        Self { limit, lanes: [BTreeMap::new(), BTreeMap::new()], positions: HashMap::new() }
    }

    /// Adds an entry and replaces an older one of the same item. Returns the entry that no longer
    /// fits: this one, or a later one.
    pub fn push(&mut self, position: QueuePosition, entry: T) -> Option<T> {
        if let Some(older) = self.positions.insert(position.key.clone(), position.clone()) {
            self.lane(older.urgent).remove(&older);
        }
        let limit = self.limit;
        let lane = self.lane(position.urgent);
        lane.insert(position, entry);
        if lane.len() <= limit {
            return None;
        }
        let (last, over) = lane.pop_last()?;
        self.positions.remove(&last.key);
        Some(over)
    }

    /// The first `limit` entries in order, and those over the limit.
    pub fn into_order(self) -> (Vec<T>, Vec<T>) {
        let [mut urgent, mut rest] = self.lanes;
        let mut order: Vec<T> = Vec::new();
        let mut rest_came_last = true;
        loop {
            let next = match (urgent.first_key_value(), rest.first_key_value()) {
                // An urgent entry overtakes earlier ones only alternately.
                (Some((hurried, _)), Some((first, _))) if first < hurried => {
                    rest_came_last = !rest_came_last;
                    if rest_came_last { rest.pop_first() } else { urgent.pop_first() }
                }
                (Some(_), _) => urgent.pop_first(),
                (None, _) => rest.pop_first(),
            };
            match next {
                Some((_, entry)) => order.push(entry),
                None => break,
            }
        }
        let over = order.split_off(self.limit.min(order.len()));
        (order, over)
    }

    fn lane(&mut self, urgent: bool) -> &mut BTreeMap<QueuePosition, T> {
        &mut self.lanes[usize::from(!urgent)]
    }
}

/// All items in the queue's order. A verdict may have changed their positions.
pub fn in_order(items: Vec<QueuedItem>, order: &Order) -> Vec<QueuedItem> {
    let mut queue = Queue::new(usize::MAX);
    for item in items {
        queue.push(item.position(order), item);
    }
    queue.into_order().0
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

    fn place(id: i64, deferrals: u32, priority: Option<i64>) -> QueuePosition {
        let mut item = item(id, "").facts;
        item.priority = priority;
        QueuePosition::of(&item, deferrals, None, &order())
    }

    #[test]
    fn deferred_items_come_first_then_priority() {
        let mut queue = Queue::new(10);
        for (id, deferrals, priority) in
            [(1, 0, Some(2)), (2, 0, None), (3, 1, Some(4)), (4, 2, None)]
        {
            assert!(queue.push(place(id, deferrals, priority), id).is_none());
        }
        assert_eq!(queue.into_order().0, [4, 3, 1, 2]);
    }

    #[test]
    fn an_urgent_item_passes_an_endless_backlog_and_does_not_starve_it() {
        let mut queue = Queue::new(4);
        for id in 0..100 {
            queue.push(place(id, 50, Some(2)), id);
        }
        for id in 100..200 {
            queue.push(place(id, 0, Some(1)), id);
        }
        let (served, left) = queue.into_order();
        assert_eq!(served, [100, 0, 101, 1]);
        assert_eq!(left.len(), 4);
    }

    #[test]
    fn an_urgent_item_gives_way_only_to_deferred_ones() {
        let mut queue = Queue::new(4);
        for (id, deferrals, priority) in
            [(1, 0, Some(3)), (2, 0, Some(1)), (3, 1, Some(4)), (4, 0, Some(1)), (5, 0, Some(1))]
        {
            queue.push(place(id, deferrals, priority), id);
        }
        assert_eq!(queue.into_order().0, [2, 3, 4, 5]);
    }

    #[test]
    fn the_order_is_as_configured() {
        let order = Order { by: vec![OrderBy::Complexity, OrderBy::Age], urgent_priority: 0 };
        let at =
            |id, complexity| QueuePosition::of(&item(id, "").facts, 9, Some(complexity), &order);
        let mut queue = Queue::new(3);
        queue.push(at(1, Complexity::Complex), 1);
        queue.push(at(2, Complexity::Trivial), 2);
        assert_eq!(queue.into_order().0, [2, 1]);
    }

    #[test]
    fn an_item_is_queued_once_whatever_changes() {
        let mut queue = Queue::new(3);
        assert_eq!(queue.push(place(1, 0, Some(2)), "old"), None);
        assert_eq!(queue.push(place(1, 0, Some(1)), "new"), None);
        assert_eq!(queue.into_order().0, ["new"]);
    }

    #[test]
    fn severity_is_read_by_its_number() {
        assert_eq!(severity_rank(Some("1 - Critical")), 1);
        assert_eq!(severity_rank(Some("Kritisch")), NO_SEVERITY);
        assert_eq!(severity_rank(None), NO_SEVERITY);
    }

    #[test]
    fn items_of_two_sources_with_one_number_both_have_a_place() {
        let mut queue = Queue::new(5);
        for source in ["ado", "web"] {
            let mut item = item(7, "");
            item.facts.key = ItemKey::new(source, item.facts.id);
            queue.push(QueuePosition::of(&item.facts, 0, None, &order()), source);
        }
        assert_eq!(queue.into_order().0, ["ado", "web"]);
    }

    proptest! {
        #[test]
        fn the_queue_keeps_the_first_and_hands_back_the_rest(
            entries in prop::collection::vec((0_u32..4, prop::option::of(2_i64..5)), 0..40),
            limit in 0_usize..10,
        ) {
            let mut queue = Queue::new(limit);
            let mut out = Vec::new();
            let mut all = Vec::new();
            for (id, (deferrals, priority)) in (0_i64..).zip(entries) {
                let place = place(id, deferrals, priority);
                all.push(place.clone());
                out.extend(queue.push(place.clone(), place));
            }
            all.sort();
            let (kept, left) = queue.into_order();
            prop_assert_eq!(&kept[..], &all[..limit.min(all.len())]);
            prop_assert_eq!(kept.len() + out.len() + left.len(), all.len());
        }

    #[test]
        fn both_lanes_get_their_share(urgent in 0_usize..20, rest in 0_usize..20, limit in 1_usize..9) {
            let mut queue = Queue::new(limit);
            for id in 0..urgent { queue.push(place(id as i64, 0, Some(1)), true); }
            for id in 0..rest { queue.push(place(100 + id as i64, 3, Some(4)), false); }
            let (served, _) = queue.into_order();
            let count = served.iter().filter(|urgent| **urgent).count();
            prop_assert!(count >= urgent.min(limit / 2));
            prop_assert!(served.len() - count >= rest.min(limit / 2));
            prop_assert_eq!(served.len(), limit.min(urgent + rest));
        }
    }
}
