//! Starts a session: passes every gate, claims the work, runs the session.
//!
//! All stages use the same gates. A closed gate is retried for
//! `limits.admission_wait`; then the work is deferred with the gate's reason.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::blame::{self, Blame, Meaning};
use super::context::{deferral_reason, readable};
use super::provider::{self, ProviderGate};
use super::{RunContext, RunError};
use crate::event::{Event, Reason};
use crate::model::{ItemKey, SessionEnd, SessionId, Stage};
use crate::ports::LedgerError;
use crate::prompt::Rendered;
use crate::schedule::day_in;
use crate::session::{Attached, Examiner, Job, StopHandle};
use crate::settings::{Timeouts, credential_in};
use crate::store::{BudgetCaps, Claim, ClaimRefusal, StoreError, fault};

/// Interval between two attempts at a closed gate.
const RETRY_GATE: Duration = Duration::from_millis(500);
/// Allowance between the claim and the agent's first line on a busy machine.
const STARTING: Duration = Duration::from_secs(5);
/// Hosts that may fail to start a session before it is left to the next run.
const MAX_HOSTS: u32 = 3;

pub(super) struct Launch {
    pub(super) stage: Stage,
    /// Its items, with the fingerprints of their texts.
    pub(super) subject: Vec<(ItemKey, String)>,
    pub(super) prompt: Rendered,
    /// The code base it may read.
    pub(super) repository: Option<PathBuf>,
    /// More code bases it may read.
    pub(super) beside: Vec<PathBuf>,
    /// Files attached to its item.
    pub(super) attached: Option<Attached>,
    /// Looks at the answer before the session ends.
    pub(super) examiner: Option<Arc<dyn Examiner>>,
    /// Ends only this session.
    pub(super) stop: StopHandle,
}

pub(super) enum Launched {
    Ended(Box<EndedSession>),
    /// It did not start.
    Refused(Reason),
    /// Its item is no longer pending.
    NotPending,
}

pub(super) struct EndedSession {
    pub(super) id: SessionId,
    /// From 1.
    pub(super) attempt: u32,
    pub(super) end: SessionEnd,
    pub(super) blame: Blame,
    /// Set if no other session of this run can work either.
    pub(super) fault: Option<RunError>,
}

impl Launch {
    /// The item of a deep session; `None` for triage and locate.
    fn item(&self) -> Option<&ItemKey> {
        let first = self.subject.first().map(|(key, _)| key);
        first.filter(|_| self.stage == Stage::Deep)
    }
}

/// Claims the work and runs the session; waits for the gates within their limit.
pub(super) async fn launch(cx: &RunContext, launch: Launch) -> Result<Launched, RunError> {
    let mut until = Instant::now() + cx.config.limits.admission_wait;
    let mut hosts = 0;
    let mut claim = claim_for(cx, launch.stage, launch.subject.clone());
    loop {
        if let Some(closed) = wait_for_gates(cx, &launch, until).await? {
            return Ok(Launched::Refused(closed));
        }
        let attempt = match cx.journal.claims().take(claim.clone()).await? {
            Ok(attempt) => attempt,
            Err(ClaimRefusal::Taken(_)) => return Ok(Launched::NotPending),
            Err(ClaimRefusal::Budget(refusal)) => {
                let reason = match refusal.of_source {
                    true => Reason::SourceBudget,
                    false => Reason::Budget,
                };
                return Ok(refuse(cx, &launch, reason, refusal.to_string()));
            }
        };
        let job = Job {
            session: claim.session_ref(attempt),
            prompt: launch.prompt.clone(),
            repository: launch.repository.clone(),
            beside: launch.beside.clone(),
            triage: None,
            analyze: (launch.stage == Stage::Deep).then(|| cx.config.analyze.clone()),
            attached: launch.attached.clone(),
            examiner: launch.examiner.clone(),
        };
        fault::point();
        let performed = cx.edges.sessions.perform(job, cx.stop.signal().and(&launch.stop)).await;
        fault::point();
        match performed {
            Ok(end) => return ended(cx, &launch, claim.session, attempt, end).await,
            Err(full @ (LedgerError::Full { .. } | LedgerError::MachineFull { .. })) => {
                cx.journal.claims().give_back(claim.clone()).await?;
                if Instant::now() >= until {
                    let machine = matches!(full, LedgerError::MachineFull { .. });
                    let reason =
                        if machine { Reason::MachineSessions } else { Reason::MaxLiveSessions };
                    return Ok(refuse(cx, &launch, reason, full.to_string()));
                }
            }
            Err(LedgerError::NotStarted(reason, detail)) => {
                cx.journal.claims().give_back(claim.clone()).await?;
                hosts += 1;
                if hosts >= MAX_HOSTS {
                    return Ok(refuse(cx, &launch, reason, detail));
                }
                // The fleet rejects an id permanently once it failed, so a retry needs a new
                // session.
                claim.session = SessionId(uuid::Uuid::now_v7());
                until = Instant::now() + cx.config.limits.admission_wait;
            }
            // Row and claim stay; a later run collects the result.
            Err(LedgerError::LeftRunning) => return Ok(Launched::NotPending),
            Err(error) => return Err(StoreError::Ledger(error).into()),
        }
        tokio::time::sleep(RETRY_GATE).await;
    }
}

