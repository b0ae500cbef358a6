//! `--dry-run`: the same way on a copy of the state, up to the point where money would be spent.
//!
//! It shows every decision, every prompt with its size, and the worst case in dollars. Deep
//! prompts are shown for the items first in line as if triage sent them on: that is the most a
//! run can do.

use serde::Serialize;

use super::{Run, RunError, Work};
use crate::analyze::{self, Request};
use crate::event::{Decision, Event, Reason};
use crate::model::{Alarms, ItemKey, Stage, TextStats, Usd};
use crate::prompt::{Fence, Rendered};
use crate::triage::{self, Asking};

/// What a run would do.
#[derive(Debug, Clone, Serialize)]
pub struct Rehearsal {
    /// Every decision that is not "unchanged".
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
        let mut events = self.journal.follow();
        let work = self.plan().await?;
        self.journal.flush().await?;
        let mut decisions = Vec::new();
        while let Ok(recorded) = events.try_recv() {
            if let Event::ItemDecided { item, title, decision, reason, .. } = recorded.event {
                let seen = work.iter().find(|work| work.item.item.key == item).map(|w| &w.item);
                let alarms = seen.map(|item| item.alarms).filter(|alarms| alarms.any());
                let text = seen.map(|item| item.stats);
                decisions.push(RehearsedDecision { item, title, decision, reason, text, alarms });
            }
        }
        let mut prompts = self.triage_prompts(&work)?;
        prompts.extend(self.deep_prompts(&work).await?);
        let wanted: Usd = prompts.iter().map(|prompt| prompt.worst_case).sum();
        let budget_per_run = self.config.budget.per_run;
        Ok(Rehearsal {
            decisions,
            unchanged: self.journal.view().figures().unchanged,
            sessions_at_most: prompts.len(),
            prompts,
            worst_case: wanted.min(budget_per_run),
            budget_per_run,
            write_back: self.validate_publishing(&work).await,
        })
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

    async fn deep_prompts(&self, work: &[Work]) -> Result<Vec<RehearsedPrompt>, RunError> {
        let most = usize::try_from(self.config.limits.max_deep_per_run).unwrap_or(usize::MAX);
        let mut prompts = Vec::new();
        for work in work.iter().filter(|w| may_go_deep(w)).take(most) {
            let verdict =
                work.verdict.clone().unwrap_or_else(|| triage::fallback(&work.item).verdict);
            let Ok(context) = self.edges.code.context(work.item.clone(), verdict.clone()).await
            else {
                continue;
            };
            let request = Request {
                item: &work.item,
                verdict: &verdict,
                overview: &context.overview,
                context: &context.context,
            };
            let fence = Fence::new(uuid::Uuid::now_v7());
            let words = analyze::render(&self.prompts, request, &self.config.analyze, &fence)?;
            let item = Some(work.item.item.key.clone());
            prompts.push(prompt(Stage::Deep, item, words, self.config.analyze.max_cost));
        }
        Ok(prompts)
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
