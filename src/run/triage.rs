//! Triage: one cheap session for all items without a verdict.
//!
//! Each id of the answer is checked separately. Items without a usable verdict are asked about once
//! more, and then get the default.
//!
//! A session that fails in a way that one of its items can cause is divided in halves until the
//! culprit is alone; it is set aside with the evidence, and everybody else is judged. A failure of
//! the provider is divided only if a probe is answered right afterwards: what does not follow the
//! items is not theirs. Where every part fails alike, it is none of them: the stage stops, and the
//! next run tries one item first. What a run cannot finish, the next one continues with the parts
//! that failed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::blame::{self, Blame};
use super::launch::{EndedSession, Launch, Launched, launch};
use super::provider::{self, Canary};
use super::suggest::{self, Offers};
use super::{RunContext, RunError, deep_result, linked_content, recover};
use crate::breaker::blame::{can_be_one_of_many, is_about_the_request};
use crate::breaker::provider::{MAX_ALIKE, ProviderRecord, is_outage};
use crate::dedupe::{ItemParts, QueuedItem, Queues, in_order};
use crate::event::{Event, Reason};
use crate::model::{Complexity, ItemKey, Outcome, SessionId, Stage, Verdict};
use crate::prompt::{Fence, Rendered};
use crate::session::StopHandle;
use crate::store::{EarlierVerdicts, TriageResult};
use crate::triage::{self, Answer, Batch, Destination, RequestRound};

/// The question for an item that was not triaged.
const NO_TRIAGE: &str = "What causes this, and what has to change?";

type Untriaged = HashMap<ItemKey, QueuedItem>;

/// Gives every item a verdict and returns those for deep analysis, in queue order. Verdicts of
/// earlier runs still apply. Items of sources `out_of_budget` wait. Also returns what stopped triage
/// alone: analyses go on.
pub(super) async fn judge(
    cx: &RunContext,
    queues: Queues,
    out_of_budget: &HashSet<String>,
) -> Result<(Vec<QueuedItem>, Option<RunError>), RunError> {
    let Queues { untriaged, triaged } = queues;
    let mut deep = settle_by_rule(cx, triaged).await?;
    let (mut failed, mut fault) = (0, None);
    if cx.past {
        deep.extend(all_to_analysis(cx, untriaged).await?);
    } else if !untriaged.is_empty() {
        let planned = unless_panic(plan(cx.clone(), untriaged.clone())).await;
        let mut triage = Triage::of(cx, untriaged);
        match planned {
            Some(planned) => {
                let (batches, offers) = planned?;
                triage.offers = offers;
                triage.ask_all(batches).await?;
            }
            None => triage.fail_all().await?,
        }
        failed = triage.failed;
        fault = triage.fault;
        deep.extend(triage.deep);
    }
    let triaged = cx.journal.view().triaged;
    cx.emit(Event::TriageEnded { triaged, deep: deep.len() as u64, failed });
    if let Some(fault) = &fault {
        cx.refuse_for(None, fault);
    }
    if let Some(fault) = fault.take_if(|fault| !fault.is_of_one_stage()) {
        return Err(fault);
    }
    // They take no place in the queue.
    let (waiting, deep): (Vec<_>, Vec<_>) =
        deep.into_iter().partition(|item| out_of_budget.contains(item.key().source()));
    let waiting = waiting.iter().map(|item| item.key().clone()).collect();
    cx.journal.items().defer(waiting, Reason::SourceBudget).await?;
    Ok((in_order(deep, &cx.config.order), fault))
}

/// Marks every item for analysis without a triage session.
async fn all_to_analysis(
    cx: &RunContext,
    items: Vec<QueuedItem>,
) -> Result<Vec<QueuedItem>, RunError> {
    let with_verdict = |item: QueuedItem| {
        let mut verdict = Verdict::new(item.id(), Complexity::Moderate, NO_TRIAGE);
        verdict.needs_deep_analysis = true;
        QueuedItem { verdict: Some(verdict), ..item }
    };
    let items: Vec<QueuedItem> = items.into_iter().map(with_verdict).collect();
    let stored = |item: &QueuedItem| {
        let verdict = item.verdict.clone()?;
        Some(TriageResult { triage_only: false, ..result(cx, item, verdict, false, None) })
    };
    let results = items.iter().filter_map(stored).collect();
    cx.journal.results().apply_triage(None, results).await?;
    Ok(items)
}

