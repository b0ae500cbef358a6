//! The plan of a run: a decision on every item that was read, and the queues of work.
//!
//! Triage and deep analysis each have a queue and a limit, so that items waiting for a deep session
//! do not reduce triage.

use jiff::Timestamp;

use super::decide::{Decided, KnownItem, Seen, Write, decide};
use super::queue::{Queue, QueuedItem};
use super::words::ItemWords;
use crate::event::{Decision, DecisionCounts, Reason};
use crate::model::{CleanItem, ItemFields, ItemId, ItemKey};
use crate::settings::{Config, OrderSettings};

/// An item as read by a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadItem {
    pub item: CleanItem,
    /// Of the text that would be in the prompt.
    pub fingerprint: String,
    /// Its workflow state counts as finished.
    pub terminal: bool,
    /// False if its texts could not be cleaned.
    pub readable: bool,
    /// Its source is read for the first time: new work is recorded as seen and not queued.
    pub baseline: bool,
    /// The budget of its source does not cover another analysis.
    pub out_of_budget: bool,
}

/// A decision on an item, as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    pub key: ItemKey,
    /// The tracker's number.
    pub id: ItemId,
    pub title: String,
    /// Such as `Bug` or `Task`.
    pub item_type: String,
    pub url: String,
    /// Empty if it has none.
    pub area_path: String,
    /// 1 is the most urgent.
    pub priority: Option<i64>,
    pub assigned_to: Option<String>,
    pub revision: i64,
    /// When it was last changed in the tracker.
    pub changed_at: Timestamp,
    /// Of the text that would be in the prompt.
    pub fingerprint: String,
    pub decision: Decision,
    pub reason: Reason,
    /// Attempts already used on this text.
    pub attempts: u32,
    /// What changes in the row.
    pub write: Write,
    /// For the index of all items; `None` if the index is up to date.
    pub words: Option<ItemWords>,
    /// For suggestions; `None` if nothing changed.
    pub fields: Option<ItemFields>,
    pub created_at: Option<Timestamp>,
}

/// An item over a limit of the run, and which limit.
pub type OverLimit = (ItemKey, Reason);

/// The work of one run, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Queues {
    /// Without a verdict: at most `limits.max_items_per_run`.
    pub untriaged: Vec<QueuedItem>,
    /// With a verdict of an earlier run: at most `limits.max_deep_per_run`.
    pub triaged: Vec<QueuedItem>,
}

/// Collects the items of a run, page by page.
#[derive(Debug)]
pub struct Plan {
    order: OrderSettings,
    max_attempts: u32,
    untriaged: Queue<QueuedItem>,
    triaged: Queue<QueuedItem>,
    counts: PlanCounts,
}

/// Number of items by decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanCounts {
    pub deferred: u64,
    pub unchanged: u64,
    pub shares: DecisionCounts,
}

impl Plan {
    pub fn new(config: &Config) -> Self {
        let queue = |limit| Queue::new(usize::try_from(limit).unwrap_or(usize::MAX));
        Self {
            order: config.order.clone(),
            max_attempts: config.limits.max_attempts,
            untriaged: queue(config.limits.max_items_per_run),
            triaged: queue(config.limits.max_deep_per_run),
            counts: PlanCounts::default(),
        }
    }

    pub fn counts(&self) -> PlanCounts {
        self.counts
    }

    /// Decides about an item and queues it if it is work. Also returns an earlier item that this
    /// one moves over the limit.
    pub fn add(
        &mut self,
        read: ReadItem,
        known: Option<&KnownItem>,
        now: Timestamp,
    ) -> (Planned, Option<OverLimit>) {
        let decided = decide(self.seen(&read), known, now);
        let mut planned = planned(&read, &decided, known.map_or(0, |known| known.attempts));
        let mut over = None;
        match decided.decision {
            Decision::New | Decision::Changed if read.baseline => self.counts.shares.baseline += 1,
            // It does not take a slot from items of other sources.
            Decision::New | Decision::Changed
                if read.out_of_budget && decided.verdict.is_some() =>
            {
                planned.decision = Decision::Deferred;
                planned.reason = Reason::SourceBudget;
                planned.write = Write::Row;
                self.counts.deferred += 1;
                self.counts.shares.over_limit += 1;
            }
            Decision::New | Decision::Changed => {
                let Decided { reason, verdict, .. } = decided;
                let ReadItem { item, fingerprint, .. } = read;
                let deferrals = known.map_or(0, |known| known.deferrals);
                let same = known.filter(|known| known.fingerprint == fingerprint);
                let suspect_among = same.map_or(0, |known| known.suspect_among);
                over = self.enqueue(QueuedItem {
                    item,
                    fingerprint,
                    verdict,
                    reason,
                    deferrals,
                    suspect_among,
                });
                if let Some((_, limit)) = over.take_if(|(key, _)| *key == planned.key) {
                    planned.decision = Decision::Deferred;
                    planned.reason = limit;
                    planned.write = Write::Row;
                }
            }
            Decision::Unchanged => {
                self.counts.unchanged += 1;
                self.counts.shares.unchanged += 1;
            }
            _ => self.counts.shares.resting += 1,
        }
        (planned, over)
    }

