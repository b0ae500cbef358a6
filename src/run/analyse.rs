//! Analyses one item: builds its code context, runs one bounded session, checks the finding and
//! stores it.
//!
//! A finding and its comment are stored in one transaction; the comment is delivered afterwards, by
//! this run or a later one (see `outbox`).

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::launch::{EndedSession, Launch, Launched, launch};
use super::linked_content::{self, Gathered};
use super::pool::ItemEnd;
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

pub(super) enum Analysis {
    Ended {
        session: SessionId,
        result: DeepResult,
        /// Set if no other session of this run can work either.
        fault: Option<RunError>,
    },
    /// No session started.
    Refused(Reason),
    /// The item is no longer pending.
    NotPending,
}

/// The code context of an item. A code base that cannot be indexed is logged and the analysis
/// continues: the agent works from the item and what it reads itself. A missing code base is an
/// error.
pub(super) async fn context_for(
    cx: &RunContext,
    item: &QueuedItem,
) -> Result<CodeContext, CodeError> {
    let key = item.key().clone();
    // A dry run shows items that are not triaged yet as if triage had passed them on.
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

/// The code base that an interrupted session read for this item, if it still exists.
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

/// Whether the finding of an interrupted session is written to the tracker, by the rule that
/// applied when the item was queued, or by its source.
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

pub(super) async fn run_session(
    cx: &RunContext,
    item: &QueuedItem,
    context: &CodeContext,
    stop: &StopHandle,
) -> Result<Analysis, RunError> {
    let mut around = linked_content::gather(cx, item, &context.root).await;
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
            let result = result_of(cx, item.key(), id, end, attempt, Some(&context.root), comments);
            Analysis::Ended { session: id, result, fault }
        }
        Launched::Refused(reason) => Analysis::Refused(reason),
        Launched::NotPending => Analysis::NotPending,
    })
}

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

pub(super) fn result_of(
    cx: &RunContext,
    item: &ItemKey,
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

/// Catches a panic on an unusual answer: the next run would panic on the same answer.
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
            // The budget of one source does not limit the others.
            let close = Some(reason).filter(|reason| *reason != Reason::SourceBudget);
            Ok(ItemEnd { close, fault: None })
        }
        Analysis::NotPending => Ok(ItemEnd::default()),
    }
}

/// Defers an item without a code base; other items may have one.
pub(super) async fn defer_without_code(
    cx: &RunContext,
    item: &QueuedItem,
    missing: CodeError,
) -> Result<ItemEnd, RunError> {
    cx.journal.items().defer(vec![item.key().clone()], Reason::NoCodeBase).await?;
    Ok(ItemEnd { close: None, fault: Some(RunError::NoCodeBase(missing)) })
}

/// The reason, if no other session of this run can work either.
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

/// Why an item stays queued after a session that does not count.
pub(super) fn deferral_reason(outcome: &Outcome) -> Reason {
    match outcome {
        Outcome::ProviderLimit { why: FailureKind::Authentication } => Reason::ProviderCredential,
        Outcome::ProviderLimit { .. } => Reason::ProviderLimit,
        outcome if outcome.is_of_one_host() => Reason::ProviderLimit,
        Outcome::AgentError { why: FailureKind::ApiError } => Reason::ProviderDown,
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
