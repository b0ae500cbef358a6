//! Bounded sessions on the code base: never more at once than allowed, in the line's order, each
//! result stored before its slot is used again.

use std::collections::VecDeque;
use std::path::Path;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::gate::{Started, stop_reason};
use super::reconcile::{LOOK_AGAIN, Live};
use super::{CodeContext, Job, Run, RunError, Work};
use crate::analyze::{self, Request};
use crate::dedupe::{RetryPolicy, next_attempt};
use crate::event::Reason;
use crate::model::{
    FailureKind, Finding, ItemId, ItemKey, Outcome, RetryClass, SessionEnd, SessionId, Stage,
    Verdict,
};
use crate::prompt::{Fence, Rendered};
use crate::session::StopHandle;
use crate::store::DeepResult;

impl Run {
    /// Analyses what triage sent on. What does not get its turn is deferred, with the reason.
    pub(super) async fn analyze(&self, deep: Vec<Work>) -> Result<(), RunError> {
        let most = usize::try_from(self.config.limits.max_deep_per_run).unwrap_or(usize::MAX);
        let mut line: VecDeque<Work> = deep.into();
        let beyond = line.split_off(most.min(line.len()));
        self.journal.items().defer(keys_of(beyond), Reason::MaxDeepPerRun).await?;
        let slots = usize::try_from(self.config.limits.max_live_sessions).unwrap_or(1).max(1);
        let mut sessions: JoinSet<(ItemId, Result<Option<Reason>, RunError>)> = JoinSet::new();
        let mut live = Live::new();
        let mut closed: Option<Reason> = None;
        let mut look = tokio::time::interval_at(Instant::now() + LOOK_AGAIN, LOOK_AGAIN);
        loop {
            closed = closed.or_else(|| self.stopping().map(stop_reason));
            while closed.is_none() && sessions.len() < slots {
                let Some(work) = line.pop_front() else { break };
                let (run, id, own) = (self.clone(), work.item.item.id, StopHandle::new());
                live.insert(id, own.clone());
                sessions.spawn(async move { (id, run.analyze_one(work, &own).await) });
            }
            tokio::select! {
                joined = sessions.join_next() => match joined {
                    Some(Ok((id, done))) => {
                        live.remove(&id);
                        // A reason closes the gate for all that is left of this run.
                        closed = closed.or(done?);
                    }
                    Some(Err(panic)) => tracing::error!(%panic, "an analysis panicked"),
                    None => break,
                },
                _ = look.tick() => self.end_unwanted(&live).await,
            }
        }
        self.journal.items().defer(keys_of(line), closed.unwrap_or(Reason::Shutdown)).await?;
        Ok(())
    }

    /// One item from context to stored result. Returns why no more should be started, if so.
    async fn analyze_one(&self, work: Work, own: &StopHandle) -> Result<Option<Reason>, RunError> {
        if !self.is_still_wanted(&work).await? {
            return Ok(None);
        }
        let (key, fingerprint) = (work.item.item.key.clone(), work.fingerprint.clone());
        let Some(verdict) = work.verdict.clone() else { return Ok(None) };
        let context = match self.context_of(&work, verdict.clone()).await {
            Ok(context) => context,
            Err(missing) => {
                self.without_code(key, &missing).await?;
                // Other items may have code bases of their own.
                return Ok(None);
            }
        };
        let words = self.deep_words(&work, &verdict, &context)?;
        let job = self.deep_job(key.clone(), words, &context);
        let subject = vec![(key.clone(), fingerprint.clone())];
        match self.start(job, subject, self.config.analyze.max_cost, own).await? {
            Started::Ended(session, end) => {
                let attempts = self.attempts_of(&key).await?;
                let result = self.deep_result(session, *end, attempts, Some(&context.root));
                let result = self.without_secrets(session, result).await;
                let next = gate_after(&result);
                self.journal
                    .results()
                    .apply_deep(session, self.id, key, fingerprint, result.clone())
                    .await?;
                if let DeepResult::Finished(finding) = &result {
                    self.publish(&work.item.item.key, work.item.item.rev, finding).await?;
                }
                Ok(next)
            }
            Started::Refused(reason) => {
                self.journal.items().defer(vec![key], reason).await?;
                Ok(Some(reason))
            }
            Started::Taken => Ok(None),
        }
    }

    /// All that the agent is told about an item.
    pub(super) fn deep_words(
        &self,
        work: &Work,
        verdict: &Verdict,
        context: &CodeContext,
    ) -> Result<Rendered, RunError> {
        let request = Request {
            item: &work.item,
            verdict,
            overview: &context.overview,
            context: &context.context,
        };
        let fence = Fence::new(uuid::Uuid::now_v7());
        Ok(analyze::render(&self.prompts, request, &self.config.analyze, &fence)?)
    }

