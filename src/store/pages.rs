//! Stores a page of decisions and the resulting rows in one transaction, together with the cursor
//! that they allow to move; writes nothing if nothing changes.

use jiff::Timestamp;
use rusqlite::{Transaction, params};

use super::items::{defer_item, vanish_item};
use super::rows::Ms;
use super::sources::{FirstRunFact, move_cursor, remember_undelivered, set_first_run};
use super::subjects::Items;
use super::{Journal, Sql, StoreError, neighbours, suggestions};
use crate::dedupe::{Planned, Write};
use crate::event::{Decision, Event, Reason};
use crate::model::{ItemId, ItemKey, Phase};

/// All decisions on one page, stored together with the cursor that they allow to move.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageRecord {
    /// In the page's order.
    pub planned: Vec<Planned>,
    /// Items of this page or an earlier one that exceed a limit of the run, and which limit.
    pub over_limit: Vec<(ItemKey, Reason)>,
    /// Requested, but deleted.
    pub vanished: Vec<ItemKey>,
    /// Listed by the query but not delivered, with the number of runs that tried.
    pub undelivered: Vec<(ItemId, u32)>,
    /// No longer recorded as undelivered.
    pub delivered: Vec<ItemId>,
    /// Never delivered, and no longer requested.
    pub given_up: Vec<ItemKey>,
    /// Start of the next query.
    pub cursor: Option<Timestamp>,
    /// Treat new work as seen: the baseline of a first run.
    pub baseline: bool,
    /// Progress of the state's first run, if it is not over yet.
    pub first_run: Option<FirstRunFact>,
}

impl PageRecord {
    /// Whether storing it would change nothing.
    fn is_idle(&self, cursor: Option<Timestamp>) -> bool {
        self.planned.iter().all(|planned| {
            planned.write == Write::Nothing && planned.decision == Decision::Unchanged
        }) && self.over_limit.is_empty()
            && self.vanished.is_empty()
            && self.undelivered.is_empty()
            && self.delivered.is_empty()
            && self.first_run.is_none()
            && self.cursor <= cursor
    }
}

impl Items<'_, Journal> {
    /// Stores the decisions on a page: nothing the source delivered can be lost after this. A page
    /// that changes nothing is not written.
    pub async fn record_page(self, source: &str, page: PageRecord) -> Result<(), StoreError> {
        let source = source.to_owned();
        if page.is_idle(None) {
            return Ok(());
        }
        if page.cursor.is_some()
            && page.is_idle(self.0.store().sources().cursor(source.clone()).await?)
        {
            return Ok(());
        }
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, events| {
                for planned in &page.planned {
                    record_item(transaction, planned, now, page.baseline, events)?;
                }
                for (key, limit) in &page.over_limit {
                    defer_item(transaction, key, *limit, events)?;
                }
                for key in &page.vanished {
                    vanish_item(transaction, key, Reason::Deleted, now, events)?;
                }
                for key in &page.given_up {
                    give_up(transaction, key, now, events)?;
                }
                remember_undelivered(transaction, &source, &page.undelivered, &page.delivered)?;
                if let Some(fact) = page.first_run {
                    set_first_run(transaction, &source, fact)?;
                }
                move_cursor(transaction, &source, page.cursor, now)
            })
            .await
    }
}

/// Records that an item was never delivered, even if it was never seen before.
fn give_up(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    now: Timestamp,
    events: &mut Vec<Event>,
) -> Sql<()> {
    let before = events.len();
    vanish_item(transaction, key, Reason::NotDelivered, now, events)?;
    if events.len() == before {
        let (decision, reason) = (Decision::Vanished, Reason::NotDelivered);
        let (item, title) = (key.clone(), String::new());
        events.push(Event::ItemDecided { item, rev: 0, title, decision, reason });
    }
    Ok(())
}

