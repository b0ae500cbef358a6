//! Analyses items: concurrently, in queue order, at most `limits.max_live_sessions` at once. For each
//! one it builds the code context, runs one bounded session, checks the finding and stores it.
//!
//! A finding and its comment are stored in one transaction; the comment is delivered afterwards, by
//! this run or a later one (see `outbox`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tracing::Instrument as _;

use super::blame::{self, Blame};
use super::checker::Checker;
use super::context::deferral_reason;
use super::deep_result::result_of;
use super::launch::{EndedSession, Launch, Launched, launch};
use super::linked_content::{self, Gathered};
use super::locate::Located;
use super::recheck::{self, RECHECK_EVERY};
use super::{RunContext, RunError, outbox, recover};
use crate::analyze::{self, Request};
use crate::context::{Chosen, CodeContext, CodeError};
use crate::dedupe::QueuedItem;
use crate::event::{Event, Reason};
use crate::model::{Background, ItemKey, Outcome, Stage};
use crate::prompt::{Fence, Rendered};
use crate::session::{Examiner, StopHandle};
use crate::store::{DeepResult, EarlierVerdicts};
use crate::triage;

/// Effect of one item's end on the others.
#[derive(Debug, Default)]
struct ItemEnd {
    /// If set, no more items are started in this run.
    close: Option<Reason>,
    /// Error that the run reports at its end; the first one counts.
    fault: Option<RunError>,
    /// A finding was stored.
    succeeded: bool,
}

pub(super) struct LiveItem {
    pub(super) item: QueuedItem,
    pub(super) stop: StopHandle,
}

/// Analyses the items. Those that are not started are deferred with the reason.
pub(super) async fn analyse_all(
    cx: &RunContext,
    items: Vec<QueuedItem>,
    mut located: Located,
) -> Result<(), RunError> {
    let most = usize::try_from(cx.config.limits.max_deep_per_run).unwrap_or(usize::MAX);
    // After items that failed alike, one is tried before the others.
    let mut careful = blame::is_stopped(cx, Stage::Deep).await?;
    let mut queue: VecDeque<QueuedItem> = items.into();
    let over = queue.split_off(most.min(queue.len()));
    cx.journal.items().defer(keys(&over), Reason::MaxDeepPerRun).await?;
    if !queue.is_empty() {
        cx.emit(Event::AnalysisStarted { items: queue.len() as u64 });
    }

    let mut tasks = JoinSet::new();
    let mut live: HashMap<Id, LiveItem> = HashMap::new();
    let (mut panicked, mut panics) = (Vec::<QueuedItem>::new(), 0);
    let mut end = ItemEnd::default();
    let mut recheck = tokio::time::interval_at(Instant::now() + RECHECK_EVERY, RECHECK_EVERY);
    // A slow tracker is not asked again at once.
    recheck.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        end.close = end.close.or_else(|| cx.stop.reason().map(deferral_reason));
        // After a panic nothing starts until the others are done and the panic is cleaned up.
        while end.close.is_none() && panicked.is_empty() && tasks.len() < slots(cx, careful) {
            let Some(item) = queue.pop_front() else { break };
            let stop = StopHandle::new();
            let span = tracing::error_span!("analysis", work_item_id = %item.key());
            let chosen = located.remove(item.key()).unwrap_or_default();
            let analysis = analyse(cx.clone(), item.clone(), chosen, stop.clone()).instrument(span);
            let task = tasks.spawn(analysis.in_current_span());
            live.insert(task.id(), LiveItem { item, stop });
        }
        tokio::select! {
            joined = tasks.join_next_with_id() => match joined {
                Some(Ok((task, analysed))) => {
                    let item = live.remove(&task).map(|live| live.item.key().clone());
                    let analysed = match analysed {
                        Ok(end) => end,
                        Err(error @ RunError::Store(_)) => return Err(error),
                        Err(error) => defer_failed(cx, item.clone(), error).await?,
                    };
                    careful &= !analysed.succeeded;
                    end.close = end.close.or(analysed.close);
                    if let (None, Some(fault)) = (&end.fault, analysed.fault) {
                        cx.refuse_for(item, &fault);
                        end.fault = Some(fault);
                    }
                }
                Some(Err(panic)) => panicked.extend(live.remove(&panic.id()).map(|live| live.item)),
                None if panicked.is_empty() => break,
                None => {
                    panics += panicked.len();
                    recover::after_panics(cx, std::mem::take(&mut panicked)).await?;
                }
            },
            _ = recheck.tick() => recheck::end_unwanted(cx, live.values()).await,
        }
    }
    cx.journal.items().defer(keys(&queue), end.close.unwrap_or(Reason::Shutdown)).await?;
    match end.fault {
        Some(fault) => Err(fault),
        None if panics > 0 => Err(RunError::AnalysisPanicked { items: panics }),
        None => Ok(()),
    }
}

