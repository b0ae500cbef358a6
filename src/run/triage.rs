//! One session for all changed items: ask, check each id, ask once more for those that failed,
//! then the stated default.

use std::collections::HashMap;

use super::analyze::not_its_fault;
use super::gate::Started;
use super::{Job, Run, RunError, Work};
use crate::dedupe::in_order;
use crate::event::{Event, Reason};
use crate::model::{ItemId, ItemKey, RetryClass, SessionEnd, SessionId, Stage, Verdict};
use crate::prompt::Fence;
use crate::session::StopHandle;
use crate::store::TriageResult;
use crate::triage::{self, Asking, Batch, Destination};

/// Who is who in a run's triage.
type ById = HashMap<ItemId, Work>;

impl Run {
    /// Gives every item its verdict and returns those that deserve a session of their own, first
    /// in line first. Verdicts of earlier runs are not asked for again.
    pub(super) async fn triage(&self, work: Vec<Work>) -> Result<Vec<Work>, RunError> {
        let order: Vec<ItemId> = work.iter().map(|work| work.item.item.id).collect();
        let (judged, new): (Vec<_>, Vec<_>) =
            work.into_iter().partition(|work| work.verdict.is_some());
        let mut deep: ById = judged.into_iter().map(|work| (work.item.item.id, work)).collect();
        let mut failed = 0;
        if !new.is_empty() {
            let (verdicts, without) = self.ask(new).await?;
            failed = without;
            deep.extend(verdicts);
        }
        let deep: Vec<Work> = order.iter().filter_map(|id| deep.remove(id)).collect();
        // Triage's word may change the order.
        let deep = in_order(deep, |work| work.place(&self.config.order));
        let triaged = self.journal.view().triaged;
        self.emit(Event::TriageEnded { triaged, deep: deep.len() as u64, failed });
        Ok(deep)
    }

    /// Asks about all of them in as few sessions as fit. Returns those for deep analysis and how
    /// many got no session that worked.
    async fn ask(&self, new: Vec<Work>) -> Result<(ById, u64), RunError> {
        let items: Vec<_> = new.iter().map(|work| work.item.clone()).collect();
        let batches = triage::plan_batches(&items, &self.config.triage);
        self.emit(Event::TriageStarted {
            items: items.len() as u64,
            sessions: u32::try_from(batches.len()).unwrap_or(u32::MAX),
        });
        let mut by_id: ById = new.into_iter().map(|work| (work.item.item.id, work)).collect();
        let (mut deep, mut failed) = (ById::new(), 0);
        let mut closed: Option<Reason> = None;
        for batch in batches {
            if let Some(reason) = closed {
                self.leave(&batch, &by_id, reason).await?;
                continue;
            }
            match self.ask_batch(&batch, &by_id, Asking::First).await? {
                Asked::Answered(session, answer) => {
                    let verdicts = self.judge(&batch, &by_id, session, *answer).await?;
                    deep.extend(take_deep(verdicts, &mut by_id));
                }
                Asked::Failed(hopeless) => {
                    failed += batch.items.len() as u64;
                    let hopeless: Vec<_> = hopeless.iter().filter_map(ItemKey::item_id).collect();
                    let verdicts = self.store_defaults(&by_id, &hopeless).await?;
                    deep.extend(take_deep(verdicts, &mut by_id));
                    let rest: Vec<_> =
                        batch.ids().into_iter().filter(|id| !hopeless.contains(id)).collect();
                    self.leave(&batch.only(&rest), &by_id, Reason::TriageFailed).await?;
                }
                Asked::Refused(reason) => {
                    closed = Some(reason);
                    self.leave(&batch, &by_id, reason).await?;
                }
            }
        }
        Ok((deep, failed))
    }

    async fn ask_batch(
        &self,
        batch: &Batch,
        by_id: &ById,
        asking: Asking,
    ) -> Result<Asked, RunError> {
        let session = Self::new_session();
        let fence = Fence::new(uuid::Uuid::now_v7());
        let words = triage::render(&self.prompts, batch, &fence, asking)?;
        let (run, stage) = (self.id, Stage::Triage);
        let job = Job { session, run, stage, item: None, attempt: 1, words, repository: None };
        let subject = subject(batch, by_id);
        let cost = self.config.triage.max_cost;
        match self.start(job, subject.clone(), cost, &StopHandle::new()).await? {
            Started::Ended(session, end) if end.outcome.is_success() => {
                Ok(Asked::Answered(session, end))
            }
            Started::Ended(session, end) => match end.outcome.retry_class() {
                RetryClass::DoesNotCount => {
                    self.journal.results().apply_triage(Some(session), Vec::new()).await?;
                    Ok(Asked::Refused(not_its_fault(&end.outcome)))
                }
                _ => {
                    let most = self.config.limits.max_attempts;
                    Ok(Asked::Failed(
                        self.journal.results().triage_failed(session, subject, most).await?,
                    ))
                }
            },
            Started::Refused(reason) => Ok(Asked::Refused(reason)),
            Started::Taken => Ok(Asked::Failed(Vec::new())),
        }
    }

