//! Dedupe: each item of a page against what the state knows of it.

use std::collections::HashMap;

use jiff::Timestamp;

use super::clean::{CleanPage, without_texts};
use super::{RunContext, RunError};
use crate::dedupe::{
    self, Decided, FingerprintInputs, KnownItem, QueuedItem, Seen, Write, fingerprint,
    raw_fingerprint,
};
use crate::event::Decision;
use crate::model::{CleanItem, ItemId, ItemKey};
use crate::store::Planned;

/// A page with a decision on every item.
pub(super) struct DecidedPage {
    pub(super) items: Vec<DecidedItem>,
    pub(super) vanished: Vec<ItemId>,
    pub(super) undelivered: Vec<ItemId>,
    pub(super) cursor: Option<Timestamp>,
}

/// An item, what was decided on it, and what that writes to its row.
pub(super) struct DecidedItem {
    pub(super) queued: QueuedItem,
    pub(super) decision: Decision,
    pub(super) write: Write,
    /// Attempts already used on this text.
    pub(super) attempts: u32,
}

impl DecidedItem {
    /// As the store takes it.
    pub(super) fn planned(&self) -> Planned {
        let item = self.queued.facts();
        Planned {
            key: item.key.clone(),
            id: item.id,
            title: item.title.clone(),
            item_type: item.item_type.clone(),
            url: item.url.clone(),
            area_path: item.area_path.clone().unwrap_or_default(),
            priority: item.priority,
            revision: item.rev,
            changed_at: item.changed_at,
            fingerprint: self.queued.fingerprint.clone(),
            decision: self.decision,
            reason: self.queued.reason,
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
    let seen = items.iter().map(|(print, item, _)| (item.facts.key.clone(), print.clone()));
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
    let known = known.get(&item.facts.key);
    let seen = Seen {
        fingerprint: &fingerprint,
        revision: item.facts.rev,
        area_path: item.facts.area_path.as_deref().unwrap_or_default(),
        terminal: cx.is_terminal(&item.facts.state),
        readable,
        max_attempts: cx.config.limits.max_attempts,
    };
    let Decided { decision, reason, verdict, write } = dedupe::decide(seen, known, cx.now());
    let deferrals = known.map_or(0, |known| known.deferrals);
    DecidedItem {
        queued: QueuedItem { item, fingerprint, verdict, reason, deferrals },
        decision,
        write,
        attempts: known.map_or(0, |known| known.attempts),
    }
}