/// Finishes items with a verdict of an earlier run that a rule now limits to triage; returns the
/// others.
async fn settle_by_rule(
    cx: &RunContext,
    triaged: Vec<QueuedItem>,
) -> Result<Vec<QueuedItem>, RunError> {
    let (settled, deep): (Vec<_>, Vec<_>) =
        triaged.into_iter().partition(|item| is_triage_only(cx, item));
    let verdict = |item: &QueuedItem| item.verdict.clone().map(|verdict| (item.clone(), verdict));
    let verdicts = settled.iter().filter_map(verdict);
    let results: Vec<_> =
        verdicts.map(|(item, verdict)| result(cx, &item, verdict, true, None)).collect();
    if !results.is_empty() {
        cx.journal.results().apply_triage(None, results).await?;
    }
    Ok(deep)
}

pub(super) fn is_triage_only(cx: &RunContext, item: &QueuedItem) -> bool {
    cx.config.rule_for(item.facts()).is_some_and(|(_, rule)| rule.triage_only)
}

/// The prompts of this run's triage sessions, for a dry run.
pub(super) async fn prompts(
    cx: &RunContext,
    new: &[QueuedItem],
) -> Result<Vec<Rendered>, RunError> {
    let (batches, _) = plan(cx.clone(), new.to_vec()).await?;
    batches.iter().map(|batch| prompt(cx, batch, RequestRound::First)).collect()
}

/// The batches of these items, with background and an overview of their code bases.
async fn plan(cx: RunContext, new: Vec<QueuedItem>) -> Result<(Vec<Batch>, Offers), RunError> {
    if new.is_empty() {
        return Ok((Vec::new(), Offers::default()));
    }
    let mut new = new;
    // Stable: otherwise in the order of the queue.
    new.sort_by_key(|item| item.suspect_among);
    let among: Vec<u32> = new.iter().map(|item| item.suspect_among).collect();
    let items: Vec<_> = new.iter().map(|item| item.item.clone()).collect();
    let mut file_names = linked_content::file_names(&cx, &new).await;
    let offers = suggest::gather(&cx, &new).await?;
    let mut known = cx.store().items().background(new, EarlierVerdicts::All).await?;
    for (key, background) in &mut known {
        background.file_names = file_names.remove(key).unwrap_or_default();
        background.options = offers.text(key);
        background.corrections = offers.corrections(key);
    }
    for item in &items {
        let names = cx.edges.code.names(item);
        if !names.is_empty() {
            known.entry(item.facts.key.clone()).or_default().code_bases = names;
        }
    }
    let code = cx.edges.code.overviews(items.clone()).await.join("\n\n");
    let pack = |items: &[_]| triage::plan_batches(items, &known, &code, &cx.config.triage);
    // Suspects last and by themselves, in parts that are smaller than those that failed.
    let (fresh, suspects): (Vec<_>, Vec<_>) =
        items.into_iter().zip(&among).partition(|(_, among)| **among == 0);
    let mut batches = pack(&fresh.into_iter().map(|(item, _)| item).collect::<Vec<_>>());
    for part in suspects.chunk_by(|(_, one), (_, next)| one == next) {
        let size = part.first().map_or(1, |(_, among)| usize::try_from(**among / 2).unwrap_or(1));
        for some in part.chunks(size.max(1)) {
            batches.extend(pack(&some.iter().map(|(item, _)| item.clone()).collect::<Vec<_>>()));
        }
    }
    Ok((batches, offers))
}

fn prompt(cx: &RunContext, batch: &Batch, round: RequestRound) -> Result<Rendered, RunError> {
    let fence = Fence::new(uuid::Uuid::now_v7());
    Ok(triage::render(&cx.prompts, batch, &fence, round)?)
}

/// `None` on a panic: a bug in one batch must not end the run.
pub(super) async fn unless_panic<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    // Dropping the set aborts its task, so that a dropped run leaves nothing behind.
    let mut task = JoinSet::new();
    task.spawn(work.in_current_span());
    task.join_next().await?.ok()
}

