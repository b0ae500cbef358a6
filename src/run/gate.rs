//! Starting a session: every gate in turn, then the claim, then the session itself.
//!
//! Triage and deep analysis go through the same gates. A gate that says no is asked again for
//! `limits.admission_wait`; after that the work is deferred with the gate's reason.

use std::time::Duration;

use tokio::time::Instant;

use super::advice::provider_reason;
use super::{Job, Run, RunError};
use crate::event::{Event, Reason};
use crate::model::{ItemKey, Outcome, SessionEnd, SessionId, Usd};
use crate::ports::LedgerError;
use crate::schedule::day_in;
use crate::session::{StopHandle, StopReason};
use crate::store::{BudgetCaps, Claim, ClaimRefusal, StoreError, fault};

/// How often a closed gate is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// How long a provider that named no reset is left alone.
const UNSTATED_SUSPENSION: jiff::SignedDuration = jiff::SignedDuration::from_mins(15);
/// The one provider so far.
pub(super) const PROVIDER: &str = "agent";

/// What came of the wish to start a session.
pub(super) enum Started {
    /// It ran to its end.
    Ended(SessionId, Box<SessionEnd>),
    /// It did not start, for this reason.
    Refused(Reason),
    /// The item is no longer ours to take.
    Taken,
}

impl Run {
    /// A fresh session id.
    pub(super) fn new_session() -> SessionId {
        SessionId(uuid::Uuid::now_v7())
    }

    /// Claims the work and performs the job, waiting for the gates within their limit.
    pub(super) async fn start(
        &self,
        mut job: Job,
        subject: Vec<(ItemKey, String)>,
        worst_case: Usd,
        own: &StopHandle,
    ) -> Result<Started, RunError> {
        let until = Instant::now() + self.config.limits.admission_wait;
        loop {
            if let Err(reason) = self.wait_for_gates(job.item.as_ref(), until).await? {
                return Ok(Started::Refused(reason));
            }
            if let Some(detail) = self.lacks_time(job.stage) {
                self.refuse(job.item.clone(), Reason::RunDeadline, detail);
                return Ok(Started::Refused(Reason::RunDeadline));
            }
            let claim = self.claim_for(&job, subject.clone(), worst_case);
            match self.journal.claims().take(claim.clone()).await? {
                Ok(attempt) => job.attempt = attempt,
                Err(ClaimRefusal::Taken(_)) => return Ok(Started::Taken),
                Err(ClaimRefusal::Budget(refusal)) => {
                    self.refuse(job.item.clone(), Reason::Budget, refusal.to_string());
                    return Ok(Started::Refused(Reason::Budget));
                }
            }
            let signal = self.stop.signal().and(&self.deadline).and(own);
            let session = job.session;
            fault::point();
            let performed = self.edges.sessions.perform(job.clone(), signal).await;
            fault::point();
            match performed {
                Ok(end) => {
                    self.note_provider(&end).await?;
                    self.note_agent(&job, &end).await?;
                    self.note_machine(&job, &end);
                    return Ok(Started::Ended(session, Box::new(end)));
                }
                Err(LedgerError::Full { live, max }) => {
                    self.journal.claims().give_back(claim).await?;
                    if Instant::now() >= until {
                        let detail = format!("{live} of {max} session slots are in use");
                        self.refuse(job.item.clone(), Reason::MaxLiveSessions, detail);
                        return Ok(Started::Refused(Reason::MaxLiveSessions));
                    }
                    tokio::time::sleep(ASK_AGAIN).await;
                }
                Err(error @ LedgerError::Store(_)) => {
                    return Err(StoreError::Ledger(error).into());
                }
            }
        }
    }

    fn claim_for(&self, job: &Job, subject: Vec<(ItemKey, String)>, worst_case: Usd) -> Claim {
        let budget = &self.config.budget;
        Claim {
            session: job.session,
            run: self.id,
            stage: job.stage,
            subject,
            worst_case,
            caps: BudgetCaps { per_run: budget.per_run, per_day: budget.per_day },
            day: day_in(&self.config.schedule.timezone, self.journal.clock().now()),
            max_attempts: self.config.limits.max_attempts,
        }
    }

    /// Waits until the machine and the provider have room, or says who has not.
    async fn wait_for_gates(
        &self,
        item: Option<&ItemKey>,
        until: Instant,
    ) -> Result<Result<(), Reason>, RunError> {
        let mut told = None;
        loop {
            if let Some(stop) = self.stopping() {
                return Ok(Err(stop_reason(stop)));
            }
            let now = self.journal.clock().now();
            let store = self.journal.store();
            if let Some((until, why)) = store.provider().suspension(PROVIDER, now).await? {
                let detail = format!("the provider is suspended until {until}: {why}");
                self.refuse(item.cloned(), Reason::ProviderLimit, detail);
                return Ok(Err(Reason::ProviderLimit));
            }
            let Err((reason, detail)) = self.edges.gate.admit().await else { return Ok(Ok(())) };
            if told != Some(reason) {
                self.refuse(item.cloned(), reason, detail);
                told = Some(reason);
            }
            if Instant::now() >= until {
                return Ok(Err(reason));
            }
            let mut signal = self.stop.signal().and(&self.deadline);
            let known = signal.state();
            // Whoever asks to stop is heard at once; otherwise the gate is asked again.
            drop(tokio::time::timeout(ASK_AGAIN, signal.changed(known)).await);
        }
    }

    pub(super) fn refuse(&self, item: Option<ItemKey>, reason: Reason, detail: String) {
        self.emit(Event::AdmissionRefused { item, reason, detail });
    }

    /// A provider's limit holds for everybody, until its stated reset.
    async fn note_provider(&self, end: &SessionEnd) -> Result<(), RunError> {
        let Outcome::ProviderLimit { why } = &end.outcome else { return Ok(()) };
        let unstated = self.journal.clock().now() + UNSTATED_SUSPENSION;
        let until = end.suspended_until.unwrap_or(unstated);
        let reason = provider_reason(*why, &self.config);
        Ok(self.journal.provider().suspend(PROVIDER, until, reason).await?)
    }
}

/// Why work did not start, when somebody asked to stop.
pub(super) const fn stop_reason(stop: StopReason) -> Reason {
    match stop {
        StopReason::RunDeadline => Reason::RunDeadline,
        StopReason::ItemGone => Reason::OutOfQuery,
        StopReason::Operator => Reason::StoppedByOperator,
        StopReason::Shutdown | StopReason::LeaseLost => Reason::Shutdown,
    }
}
