//! Analyse: the code that matters for an item, one bounded session on it, what its end means, and the
//! result in the state.
//!
//! A finding and its comment are stored in one transaction; the comment is delivered afterwards, by
//! this run or a later one (see `outbox`).

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::launch::{EndedSession, Launch, Launched, launch};
use super::pool::ItemEnd;
use super::surroundings::{self, Gathered};
use super::{RunContext, RunError, outbox};
use crate::analyze::{self, Request};
use crate::context::{CodeContext, CodeError};
use crate::dedupe::{QueuedItem, RetryPolicy, next_attempt};
use crate::event::{Event, Reason};
use crate::model::{
    Background, FailureKind, Finding, ItemKey, MadeWith, Outcome, RetryClass, SessionEnd,
    SessionId, Stage,
};
use crate::prompt::{Fence, Rendered};
use crate::session::StopHandle;
use crate::store::{DeepResult, EarlierVerdicts};
use crate::triage;

/// What came of an item's analysis.
pub(super) enum Analysis {
    Ended {
        session: SessionId,
        result: DeepResult,
        /// No other session of this run can work either.
        fault: Option<RunError>,
    },
    /// No session started, for this reason.
    Refused(Reason),
    /// The item is no longer pending.
    Taken,
}

/// The code that matters for an item. A code base that cannot be indexed is logged and does not stop
/// the analysis: the agent works from the item and what it reads itself. One that is missing is an
/// error.
pub(super) async fn context_for(
    cx: &RunContext,
    item: &QueuedItem,
) -> Result<CodeContext, CodeError> {
    let key = item.key().clone();
    // In a dry run, items that triage has not judged yet are shown as if it sent them on.
    let verdict = item.verdict.clone().unwrap_or_else(|| triage::fallback(&item.item).verdict);
    let context = match cx.edges.code.context(item.item.clone(), verdict).await {
        Ok(context) => context,
        Err(CodeError::Unreadable { root, why }) => {
            tracing::error!(item = %key, root = %root.display(), %why, "could not build the code context; the analysis continues without it");
            CodeContext::empty(root)
        }
        Err(missing @ CodeError::Missing(_)) => return Err(missing),
    };
    let (files, tokens, root) = (context.files, context.tokens, Some(context.root.clone()));
    cx.emit(Event::ContextBuilt { item: key, files, tokens, root });
    Ok(context)
}

/// The code base that an interrupted session read for this item, if it is still there.
pub(super) async fn root_read_for(
    cx: &RunContext,
    item: ItemKey,
) -> Result<Option<PathBuf>, RunError> {
    let events = cx.store().events().of_item(item).await?;
    let built = events.into_iter().rev().find_map(|recorded| match recorded.event {
        Event::ContextBuilt { root, .. } => root,
        _ => None,
    });
    Ok(built.filter(|root| root.is_dir()))
}

/// Whether the finding of an interrupted session is left in the tracker: as the rule says that applied
/// when the item was queued, or its source.
pub(super) async fn writes_back(cx: &RunContext, item: &ItemKey) -> Result<bool, RunError> {
    let events = cx.store().events().of_item(item.clone()).await?;
    let rule = events.into_iter().rev().find_map(|recorded| match recorded.event {
        Event::RuleMatched { rule, .. } => Some(rule),
        _ => None,
    });
    let by_rule = rule.and_then(|name| cx.config.rule_named(&name)?.write_back);
    let by_source = || cx.config.source_of(item).is_some_and(|source| source.write_back);
    Ok(cx.edges.publisher_of(item).is_some() && by_rule.unwrap_or_else(by_source))
}

/// Runs the session and checks its finding.
pub(super) async fn run_session(
    cx: &RunContext,
    item: &QueuedItem,
    context: &CodeContext,
    stop: &StopHandle,
) -> Result<Analysis, RunError> {
    let mut around = surroundings::gather(cx, item, &context.root).await;
    let request = Launch {
        stage: Stage::Deep,
        subject: vec![(item.key().clone(), item.fingerprint.clone())],
        prompt: prompt(cx, item, context, &around).await?,
        repository: Some(context.root.clone()),
        attached: around.attached.take(),
        stop: stop.clone(),
    };
    Ok(match launch(cx, request).await? {
        Launched::Ended(session) => {
            let EndedSession { id, attempt, end, fault } = *session;
            let comments =
                cx.edges.publisher_of(item.key()).is_some() && cx.config.writes_back(item.facts());
            let result = result_of(cx, id, end, attempt, Some(&context.root), comments);
            Analysis::Ended { session: id, result, fault }
        }
        Launched::Refused(reason) => Analysis::Refused(reason),
        Launched::Taken => Analysis::Taken,
    })
}

/// The prompt of an item's session.
pub(super) async fn prompt(
    cx: &RunContext,
    item: &QueuedItem,
    context: &CodeContext,
    around: &Gathered,
) -> Result<Rendered, RunError> {
    // Only a dry run gets here before triage.
    let default = || triage::fallback(&item.item).verdict;
    let verdict = item.verdict.clone().unwrap_or_else(default);
    let verdicts = EarlierVerdicts::OnOtherTexts;
    let known = if cx.past {
        HashMap::new()
    } else {
        cx.store().items().background(vec![item.clone()], verdicts).await?
    };
    let background = Background {
        links: around.links.clone(),
        files: around.files.clone(),
        ..known.into_values().next().unwrap_or_default()
    };
    let request = Request {
        item: &item.item,
        verdict: &verdict,
        background: &background,
        overview: &context.overview,
        context: &context.context,
    };
    let fence = Fence::new(uuid::Uuid::now_v7());
    Ok(analyze::render(&cx.prompts, request, &cx.config.analyze, &fence)?)
}