/// Analyses at once.
fn slots(cx: &RunContext, careful: bool) -> usize {
    let most = if careful { 1 } else { cx.config.limits.max_live_sessions };
    usize::try_from(most).unwrap_or(1).max(1)
}

/// An item that cannot be analysed, such as by a prompt that cannot be built for it, waits for the
/// next run; the others go on.
async fn defer_failed(
    cx: &RunContext,
    item: Option<ItemKey>,
    error: RunError,
) -> Result<ItemEnd, RunError> {
    let items = item.into_iter().collect();
    cx.journal.items().defer(items, error.refusal()).await?;
    Ok(ItemEnd { fault: Some(error), ..ItemEnd::default() })
}

/// Analyses one item: code context, session, stored finding.
async fn analyse(
    cx: RunContext,
    item: QueuedItem,
    chosen: Vec<Chosen>,
    stop: StopHandle,
) -> Result<ItemEnd, RunError> {
    let cx = cx.for_item(item.facts());
    let Some(item) = recheck::still_wanted(&cx, item).await? else {
        return Ok(ItemEnd::default());
    };
    let key = item.key().clone();
    let context = match context_for(&cx, &item, chosen).await {
        Ok(context) => context,
        // Other items may have a code base.
        Err(missing) => {
            cx.journal.items().defer(vec![key], Reason::NoCodeBase).await?;
            let fault = Some(RunError::NoCodeBase(missing));
            return Ok(ItemEnd { fault, ..ItemEnd::default() });
        }
    };
    let checker = Arc::new(Checker::of(&cx, &item, &context));
    let mut around = linked_content::gather(&cx, &item, &context.roots()).await;
    let request = Launch {
        stage: Stage::Deep,
        subject: vec![(key.clone(), item.fingerprint.clone())],
        prompt: prompt(&cx, &item, &context, &around).await?,
        repository: Some(context.root.clone()),
        beside: context.code_bases.iter().skip(1).map(|code| code.root.clone()).collect(),
        attached: around.attached.take(),
        examiner: Some(Arc::clone(&checker) as Arc<dyn Examiner>),
        stop,
    };
    match launch(&cx, request).await? {
        Launched::Ended(session) => record(&cx, &item, *session, &checker).await,
        Launched::Refused(reason) => {
            cx.journal.items().defer(vec![key], reason).await?;
            // The budget of one source does not limit the others.
            let close = Some(reason).filter(|reason| *reason != Reason::SourceBudget);
            Ok(ItemEnd { close, ..ItemEnd::default() })
        }
        Launched::NotPending => Ok(ItemEnd::default()),
    }
}

