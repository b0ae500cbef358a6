//! Dedupe: each item of a page against what the state knows of it.

use std::collections::HashMap;

use jiff::Timestamp;

use super::clean::{CleanPage, without_texts};
use super::{RunContext, RunError};
use crate::dedupe::{
    self, Decided, FingerprintInputs, Known, QueuedItem, Seen, fingerprint, raw_fingerprint,
};
use crate::event::{Decision, Reason};
use crate::model::{CleanItem, ItemId, ItemKey, Phase};
use crate::store::{KnownItem, Planned, Write};

/// A page with a decision on every item.
pub(super) struct DecidedPage {
    pub(super) items: Vec<DecidedItem>,
    pub(super) vanished: Vec<ItemId>,
    pub(super) undelivered: Vec<ItemId>,
    pub(super) cursor: Option<Timestamp>,
}

/// An item, what was decided on it, and what that writes to its row.
pub(super) struct DecidedItem {
    pub(super) item: QueuedItem,
    pub(super) decision: Decision,
    pub(super) write: Write,
    /// Attempts already used on this text.
    pub(super) attempts: u32,
}

impl DecidedItem {
    /// As the store takes it.
    pub(super) fn planned(&self) -> Planned {
        let item = &self.item.item.item;
        Planned {
            key: item.key.clone(),
            id: item.id,
            title: item.title.clone(),
            item_type: item.item_type.clone(),
            url: item.url.clone(),
            priority: item.priority,
            revision: item.rev,
            changed_at: item.changed_at,
            fingerprint: self.item.fingerprint.clone(),
            decision: self.decision,
            reason: self.item.reason,
            attempts: self.attempts,
            write: self.write,
        }
    }
}

/// Reads what is known of the page's items and decides on each.
pub(super) async fn decide_page(cx: &RunContext, page: CleanPage) -> Result<DecidedPage, RunError> {
    let inputs = FingerprintInputs {
        prompt_version: cx.prompts.version(),
        models: &[&cx.config.triage.model, &cx.config.analyze.model],
        watch: &cx.config.dedupe.watch,
    };
    let clean = page.items.into_iter().map(|item| (fingerprint(&item, &inputs), item, true));
    let failed =
        page.failed.into_iter().map(|item| (raw_fingerprint(&item), without_texts(item), false));
    let items: Vec<(String, CleanItem, bool)> = clean.chain(failed).collect();
    let seen = items.iter().map(|(print, item, _)| (item.item.key.clone(), print.clone()));
    let known = cx.store().items().known(seen.collect()).await?;
    let decide = |(print, item, readable)| decide_item(cx, &known, item, print, readable);
    Ok(DecidedPage {
        items: items.into_iter().map(decide).collect(),
        vanished: page.vanished,
        undelivered: page.undelivered,
        cursor: page.cursor,
    })
}

fn decide_item(
    cx: &RunContext,
    known: &HashMap<ItemKey, KnownItem>,
    item: CleanItem,
    fingerprint: String,
    readable: bool,
) -> DecidedItem {
    let known = known.get(&item.item.key);
    let terminal = cx.is_terminal(&item.item.state);
    let stored = known.map(|known| known_item(known, cx.config.limits.max_attempts));
    let seen = Seen { fingerprint: &fingerprint, revision: item.item.rev, terminal };
    let mut decided = dedupe::decide(seen, stored.as_ref(), cx.now());
    if !readable && matches!(decided.decision, Decision::New | Decision::Changed) {
        decided.decision = Decision::Parked;
        decided.reason = Reason::CannotBeRead;
    }
    let write = row_write(item.item.rev, &fingerprint, &decided, known);
    let Decided { decision, reason, verdict } = decided;
    let deferrals = known.map_or(0, |known| known.deferrals);
    DecidedItem {
        item: QueuedItem { item, fingerprint, verdict, reason, deferrals },
        decision,
        write,
        attempts: known.map_or(0, |known| known.attempts),
    }
}

/// What a decision changes in the row: nothing, if the row says it already.
fn row_write(
    revision: i64,
    fingerprint: &str,
    decided: &Decided,
    known: Option<&KnownItem>,
) -> Write {
    let Some(known) = known else {
        // Finished before it was ever seen.
        return if decided.decision == Decision::Unchanged { Write::Nothing } else { Write::Row };
    };
    let stands = match decided.decision {
        Decision::New | Decision::Changed => known.phase == Phase::Pending,
        Decision::Unchanged if decided.reason == Reason::OutOfQuery => return Write::Nothing,
        Decision::Unchanged => known.phase == Phase::Done,
        Decision::Waiting => known.phase == Phase::Waiting,
        Decision::Parked => known.phase == Phase::Parked,
        Decision::Deferred | Decision::Vanished => return Write::Nothing,
    };
    match (stands && known.fingerprint == fingerprint, known.revision == revision) {
        (true, true) => Write::Nothing,
        (true, false) => Write::Touch,
        (false, _) => Write::Row,
    }
}

fn known_item(known: &KnownItem, max_attempts: u32) -> Known {
    Known {
        phase: known.phase,
        reason: known.reason,
        next_attempt: known.next_attempt,
        revision: known.revision,
        fingerprint: known.fingerprint.clone(),
        processed_fingerprint: known.processed_fingerprint.clone(),
        verdict: known.verdict.clone(),
        exhausted: known.attempts >= max_attempts,
    }
}