/// What a session's end means for its item.
pub(super) fn result_of(
    cx: &RunContext,
    session: SessionId,
    end: SessionEnd,
    attempt: u32,
    root: Option<&Path>,
    comments: bool,
) -> DeepResult {
    let outcome = match end.outcome {
        Outcome::Completed => match finding_in(&end, root) {
            Ok(finding) => {
                let comment = comments.then(|| analyze::markdown(&finding));
                let (model, prompt) = (cx.config.analyze.model.clone(), cx.prompts.version());
                let made_with = MadeWith { model, prompt: prompt.to_owned() };
                return DeepResult::Finished { finding: Box::new(finding), made_with, comment };
            }
            Err(why) => Outcome::BadOutput { why },
        },
        other => other,
    };
    match outcome {
        Outcome::Cancelled { why: FailureKind::ItemGone } => DeepResult::Gone(outcome),
        // A machine that shuts down ends keepers as a person would, and then us.
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

/// A failed attempt: tried again later, or given up.
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

/// A panic on a strange answer must not reach the run: the next one would meet the same answer.
fn finding_in(end: &SessionEnd, root: Option<&Path>) -> Result<Finding, FailureKind> {
    let output = end.output.as_ref().ok_or(FailureKind::SchemaIgnored)?;
    let checked = catch_unwind(AssertUnwindSafe(|| {
        let mut finding = analyze::check(output)?;
        if let Some(root) = root {
            analyze::mark_missing_files(&mut finding, |path| root.join(path).is_file());
        }
        Ok::<_, analyze::CheckError>(finding)
    }));
    match checked {
        Ok(Ok(finding)) => Ok(finding),
        Ok(Err(error)) => {
            tracing::warn!(%error, "rejected a finding");
            Err(FailureKind::SchemaViolated)
        }
        Err(_) => {
            tracing::error!(
                "checking the finding panicked, which is a bug; the finding is rejected"
            );
            Err(FailureKind::SchemaViolated)
        }
    }
}

/// Stores what came of an item's analysis.
pub(super) async fn record(
    cx: &RunContext,
    item: &QueuedItem,
    analysis: Analysis,
) -> Result<ItemEnd, RunError> {
    let key = item.key().clone();
    match analysis {
        Analysis::Ended { session, result, fault } => {
            let close = closes_run(&result);
            let is_finished = matches!(result, DeepResult::Finished { .. });
            let print = item.fingerprint.clone();
            cx.journal.results().apply_deep(session, cx.id, key, print, result).await?;
            if is_finished {
                outbox::deliver_comments(cx).await?;
            }
            Ok(ItemEnd { close, fault })
        }
        Analysis::Refused(reason) => {
            cx.journal.items().defer(vec![key], reason).await?;
            // The budget of one source says nothing about the others.
            let close = Some(reason).filter(|reason| *reason != Reason::SourceBudget);
            Ok(ItemEnd { close, fault: None })
        }
        Analysis::Taken => Ok(ItemEnd::default()),
    }
}

/// The item waits for its code base; others may have a code base of their own.
pub(super) async fn defer_without_code(
    cx: &RunContext,
    item: &QueuedItem,
    missing: CodeError,
) -> Result<ItemEnd, RunError> {
    cx.journal.items().defer(vec![item.key().clone()], Reason::NoCodeBase).await?;
    Ok(ItemEnd { close: None, fault: Some(RunError::NoCodeBase(missing)) })
}

/// Some ends mean that no other session of this run can work either.
fn closes_run(result: &DeepResult) -> Option<Reason> {
    match result {
        DeepResult::NotCounted(outcome, reason) => {
            let for_all =
                matches!(outcome, Outcome::ProviderLimit { .. } | Outcome::SpawnFailed { .. });
            (for_all || outcome.is_configuration()).then_some(*reason)
        }
        _ => None,
    }
}

/// Why an item stays queued after a session that is not counted.
pub(super) fn deferral_reason(outcome: &Outcome) -> Reason {
    match outcome {
        Outcome::ProviderLimit { why: FailureKind::Authentication } => Reason::ProviderCredential,
        Outcome::ProviderLimit { .. } => Reason::ProviderLimit,
        Outcome::AgentError { why: FailureKind::ApiError } => Reason::ProviderDown,
        outcome if outcome.is_configuration() => Reason::AgentConfig,
        Outcome::SpawnFailed { .. } => Reason::CannotStart,
        Outcome::Cancelled { why: FailureKind::ItemGone } => Reason::OutOfQuery,
        Outcome::Cancelled { why: FailureKind::Operator } => Reason::StoppedByOperator,
        _ => Reason::Shutdown,
    }
}

/// From 0 to 1, different for each session, and without a source of randomness.
fn jitter(session: SessionId) -> f64 {
    f64::from(session.0.as_bytes()[15]) / 255.0
}