struct Triage<'a> {
    cx: &'a RunContext,
    items: Untriaged,
    offers: Offers,
    deep: Vec<QueuedItem>,
    /// Number of items whose session failed.
    failed: u64,
    /// Set if no other session of this run can work either.
    fault: Option<RunError>,
    /// A session of this run was answered: agent, model and prompt work.
    answered: bool,
    /// The last session was answered.
    answered_last: bool,
    /// Sessions that failed alike since the last answer, and how.
    alike: Option<(Outcome, usize)>,
    /// Single items that failed before any session was answered.
    undecided: Vec<(Batch, Failure)>,
}

/// How a session of a batch failed.
struct Failure {
    outcome: Outcome,
    /// What the agent or the provider said.
    words: String,
    /// It was one item alone, which failed as often as it may.
    exhausted: bool,
}

enum BatchOutcome {
    Answered(SessionId, serde_json::Value),
    /// One of its items may have caused it.
    Failed(Failure),
    Refused(Reason),
    /// One host of several could not go on; other batches can be asked about.
    Deferred(Reason),
}

impl<'a> Triage<'a> {
    fn of(cx: &'a RunContext, new: Vec<QueuedItem>) -> Self {
        let items = new.into_iter().map(|item| (item.key().clone(), item)).collect();
        Self {
            cx,
            items,
            offers: Offers::default(),
            deep: Vec::new(),
            failed: 0,
            fault: None,
            answered: false,
            answered_last: false,
            alike: None,
            undecided: Vec::new(),
        }
    }

    /// Batches run one after the other, parts of failed ones after the others. Once a session is
    /// refused, the rest wait for the next run.
    async fn ask_all(&mut self, batches: Vec<Batch>) -> Result<(), RunError> {
        self.cx.emit(Event::TriageStarted {
            items: self.items.len() as u64,
            sessions: u32::try_from(batches.len()).unwrap_or(u32::MAX),
        });
        let mut queue: VecDeque<Batch> = batches.into();
        let careful = blame::is_stopped(self.cx, Stage::Triage).await?;
        if careful && let Some(first) = queue.pop_front() {
            // Not always the same one: it may be the culprit itself.
            let any = self.cx.id.0.as_u128() % (first.items.len().max(1) as u128);
            let (one, rest) = first.without(usize::try_from(any).unwrap_or(0));
            rest.into_iter().for_each(|rest| queue.push_front(rest));
            queue.push_front(one);
        }
        let mut closed: Option<Reason> = None;
        while let Some(batch) = queue.pop_front() {
            if let Some(reason) = closed {
                self.defer(&batch.keys(), reason).await?;
                continue;
            }
            let asked = self.ask(&batch, RequestRound::First).await?;
            self.answered_last = matches!(asked, BatchOutcome::Answered(..));
            match asked {
                BatchOutcome::Answered(session, answer) => {
                    self.note_answer().await?;
                    self.take_answer(&batch, session, &answer).await?;
                }
                BatchOutcome::Failed(failure) => {
                    closed = self.divide(batch, failure, careful, &mut queue).await?;
                }
                BatchOutcome::Refused(reason) => {
                    closed = Some(reason);
                    self.defer(&batch.keys(), reason).await?;
                }
                BatchOutcome::Deferred(reason) => self.defer(&batch.keys(), reason).await?,
            }
        }
        for (batch, failure) in std::mem::take(&mut self.undecided) {
            self.judge_alone(&batch, failure).await?;
        }
        Ok(())
    }

    /// The first answer shows that agent, model and prompt work.
    async fn note_answer(&mut self) -> Result<(), RunError> {
        self.alike = None;
        if !self.answered {
            self.answered = true;
            provider::succeeded(self.cx, Stage::Triage).await?;
        }
        Ok(())
    }

    /// Divides a batch that failed. Returns a reason if no other session of this stage can work.
    async fn divide(
        &mut self,
        batch: Batch,
        failure: Failure,
        careful: bool,
        queue: &mut VecDeque<Batch>,
    ) -> Result<Option<Reason>, RunError> {
        let before = self.alike.take().filter(|(outcome, _)| *outcome == failure.outcome);
        let times = before.map_or(0, |(_, times)| times) + 1;
        self.alike = Some((failure.outcome.clone(), times));
        if !self.answered && (times >= MAX_ALIKE || careful) {
            return self.stop(batch, failure).await.map(Some);
        }
        match batch.halves() {
            Some(halves) => queue.extend(halves),
            None if self.answered => self.judge_alone(&batch, failure).await?,
            None => self.undecided.push((batch, failure)),
        }
        Ok(None)
    }

