//! Context: the code that matters for an item, before the agent's first token.
//!
//! A code base that cannot be indexed is logged and does not stop the analysis: the agent works
//! from the item and what it reads itself. One that is missing is not the item's fault: nothing is
//! started, the item stays queued, and the run reports which folder is missing.

use std::path::PathBuf;

use super::{CodeContext, CodeError, RunContext, RunError};
use crate::dedupe::QueuedItem;
use crate::event::Event;
use crate::model::ItemKey;
use crate::triage;

/// Builds the context. An error: the code base is missing.
pub(super) async fn context_for(
    cx: &RunContext,
    item: &QueuedItem,
) -> Result<CodeContext, CodeError> {
    let key = item.key().clone();
    // In a dry run, items that triage has not judged yet are shown as if it sent them on.
    let verdict = item.verdict.clone().unwrap_or_else(|| triage::fallback(&item.item).verdict);
    let context = match cx.edges.code.context(item.item.clone(), verdict).await {
        Ok(context) => context,
        Err(CodeError::Unreadable { root, why }) => {
            tracing::error!(item = %key, root = %root.display(), %why, "no code context for this item");
            CodeContext::empty(root)
        }
        Err(missing @ CodeError::Missing(_)) => return Err(missing),
    };
    let (files, tokens, root) = (context.files, context.tokens, Some(context.root.clone()));
    cx.emit(Event::ContextBuilt { item: key, files, tokens, root });
    Ok(context)
}

/// The code base that an interrupted session read for this item, if it is still there.
pub(super) async fn root_read_for(
    cx: &RunContext,
    item: ItemKey,
) -> Result<Option<PathBuf>, RunError> {
    let events = cx.store().events().of_item(item).await?;
    let built = events.into_iter().rev().find_map(|recorded| match recorded.event {
        Event::ContextBuilt { root, .. } => root,
        _ => None,
    });
    Ok(built.filter(|root| root.is_dir()))
}
