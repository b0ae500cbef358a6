//! Clean: the texts of a page, as the agent will read them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jiff::Timestamp;
use tokio::time::Instant;

use super::{RunContext, RunError};
use crate::clean;
use crate::event::Event;
use crate::fetch::Page;
use crate::model::{Alarms, CleanItem, ItemId, TextStats, WorkItem};

/// A page after cleaning.
pub(super) struct CleanPage {
    pub(super) items: Vec<CleanItem>,
    /// Items that the cleaner could not handle: a bug, and no reason to stop the others.
    pub(super) failed: Vec<WorkItem>,
    pub(super) vanished: Vec<ItemId>,
    pub(super) undelivered: Vec<ItemId>,
    pub(super) cursor: Option<Timestamp>,
}

/// Cleaning is CPU work, so it does not run on the event loop.
pub(super) async fn clean_page(cx: &RunContext, page: Page) -> Result<CleanPage, RunError> {
    let Page { items, vanished, undelivered, cursor } = page;
    let (full, tight) = (cx.config.analyze.max_item_tokens, cx.config.triage.max_item_tokens);
    let budget = clean::Budget::per_item(full, tight).with_doubtful(cx.config.text.doubtful);
    let (started, time) = (Instant::now(), cx.config.text.page_timeout);
    let cleaned = tokio::task::spawn_blocking(move || {
        // The work on one text is bounded by its own counters, that on a page by its time.
        clean_all(items, |item| match started.elapsed() > time {
            true => clean::without_time(item),
            false => clean::clean_item(item, &budget),
        })
    });
    let (items, failed) = cleaned
        .await
        .map_err(|error| RunError::Panicked { stage: "clean", message: error.to_string() })?;
    cx.emit(Event::ItemsCleaned {
        items: items.len() as u64,
        raw_bytes: items.iter().map(|item| item.stats.raw_bytes as u64).sum(),
        clean_bytes: items.iter().map(|item| item.stats.clean_bytes as u64).sum(),
        alarms: items.iter().filter(|item| item.alarms.any()).count() as u64,
    });
    for item in items.iter().filter(|item| item.alarms.any()) {
        cx.emit(Event::TextAlarm { item: item.facts.key.clone(), alarms: item.alarms });
    }
    Ok(CleanPage { items, failed, vanished, undelivered, cursor })
}

/// Cleans each item; those at which the cleaner panics are returned as they came.
fn clean_all(
    items: Vec<WorkItem>,
    clean: impl Fn(WorkItem) -> CleanItem,
) -> (Vec<CleanItem>, Vec<WorkItem>) {
    let (mut cleaned, mut failed) = (Vec::with_capacity(items.len()), Vec::new());
    for item in items {
        let kept = item.clone();
        match catch_unwind(AssertUnwindSafe(|| clean(item))) {
            Ok(item) => cleaned.push(item),
            Err(_) => {
                tracing::error!(
                    item = %kept.key,
                    "the cleaner panicked on this item, which is a bug; the item is parked"
                );
                failed.push(kept);
            }
        }
    }
    (cleaned, failed)
}

/// Stands for an item that could not be cleaned: its fields without its texts.
pub(super) fn without_texts(mut item: WorkItem) -> CleanItem {
    item.texts.clear();
    item.comments.clear();
    CleanItem {
        facts: item,
        fields: Vec::new(),
        alarms: Alarms::default(),
        stats: TextStats::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ItemKey, Links};

    fn item(id: i64) -> WorkItem {
        WorkItem {
            key: ItemKey::new("ado", ItemId(id)),
            id: ItemId(id),
            rev: 1,
            item_type: "Bug".into(),
            title: "Title".into(),
            state: "Active".into(),
            changed_at: Timestamp::UNIX_EPOCH,
            created_at: None,
            priority: None,
            severity: None,
            area_path: None,
            more_areas: Vec::new(),
            handle: None,
            finished: None,
            iteration_path: None,
            assigned_to: None,
            tags: Vec::new(),
            parent: None,
            links: Links::default(),
            url: String::new(),
            texts: Vec::new(),
            comments: Vec::new(),
        }
    }

    #[test]
    fn an_item_on_which_the_cleaner_panics_stops_no_other() {
        let (cleaned, failed) = clean_all((1..=3).map(item).collect(), |item| {
            assert!(item.id != ItemId(2), "a bug in the cleaner");
            without_texts(item)
        });
        let ids: Vec<_> = cleaned.iter().map(|item| item.facts.id.0).collect();
        assert_eq!((ids, failed), (vec![1, 3], vec![item(2)]));
    }
}
