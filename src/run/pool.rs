//! Analyses items concurrently: in queue order, at most `limits.max_live_sessions` at once.

use std::collections::{HashMap, VecDeque};

use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use super::context::deferral_reason;
use super::recheck::{self, RECHECK_EVERY};
use super::{RunContext, RunError, recover};
use crate::dedupe::QueuedItem;
use crate::event::{Event, Reason};
use crate::model::ItemKey;
use crate::session::StopHandle;

/// Effect of one item's end on the others.
#[derive(Debug, Default)]
pub(super) struct ItemEnd {
    /// If set, no more items are started in this run.
    pub(super) close: Option<Reason>,
    /// Error that the run reports at its end; the first one counts.
    pub(super) fault: Option<RunError>,
}

pub(super) struct LiveItem {
    pub(super) item: QueuedItem,
    pub(super) stop: StopHandle,
}

/// Analyses the items. Those that are not started are deferred with the reason.
pub(super) async fn work_through<F, Analysis>(
    cx: &RunContext,
    items: Vec<QueuedItem>,
    analyse: F,
) -> Result<(), RunError>
where
    F: Fn(RunContext, QueuedItem, StopHandle) -> Analysis,
    Analysis: Future<Output = Result<ItemEnd, RunError>> + Send + 'static,
{
    let limits = &cx.config.limits;
    let most = usize::try_from(limits.max_deep_per_run).unwrap_or(usize::MAX);
    let slots = usize::try_from(limits.max_live_sessions).unwrap_or(1).max(1);
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
    loop {
        end.close = end.close.or_else(|| cx.stop.reason().map(deferral_reason));
        // After a panic nothing starts until the others are done and the panic is cleaned up.
        while end.close.is_none() && panicked.is_empty() && tasks.len() < slots {
            let Some(item) = queue.pop_front() else { break };
            let stop = StopHandle::new();
            let task = tasks.spawn(analyse(cx.clone(), item.clone(), stop.clone()));
            live.insert(task.id(), LiveItem { item, stop });
        }
        tokio::select! {
            joined = tasks.join_next_with_id() => match joined {
                Some(Ok((task, analysed))) => {
                    let analysed = analysed?;
                    let item = live.remove(&task).map(|live| live.item.key().clone());
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

fn keys<'a>(items: impl IntoIterator<Item = &'a QueuedItem>) -> Vec<ItemKey> {
    items.into_iter().map(|item| item.key().clone()).collect()
}