    /// Everything failed alike: it is none of the items, and nothing counts.
    async fn stop(&mut self, batch: Batch, failure: Failure) -> Result<Reason, RunError> {
        let cx = self.cx;
        let why = blame::alike_text(&failure.outcome, Stage::Triage, &cx.config, &failure.words);
        let (model, told) = (cx.config.model_of(Stage::Triage).to_owned(), why.clone());
        let outcome = failure.outcome;
        let update = move |record: &mut ProviderRecord| {
            record.model(&model).stop(Stage::Triage, outcome);
            record.agent_fault = Some(told);
        };
        cx.journal.provider().update(cx.config.agent_of(Stage::Triage), update).await?;
        let reason = Reason::FailsAlike;
        let mut keys = batch.keys();
        keys.extend(std::mem::take(&mut self.undecided).iter().flat_map(|(one, _)| one.keys()));
        self.defer(&keys, reason).await?;
        cx.journal.results().acquit(self.items.keys().cloned().collect()).await?;
        self.fault.get_or_insert(RunError::FailsAlike(Stage::Triage, why));
        Ok(reason)
    }

    /// One item that failed alone: set aside if its own text is the cause, or if it failed too
    /// often.
    async fn judge_alone(&mut self, batch: &Batch, failure: Failure) -> Result<(), RunError> {
        let keys = batch.keys();
        self.failed += keys.len() as u64;
        let about_it = is_about_the_request(&failure.outcome);
        // Without another answer in this run, a probe shows whether requests are accepted at all.
        let accepted = self.answered
            || (about_it && provider::canary(self.cx, Stage::Triage).await? == Canary::Works);
        let is_urgent = |key: &ItemKey| {
            let fallback = self.items.get(key).map(|item| triage::fallback(&item.item));
            fallback.is_some_and(|fallback| fallback.destination == Destination::Deep)
        };
        // Too urgent to be left to a person only because triage takes too long for it.
        if failure.exhausted
            && !about_it
            && !is_outage(&failure.outcome)
            && keys.iter().all(is_urgent)
        {
            return self.apply_defaults(&keys).await;
        }
        if failure.exhausted || (accepted && about_it) {
            return self.set_aside(&keys, &failure).await;
        }
        self.defer(&keys, Reason::TriageFailed).await
    }

    /// Parks items with the evidence against them.
    async fn set_aside(&mut self, keys: &[ItemKey], failure: &Failure) -> Result<(), RunError> {
        let said = match failure.words.as_str() {
            "" => String::new(),
            words => format!(": {words}"),
        };
        let why = format!("Triage of this item alone ended with {}{said}", failure.outcome);
        let aside = |item: &QueuedItem| {
            let verdict = Verdict::new(item.id(), Complexity::Moderate, why.clone());
            result(self.cx, item, verdict, false, Some(Reason::FailsTriage))
        };
        let results = keys.iter().filter_map(|key| self.items.get(key)).map(aside).collect();
        tracing::error!(items = ?keys, outcome = %failure.outcome, words = %failure.words, "set aside: triage fails because of this item alone");
        Ok(self.cx.journal.results().apply_triage(None, results).await?)
    }

    /// Stores the usable verdicts, asks once more about the rest, then applies the default. The
    /// first answer is stored before the second request.
    async fn take_answer(
        &mut self,
        batch: &Batch,
        session: SessionId,
        answer: &serde_json::Value,
    ) -> Result<(), RunError> {
        let Answer { verdicts, failed } = check_answer(batch, answer);
        self.apply_verdicts(session, verdicts).await?;
        if failed.is_empty() {
            return Ok(());
        }
        let again = batch.only(&failed);
        let mut without = again.keys();
        match self.ask(&again, RequestRound::Again).await? {
            BatchOutcome::Answered(session, answer) => {
                let Answer { verdicts, failed } = check_answer(&again, &answer);
                without = again.keys_of(&failed);
                self.apply_verdicts(session, verdicts).await?;
            }
            BatchOutcome::Failed(_) => {}
            // No default yet, because they were not asked about again: the next run does that.
            BatchOutcome::Refused(reason) | BatchOutcome::Deferred(reason) => {
                return self.defer(&again.keys(), reason).await;
            }
        }
        self.apply_defaults(&without).await
    }