    fn seen<'a>(&self, read: &'a ReadItem) -> Seen<'a> {
        let facts = &read.item.facts;
        Seen {
            fingerprint: &read.fingerprint,
            revision: facts.rev,
            area_path: facts.area_path.as_deref().unwrap_or_default(),
            terminal: read.terminal,
            readable: read.readable,
            max_attempts: self.max_attempts,
        }
    }

    /// Returns the item over the limit, if there is one, and which limit.
    fn enqueue(&mut self, item: QueuedItem) -> Option<OverLimit> {
        *share_of(&mut self.counts.shares, item.reason) += 1;
        let (queue, limit) = match item.verdict {
            None => (&mut self.untriaged, Reason::MaxItemsPerRun),
            Some(_) => (&mut self.triaged, Reason::MaxDeepPerRun),
        };
        let over = queue.push(item.position(&self.order), item)?;
        self.counts.defer(over.reason);
        Some((over.key().clone(), limit))
    }

    /// The queues, the items over each limit that was reached, and the counts.
    pub fn finish(self) -> (Queues, Vec<(Vec<ItemKey>, Reason)>, PlanCounts) {
        let Self { untriaged, triaged, mut counts, .. } = self;
        let (untriaged, over_triage) = untriaged.into_order();
        let (triaged, over_deep) = triaged.into_order();
        let mut keys = |over: Vec<QueuedItem>| {
            over.iter().for_each(|item| counts.defer(item.reason));
            over.iter().map(|item| item.key().clone()).collect::<Vec<_>>()
        };
        let mut over = vec![
            (keys(over_triage), Reason::MaxItemsPerRun),
            (keys(over_deep), Reason::MaxDeepPerRun),
        ];
        over.retain(|(keys, _)| !keys.is_empty());
        (Queues { untriaged, triaged }, over, counts)
    }
}

impl PlanCounts {
    /// Work over the limit is counted as deferred and no longer by the reason it was queued for.
    const fn defer(&mut self, reason: Reason) {
        self.deferred += 1;
        *share_of(&mut self.shares, reason) -= 1;
        self.shares.over_limit += 1;
    }
}

/// The counter for queued work, by the reason it was queued for.
const fn share_of(shares: &mut DecisionCounts, reason: Reason) -> &mut u64 {
    match reason {
        Reason::FirstSeen => &mut shares.new,
        Reason::CarriedOver | Reason::RetryDue | Reason::RetryRequested => &mut shares.carried_over,
        _ => &mut shares.changed,
    }
}

fn planned(read: &ReadItem, decided: &Decided, attempts: u32) -> Planned {
    let item = &read.item.facts;
    Planned {
        key: item.key.clone(),
        id: item.id,
        title: item.title.clone(),
        item_type: item.item_type.clone(),
        url: item.url.clone(),
        area_path: item.area_path.clone().unwrap_or_default(),
        priority: item.priority,
        assigned_to: item.assigned_to.clone(),
        revision: item.rev,
        changed_at: item.changed_at,
        fingerprint: read.fingerprint.clone(),
        decision: decided.decision,
        reason: decided.reason,
        attempts,
        write: decided.write,
        words: words(read, decided),
        fields: (!is_unchanged(decided)).then(|| ItemFields::of(item)),
        created_at: item.created_at,
    }
}

/// Most items of a page are unchanged, and an unreadable text has no words.
fn words(read: &ReadItem, decided: &Decided) -> Option<ItemWords> {
    (!is_unchanged(decided) && read.readable).then(|| ItemWords::of(&read.item))
}

fn is_unchanged(decided: &Decided) -> bool {
    decided.write == Write::Nothing && decided.decision == Decision::Unchanged
}

#[cfg(test)]
mod tests {
    use super::super::fingerprint::tests::item;
    use super::*;

    fn plan(limit: u32) -> Plan {
        let mut config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        config.limits.max_items_per_run = limit;
        Plan::new(&config)
    }

    fn add(plan: &mut Plan, id: i64, priority: i64) -> (Planned, Option<OverLimit>) {
        add_read(plan, id, priority, false)
    }

    fn add_read(
        plan: &mut Plan,
        id: i64,
        priority: i64,
        baseline: bool,
    ) -> (Planned, Option<OverLimit>) {
        let mut item = item(id, "text");
        item.facts.priority = Some(priority);
        let fingerprint = "2:a".into();
        let read = ReadItem {
            item,
            fingerprint,
            terminal: false,
            readable: true,
            baseline,
            out_of_budget: false,
        };
        plan.add(read, None, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn an_item_over_the_limit_is_deferred_whether_it_is_this_one_or_an_earlier_one() {
        let mut plan = plan(1);
        assert_eq!(add(&mut plan, 1, 3).0.decision, Decision::New);
        let (second, over) = add(&mut plan, 2, 2);
        assert_eq!(second.decision, Decision::New);
        assert_eq!(over, Some((ItemKey::new("ado", ItemId(1)), Reason::MaxItemsPerRun)));
        let (third, over) = add(&mut plan, 3, 4);
        let deferred = (Decision::Deferred, Reason::MaxItemsPerRun, Write::Row);
        assert_eq!((third.decision, third.reason, third.write), deferred);
        assert_eq!(over, None);
        let (queues, _, counts) = plan.finish();
        assert_eq!(queues.untriaged.iter().map(|item| item.id().0).collect::<Vec<_>>(), [2]);
        assert_eq!((counts.deferred, counts.shares.new, counts.shares.over_limit), (2, 1, 2));
    }

    #[test]
    fn a_baseline_queues_nothing() {
        let mut plan = plan(5);
        assert_eq!(add_read(&mut plan, 1, 2, true).0.decision, Decision::New);
        let (queues, _, counts) = plan.finish();
        assert_eq!((queues.untriaged.len(), counts.shares.baseline), (0, 1));
    }
}
