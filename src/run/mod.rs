//! One run: the whole job, from the tracker to the stored findings.
//!
//! ```text
//! read      fetch → clean → dedupe → plan      a page at a time
//! triage    one cheap session for all items without a verdict
//! locate    one cheap session orders the candidate files of all items to analyse
//! analyse   context → session → finding        at most `max_live_sessions` at once
//! record    each result in one transaction, then the tracker
//! ```
//!
//! Each stage has typed input and output, and returns errors as values. What several stages need is
//! in [`RunContext`]; `launch` starts a session through the gates. Every side effect is behind
//! [`Edges`], so the same code runs on the real tracker and agent, on the simulators, and in tests.

mod analyse;
mod blame;
mod checker;
mod commands;
mod context;
mod deep_result;
mod dry_run;
mod edges;
mod error;
mod field_writes;
mod first_run;
mod launch;
mod linked_content;
mod locate;
mod outbox;
mod provider;
mod read;
mod recheck;
mod recover;
mod sources;
mod suggest;
mod triage;

use self::sources::ReadSources;
use crate::event::{Event, RunOutcome, RunSummary};
use crate::store::{Digest, StoreError};

pub use context::RunContext;
pub use dry_run::{DryRun, DryRunDecision, DryRunPrompt, dry_run};
pub use edges::{Edges, FieldWriter, Publisher, Publishing, Secrets, Tracker};
pub use error::RunError;
pub use first_run::Backlog;
pub use sources::UnreadSource;

#[derive(Debug)]
pub struct RunEnd {
    pub outcome: RunOutcome,
    pub summary: RunSummary,
    /// What prevented the work, if anything.
    pub error: Option<RunError>,
}

/// Performs one run and stores its result. The caller holds the run lock.
pub async fn perform(cx: &RunContext) -> Result<RunEnd, StoreError> {
    cx.journal.runs().begin(cx.id, cx.trigger, cx.config.limits.max_live_sessions).await?;
    let worked = tokio::select! {
        worked = work(cx) => worked,
        // Stores observations while the work is running.
        never = cx.journal.keep_writing() => match never {},
    };
    end_run(cx, worked).await
}

async fn work(cx: &RunContext) -> Result<(), RunError> {
    let _timer = cx.stop.start_deadline();
    recover::finish_interrupted(cx).await?;
    let ReadSources { queues, out_of_budget, unread } = sources::read_all(cx).await?;
    if cx.config.sources().iter().any(|source| source.commands) {
        // Whoever asked gets the answer before the work begins.
        outbox::deliver_comments(cx).await?;
    }
    provider::preflight(cx, &queues).await?;
    let (deep, stopped) = triage::judge(cx, queues, &out_of_budget).await?;
    field_writes::queue(cx).await?;
    let located = locate::order_files(cx, &deep).await?;
    analyse::analyse_all(cx, deep, located).await?;
    provider::ensure_credential(cx).await?;
    if let Some(stopped) = stopped {
        return Err(stopped);
    }
    unread
}

async fn end_run(cx: &RunContext, worked: Result<(), RunError>) -> Result<RunEnd, StoreError> {
    let error = worked.err();
    if let Some(error) = &error {
        cx.emit(Event::RunFailed { message: error.to_string() });
    }
    let view = cx.journal.settled_view().await?;
    let (outcome, summary) = (error::outcome(cx, error.as_ref(), &view), view.figures());
    let digest = match cx.config.report.webhook_env.is_empty() {
        true => Digest::None,
        false => Digest::Queued,
    };
    match (cx.journal.runs().end(cx.id, outcome, summary, digest).await, error) {
        (Ok(summary), error) => Ok(RunEnd { outcome, summary, error }),
        // The first storage failure is the one to report.
        (Err(_), Some(RunError::Store(first))) => Err(first),
        (Err(failed), _) => Err(failed),
    }
}
