//! One run: the whole job, from the tracker to the stored findings.
//!
//! ```text
//! read      fetch → clean → dedupe → plan      a page at a time
//! triage    one cheap session for all items without a verdict
//! analyse   context → session → finding        at most `max_live_sessions` at once
//! record    each result in one transaction, then the tracker
//! ```
//!
//! Each stage has typed input and output, and returns errors as values. What several stages need is
//! in [`RunContext`]; `launch` starts a session through the gates. Every side effect is behind
//! [`Edges`], so the same code runs on the real tracker and agent, on the simulators, and in tests.

mod analyse;
mod context;
mod dry_run;
mod edges;
mod error;
mod first_run;
mod launch;
mod linked_content;
mod outbox;
mod pool;
mod provider;
mod read;
mod recheck;
mod recover;
mod sources;
mod triage;

use crate::dedupe::QueuedItem;
use crate::session::StopHandle;
use crate::store::StoreError;

pub use context::RunContext;
pub use dry_run::{DryRun, DryRunDecision, DryRunPrompt, dry_run};
pub use edges::{Edges, Publisher, Publishing, Secrets, Tracker};
pub use error::{RunEnd, RunError, fetch_outcome};
pub use first_run::Backlog;
pub use sources::UnreadSource;

/// Performs one run and stores its result. The caller holds the run lock.
pub async fn perform(cx: &RunContext) -> Result<RunEnd, StoreError> {
    cx.journal.runs().begin(cx.id, cx.trigger, cx.config.limits.max_live_sessions).await?;
    let worked = tokio::select! {
        worked = work(cx) => worked,
        // Stores observations while the work is running.
        never = cx.journal.keep_writing() => match never {},
    };
    error::end_run(cx, worked).await
}

async fn work(cx: &RunContext) -> Result<(), RunError> {
    let _timer = cx.stop.start_deadline();
    recover::finish_interrupted(cx).await?;
    let (queues, unread) = sources::read_all(cx).await?.into_parts();
    provider::probe_if_due(cx, &queues).await?;
    let deep = triage::judge(cx, queues).await?;
    pool::work_through(cx, deep, analyse).await?;
    provider::ensure_credential(cx).await?;
    unread
}

/// Analyses one item: code context, session, stored finding.
async fn analyse(
    cx: RunContext,
    item: QueuedItem,
    stop: StopHandle,
) -> Result<pool::ItemEnd, RunError> {
    let cx = cx.for_item(item.facts());
    let Some(item) = recheck::still_wanted(&cx, item).await? else {
        return Ok(pool::ItemEnd::default());
    };
    let context = match analyse::context_for(&cx, &item).await {
        Ok(context) => context,
        Err(missing) => return analyse::defer_without_code(&cx, &item, missing).await,
    };
    let analysis = analyse::run_session(&cx, &item, &context, &stop).await?;
    analyse::record(&cx, &item, analysis).await
}
