//! The order of work: a bounded queue, so that memory does not grow with the backlog.
//!
//! Items that earlier runs deferred come first, so that nothing starves. Urgent items have lanes of
//! their own, so that they do not wait behind them: while deferred items are ahead of an urgent
//! one, the lanes alternate, and urgent newcomers alternate with urgent items that wait already.
//! With several sources, every second place goes to each of them in turn: a small one does not wait
//! behind a big one.
//!
//! So an urgent newcomer waits for one run at most while no more than a quarter of a run's places
//! arrive, a source with `n` sources gets at least one place of `2n`, and while at most half of the
//! places arrive anew, nobody waits for more runs than two backlogs fill.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::event::Reason;
use crate::model::{CleanItem, Complexity, ItemId, ItemKey, Verdict, WorkItem};
use crate::settings::{OrderBy, OrderSettings};

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

    pub fn position(&self, order: &OrderSettings) -> QueuePosition {
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
    lane: Lane,
}

/// Each has its share of the places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// Urgent, and new in this run.
    UrgentNew,
    Urgent,
    Rest,
}

const LANES: usize = 3;

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
        order: &OrderSettings,
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
            lane: match item.priority.is_some_and(|priority| priority <= order.urgent_priority) {
                true if deferrals == 0 => Lane::UrgentNew,
                true => Lane::Urgent,
                false => Lane::Rest,
            },
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
    entries: HashMap<ItemKey, (QueuePosition, T)>,
    /// By source; each lane of each source has at most `limit` entries.
    sources: BTreeMap<String, Lanes>,
}

/// The positions in each lane, in order.
#[derive(Debug, Default)]
struct Lanes {
    lanes: [BTreeSet<QueuePosition>; LANES],
    turn: SourceTurn,
}

/// Who came last, where two lanes alternate.
#[derive(Debug, Clone, Copy, Default)]
struct SourceTurn {
    urgent: bool,
    newcomer: bool,
}

impl SourceTurn {
    /// The lane that is next, by the first entry of each.
    fn next(&mut self, first: [Option<&QueuePosition>; LANES]) -> Option<QueuePosition> {
        let [newcomer, urgent, rest] = first;
        let hurried = match (newcomer, urgent) {
            (Some(newcomer), Some(urgent)) => Some(if self.newcomer { urgent } else { newcomer }),
            (newcomer, urgent) => newcomer.or(urgent),
        };
        let next = match (hurried, rest) {
            // An urgent entry overtakes earlier ones only alternately.
            (Some(hurried), Some(first)) if first < hurried => {
                self.urgent = !self.urgent;
                if self.urgent { hurried } else { first }
            }
            (hurried, rest) => hurried.or(rest)?,
        };
        match next.lane {
            Lane::UrgentNew => self.newcomer = true,
            Lane::Urgent => self.newcomer = false,
            Lane::Rest => {}
        }
        Some(next.clone())
    }
}

impl Lanes {
    fn first(&self) -> [Option<&QueuePosition>; LANES] {
        self.lanes.each_ref().map(BTreeSet::first)
    }

    fn lane(&mut self, lane: Lane) -> &mut BTreeSet<QueuePosition> {
        &mut self.lanes[lane as usize]
    }
}

impl<T> Queue<T> {
    pub fn new(limit: usize) -> Self {
        Self { limit, entries: HashMap::new(), sources: BTreeMap::new() }
    }

    /// Adds an entry and replaces an older one of the same item. Returns the entry that no longer
    /// fits: this one, or a later one.
    pub fn push(&mut self, position: QueuePosition, entry: T) -> Option<T> {
        let (key, lane) = (position.key.clone(), position.lane);
        let lanes = self.sources.entry(key.source().to_owned()).or_default();
        if let Some((older, _)) = self.entries.insert(key, (position.clone(), entry)) {
            lanes.lane(older.lane).remove(&older);
        }
        let lane = lanes.lane(lane);
        lane.insert(position);
        if lane.len() <= self.limit {
            return None;
        }
        let last = lane.pop_last()?;
        self.entries.remove(&last.key).map(|(_, entry)| entry)
    }

    /// The first `limit` entries in order, and those over the limit.
    pub fn into_order(mut self) -> (Vec<T>, Vec<T>) {
        let mut order: Vec<T> = Vec::with_capacity(self.entries.len());
        let mut turns = self.turns();
        let (several, mut turn) = (turns.len() > 1, SourceTurn::default());
        loop {
            let next = match several && order.len() % 2 == 1 {
                true => self.next_of_a_source(&mut turns),
                false => turn.next(self.first_of_all()),
            };
            let Some(next) = next else { break };
            if let Some(lanes) = self.sources.get_mut(next.key.source()) {
                lanes.lane(next.lane).remove(&next);
            }
            order.extend(self.entries.remove(&next.key).map(|(_, entry)| entry));
        }
        let over = order.split_off(self.limit.min(order.len()));
        (order, over)
    }

    /// The sources with entries, the one whose first entry is the earliest first: with few places
    /// each has its turn in one of the next runs.
    fn turns(&self) -> VecDeque<String> {
        let first = |lanes: &Lanes| lanes.first().into_iter().flatten().min().cloned();
        let sources = self.sources.iter().filter_map(|(name, lanes)| Some((first(lanes)?, name)));
        let mut sources: Vec<_> = sources.collect();
        sources.sort();
        sources.into_iter().map(|(_, name)| name.clone()).collect()
    }

