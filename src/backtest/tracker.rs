//! Reads finished items from the tracker, and their texts before the fix.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::history::Artifacts;
use super::{BacktestError, PastItem, Plan};
use crate::clean::{Budget, clean_item};
use crate::context::{code_base_of, subject_of};
use crate::fetch::{AsOf, FinishedItem, FinishedRequest, PastText, Source};
use crate::model::{CleanItem, ItemId, WorkItem};
use crate::settings::Config;

/// Items per request for links.
const AT_ONCE: usize = 200;
/// Items fixed within the same hour are read as of its beginning, in one request.
const HOUR: i64 = 3600;

/// The finished items of a period and the commits that the tracker links to them.
pub async fn finished_items(
    (name, source): (&str, &dyn Source),
    config: &Config,
    since: Timestamp,
) -> Result<(Vec<PastItem>, Artifacts), BacktestError> {
    let states = config.dedupe.terminal_states.clone();
    let mut request = FinishedRequest { since, states, watched_only: true };
    let mut found = source.finished(request.clone()).await?.ok_or(BacktestError::NoLookBack)?;
    if found.is_empty() {
        // The condition matches only open items, as the default one does.
        request.watched_only = false;
        found = source.finished(request).await?.unwrap_or_default();
    }
    let linked: Vec<ItemId> =
        found.iter().filter(|item| item.development_links > 0).map(|item| item.id).collect();
    let mut links = Vec::new();
    for part in linked.chunks(AT_ONCE) {
        links.extend(source.development_links(part.to_vec()).await?.unwrap_or_default());
    }
    let item = |item: FinishedItem| PastItem {
        id: item.id.0,
        name: item.name,
        repository: code_base_of(config, name, &[&item.area], &item.item_type).to_owned(),
        title: item.title,
        area: item.area,
        item_type: item.item_type,
        created_at: item.created_at.map(Timestamp::as_second),
        subject: None,
        raw: None,
    };
    Ok((found.into_iter().map(item).collect(), Artifacts::of(links)))
}

/// Reads the texts of the planned items before their fixes, and keeps the complete items if they
/// are to be analysed; `progress` is called with the number read.
pub async fn read_past_texts(
    source: &dyn Source,
    config: &Config,
    (plan, keep_raw): (&mut Plan, bool),
    mut progress: impl FnMut(usize),
) -> Result<(), BacktestError> {
    let mut by_moment: BTreeMap<i64, Vec<ItemId>> = BTreeMap::new();
    for task in plan.all_tasks().filter(|task| task.item.subject.is_none()) {
        let hour = task.before - task.before.rem_euclid(HOUR);
        let existed = task.item.created_at.is_some_and(|created| created <= hour);
        // One second before the fix: dates of commits are whole seconds.
        let moment = if existed { hour } else { task.before - 1 };
        by_moment.entry(moment).or_default().push(ItemId(task.item.id));
    }
    let (mut texts, mut read, mut unknown) = (HashMap::new(), 0, 0);
    for (moment, ids) in by_moment {
        read += ids.len();
        let Ok(at) = Timestamp::from_second(moment) else { continue };
        let items = source.as_of(ids, at).await?.ok_or(BacktestError::NoLookBack)?;
        for AsOf { item, text } in items {
            unknown += usize::from(text == PastText::Unknown);
            let (id, raw) = (item.id.0, keep_raw.then(|| Box::new(item.clone())));
            texts.insert(id, (subject_of(&cleaned(config, item), None), raw));
        }
        progress(read);
    }
    plan.set_past_texts(texts);
    if unknown > 0 {
        plan.notes.push(format!(
            "{unknown} of {read} descriptions are the current ones, not those from before the fix: the \
             tracker keeps no earlier ones, and the items have changed since. A description that was \
             completed during the fix makes the ranking look better than it is"
        ));
    }
    Ok(())
}

/// The item as a run would clean it.
pub fn cleaned(config: &Config, item: WorkItem) -> CleanItem {
    let (full, tight) = (config.analyze.max_item_tokens, config.triage.max_item_tokens);
    clean_item(item, &Budget::per_item(full, tight).with_doubtful(config.text.doubtful))
}
