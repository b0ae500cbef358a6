//! `--dry-run`: the same way on a copy of the state, up to the point where money would be spent.
//!
//! It shows every decision, every prompt with its size, and the worst case in dollars. Deep
//! prompts are shown for the items first in line as if triage sent them on: that is the most a
//! run can do.

use std::collections::HashMap;

use serde::Serialize;

use super::{Run, RunError, Work};
use crate::event::{Decision, Event, Reason};
use crate::model::{Alarms, CleanItem, ItemKey, Stage, TextStats, Usd};
use crate::prompt::{Fence, Rendered};
use crate::triage::{self, Asking};

/// Events read from the log in one go.
const EVENTS_AT_ONCE: u32 = 1000;

/// What a run would do.
#[derive(Debug, Clone, Serialize)]
pub struct Rehearsal {
    /// Every decision that is not "unchanged", one per item.
    pub decisions: Vec<RehearsedDecision>,
    /// Items with nothing to do.
    pub unchanged: u64,
    /// Every prompt that would be sent.
    pub prompts: Vec<RehearsedPrompt>,
    /// Sessions at most.
    pub sessions_at_most: usize,
    /// The most it could cost, within the budgets.
    pub worst_case: Usd,
    /// The budget of a run.
    pub budget_per_run: Usd,
    /// What the tracker says to a comment on the first item, if findings are written back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_back: Option<String>,
    /// What would keep deep sessions from starting, such as a code base that is not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trouble: Vec<String>,
}

/// One decision.
#[derive(Debug, Clone, Serialize)]
pub struct RehearsedDecision {
    /// Which item.
    pub item: ItemKey,
    /// Its title.
    pub title: String,
    /// What.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// Sizes before and after cleaning; only for work of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextStats>,
    /// Hidden or invisible text that was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarms: Option<Alarms>,
}

/// One prompt.
#[derive(Debug, Clone, Serialize)]
pub struct RehearsedPrompt {
    /// Triage or deep.
    pub stage: Stage,
    /// For which item; none for triage.
    pub item: Option<ItemKey>,
    /// Estimated tokens, schema included.
    pub tokens: u64,
    /// The most the session may cost.
    pub worst_case: Usd,
    /// The system part.
    pub system: String,
    /// The rest.
    pub user: String,
}

impl Run {
    /// Plans and renders, and stops there. The journal must be one on a copy of the state.
    pub async fn rehearse(&self) -> Result<Rehearsal, RunError> {
        let before = self.journal.store().events().last_number().await?;
        let work = self.plan().await?;
        self.journal.flush().await?;
        let mut prompts = self.triage_prompts(&work)?;
        // Each of them may be followed by one more, for the items without a usable verdict.
        let (again, price) = (prompts.len(), self.config.triage.max_cost);
        let (deep, trouble) = self.deep_prompts(&work).await?;
        prompts.extend(deep);
        let wanted: Usd = prompts.iter().map(|prompt| prompt.worst_case).sum();
        let budget_per_run = self.config.budget.per_run;
        Ok(Rehearsal {
            decisions: self.decisions_after(before, &work).await?,
            unchanged: self.journal.view().shares.unchanged,
            sessions_at_most: prompts.len() + again,
            prompts,
            worst_case: (wanted + price.times(again)).min(budget_per_run),
            budget_per_run,
            write_back: self.validate_publishing(&work).await,
            trouble,
        })
    }

    /// Every decision of the log after `before`, one per item: the last word counts.
    async fn decisions_after(
        &self,
        mut before: i64,
        work: &[Work],
    ) -> Result<Vec<RehearsedDecision>, RunError> {
        let seen: HashMap<&ItemKey, &CleanItem> =
            work.iter().map(|work| (&work.item.item.key, &work.item)).collect();
        let (mut decisions, mut places) = (Vec::<RehearsedDecision>::new(), HashMap::new());
        loop {
            let told = self.journal.store().events().after(before, EVENTS_AT_ONCE).await?;
            let Some(last) = told.last() else { return Ok(decisions) };
            before = last.seq;
            for recorded in told {
                match recorded.event {
                    Event::ItemDecided { item, title, decision, reason, .. } => {
                        let seen = seen.get(&item);
                        let alarms = seen.map(|item| item.alarms).filter(|alarms| alarms.any());
                        let text = seen.map(|item| item.stats);
                        places.insert(item.clone(), decisions.len());
                        let decided =
                            RehearsedDecision { item, title, decision, reason, text, alarms };
                        decisions.push(decided);
                    }
                    Event::ItemDeferred { item, reason } => {
                        let place = places.get(&item).and_then(|place| decisions.get_mut(*place));
                        if let Some(decided) = place {
                            (decided.decision, decided.reason) = (Decision::Deferred, reason);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn triage_prompts(&self, work: &[Work]) -> Result<Vec<RehearsedPrompt>, RunError> {
        let new: Vec<_> =
            work.iter().filter(|w| w.verdict.is_none()).map(|w| w.item.clone()).collect();
        let mut prompts = Vec::new();
        for batch in triage::plan_batches(&new, &self.config.triage) {
            let fence = Fence::new(uuid::Uuid::now_v7());
            let words = triage::render(&self.prompts, &batch, &fence, Asking::First)?;
            prompts.push(prompt(Stage::Triage, None, words, self.config.triage.max_cost));
        }
        Ok(prompts)
    }

    /// With what would keep deep sessions from starting.
    async fn deep_prompts(
        &self,
        work: &[Work],
    ) -> Result<(Vec<RehearsedPrompt>, Vec<String>), RunError> {
        let most = usize::try_from(self.config.limits.max_deep_per_run).unwrap_or(usize::MAX);
        let (mut prompts, mut trouble) = (Vec::new(), Vec::new());
        for work in work.iter().filter(|w| may_go_deep(w)).take(most) {
            let verdict =
                work.verdict.clone().unwrap_or_else(|| triage::fallback(&work.item).verdict);
            let context = match self.context_of(work, verdict.clone()).await {
                Ok(context) => context,
                Err(missing) => {
                    let told = missing.to_string();
                    if !trouble.contains(&told) {
                        trouble.push(told);
                    }
                    continue;
                }
            };
            let words = self.deep_words(work, &verdict, &context)?;
            let item = Some(work.item.item.key.clone());
            prompts.push(prompt(Stage::Deep, item, words, self.config.analyze.max_cost));
        }
        Ok((prompts, trouble))
    }
}

fn may_go_deep(work: &Work) -> bool {
    work.verdict.as_ref().is_none_or(|verdict| verdict.needs_deep_analysis)
}

fn prompt(
    stage: Stage,
    item: Option<ItemKey>,
    words: Rendered,
    worst_case: Usd,
) -> RehearsedPrompt {
    let tokens = words.tokens();
    RehearsedPrompt { stage, item, tokens, worst_case, system: words.system, user: words.user }
}
