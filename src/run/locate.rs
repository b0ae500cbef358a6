//! The locate step between triage and analysis: one cheap session orders the candidate files of all
//! items that are analysed in this run, except those whose first file is certain.
//!
//! It can only improve the order: when its session is refused, fails, panics or answers nonsense,
//! each item keeps the order of the ranking, costs no attempt and is analysed as it would have been.

use std::collections::HashMap;

use super::launch::{EndedSession, Launch, Launched, launch};
use super::triage::unless_panic;
use super::{RunContext, RunError, recover, triage};
use crate::context::Chosen;
use crate::dedupe::QueuedItem;
use crate::locate::{self, Batch, Question};
use crate::model::{ItemKey, Stage};
use crate::prompt::{Fence, Rendered};
use crate::session::StopHandle;
use crate::triage::fallback;

/// The files that the step put first, best first, by item.
pub(super) type Located = HashMap<ItemKey, Vec<Chosen>>;

/// Orders the candidate files of the items that this run analyses.
pub(super) async fn order_files(cx: &RunContext, deep: &[QueuedItem]) -> Result<Located, RunError> {
    let mut located = Located::new();
    let items: Vec<QueuedItem> = analysed_now(cx, deep).cloned().collect();
    if items.is_empty() {
        return Ok(located);
    }
    let Some(batches) = unless_panic(plan(cx.clone(), items.clone())).await else {
        tracing::error!(
            "planning the locate step panicked, which is a bug; items keep their order"
        );
        return Ok(located);
    };
    for batch in batches {
        let keys: Vec<&ItemKey> = batch.keys().collect();
        let subject = items.iter().filter(|item| keys.contains(&item.key()));
        let subject = subject.map(|item| (item.key().clone(), item.fingerprint.clone())).collect();
        match unless_panic(ask(cx.clone(), batch, subject)).await {
            Some(Ok(Some(ordered))) => located.extend(ordered),
            // No session can start now; the analyses find out by themselves whether they can.
            Some(Ok(None)) => break,
            Some(Err(error @ RunError::Store(_))) => return Err(error),
            Some(Err(error)) => {
                tracing::warn!(%error, "could not ask which files matter; items keep their order");
                break;
            }
            None => {
                tracing::error!("the locate step panicked, which is a bug; items keep their order");
                recover::finish_interrupted(cx).await?;
            }
        }
    }
    Ok(located)
}

/// The prompts of this run's sessions, for a dry run.
pub(super) async fn prompts(
    cx: &RunContext,
    queue: &[QueuedItem],
) -> Result<Vec<Rendered>, RunError> {
    let items = queue.iter().filter(|item| !triage::is_triage_only(cx, item)).cloned();
    let items: Vec<QueuedItem> = items.collect();
    let items = analysed_now(cx, &items).cloned().collect();
    plan(cx.clone(), items).await.iter().map(|batch| prompt(cx, batch)).collect()
}

/// Others wait for a later run, whose code may differ.
fn analysed_now<'a>(
    cx: &RunContext,
    queue: &'a [QueuedItem],
) -> impl Iterator<Item = &'a QueuedItem> + use<'a> {
    let most = usize::try_from(cx.config.limits.max_deep_per_run).unwrap_or(usize::MAX);
    queue.iter().take(if cx.config.analyze.locate { most } else { 0 })
}

async fn plan(cx: RunContext, items: Vec<QueuedItem>) -> Vec<Batch> {
    let mut questions = Vec::new();
    for item in items {
        // Only a dry run gets here before triage.
        let verdict = item.verdict.clone().unwrap_or_else(|| fallback(&item.item).verdict);
        let files = cx.edges.code.choices(item.item.clone(), verdict.clone()).await;
        questions.push(Question::of(&item.item, &verdict, files));
    }
    locate::plan_batches(questions, &cx.config.triage)
}

fn prompt(cx: &RunContext, batch: &Batch) -> Result<Rendered, RunError> {
    Ok(locate::render(&cx.prompts, batch, &Fence::new(uuid::Uuid::now_v7()))?)
}

/// Runs one session. `None`: it was refused.
async fn ask(
    cx: RunContext,
    batch: Batch,
    subject: Vec<(ItemKey, String)>,
) -> Result<Option<Located>, RunError> {
    let request = Launch {
        stage: Stage::Locate,
        subject,
        prompt: prompt(&cx, &batch)?,
        repository: None,
        beside: Vec::new(),
        attached: None,
        examiner: None,
        stop: StopHandle::new(),
    };
    let EndedSession { id, end, .. } = match launch(&cx, request).await? {
        Launched::Ended(session) => *session,
        Launched::Refused(_) | Launched::NotPending => return Ok(None),
    };
    // Nothing of it is stored: a crash before the analyses costs one more question.
    cx.journal.results().apply_triage(Some(id), Vec::new()).await?;
    let answer = end.output.filter(|_| end.outcome.is_success()).unwrap_or_default();
    let located = locate::check_answer(&batch, &answer);
    let (asked, ordered) = (batch.keys().count(), located.len());
    tracing::info!(session_id = %id, asked, ordered, "candidate files ordered");
    Ok(Some(located))
}