    fn next_of_a_source(&mut self, turns: &mut VecDeque<String>) -> Option<QueuePosition> {
        while let Some(name) = turns.pop_front() {
            let Some(lanes) = self.sources.get_mut(&name) else { continue };
            let Lanes { lanes, turn } = lanes;
            if let Some(next) = turn.next(lanes.each_ref().map(BTreeSet::first)) {
                turns.push_back(name);
                return Some(next);
            }
        }
        None
    }

    fn first_of_all(&self) -> [Option<&QueuePosition>; LANES] {
        let of_lane =
            |lane: usize| self.sources.values().filter_map(move |lanes| lanes.first()[lane]).min();
        [of_lane(0), of_lane(1), of_lane(2)]
    }
}

/// All items in the queue's order. A verdict may have changed their positions.
pub fn in_order(items: Vec<QueuedItem>, order: &OrderSettings) -> Vec<QueuedItem> {
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

    fn order() -> OrderSettings {
        let by = vec![OrderBy::Deferrals, OrderBy::Priority, OrderBy::Severity, OrderBy::Age];
        OrderSettings { by, urgent_priority: 1 }
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
        let order =
            OrderSettings { by: vec![OrderBy::Complexity, OrderBy::Age], urgent_priority: 0 };
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

    fn of_source(source: &str, id: i64, deferrals: u32, priority: i64) -> QueuePosition {
        let mut item = item(id, "").facts;
        item.key = ItemKey::new(source, item.id);
        item.priority = Some(priority);
        QueuePosition::of(&item, deferrals, None, &order())
    }

    #[test]
    fn a_small_source_has_its_share_beside_a_big_one() {
        let mut queue = Queue::new(6);
        for id in 0..100 {
            queue.push(of_source("big", id, 50, 1), format!("big {id}"));
        }
        for id in 0..3 {
            queue.push(of_source("small", id, 0, 4), format!("small {id}"));
        }
        let (served, _) = queue.into_order();
        let small = served.iter().filter(|entry| entry.starts_with("small")).count();
        assert_eq!(small, 1, "one place of four: {served:?}");
        let mut queue = Queue::new(1);
        queue.push(of_source("a", 1, 4, 3), "a");
        queue.push(of_source("b", 1, 5, 3), "b");
        assert_eq!(queue.into_order().0, ["b"], "with one place, who waited longer");
    }

    /// What a run sees: everything new, and of each source those that waited longest, with a
    /// separate quota for urgent ones (as the store selects them).
    struct Waiting {
        source: &'static str,
        id: i64,
        priority: i64,
        arrived: u32,
    }

    fn seen_by(waiting: &[Waiting], run: u32, limit: usize) -> Vec<usize> {
        let mut seen: Vec<usize> =
            (0..waiting.len()).filter(|index| waiting[*index].arrived == run).collect();
        for source in ["big", "middle", "small"] {
            for most_urgent in [4, 1] {
                let old = (0..waiting.len()).filter(|index| {
                    let one = &waiting[*index];
                    one.source == source && one.priority <= most_urgent && one.arrived < run
                });
                // They are kept in the order of their arrival.
                seen.extend(old.take(2 * limit));
            }
        }
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    #[test]
    fn with_twenty_thousand_waiting_nobody_starves_in_five_hundred_runs() {
        const LIMIT: usize = 200;
        const BACKLOG: u32 = 20_000;
        let mut random = 7_u64;
        let mut next_random = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut id = 0;
        let mut add = |waiting: &mut Vec<Waiting>, source, priority, arrived| {
            id += 1;
            waiting.push(Waiting { source, id, priority, arrived });
        };
        for _ in 0..BACKLOG {
            let priority = 1 + i64::try_from(next_random(4)).unwrap();
            add(&mut waiting, "big", priority, 0);
        }
        let (mut longest, mut longest_urgent, mut longest_small) = (0, 0, 0);
        for run in 0..500 {
            for _ in 0..next_random(90) {
                let source = if next_random(4) == 0 { "middle" } else { "big" };
                add(&mut waiting, source, 2 + i64::try_from(next_random(3)).unwrap(), run);
            }
            for _ in 0..next_random(8) {
                add(&mut waiting, "big", 1, run);
                add(&mut waiting, "small", 3, run);
            }
            let mut queue = Queue::new(LIMIT);
            let mut template = item(1, "").facts;
            for index in seen_by(&waiting, run, LIMIT) {
                let one = &waiting[index];
                template.id = ItemId(one.id);
                template.key = ItemKey::new(one.source, template.id);
                template.priority = Some(one.priority);
                let position = QueuePosition::of(&template, run - one.arrived, None, &order());
                queue.push(position, index);
            }
            let (mut served, _) = queue.into_order();
            assert_eq!(served.len(), LIMIT.min(served.len()));
            served.sort_unstable();
            for index in served.iter().rev() {
                let one = waiting.remove(*index);
                let runs = run - one.arrived;
                longest = longest.max(runs);
                if one.priority == 1 && one.arrived > 0 {
                    longest_urgent = longest_urgent.max(runs);
                }
                if one.source == "small" {
                    longest_small = longest_small.max(runs);
                }
            }
        }
        assert!(waiting.iter().all(|one| one.arrived >= 490), "the backlog is through");
        println!(
            "longest wait {longest}, urgent newcomers {longest_urgent}, small {longest_small}"
        );
        assert!(longest <= 2 * BACKLOG / 200, "{longest}");
        assert!(longest_urgent <= 1, "{longest_urgent}");
        assert!(longest_small <= 1, "{longest_small}");
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
