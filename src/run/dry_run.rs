//! `--dry-run`: the stages of a run on a copy of the state, up to the first session.
//!
//! It shows every decision, every prompt with its size, and the worst-case cost. Deep prompts are
//! shown for the first items of the queue as if triage had passed them on: the most that a run can
//! do.

use std::collections::HashMap;

use serde::Serialize;

use super::sources::{self, ReadSources};
use super::{Publishing, RunContext, RunError, analyse, linked_content, locate, triage};
use crate::dedupe::{QueuedItem, Queues, in_order};
use crate::event::{Decision, Event, Reason};
use crate::model::{Alarms, CleanItem, ItemKey, ReadLinkedContent, Stage, TextStats, Usd};
use crate::prompt::Rendered;

/// Events read from the log at once.
const EVENTS_AT_ONCE: u32 = 1000;

#[derive(Debug, Clone, Serialize)]
pub struct DryRun {
    /// Every decision except "unchanged", one per item.
    pub decisions: Vec<DryRunDecision>,
    /// Number of items with nothing to do.
    pub unchanged: u64,
    /// Every prompt that would be sent.
    pub prompts: Vec<DryRunPrompt>,
    pub sessions_at_most: usize,
    /// Maximum cost, within the budgets.
    pub worst_case: Usd,
    /// What the sessions would usually cost, by earlier sessions on this state; `None` if there
    /// were none.
    pub expected: Option<Usd>,
    pub budget_per_run: Usd,
    /// Whether the tracker would accept a comment on the first item, if findings are written back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_back: Option<String>,
    /// What would prevent deep sessions, such as a missing code base.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trouble: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct DryRunDecision {
    pub item: ItemKey,
    pub title: String,
    pub decision: Decision,
    pub reason: Reason,
    /// The rule that applies, and what it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Sizes before and after cleaning; only for items processed by this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextStats>,
    /// Hidden or invisible text that was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarms: Option<Alarms>,
}

#[derive(Debug, Clone, Serialize)]
pub struct DryRunPrompt {
    pub stage: Stage,
    /// `None` for triage and locate.
    pub item: Option<ItemKey>,
    /// Estimated, including the schema.
    pub tokens: u64,
    /// Maximum cost of the session.
    pub worst_case: Usd,
    pub system: String,
    pub user: String,
    /// Links and files that the session would get, and how each file is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surroundings: Option<Box<ReadLinkedContent>>,
}

/// Reads, plans and renders the prompts, then stops. The journal must be on a copy of the state.
pub async fn dry_run(cx: &RunContext) -> Result<DryRun, RunError> {
    let before = cx.store().events().last_number().await?;
    let ReadSources { queues, unread, .. } = sources::read_all(cx).await?;
    let Queues { untriaged, triaged } = queues;
    cx.journal.flush().await?;
    let triage_cost = cx.config.triage.max_cost;
    let triage = triage::prompts(cx, &untriaged).await?.into_iter();
    let mut prompts: Vec<_> =
        triage.map(|words| prompt(Stage::Triage, None, words, triage_cost)).collect();
    // Each session may be followed by a second one for items without a usable verdict.
    let again = prompts.len();
    let queue = in_order(triaged.into_iter().chain(untriaged).collect(), &cx.config.order);
    let locating = locate::prompts(cx, &queue).await?.into_iter();
    prompts.extend(locating.map(|words| prompt(Stage::Locate, None, words, triage_cost)));
    let (deep, mut trouble) = deep_prompts(cx, &queue).await?;
    prompts.extend(deep);
    trouble.extend(unread.err().map(|error| error.to_string()));
    let wanted: Usd = prompts.iter().map(|prompt| prompt.worst_case).sum();
    let budget_per_run = cx.config.budget.per_run;
    let expected = expected_cost(cx, &prompts).await?;
    Ok(DryRun {
        expected: expected.map(|expected| expected.min(budget_per_run)),
        decisions: decisions_after(cx, before, &queue).await?,
        unchanged: cx.journal.view().shares.unchanged,
        sessions_at_most: prompts.len() + again,
        prompts,
        worst_case: (wanted + triage_cost.times(again)).min(budget_per_run),
        budget_per_run,
        write_back: check_write_back(cx, &queue).await,
        trouble,
    })
}