    fn deep_job(&self, item: ItemKey, words: Rendered, context: &CodeContext) -> Job {
        Job {
            session: Self::new_session(),
            run: self.id,
            stage: Stage::Deep,
            item: Some(item),
            attempt: 1,
            words,
            repository: Some(context.root.clone()),
        }
    }

    /// An agent may repeat what it should not have seen; nobody else gets to see it.
    pub(super) async fn without_secrets(
        &self,
        session: SessionId,
        mut result: DeepResult,
    ) -> DeepResult {
        if let DeepResult::Finished(finding) = &mut result {
            let held = self.edges.secrets.held().await;
            let texts = held.remove_from_all(finding.texts_mut());
            if texts > 0 {
                tracing::error!(session_id = %session, texts, "removed one of heartbeat's \
                                                               credentials from a finding");
            }
        }
        result
    }

    async fn attempts_of(&self, key: &ItemKey) -> Result<u32, RunError> {
        let row = self.journal.store().items().get(key.clone()).await?;
        Ok(row.map_or(1, |row| row.attempts))
    }

    /// What a session's end means for its item.
    pub(super) fn deep_result(
        &self,
        session: SessionId,
        end: SessionEnd,
        attempts: u32,
        root: Option<&Path>,
    ) -> DeepResult {
        let outcome = match end.outcome {
            Outcome::Completed => match finding_in(&end, root) {
                Ok(finding) => return DeepResult::Finished(Box::new(finding)),
                Err(why) => Outcome::BadOutput { why },
            },
            other => other,
        };
        if outcome == (Outcome::Cancelled { why: FailureKind::ItemGone }) {
            return DeepResult::Gone(outcome);
        }
        if outcome == (Outcome::Cancelled { why: FailureKind::Operator }) {
            // A machine that goes down ends its keepers as a person would, and us with them.
            return match self.stop.state().reason {
                Some(reason) => DeepResult::NotItsFault(outcome, super::gate::stop_reason(reason)),
                None => DeepResult::Stopped(outcome),
            };
        }
        if outcome.retry_class() == RetryClass::DoesNotCount {
            let reason = not_its_fault(&outcome);
            return DeepResult::NotItsFault(outcome, reason);
        }
        let policy = RetryPolicy {
            max_attempts: self.config.limits.max_attempts,
            first_delay: self.config.dedupe.retry_delay,
        };
        match next_attempt(self.journal.clock().now(), attempts, policy, jitter(session)) {
            Some(next) => DeepResult::TryAgain(outcome, next),
            None => DeepResult::GiveUp(outcome),
        }
    }
}

fn keys_of(works: impl IntoIterator<Item = Work>) -> Vec<ItemKey> {
    works.into_iter().map(|work| work.item.item.key).collect()
}

fn finding_in(end: &SessionEnd, root: Option<&Path>) -> Result<Finding, FailureKind> {
    let output = end.output.as_ref().ok_or(FailureKind::SchemaIgnored)?;
    let mut finding = analyze::check(output).map_err(|error| {
        tracing::warn!(%error, "rejected a finding");
        FailureKind::SchemaViolated
    })?;
    if let Some(root) = root {
        analyze::mark_missing_files(&mut finding, |path| root.join(path).is_file());
    }
    Ok(finding)
}

pub(super) fn not_its_fault(outcome: &Outcome) -> Reason {
    match outcome {
        Outcome::ProviderLimit { .. } => Reason::ProviderLimit,
        outcome if outcome.is_configuration() => Reason::AgentConfig,
        Outcome::SpawnFailed { .. } => Reason::CannotStart,
        Outcome::Cancelled { why: FailureKind::ItemGone } => Reason::OutOfQuery,
        Outcome::Cancelled { why: FailureKind::Operator } => Reason::StoppedByOperator,
        _ => Reason::Shutdown,
    }
}

/// Some ends say that nothing more should be started in this run.
fn gate_after(result: &DeepResult) -> Option<Reason> {
    match result {
        DeepResult::NotItsFault(outcome, reason) => {
            let of_all =
                matches!(outcome, Outcome::ProviderLimit { .. } | Outcome::SpawnFailed { .. });
            (of_all || outcome.is_configuration()).then_some(*reason)
        }
        _ => None,
    }
}

/// A number from 0 to 1 that differs from session to session and needs no source of chance.
fn jitter(session: SessionId) -> f64 {
    f64::from(session.0.as_bytes()[15]) / 255.0
}