    /// Checks an answer and stores what is usable; asks once more for the rest, then applies the
    /// stated default. The first answer is stored before the second question is asked.
    async fn judge(
        &self,
        batch: &Batch,
        by_id: &ById,
        session: SessionId,
        answer: SessionEnd,
    ) -> Result<Vec<Verdict>, RunError> {
        let output = answer.output.unwrap_or_default();
        let checked = triage::check(&batch.ids(), &output);
        let failed = batch.only(&checked.failed());
        let mut deep = self.store_verdicts(by_id, Some(session), checked.verdicts).await?;
        if failed.items.is_empty() {
            return Ok(deep);
        }
        let mut without = failed.ids();
        match self.ask_batch(&failed, by_id, Asking::Again).await? {
            Asked::Answered(session, end) => {
                let again = triage::check(&without, &end.output.unwrap_or_default());
                without = again.failed();
                deep.extend(self.store_verdicts(by_id, Some(session), again.verdicts).await?);
            }
            Asked::Failed(_) => {}
            Asked::Refused(reason) => {
                // They were not asked again: no default yet, the next run asks.
                self.leave(&failed, by_id, reason).await?;
                return Ok(deep);
            }
        }
        deep.extend(self.store_defaults(by_id, &without).await?);
        Ok(deep)
    }

    async fn store_verdicts(
        &self,
        by_id: &ById,
        session: Option<SessionId>,
        mut verdicts: Vec<Verdict>,
    ) -> Result<Vec<Verdict>, RunError> {
        self.clear_of_secrets(&mut verdicts).await;
        let results = verdicts
            .iter()
            .filter_map(|verdict| by_id.get(&verdict.id).map(|work| (work, verdict)))
            .map(|(work, verdict)| result(work, verdict.clone(), true, None))
            .collect();
        self.journal.results().apply_triage(session, results).await?;
        Ok(verdicts.into_iter().filter(|verdict| verdict.needs_deep_analysis).collect())
    }

    /// The same for verdicts as for findings.
    pub(super) async fn clear_of_secrets(&self, verdicts: &mut [Verdict]) {
        if verdicts.is_empty() {
            return;
        }
        let held = self.edges.secrets.held().await;
        let texts = held.remove_from_all(verdicts.iter_mut().flat_map(Verdict::texts_mut));
        if texts > 0 {
            tracing::error!(run_id = %self.id, texts, "removed one of heartbeat's credentials \
                                                       from a triage verdict");
        }
    }

    async fn store_defaults(&self, by_id: &ById, ids: &[ItemId]) -> Result<Vec<Verdict>, RunError> {
        let (mut results, mut deep) = (Vec::new(), Vec::new());
        for work in ids.iter().filter_map(|id| by_id.get(id)) {
            let fallback = triage::fallback(&work.item);
            let park = match fallback.destination {
                Destination::Deep => None,
                Destination::Person => Some(Reason::ForAPerson),
            };
            if park.is_none() {
                deep.push(fallback.verdict.clone());
            }
            results.push(result(work, fallback.verdict, false, park));
        }
        self.journal.results().apply_triage(None, results).await?;
        Ok(deep)
    }

    /// The whole batch stays in line, with the reason.
    async fn leave(&self, batch: &Batch, by_id: &ById, reason: Reason) -> Result<(), RunError> {
        let keys = subject(batch, by_id).into_iter().map(|(key, _)| key).collect();
        Ok(self.journal.items().defer(keys, reason).await?)
    }
}

/// What came of a question.
enum Asked {
    Answered(SessionId, Box<SessionEnd>),
    /// With those who failed too often to be asked again.
    Failed(Vec<ItemKey>),
    Refused(Reason),
}

fn subject(batch: &Batch, by_id: &ById) -> Vec<(ItemKey, String)> {
    let one = |work: &Work| (work.item.item.key.clone(), work.fingerprint.clone());
    batch.items.iter().filter_map(|item| by_id.get(&item.id)).map(one).collect()
}

fn result(work: &Work, verdict: Verdict, from_model: bool, park: Option<Reason>) -> TriageResult {
    let (key, fingerprint) = (work.item.item.key.clone(), work.fingerprint.clone());
    TriageResult { key, fingerprint, verdict, from_model, park }
}

fn take_deep(verdicts: Vec<Verdict>, by_id: &mut ById) -> ById {
    let judged = |verdict: Verdict| {
        let id = verdict.id;
        by_id.remove(&id).map(|work| (id, Work { verdict: Some(verdict), ..work }))
    };
    verdicts.into_iter().filter_map(judged).collect()
}