/// By the mean of earlier sessions of each stage.
async fn expected_cost(cx: &RunContext, prompts: &[DryRunPrompt]) -> Result<Option<Usd>, RunError> {
    let mut expected = Some(Usd::ZERO);
    for stage in [Stage::Triage, Stage::Deep] {
        let sessions = prompts.iter().filter(|prompt| prompt.stage == stage).count();
        if sessions > 0 {
            let usual = cx.store().budget().usual_cost(stage).await?;
            expected = expected.zip(usual).map(|(so_far, usual)| so_far + usual.times(sessions));
        }
    }
    Ok(expected.filter(|_| !prompts.is_empty()))
}

/// The decisions logged after `before`; the last one per item counts.
async fn decisions_after(
    cx: &RunContext,
    mut before: i64,
    queue: &[QueuedItem],
) -> Result<Vec<DryRunDecision>, RunError> {
    let queued: HashMap<&ItemKey, &CleanItem> =
        queue.iter().map(|item| (item.key(), &item.item)).collect();
    let (mut decisions, mut positions) = (Vec::<DryRunDecision>::new(), HashMap::new());
    // The rule's event is logged before the page of its item is stored.
    let mut rules: HashMap<ItemKey, String> = HashMap::new();
    loop {
        let events = cx.store().events().after(before, EVENTS_AT_ONCE).await?;
        let Some(last) = events.last() else { return Ok(decisions) };
        before = last.seq;
        for recorded in events {
            match recorded.event {
                Event::ItemDecided { item, title, decision, reason, .. } => {
                    let queued = queued.get(&item);
                    let alarms = queued.map(|item| item.alarms).filter(|alarms| alarms.any());
                    let text = queued.map(|item| item.stats);
                    positions.insert(item.clone(), decisions.len());
                    let rule = rules.remove(&item);
                    decisions.push(DryRunDecision {
                        item,
                        title,
                        decision,
                        reason,
                        rule,
                        text,
                        alarms,
                    });
                }
                Event::RuleMatched { item, rule, changes } => {
                    let rule = format!("{rule}: {changes}");
                    match positions.get(&item).and_then(|at: &usize| decisions.get_mut(*at)) {
                        Some(decided) => decided.rule = Some(rule),
                        None => drop(rules.insert(item, rule)),
                    }
                }
                Event::ItemDeferred { item, reason } => {
                    let position = positions.get(&item);
                    if let Some(decided) = position.and_then(|at| decisions.get_mut(*at)) {
                        (decided.decision, decided.reason) = (Decision::Deferred, reason);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Also returns what would prevent deep sessions.
async fn deep_prompts(
    cx: &RunContext,
    queue: &[QueuedItem],
) -> Result<(Vec<DryRunPrompt>, Vec<String>), RunError> {
    let most = usize::try_from(cx.config.limits.max_deep_per_run).unwrap_or(usize::MAX);
    let (mut prompts, mut trouble) = (Vec::new(), Vec::new());
    for item in queue.iter().filter(|item| !triage::is_triage_only(cx, item)).take(most) {
        let cx = &cx.for_item(item.facts());
        match analyse::context_for(cx, item, Vec::new()).await {
            Ok(context) => {
                let around = linked_content::gather(cx, item, &context.roots()).await;
                let words = analyse::prompt(cx, item, &context, &around).await?;
                let worst_case = cx.config.analyze.max_cost;
                let prompt = prompt(Stage::Deep, Some(item.key().clone()), words, worst_case);
                prompts.push(DryRunPrompt { surroundings: around.read, ..prompt });
            }
            Err(missing) => {
                let missing = missing.to_string();
                if !trouble.contains(&missing) {
                    trouble.push(missing);
                }
            }
        }
    }
    Ok((prompts, trouble))
}

/// Asks the tracker whether it would accept a comment and the tag on an item; changes nothing.
async fn check_write_back(cx: &RunContext, queue: &[QueuedItem]) -> Option<String> {
    let (item, publisher) =
        queue.iter().find_map(|item| Some((item, cx.edges.publisher_of(item.key())?)))?;
    let (id, rev) = (item.id(), item.revision());
    let write = Publishing {
        id,
        rev,
        comment: "This is where a finding would be.".to_owned(),
        may_be_there: false,
    };
    Some(match publisher.validate(write).await {
        Ok(()) => format!("the tracker would accept a comment and the tag on #{id}"),
        Err(error) => format!("the tracker would reject it on #{id}: {error}"),
    })
}

fn prompt(stage: Stage, item: Option<ItemKey>, words: Rendered, worst_case: Usd) -> DryRunPrompt {
    let tokens = words.tokens();
    let Rendered { system, user, .. } = words;
    DryRunPrompt { stage, item, tokens, worst_case, system, user, surroundings: None }
}
