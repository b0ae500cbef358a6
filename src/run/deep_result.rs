//! What the end of a deep session means for its item: a finding, another attempt, or none.

use jiff::Timestamp;

use super::RunContext;
use super::checker::Checker;
use crate::analyze;
use crate::dedupe::{RetryPolicy, next_attempt};
use crate::event::{Event, Reason};
use crate::model::{
    FailureKind, Finding, ItemKey, MadeWith, Outcome, RetryClass, SessionEnd, SessionId,
};
use crate::store::DeepResult;

pub(super) async fn result_of(
    cx: &RunContext,
    item: &ItemKey,
    session: SessionId,
    end: SessionEnd,
    attempt: u32,
    checker: Option<&Checker>,
    comments: bool,
) -> DeepResult {
    let outcome = match end.outcome {
        Outcome::Completed => match finding_in(&end, checker, cx.now()).await {
            Ok(finding) => {
                // What nothing in the code supports is not told to others.
                let comments =
                    comments && (!finding.is_unproven() || cx.config.verify.write_back_unproven);
                let comment = comments.then(|| analyze::comment(&finding));
                let configured = || cx.config.analyze.model.clone();
                let model = end.fell_back_to.clone().unwrap_or_else(configured);
                let prompt = cx.prompts.version();
                let made_with = MadeWith { model, prompt: prompt.to_owned() };
                return DeepResult::Finished { finding: Box::new(finding), made_with, comment };
            }
            Err(why) => {
                cx.emit(Event::FindingRejected { item: item.clone(), session, why });
                Outcome::BadOutput { why }
            }
        },
        other => other,
    };
    match outcome {
        Outcome::Cancelled { why: FailureKind::ItemGone } => DeepResult::Gone(outcome),
        // At a machine's shutdown, keepers get the same signal as from a person, and then we do.
        Outcome::Cancelled { why: FailureKind::Operator } if !cx.stop.requested() => {
            DeepResult::Stopped(outcome)
        }
        Outcome::Cancelled { why: FailureKind::Operator } => {
            DeepResult::NotCounted(outcome, Reason::Shutdown)
        }
        _ if outcome.retry_class() == RetryClass::DoesNotCount => {
            let reason = deferral_reason(&outcome);
            DeepResult::NotCounted(outcome, reason)
        }
        _ => failed(cx, session, outcome, attempt),
    }
}

/// A failed attempt: retried later, or parked.
pub(super) fn failed(
    cx: &RunContext,
    session: SessionId,
    outcome: Outcome,
    attempt: u32,
) -> DeepResult {
    let policy = RetryPolicy {
        max_attempts: cx.config.limits.max_attempts,
        first_delay: cx.config.dedupe.retry_delay,
    };
    match next_attempt(cx.now(), attempt, policy, jitter(session)) {
        Some(next) => DeepResult::TryAgain(outcome, next),
        None => DeepResult::GiveUp(outcome),
    }
}

/// A finding whose claims are checked. Catches a panic on an unusual answer: the next run would panic
/// on the same answer.
async fn finding_in(
    end: &SessionEnd,
    checker: Option<&Checker>,
    now: Timestamp,
) -> Result<Finding, FailureKind> {
    let output = end.output.clone().ok_or(FailureKind::SchemaIgnored)?;
    let checked = match checker {
        Some(checker) => checker.check(output, end.files_read.clone(), now).await,
        None => tokio::task::spawn_blocking(move || analyze::check(&output)).await.ok(),
    };
    match checked {
        Some(Ok(finding)) => Ok(finding),
        Some(Err(error)) => {
            tracing::warn!(%error, "rejected a finding");
            Err(FailureKind::SchemaViolated)
        }
        None => {
            tracing::error!(
                "checking the finding panicked, which is a bug; the finding is rejected"
            );
            Err(FailureKind::SchemaViolated)
        }
    }
}

/// Why an item stays queued after a session that does not count.
pub(super) fn deferral_reason(outcome: &Outcome) -> Reason {
    match outcome {
        Outcome::ProviderLimit { why: FailureKind::Authentication } => Reason::ProviderCredential,
        Outcome::ProviderLimit { .. } => Reason::ProviderLimit,
        outcome if outcome.is_of_one_host() => Reason::ProviderLimit,
        Outcome::AgentError { why: FailureKind::ApiError } => Reason::ProviderDown,
        Outcome::Orphaned => Reason::CutOff,
        outcome if outcome.is_configuration() => Reason::AgentConfig,
        Outcome::SpawnFailed { .. } => Reason::CannotStart,
        Outcome::Cancelled { why: FailureKind::ItemGone } => Reason::OutOfQuery,
        Outcome::Cancelled { why: FailureKind::Operator } => Reason::StoppedByOperator,
        _ => Reason::Shutdown,
    }
}

/// From 0 to 1; derived from the session id instead of a random source.
fn jitter(session: SessionId) -> f64 {
    f64::from(session.0.as_bytes()[15]) / 255.0
}