/// The code context of an item. A code base that cannot be indexed is logged and the analysis
/// continues: the agent works from the item and what it reads itself. A missing code base is an
/// error.
pub(super) async fn context_for(
    cx: &RunContext,
    item: &QueuedItem,
    chosen: Vec<Chosen>,
) -> Result<CodeContext, CodeError> {
    let key = item.key().clone();
    // A dry run shows items that are not triaged yet as if triage had passed them on.
    let verdict = item.verdict.clone().unwrap_or_else(|| triage::fallback(&item.item).verdict);
    let context = match cx.edges.code.context(item.item.clone(), verdict, chosen).await {
        Ok(context) => context,
        Err(CodeError::Unreadable { root, why }) => {
            tracing::error!(item = %key, root = %root.display(), %why, "could not build the code context; the analysis continues without it");
            CodeContext::empty(root)
        }
        Err(missing @ (CodeError::Missing(_) | CodeError::Empty(_))) => return Err(missing),
    };
    let (files, tokens, root) = (context.files, context.tokens, Some(context.root.clone()));
    let commit = context.commit.as_ref().map(|commit| commit.id.clone());
    let code_bases = context.code_bases.clone();
    cx.emit(Event::ContextBuilt { item: key, files, tokens, root, commit, code_bases });
    Ok(context)
}

pub(super) async fn prompt(
    cx: &RunContext,
    item: &QueuedItem,
    context: &CodeContext,
    around: &Gathered,
) -> Result<Rendered, RunError> {
    // Only a dry run gets here before triage.
    let default = || triage::fallback(&item.item).verdict;
    let verdict = item.verdict.clone().unwrap_or_else(default);
    let verdicts = EarlierVerdicts::OnOtherTexts;
    let known = if cx.past {
        HashMap::new()
    } else {
        cx.store().items().background(vec![item.clone()], verdicts).await?
    };
    let background = Background {
        links: around.links.clone(),
        files: around.files.clone(),
        ..known.into_values().next().unwrap_or_default()
    };
    let request = Request {
        item: &item.item,
        verdict: &verdict,
        background: &background,
        code_bases: &context.code_bases,
        overview: &context.overview,
        context: &context.context,
    };
    let fence = Fence::new(uuid::Uuid::now_v7());
    Ok(analyze::render(&cx.prompts, request, &cx.config.analyze, &fence)?)
}

/// Stores the result of a session, and delivers the comment of its finding.
async fn record(
    cx: &RunContext,
    item: &QueuedItem,
    session: EndedSession,
    checker: &Checker,
) -> Result<ItemEnd, RunError> {
    let (id, attempt) = (session.id, session.attempt);
    let (key, print) = (item.key().clone(), item.fingerprint.clone());
    let comments = cx.edges.publisher_of(&key).is_some() && cx.config.writes_back(item.facts());
    let result = blame::deep_result(cx, &session, async |end| {
        result_of(cx, &key, id, end, attempt, Some(checker), comments).await
    })
    .await;
    let is_finished = matches!(result, DeepResult::Finished { .. });
    let mut end =
        ItemEnd { close: closes_run(&result), fault: session.fault, succeeded: is_finished };
    if let Blame::Everybody(reason) = session.blame {
        end.close = Some(reason);
    }
    let words = session.end.last_words();
    cx.journal.results().apply_deep(id, cx.id, key.clone(), print, result.clone()).await?;
    if let Some(alike) = blame::failed_alike(cx, Stage::Deep, &key, id, &result, &words).await? {
        end.close = Some(alike.refusal());
        end.fault = end.fault.or(Some(alike));
    }
    if is_finished {
        outbox::deliver_comments(cx).await?;
    }
    Ok(end)
}

/// The reason, if no other session of this run can work either.
fn closes_run(result: &DeepResult) -> Option<Reason> {
    match result {
        DeepResult::NotCounted(outcome, reason) => {
            let for_all =
                matches!(outcome, Outcome::ProviderLimit { .. } | Outcome::SpawnFailed { .. });
            (for_all || outcome.is_configuration()).then_some(*reason)
        }
        _ => None,
    }
}

fn keys<'a>(items: impl IntoIterator<Item = &'a QueuedItem>) -> Vec<ItemKey> {
    items.into_iter().map(|item| item.key().clone()).collect()
}
