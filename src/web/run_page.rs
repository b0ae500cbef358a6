//! What a run decided about each item, and the result. Pure.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::event::{Decision, Event, Reason, Recorded};
use crate::model::text::clip;
use crate::model::{ItemKey, SessionId};
use crate::store::FindingRow;

/// Items on the page of a run; the rest are counted.
const LISTED: usize = 500;
/// Maximum length of title and reason, in characters.
const LINE: usize = 300;

/// Result of an item in a run; the most relevant ones sort first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    Finding,
    Parked,
    Failed,
    /// Triage asked for deep analysis, and nothing more is known yet.
    Chosen,
    Settled,
    Deferred,
    /// Decided, without further events.
    Decided,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunItem {
    pub key: ItemKey,
    pub title: String,
    pub decision: Option<Decision>,
    /// Why it was decided so, deferred or parked.
    pub reason: Option<Reason>,
    /// Triage's reason.
    pub triage: Option<String>,
    pub became: Became,
    /// The session whose finding it has, and the beginning of that finding.
    pub finding: Option<SessionId>,
    pub summary: Option<String>,
    /// How its session ended, if it failed.
    pub detail: Option<String>,
}

/// The items of a run, sorted by result; those with a finding in the order of `findings`.
pub fn items(events: &[Recorded], findings: &[FindingRow]) -> Value {
    let mut rows = fold(events);
    let total = rows.len();
    let places: HashMap<SessionId, usize> =
        findings.iter().map(|row| row.session).zip(0..).collect();
    let place = |row: &RunItem| row.finding.and_then(|session| places.get(&session).copied());
    for row in &mut rows {
        row.summary = place(row).map(|at| clip(&findings[at].finding.summary, LINE));
    }
    rows.sort_by_key(|row| (row.became, place(row)));
    rows.truncate(LISTED);
    json!({ "total": total, "listed": rows })
}

fn fold(events: &[Recorded]) -> Vec<RunItem> {
    let mut places = HashMap::<&ItemKey, usize>::new();
    let mut rows = Vec::<RunItem>::new();
    for recorded in events {
        let Some(key) = recorded.event.item() else { continue };
        if !is_about_item(&recorded.event) {
            continue;
        }
        let place = *places.entry(key).or_insert_with(|| {
            rows.push(RunItem::new(key.clone()));
            rows.len() - 1
        });
        rows[place].apply(&recorded.event);
    }
    rows
}

fn is_about_item(event: &Event) -> bool {
    matches!(
        event,
        Event::ItemDecided { .. }
            | Event::ItemTriaged { .. }
            | Event::ItemSettled { .. }
            | Event::ItemDeferred { .. }
            | Event::ItemWaiting { .. }
            | Event::ItemParked { .. }
            | Event::FindingStored { .. }
    )
}

impl RunItem {
    fn new(key: ItemKey) -> Self {
        Self {
            key,
            title: String::new(),
            decision: None,
            reason: None,
            triage: None,
            became: Became::Decided,
            finding: None,
            summary: None,
            detail: None,
        }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::ItemDecided { title, decision, reason, .. } => {
                self.title = clip(title, LINE);
                (self.decision, self.reason) = (Some(*decision), Some(*reason));
            }
            Event::ItemTriaged { deep, reason, .. } => {
                self.triage = Some(clip(reason, LINE));
                self.became = if *deep { Became::Chosen } else { Became::Settled };
            }
            Event::ItemSettled { .. } => self.became = Became::Settled,
            Event::ItemDeferred { reason, .. } => {
                (self.became, self.reason) = (Became::Deferred, Some(*reason));
            }
            Event::ItemWaiting { outcome, .. } => {
                self.became = Became::Failed;
                self.detail = Some(outcome.to_string());
            }
            Event::ItemParked { reason, .. } => {
                (self.became, self.reason) = (Became::Parked, Some(*reason));
            }
            Event::FindingStored { session, .. } => {
                (self.became, self.finding) = (Became::Finding, Some(*session));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::model::{Complexity, ItemId, SessionId};

    fn recorded(events: Vec<Event>) -> Vec<Recorded> {
        let at = Timestamp::UNIX_EPOCH;
        (1..).zip(events).map(|(seq, event)| Recorded { seq, at, run: None, event }).collect()
    }

    fn decided(id: i64) -> Event {
        Event::ItemDecided {
            item: ItemKey::new("ado", ItemId(id)),
            rev: 1,
            title: format!("Item {id}"),
            decision: Decision::New,
            reason: Reason::FirstSeen,
        }
    }

    #[test]
    fn each_item_is_listed_once_with_what_became_of_it() {
        let key = |id| ItemKey::new("ado", ItemId(id));
        let triaged = |id, deep| Event::ItemTriaged {
            item: key(id),
            complexity: Complexity::Moderate,
            deep,
            from_model: true,
            reason: format!("because {id}"),
        };
        let session = SessionId(uuid::Uuid::nil());
        let events = recorded(vec![
            decided(1),
            decided(2),
            decided(3),
            decided(4),
            triaged(1, false),
            triaged(2, true),
            Event::ItemSettled { item: key(1) },
            Event::ItemDeferred { item: key(3), reason: Reason::MaxItemsPerRun },
            Event::FindingStored { item: key(2), session },
            Event::ContextBuilt {
                item: key(9),
                files: 1,
                tokens: 1,
                root: None,
                commit: None,
                code_bases: Vec::new(),
            },
        ]);
        let value = items(&events, &[]);
        assert_eq!(value["total"], 4, "an event that says nothing of an item's place adds none");
        let rows: Vec<_> = value["listed"].as_array().unwrap().iter().collect();
        let of = |name: &str| {
            rows.iter().map(|row| row[name].as_str().unwrap_or("")).collect::<Vec<_>>()
        };
        assert_eq!(of("key"), ["ado/2", "ado/1", "ado/3", "ado/4"]);
        assert_eq!(of("became"), ["finding", "settled", "deferred", "decided"]);
        assert_eq!(of("triage")[..2], ["because 2", "because 1"]);
        assert_eq!(of("reason")[2], "max_items_per_run");
    }

    #[test]
    fn a_long_run_is_listed_in_part_and_counted_in_full() {
        let events = recorded((1..=700).map(decided).collect());
        let value = items(&events, &[]);
        assert_eq!(value["total"], 700);
        assert_eq!(value["listed"].as_array().unwrap().len(), LISTED);
    }
}
