//! What the state knows about an item beside its present text: earlier verdict and finding, what
//! changed since, its parent's title, items like it.

use std::collections::HashMap;

use super::{RunContext, RunError};
use crate::dedupe::{ItemParts, QueuedItem};
use crate::model::{Background, Earlier, ItemId, ItemKey};
use crate::triage::SimilarTitles;

/// For items that triage is asked about: every earlier verdict counts.
pub(super) async fn before_triage(
    cx: &RunContext,
    items: &[QueuedItem],
) -> Result<HashMap<ItemId, Background>, RunError> {
    let mut similar = similar_to(cx, items).await?;
    let mut known = HashMap::new();
    for item in items {
        let earlier = earlier(cx, item, None).await?;
        let background =
            Background { parent: parent(cx, item).await?, earlier, similar: similar.of(item.id()) };
        known.insert(item.id(), background);
    }
    Ok(known)
}

/// For an item that triage has judged: the verdict on its present text is no earlier one.
pub(super) async fn before_analysis(
    cx: &RunContext,
    item: &QueuedItem,
) -> Result<Background, RunError> {
    let mut similar = similar_to(cx, std::slice::from_ref(item)).await?;
    Ok(Background {
        parent: parent(cx, item).await?,
        earlier: earlier(cx, item, Some(item.fingerprint.clone())).await?,
        similar: similar.of(item.id()),
    })
}

async fn parent(cx: &RunContext, item: &QueuedItem) -> Result<Option<String>, RunError> {
    let Some(parent) = item.item.facts.parent else { return Ok(None) };
    let key = ItemKey::new(&cx.config.source.name, parent);
    Ok(cx.store().items().get(key).await?.map(|row| row.title))
}

async fn earlier(
    cx: &RunContext,
    item: &QueuedItem,
    except: Option<String>,
) -> Result<Option<Earlier>, RunError> {
    let key = item.key().clone();
    let reading = cx.store().items().earlier_reading(key.clone(), except).await?;
    let finding = cx.store().findings().of_item(key).await?.into_iter().next();
    if reading.is_none() && finding.is_none() {
        return Ok(None);
    }
    let now = ItemParts::of(&item.item);
    Ok(Some(Earlier {
        changes: reading.as_ref().map(|reading| now.changes_since(&reading.parts)),
        verdict: reading.map(|reading| (reading.at, reading.verdict)),
        finding: finding.map(|row| (row.created_at, row.finding)),
    }))
}

async fn similar_to(cx: &RunContext, items: &[QueuedItem]) -> Result<SimilarTitles, RunError> {
    let titles = items.iter().map(|item| (item.id(), item.item.facts.title.as_str()));
    let search = SimilarTitles::to(titles);
    let items = cx.store().items();
    let search = items.each_title(search, |search, _, _, title| search.count(title)).await?;
    Ok(items.each_title(search, SimilarTitles::compare).await?)
}
