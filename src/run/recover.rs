//! Cleans up after an interrupted run or a panic, and applies results that were already paid for.

use std::collections::HashMap;

use super::checker::Checker;
use super::launch::{claim_for, without_secrets};
use super::triage::unless_check_panics;
use super::{RunContext, RunError, blame, deep_result, field_writes, outbox};
use crate::breaker::blame::{Suspect, suspect};
use crate::dedupe::QueuedItem;
use crate::event::{Event, Reason};
use crate::model::{ItemKey, Outcome, SessionEnd, Stage, Usd};
use crate::store::{BudgetCaps, Claim, StoreError, TriageResult, UnappliedSession};
use crate::triage::check_late_answer;

/// Ends orphaned sessions, releases claims whose session never started, and applies stored results.
/// Only while no session of this run is alive.
pub(super) async fn finish_interrupted(cx: &RunContext) -> Result<(), RunError> {
    cx.edges.sessions.resolve_orphans().await.map_err(StoreError::Ledger)?;
    let left = cx.journal.results().recover().await?;
    // Those that were not running when it crashed did not crash it.
    let cut_off = left.iter().filter(|session| session.outcome == Outcome::Orphaned);
    let running: Vec<ItemKey> =
        cut_off.flat_map(|session| session.subject.iter().map(|(key, _)| key.clone())).collect();
    if !running.is_empty() {
        cx.journal.results().acquit_all_but(running).await?;
    }
    for session in left {
        match session.stage {
            Stage::Triage => apply_triage(cx, session).await?,
            // Its items are asked about again when they are analysed.
            Stage::Locate => {
                let applied = Some(session.session);
                cx.journal.results().apply_triage(applied, Vec::new()).await?;
            }
            Stage::Deep => apply_deep(cx, session).await?,
        }
    }
    outbox::deliver_comments(cx).await?;
    field_writes::deliver(cx).await
}

/// Sweeps the sessions of these items; each panic is a failed attempt.
pub(super) async fn after_panics(cx: &RunContext, items: Vec<QueuedItem>) -> Result<(), RunError> {
    finish_interrupted(cx).await?;
    for item in items {
        tracing::error!(item = %item.key(), "the analysis panicked, which is a bug; it counts as a failed attempt");
        count_attempt(cx, &item).await?;
    }
    Ok(())
}

/// Counts an attempt for a panic before the session started. After the start it is already counted:
/// the item is no longer pending, and the claim is refused.
async fn count_attempt(cx: &RunContext, item: &QueuedItem) -> Result<(), RunError> {
    let (key, print) = (item.key().clone(), item.fingerprint.clone());
    let claim = claim_for(cx, Stage::Deep, vec![(key.clone(), print.clone())]);
    // Costs nothing, so it is counted regardless of the budget.
    let claim = Claim { worst_case: Usd::ZERO, caps: BudgetCaps::NONE, ..claim };
    let session = claim.session;
    let Ok(attempt) = cx.journal.claims().take(claim).await? else { return Ok(()) };
    let result = deep_result::failed(cx, session, Outcome::Panicked, attempt);
    Ok(cx.journal.results().apply_deep(session, cx.id, key, print, result).await?)
}

/// Stores usable verdicts; the other items stay queued.
async fn apply_triage(cx: &RunContext, left: UnappliedSession) -> Result<(), RunError> {
    let (session, subject) = (left.session, left.subject.clone());
    let end = end_of(cx, left).await;
    let output = end.output.filter(|_| end.outcome.is_success());
    let answer = output.and_then(|output| {
        let keys = subject.iter().map(|(key, _)| key);
        unless_check_panics(|| check_late_answer(keys, &output))
    });
    let mut verdicts: HashMap<_, _> = answer.unwrap_or_default().verdicts.into_iter().collect();
    let mut judged = |(key, fingerprint): (ItemKey, String)| {
        let verdict = verdicts.remove(&key)?;
        Some(TriageResult {
            key,
            fingerprint,
            verdict,
            from_model: true,
            park: None,
            triage_only: false,
            parts: None,
            // What was offered to that session is not known any more.
            suggestions: Vec::new(),
        })
    };
    let results = subject.into_iter().filter_map(&mut judged).collect();
    Ok(cx.journal.results().apply_triage(Some(session), results).await?)
}

async fn apply_deep(cx: &RunContext, left: UnappliedSession) -> Result<(), RunError> {
    let Some((key, print)) = left.subject.first().cloned() else { return Ok(()) };
    let (session, attempt) = (left.session, left.attempt);
    let end = end_of(cx, left).await;
    let checker = checker_for(cx, key.clone()).await?;
    let comments = writes_back(cx, &key).await?;
    let result = match suspect(&end.outcome, &end.usage) {
        Suspect::Machine => {
            blame::excused(cx, session, attempt, end.outcome.clone(), Reason::CutOff)
        }
        _ => {
            let checker = checker.as_ref();
            deep_result::result_of(cx, &key, session, end, attempt, checker, comments).await
        }
    };
    Ok(cx.journal.results().apply_deep(session, cx.id, key, print, result).await?)
}

async fn end_of(cx: &RunContext, left: UnappliedSession) -> SessionEnd {
    let UnappliedSession { session, outcome, output, usage, .. } = left;
    without_secrets(cx, session, SessionEnd { output, usage, ..SessionEnd::empty(outcome) }).await
}

/// For the code base that an interrupted session read for this item, if it still exists.
async fn checker_for(cx: &RunContext, item: ItemKey) -> Result<Option<Checker>, RunError> {
    let events = cx.store().events().of_item(item).await?;
    let built = events.into_iter().rev().find_map(|recorded| match recorded.event {
        Event::ContextBuilt { root, commit, code_bases, .. } => Some((root?, commit, code_bases)),
        _ => None,
    });
    let built = built.filter(|(root, _, several)| {
        root.is_dir() && several.iter().all(|code| code.root.is_dir())
    });
    Ok(built.map(|(root, commit, several)| Checker::late(cx, root, commit, several)))
}

/// Whether the finding of an interrupted session is written to the tracker, by the rule that
/// applied when the item was queued, or by its source.
async fn writes_back(cx: &RunContext, item: &ItemKey) -> Result<bool, RunError> {
    let events = cx.store().events().of_item(item.clone()).await?;
    let rule = events.into_iter().rev().find_map(|recorded| match recorded.event {
        Event::RuleMatched { rule, .. } => Some(rule),
        _ => None,
    });
    let by_rule = rule.and_then(|name| cx.config.rule_named(&name)?.write_back);
    let by_source = || cx.config.source_of(item).is_some_and(|source| source.write_back);
    Ok(cx.edges.publisher_of(item).is_some() && by_rule.unwrap_or_else(by_source))
}