    /// A panic is a failure that one of the batch's items may have caused.
    async fn ask(&mut self, batch: &Batch, round: RequestRound) -> Result<BatchOutcome, RunError> {
        let (cx, subject) = (self.cx, self.subject(&batch.keys()));
        let asked = run_session(cx.clone(), batch.clone(), round, subject.clone());
        let Some(launched) = unless_panic(asked).await else {
            let alone = subject.len() == 1;
            let out = self.count_panic(subject, alone).await?;
            let (outcome, words) = (Outcome::Panicked, "a bug in heartbeat".to_owned());
            let exhausted = alone && !out.is_empty();
            return Ok(BatchOutcome::Failed(Failure { outcome, words, exhausted }));
        };
        let EndedSession { id, end, fault, blame, .. } = match launched? {
            Launched::Ended(session) => *session,
            Launched::Refused(reason) => return Ok(BatchOutcome::Refused(reason)),
            Launched::NotPending => return Ok(BatchOutcome::Deferred(Reason::TriageFailed)),
        };
        self.fault = self.fault.take().or(fault);
        if end.outcome.is_success() {
            return Ok(BatchOutcome::Answered(id, end.output.unwrap_or_default()));
        }
        let one_of_them = match blame {
            Blame::Everybody(_) => false,
            _ if is_outage(&end.outcome) => self.is_answered_otherwise().await?,
            _ => can_be_one_of_many(&end.outcome),
        };
        if !one_of_them {
            cx.journal.results().apply_triage(Some(id), Vec::new()).await?;
            let reason = match blame {
                Blame::Everybody(reason) => reason,
                _ => deep_result::deferral_reason(&end.outcome),
            };
            return Ok(match end.outcome.is_of_one_host() {
                true => BatchOutcome::Deferred(reason),
                false => BatchOutcome::Refused(reason),
            });
        }
        let (most, alone) = (cx.config.limits.max_attempts, subject.len() == 1);
        let out = cx.journal.results().triage_failed(Some(id), subject, most, alone).await?;
        Ok(BatchOutcome::Failed(Failure {
            words: end.last_words(),
            outcome: end.outcome,
            exhausted: !out.is_empty(),
        }))
    }

    /// Whether the provider answers requests other than the one that it just failed on.
    async fn is_answered_otherwise(&self) -> Result<bool, RunError> {
        if self.answered_last {
            return Ok(true);
        }
        let stage = Stage::Triage;
        let record = self.cx.store().provider().record(self.cx.config.agent_of(stage)).await?;
        let down = record.hold_of(self.cx.config.model_of(stage), self.cx.now()).is_some();
        Ok(!down && provider::canary(self.cx, stage).await? == Canary::Works)
    }

    /// Sweeps the session, if one was alive, and returns the items that failed too often.
    async fn count_panic(
        &self,
        subject: Vec<(ItemKey, String)>,
        counts: bool,
    ) -> Result<Vec<ItemKey>, RunError> {
        let cx = self.cx;
        tracing::error!(run_id = %cx.id, items = subject.len(), "triage panicked, which is a bug; it is a failure of its items");
        recover::finish_interrupted(cx).await?;
        let most = cx.config.limits.max_attempts;
        Ok(cx.journal.results().triage_failed(None, subject, most, counts).await?)
    }

    /// Planning the batches panicked: a failed attempt of all items. Those that failed too often
    /// get the default.
    async fn fail_all(&mut self) -> Result<(), RunError> {
        let mut keys: Vec<_> = self.items.keys().cloned().collect();
        let exhausted = self.count_panic(self.subject(&keys), true).await?;
        self.failed += keys.len() as u64;
        self.apply_defaults(&exhausted).await?;
        keys.retain(|key| !exhausted.contains(key));
        self.defer(&keys, Reason::TriageFailed).await
    }