fn refuse(cx: &RunContext, launch: &Launch, reason: Reason, detail: String) -> Launched {
    cx.refuse(launch.item().cloned(), reason, detail);
    Launched::Refused(reason)
}

/// Waits until the run's time, the machine and the provider admit a session. Returns the reason if
/// they do not.
async fn wait_for_gates(
    cx: &RunContext,
    launch: &Launch,
    until: Instant,
) -> Result<Option<Reason>, RunError> {
    let mut reported = None;
    let refuse = |reason, detail| cx.refuse(launch.item().cloned(), reason, detail);
    loop {
        if let Some(stop) = cx.stop.reason() {
            return Ok(Some(deferral_reason(stop)));
        }
        if let Some(detail) = lacking_time(cx, launch.stage) {
            refuse(Reason::RunDeadline, detail);
            return Ok(Some(Reason::RunDeadline));
        }
        // The machine first: the check is free, and a probe needs its admission too.
        let closed = match cx.edges.gate.admit().await {
            Err(closed) => closed,
            Ok(()) => match provider::admit(cx, launch.stage).await? {
                ProviderGate::Open => return Ok(None),
                ProviderGate::Busy(detail) => (Reason::ProviderDown, detail),
                ProviderGate::Closed(reason, detail) => {
                    refuse(reason, detail);
                    return Ok(Some(reason));
                }
            },
        };
        let (reason, detail) = closed;
        if Instant::now() >= until {
            refuse(reason, detail);
            return Ok(Some(reason));
        }
        if reported != Some(reason) {
            let left = until.saturating_duration_since(Instant::now());
            let (item, until) = (launch.item().cloned(), cx.now().checked_add(left).ok());
            cx.emit(Event::AdmissionRefused { item, reason, detail, until });
            reported = Some(reason);
        }
        let mut signal = cx.stop.signal();
        let known = signal.state();
        // Wakes at once on a stop request; otherwise retries the gate.
        drop(tokio::time::timeout(RETRY_GATE, signal.changed(known)).await);
    }
}

/// Why a session of this stage no longer fits into the run: a session cut off by the deadline would
/// cost money without a result.
fn lacking_time(cx: &RunContext, stage: Stage) -> Option<String> {
    let own = match stage {
        Stage::Triage | Stage::Locate => cx.config.triage.timeout,
        Stage::Deep => cx.config.analyze.timeout,
    };
    let Timeouts { grace, drain, .. } = cx.config.timeouts;
    let needed = [grace, drain, STARTING, cx.config.wait_for_host()];
    let needed = needed.into_iter().fold(own, Duration::saturating_add);
    let left = cx.stop.time_left();
    let (time_left, own) = (readable(left), readable(own));
    (left < needed).then(|| {
        format!("only {time_left} of the run's time is left, but a {stage} session may take {own}")
    })
}

/// The claim of a session that has not started yet. Triage covers items of several sources and
/// counts for none of their budgets.
pub(super) fn claim_for(cx: &RunContext, stage: Stage, subject: Vec<(ItemKey, String)>) -> Claim {
    let item = subject.first().map(|(key, _)| key).filter(|_| stage == Stage::Deep);
    let (budget, source) = (&cx.config.budget, item.and_then(|item| cx.config.source_of(item)));
    let caps = BudgetCaps {
        per_run: budget.per_run,
        per_day: budget.per_day,
        per_month: budget.per_month.as_cap(),
        source_per_day: source.and_then(|source| source.budget_per_day.as_cap()),
        source_per_month: source.and_then(|source| source.budget_per_month.as_cap()),
    };
    Claim {
        session: SessionId(uuid::Uuid::now_v7()),
        run: cx.id,
        stage,
        subject,
        worst_case: match stage {
            Stage::Triage | Stage::Locate => cx.config.triage.max_cost,
            Stage::Deep => cx.config.analyze.max_cost,
        },
        caps,
        day: day_in(&cx.config.schedule.timezone, cx.now()),
        max_attempts: cx.config.limits.max_attempts,
    }
}

/// Removes credentials from everything the session said, before anyone else sees it.
pub(super) async fn without_secrets(cx: &RunContext, id: SessionId, end: SessionEnd) -> SessionEnd {
    let mut end = end;
    let held = cx.edges.secrets.held_now().await;
    let removed = held.remove_from_all(end.output_texts_mut());
    if removed > 0 {
        tracing::error!(session_id = %id, texts = removed, "removed one of heartbeat's credentials from an agent's answer");
    }
    held.remove_from_all(end.transcript.texts_mut());
    for text in end.transcript.texts_mut() {
        if let Some(kind) = credential_in(text) {
            *text = format!("‹removed: it contains {kind}›");
        }
    }
    end
}

async fn ended(
    cx: &RunContext,
    launch: &Launch,
    id: SessionId,
    attempt: u32,
    end: SessionEnd,
) -> Result<Launched, RunError> {
    let end = without_secrets(cx, id, end).await;
    let Meaning { blame, fault } =
        blame::after_session(cx, launch.stage, launch.item(), &end).await?;
    // The transcript is informational: a failure is logged and changes nothing.
    if !end.transcript.lines.is_empty()
        && let Err(error) = cx.journal.sessions().keep_transcript(id, end.transcript.clone()).await
    {
        tracing::warn!(session_id = %id, %error, "could not store the transcript");
    }
    Ok(Launched::Ended(Box::new(EndedSession { id, attempt, end, blame, fault })))
}