fn record_item(
    transaction: &Transaction<'_>,
    planned: &Planned,
    now: Timestamp,
    baseline: bool,
    events: &mut Vec<Event>,
) -> Sql<()> {
    match (planned.decision, planned.write) {
        (Decision::Vanished, _) => {
            return vanish_item(transaction, &planned.key, planned.reason, now, events);
        }
        (_, Write::Nothing) => {}
        (_, Write::Touch) => touch(transaction, planned, now)?,
        (_, Write::Row) => upsert(transaction, planned, now, baseline)?,
    }
    if let Some(words) = &planned.words {
        neighbours::index(transaction, &planned.key, words)?;
    }
    suggestions::remember(transaction, planned, now)?;
    let (decision, reason) = if baseline && planned.write == Write::Row {
        (Decision::Unchanged, Reason::Baseline)
    } else {
        (planned.decision, planned.reason)
    };
    if decision != Decision::Unchanged || reason == Reason::Baseline {
        let (item, rev, title) = (planned.key.clone(), planned.revision, planned.title.clone());
        events.push(Event::ItemDecided { item, rev, title, decision, reason });
    }
    Ok(())
}

/// The change does not affect the prompt: only the row is updated.
fn touch(transaction: &Transaction<'_>, planned: &Planned, now: Timestamp) -> Sql<()> {
    transaction
        .prepare_cached(
            "UPDATE heartbeat_state SET title = ?2, item_type = ?3, url = ?4, priority = ?5,
                 revision = ?6, last_changed = ?7, last_seen = ?8, area_path = ?9, assigned_to = ?10
             WHERE key = ?1",
        )?
        .execute(params![
            planned.key,
            planned.title,
            planned.item_type,
            planned.url,
            planned.priority,
            planned.revision,
            Ms(planned.changed_at),
            Ms(now),
            planned.area_path,
            planned.assigned_to,
        ])
        .map(drop)
}

/// New work starts with a fresh attempt count; carried-over work keeps its own.
fn upsert(
    transaction: &Transaction<'_>,
    planned: &Planned,
    now: Timestamp,
    baseline: bool,
) -> Sql<()> {
    let finished = baseline || planned.decision == Decision::Unchanged;
    let phase = match planned.decision {
        _ if finished => Phase::Done,
        Decision::Parked => Phase::Parked,
        _ => Phase::Pending,
    };
    let reason = if baseline { Reason::Baseline } else { planned.reason };
    transaction
        .prepare_cached(
            "INSERT INTO heartbeat_state
                 (key, item_id, title, item_type, url, priority, revision, last_changed,
                  fingerprint, processed_fingerprint, phase, reason, first_seen, last_seen,
                  attempts, area_path, assigned_to)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15, ?16)
             ON CONFLICT (key) DO UPDATE SET
                 title = ?3, item_type = ?4, url = ?5, priority = ?6, revision = ?7,
                 last_changed = ?8, phase = ?11, reason = ?12, last_seen = ?13, next_attempt = NULL,
                 attempts = CASE WHEN fingerprint = ?9 THEN attempts ELSE ?14 END,
                 triage_failures = CASE WHEN fingerprint = ?9 THEN triage_failures ELSE 0 END,
                 suspect_among = CASE WHEN fingerprint = ?9 THEN suspect_among ELSE 0 END,
                 excused = CASE WHEN fingerprint = ?9 THEN excused ELSE 0 END,
                 verdict = CASE WHEN fingerprint = ?9 THEN verdict ELSE NULL END,
                 processed_fingerprint = coalesce(?10, processed_fingerprint),
                 deferrals = CASE ?11 WHEN 'pending' THEN deferrals ELSE 0 END,
                 fingerprint = ?9, area_path = ?15, assigned_to = ?16",
        )?
        .execute(params![
            planned.key,
            planned.id.0,
            planned.title,
            planned.item_type,
            planned.url,
            planned.priority,
            planned.revision,
            Ms(planned.changed_at),
            planned.fingerprint,
            finished.then_some(&planned.fingerprint),
            phase.into_str(),
            reason.into_str(),
            Ms(now),
            planned.attempts,
            planned.area_path,
            planned.assigned_to,
        ])
        .map(drop)
}