    async fn apply_verdicts(
        &mut self,
        session: SessionId,
        verdicts: Vec<(ItemKey, Verdict)>,
    ) -> Result<(), RunError> {
        let known = |(key, verdict): &(ItemKey, Verdict)| {
            let suggestions = self.offers.suggestions(self.cx, key, verdict);
            let verdict = Verdict { fixed_by: self.offers.fixed_by(key), ..verdict.clone() };
            let result = result(self.cx, self.items.get(key)?, verdict, true, None);
            Some(TriageResult { suggestions, ..result })
        };
        let results: Vec<_> = verdicts.iter().filter_map(known).collect();
        self.send_on(verdicts);
        Ok(self.cx.journal.results().apply_triage(Some(session), results).await?)
    }

    /// Items without a usable verdict: urgent ones go to deep analysis, the others to a person.
    async fn apply_defaults(&mut self, keys: &[ItemKey]) -> Result<(), RunError> {
        let (mut results, mut verdicts) = (Vec::new(), Vec::new());
        for item in keys.iter().filter_map(|key| self.items.get(key)) {
            let fallback = triage::fallback(&item.item);
            let park = match fallback.destination {
                Destination::Deep => None,
                Destination::Person => Some(Reason::ForAPerson),
            };
            verdicts.push((item.key().clone(), fallback.verdict.clone()));
            results.push(result(self.cx, item, fallback.verdict, false, park));
        }
        self.send_on(verdicts);
        Ok(self.cx.journal.results().apply_triage(None, results).await?)
    }

    /// Queues the items that need deep analysis.
    fn send_on(&mut self, verdicts: Vec<(ItemKey, Verdict)>) {
        let deep = verdicts.into_iter().filter(|(_, verdict)| verdict.needs_deep_analysis);
        for (key, verdict) in deep {
            let goes_on = self.items.get(&key).is_some_and(|item| !is_triage_only(self.cx, item));
            if let Some(item) = self.items.remove(&key).filter(|_| goes_on) {
                self.deep.push(QueuedItem { verdict: Some(verdict), ..item });
            }
        }
    }

    async fn defer(&self, keys: &[ItemKey], reason: Reason) -> Result<(), RunError> {
        let keys = self.subject(keys).into_iter().map(|(key, _)| key).collect();
        Ok(self.cx.journal.items().defer(keys, reason).await?)
    }

    fn subject(&self, keys: &[ItemKey]) -> Vec<(ItemKey, String)> {
        let one = |item: &QueuedItem| (item.key().clone(), item.fingerprint.clone());
        keys.iter().filter_map(|key| self.items.get(key)).map(one).collect()
    }
}

/// Runs one session for a batch.
async fn run_session(
    cx: RunContext,
    batch: Batch,
    round: RequestRound,
    subject: Vec<(ItemKey, String)>,
) -> Result<Launched, RunError> {
    let request = Launch {
        stage: Stage::Triage,
        subject,
        prompt: prompt(&cx, &batch, round)?,
        repository: None,
        beside: Vec::new(),
        attached: None,
        examiner: None,
        stop: StopHandle::new(),
    };
    launch(&cx, request).await
}

fn check_answer(batch: &Batch, output: &serde_json::Value) -> Answer {
    let checked = unless_check_panics(|| triage::check_answer(batch, output));
    checked.unwrap_or_else(|| Answer { failed: batch.ids(), ..Answer::default() })
}

/// Catches a panic on an unusual answer: the next run would panic on the same answer.
pub(super) fn unless_check_panics(check: impl FnOnce() -> Answer) -> Option<Answer> {
    let checked = catch_unwind(AssertUnwindSafe(check)).ok();
    if checked.is_none() {
        tracing::error!(
            "checking triage's answer panicked, which is a bug; the answer is rejected"
        );
    }
    checked
}

fn result(
    cx: &RunContext,
    item: &QueuedItem,
    verdict: Verdict,
    from_model: bool,
    park: Option<Reason>,
) -> TriageResult {
    let (key, fingerprint) = (item.key().clone(), item.fingerprint.clone());
    let parts = Some(ItemParts::of(&item.item));
    let triage_only = is_triage_only(cx, item);
    let suggestions = Vec::new();
    TriageResult { key, fingerprint, verdict, from_model, park, triage_only, parts, suggestions }
}
