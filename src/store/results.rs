//! Applies the result of a finished session to its items: result and state in one transaction.
//!
//! A session's output is kept in `sessions` from the moment its row is closed. `applied` tells
//! whether it is part of `heartbeat_state` yet, so a crash in between costs nothing: the next run
//! applies the result.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde_json::Value;

use super::items::vanish_item;
use super::rows::{Ms, from_json, from_optional_json, from_word, to_json};
use super::subjects::{Reader, Results};
use super::{
    Journal, Sql, StoreError, budget, claims, duplicates, ledger, outbox, readings, suggestions,
};
use crate::dedupe::ItemParts;
use crate::event::{Event, Reason};
use crate::model::{
    Finding, ItemKey, MadeWith, Outcome, RunId, SessionId, Stage, Suggestion, Usage, Usd, Verdict,
};

/// Triage's result for one item.
#[derive(Debug, Clone, PartialEq)]
pub struct TriageResult {
    pub key: ItemKey,
    /// The fingerprint it was judged by.
    pub fingerprint: String,
    pub verdict: Verdict,
    /// False: the configured default.
    pub from_model: bool,
    /// Parked instead, for this reason.
    pub park: Option<Reason>,
    /// A rule skips deep analysis.
    pub triage_only: bool,
    /// What was read; `None` for an answer that is applied after a crash.
    pub parts: Option<ItemParts>,
    /// Values for its fields.
    pub suggestions: Vec<Suggestion>,
}

/// A deep session's result for its item.
#[derive(Debug, Clone, PartialEq)]
pub enum DeepResult {
    Finished {
        finding: Box<Finding>,
        made_with: MadeWith,
        /// Comment for its work item, if findings are published there.
        comment: Option<String>,
    },
    /// Failed; retried, not before this time.
    TryAgain(Outcome, Timestamp),
    /// Failed for the last time.
    GiveUp(Outcome),
    /// Ended for a reason outside the item (provider, machine, shutdown): requeued, and the attempt
    /// is not counted.
    NotCounted(Outcome, Reason),
    /// Ended by the provider, the machine or a crash of ours. Not counted, unless the item's last
    /// sessions all ended like this: then `counted` applies.
    Excused { outcome: Outcome, reason: Reason, counted: Box<DeepResult> },
    /// A user ended it: parked, and the attempt is not counted.
    Stopped(Outcome),
    /// The item was deleted meanwhile: finished, and the attempt is not counted.
    Gone(Outcome),
}

/// A session that ended before its result was applied.
#[derive(Debug, Clone, PartialEq)]
pub struct UnappliedSession {
    pub session: SessionId,
    pub stage: Stage,
    /// Items with the fingerprints they were judged by.
    pub subject: Vec<(ItemKey, String)>,
    pub outcome: Outcome,
    pub output: Option<Value>,
    pub attempt: u32,
    pub usage: Usage,
}

impl<R: Reader> Results<'_, R> {
    /// Sessions whose result is not applied yet.
    pub async fn unapplied(self) -> Result<Vec<UnappliedSession>, StoreError> {
        self.read(|connection| {
            connection
                .prepare(
                    "SELECT * FROM sessions WHERE applied = 0 AND ended_at IS NOT NULL
                     ORDER BY started_at",
                )?
                .query_map([], unapplied_session)?
                .collect()
        })
        .await
    }
}

impl Results<'_, Journal> {
    /// Recovers from a crash: releases claims whose session never started, makes comments due whose
    /// delivery was interrupted, and returns the sessions whose result is not applied yet. Call it
    /// only with the run lock, while this process has no live session and delivers nothing.
    pub async fn recover(self) -> Result<Vec<UnappliedSession>, StoreError> {
        let left = self.read(|connection| {
            Ok(claims::has_unstarted(connection)? || outbox::has_cut_off(connection)?)
        });
        if left.await? {
            let now = self.0.clock().now();
            let put_right = self.0.commit(move |transaction, _| {
                claims::give_back_unstarted(transaction)?;
                outbox::resume(transaction, now)
            });
            put_right.await?;
        }
        self.unapplied().await
    }

    /// Stores the verdicts of one triage session: items that need no deep analysis are finished,
    /// the others keep their verdict for later.
    pub async fn apply_triage(
        self,
        session: Option<SessionId>,
        results: Vec<TriageResult>,
    ) -> Result<(), StoreError> {
        let (now, run) = (self.0.clock().now(), self.0.run());
        self.0
            .commit(move |transaction, events| {
                for result in &results {
                    apply_verdict(transaction, result, (run, now), events)?;
                }
                session.map_or(Ok(()), |session| mark_applied(transaction, session, Ms(now)))
            })
            .await
    }

    /// Records that triage of these items failed, in this session or before one started. They stay
    /// queued as suspects; if it `counts` against each of them, returns those that failed for the
    /// `most`-th time in a row.
    pub async fn triage_failed(
        self,
        session: Option<SessionId>,
        items: Vec<(ItemKey, String)>,
        most: u32,
        counts: bool,
    ) -> Result<Vec<ItemKey>, StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, _| {
                let mut out = Vec::new();
                let among = u32::try_from(items.len()).unwrap_or(u32::MAX);
                for (key, fingerprint) in items {
                    let failures: Option<u32> = transaction
                        .prepare_cached(
                            "UPDATE heartbeat_state
                         SET triage_failures = triage_failures + ?4,
                             suspect_among = CASE WHEN suspect_among = 0 THEN ?3
                                 ELSE min(suspect_among, ?3) END
                         WHERE key = ?1 AND fingerprint = ?2 AND phase = 'pending'
                           AND verdict IS NULL
                         RETURNING triage_failures",
                        )?
                        .query_row(params![key, fingerprint, among, counts], |row| row.get(0))
                        .optional()?;
                    if counts && failures.is_some_and(|failures| failures >= most) {
                        out.push(key);
                    }
                }
                session.map_or(Ok(()), |session| mark_applied(transaction, session, Ms(now)))?;
                Ok(out)
            })
            .await
    }

    /// Forgets that these items were suspects: something else than one of them failed.
    pub async fn acquit(self, items: Vec<ItemKey>) -> Result<(), StoreError> {
        self.0
            .commit(move |transaction, _| {
                for key in items {
                    transaction
                        .prepare_cached(
                            "UPDATE heartbeat_state SET suspect_among = 0, triage_failures = 0
                             WHERE key = ?1",
                        )?
                        .execute([key])?;
                }
                Ok(())
            })
            .await
    }

    /// Stores the result of a deep session: finding or failure, the item's state, the attempt's
    /// end.
    pub async fn apply_deep(
        self,
        session: SessionId,
        run: RunId,
        key: ItemKey,
        fingerprint: String,
        result: DeepResult,
    ) -> Result<(), StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, events| {
                let subject = Subject { session, run, key: &key, fingerprint: &fingerprint, now };
                let result = unless_excused(transaction, &key, result)?;
                let outcome = match &result {
                    DeepResult::Finished { finding, made_with, comment } => {
                        events.push(finish(transaction, &subject, finding, made_with)?);
                        if let Some(comment) = comment {
                            outbox::queue_comment(transaction, &key, session, run, comment, now)?;
                        }
                        &Outcome::Completed
                    }
                    DeepResult::TryAgain(outcome, next) => {
                        events.push(wait(transaction, &subject, outcome, *next)?);
                        outcome
                    }
                    DeepResult::GiveUp(outcome) => {
                        let reason = Reason::AttemptsExhausted;
                        events.push(park(transaction, &subject, reason)?);
                        outcome
                    }
                    DeepResult::NotCounted(outcome, reason)
                    | DeepResult::Excused { outcome, reason, .. } => {
                        events.push(give_back(transaction, &subject, *reason)?);
                        outcome
                    }
                    DeepResult::Stopped(outcome) => {
                        let reason = Reason::StoppedByOperator;
                        give_back(transaction, &subject, reason)?;
                        events.push(park(transaction, &subject, reason)?);
                        outcome
                    }
                    DeepResult::Gone(outcome) => {
                        give_back(transaction, &subject, Reason::OutOfQuery)?;
                        vanish_item(transaction, &key, Reason::OutOfQuery, now, events)?;
                        outcome
                    }
                };
                // A session that completed with a useless answer failed after all.
                let failed = matches!(result, DeepResult::TryAgain(..) | DeepResult::GiveUp(_));
                let outcome = to_json(outcome)?;
                transaction.execute(
                    "UPDATE attempts SET ended_at = ?2, outcome = ?3 WHERE session = ?1",
                    params![session, Ms(now), outcome],
                )?;
                transaction.execute(
                    "UPDATE sessions SET outcome = ?2 WHERE session = ?1 AND (outcome IS NULL OR ?3)",
                    params![session, outcome, failed],
                )?;
                mark_applied(transaction, session, Ms(now))
            })
            .await
    }
}

impl Results<'_, Journal> {
    /// Takes back that these sessions counted: something else than their items failed. The items
    /// are queued again.
    pub async fn give_attempts_back(
        self,
        sessions: Vec<SessionId>,
        reason: Reason,
    ) -> Result<(), StoreError> {
        self.0
            .commit(move |transaction, events| {
                for session in sessions {
                    let given_back: Option<ItemKey> = transaction
                        .query_row(
                            "UPDATE attempts SET counted = 0 WHERE session = ?1 AND counted = 1
                             RETURNING key",
                            [session],
                            |row| row.get(0),
                        )
                        .optional()?;
                    let Some(item) = given_back else { continue };
                    let queued = transaction.execute(
                        "UPDATE heartbeat_state
                         SET attempts = max(attempts - 1, 0),
                             phase = CASE WHEN phase = 'waiting' OR (phase = 'parked'
                                 AND reason = 'attempts_exhausted') THEN 'pending' ELSE phase END,
                             reason = CASE WHEN phase = 'waiting' OR (phase = 'parked'
                                 AND reason = 'attempts_exhausted') THEN ?2 ELSE reason END,
                             next_attempt = NULL
                         WHERE key = ?1 AND phase IN ('waiting', 'parked', 'pending')",
                        params![item, reason.into_str()],
                    )?;
                    if queued > 0 {
                        events.push(Event::ItemDeferred { item, reason });
                    }
                }
                Ok(())
            })
            .await
    }

    /// The last session of each item that was parked while no analysis succeeded, with its outcome:
    /// whether the item or everything around it was at fault, nobody could tell.
    pub async fn parked_without_a_success(self) -> Result<Vec<(SessionId, Outcome)>, StoreError> {
        // In the order of the attempts, whatever the clock said.
        let sql = "WITH tried AS (
                SELECT s.key, min(a.rowid) AS first, max(a.rowid) AS last
                FROM heartbeat_state s JOIN attempts a
                  ON a.key = s.key AND a.fingerprint = s.fingerprint AND a.counted = 1
                WHERE s.phase = 'parked' AND s.reason = 'attempts_exhausted' GROUP BY s.key)
            SELECT session, outcome FROM tried JOIN attempts ON attempts.rowid = tried.last
            WHERE outcome IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM attempts other WHERE other.rowid BETWEEN first AND last
                AND json_extract(other.outcome, '$.kind') = 'completed')";
        let found = self.rows(sql, [], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).await?;
        let parse = |(session, outcome): (SessionId, String)| -> Result<_, StoreError> {
            Ok((session, serde_json::from_str(&outcome)?))
        };
        found.into_iter().map(parse).collect()
    }

    /// A crash shows nothing about items that were not running: their own streak of sessions cut
    /// off ends.
    pub async fn acquit_all_but(self, running: Vec<ItemKey>) -> Result<(), StoreError> {
        self.0
            .commit(move |transaction, _| {
                transaction
                    .execute(
                        "UPDATE heartbeat_state SET excused = 0 WHERE excused > 0
                         AND key NOT IN (SELECT value FROM json_each(?1))",
                        [to_json(&running)?],
                    )
                    .map(drop)
            })
            .await
    }
}

/// Sessions of one item in a row that something else may have ended, before they count.
const MAX_EXCUSED: u32 = 2;
/// The same for crashes of ours. The first items of the queue run again after each of them, whatever the
/// cause was.
const MAX_CRASHES: u32 = 5;

/// What applies: an excuse ends where it keeps following one item.
fn unless_excused(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    result: DeepResult,
) -> Sql<DeepResult> {
    let DeepResult::Excused { outcome, reason, counted } = result else {
        // What was ended on purpose, or for everybody, neither adds to the streak nor ends it.
        let ends = matches!(
            result,
            DeepResult::Finished { .. } | DeepResult::TryAgain(..) | DeepResult::GiveUp(_)
        );
        if ends {
            let sql = "UPDATE heartbeat_state SET excused = 0 WHERE key = ?1 AND excused > 0";
            transaction.execute(sql, [key])?;
        }
        return Ok(result);
    };
    let streak: Option<u32> = transaction
        .query_row(
            "UPDATE heartbeat_state SET excused = excused + 1 WHERE key = ?1 RETURNING excused",
            [key],
            |row| row.get(0),
        )
        .optional()?;
    let most = if outcome == Outcome::Orphaned { MAX_CRASHES } else { MAX_EXCUSED };
    match streak.is_some_and(|streak| streak > most) {
        true => Ok(*counted),
        false => Ok(DeepResult::Excused { outcome, reason, counted }),
    }
}

struct Subject<'a> {
    session: SessionId,
    run: RunId,
    key: &'a ItemKey,
    fingerprint: &'a str,
    now: Timestamp,
}

fn unapplied_session(row: &Row<'_>) -> Sql<UnappliedSession> {
    Ok(UnappliedSession {
        session: row.get("session")?,
        stage: from_word(row, "stage")?,
        subject: from_json(row, "subject")?,
        outcome: from_json(row, "outcome")?,
        output: from_optional_json(row, "output")?,
        attempt: row.get("attempt")?,
        usage: from_optional_json(row, "usage")?.unwrap_or_default(),
    })
}

fn apply_verdict(
    transaction: &Transaction<'_>,
    result: &TriageResult,
    (run, now): (Option<RunId>, Timestamp),
    events: &mut Vec<Event>,
) -> Sql<()> {
    let wanted = result.verdict.needs_deep_analysis && result.park.is_none();
    let deep = wanted && !result.triage_only;
    let (phase, reason) = match result.park {
        Some(reason) => ("parked", reason),
        None if wanted && result.triage_only => ("done", Reason::TriageOnly),
        None if deep => ("pending", Reason::CarriedOver),
        None => ("done", Reason::NotNeeded),
    };
    let changed = transaction
        .prepare_cached(
            "UPDATE heartbeat_state SET verdict = ?3, phase = ?4, reason = ?5,
                 processed_fingerprint = CASE ?4 WHEN 'done' THEN ?2 ELSE processed_fingerprint END,
                 last_processed = CASE ?4 WHEN 'done' THEN ?6 ELSE last_processed END,
                 deferrals = CASE ?4 WHEN 'pending' THEN deferrals ELSE 0 END,
                 triage_failures = 0, suspect_among = 0
             WHERE key = ?1 AND fingerprint = ?2 AND phase = 'pending'",
        )?
        .execute(params![
            result.key,
            result.fingerprint,
            to_json(&result.verdict)?,
            phase,
            reason.into_str(),
            Ms(now)
        ])?;
    if changed == 0 {
        return Ok(());
    }
    duplicates::note(transaction, &result.key, &result.verdict)?;
    let suggested = suggestions::store(transaction, &result.key, &result.suggestions, run, now)?;
    if let Some(parts) = &result.parts {
        let TriageResult { key, fingerprint, verdict, .. } = result;
        readings::remember(transaction, key, fingerprint, parts, verdict, now)?;
    }
    events.push(Event::ItemTriaged {
        item: result.key.clone(),
        complexity: result.verdict.complexity,
        deep,
        from_model: result.from_model,
        reason: result.verdict.reason.clone(),
    });
    events.extend(suggested);
    match phase {
        "done" => events.push(Event::ItemSettled { item: result.key.clone() }),
        "parked" => events.push(Event::ItemParked { item: result.key.clone(), reason }),
        _ => {}
    }
    Ok(())
}

/// A session that never got a row has cost nothing and ends here. One whose row is still open is not
/// proven to be over: it has cost what its row says, and its worst case if that says nothing.
fn mark_applied(transaction: &Transaction<'_>, session: SessionId, now: Ms) -> Sql<()> {
    let open: bool = transaction.query_row(
        "SELECT EXISTS (SELECT 1 FROM heartbeat_active_sessions WHERE session = ?1)",
        [session],
        |row| row.get(0),
    )?;
    if open {
        let used = ledger::used_before(transaction, session)?;
        match used.cost.is_some_and(|cost| cost > Usd::ZERO) {
            true => ledger::settle(transaction, session, &Outcome::Orphaned, &used)?,
            false => budget::settle_at_worst(transaction, session)?,
        }
    } else {
        budget::settle_at_nothing(transaction, session)?;
    }
    transaction
        .execute(
            "UPDATE sessions SET applied = 1, ended_at = coalesce(ended_at, ?2) WHERE session = ?1",
            params![session, now],
        )
        .map(drop)
}

fn finish(
    transaction: &Transaction<'_>,
    subject: &Subject<'_>,
    finding: &Finding,
    made_with: &MadeWith,
) -> Sql<Event> {
    transaction.execute(
        "INSERT INTO findings (key, revision, fingerprint, session, run, created_at, verdict, finding,
                               model, prompt)
         SELECT key, revision, ?2, ?3, ?4, ?5, verdict, ?6, ?7, ?8 FROM heartbeat_state WHERE key = ?1",
        params![
            subject.key,
            subject.fingerprint,
            subject.session,
            subject.run,
            Ms(subject.now),
            to_json(finding)?,
            made_with.model,
            made_with.prompt
        ],
    )?;
    transaction.execute(
        "UPDATE heartbeat_state
         SET phase = CASE WHEN fingerprint = ?2 THEN 'done' ELSE 'pending' END,
             reason = CASE WHEN fingerprint = ?2 THEN 'same_fingerprint' ELSE 'content_changed' END,
             processed_fingerprint = ?2, last_processed = ?3,
             next_attempt = NULL, deferrals = 0
         WHERE key = ?1",
        params![subject.key, subject.fingerprint, Ms(subject.now)],
    )?;
    Ok(Event::FindingStored { item: subject.key.clone(), session: subject.session })
}

fn wait(
    transaction: &Transaction<'_>,
    subject: &Subject<'_>,
    outcome: &Outcome,
    next: Timestamp,
) -> Sql<Event> {
    let attempts = transaction.query_row(
        "UPDATE heartbeat_state SET phase = 'waiting', reason = 'backoff', next_attempt = ?2
         WHERE key = ?1 RETURNING attempts",
        params![subject.key, Ms(next)],
        |row| row.get(0),
    )?;
    let (item, outcome) = (subject.key.clone(), outcome.clone());
    Ok(Event::ItemWaiting { item, attempts, next_attempt: next, outcome })
}

fn park(transaction: &Transaction<'_>, subject: &Subject<'_>, reason: Reason) -> Sql<Event> {
    transaction.execute(
        "UPDATE heartbeat_state SET phase = 'parked', reason = ?2, next_attempt = NULL WHERE key = ?1",
        params![subject.key, reason.into_str()],
    )?;
    Ok(Event::ItemParked { item: subject.key.clone(), reason })
}

fn give_back(transaction: &Transaction<'_>, subject: &Subject<'_>, reason: Reason) -> Sql<Event> {
    transaction.execute(
        "UPDATE heartbeat_state
         SET phase = 'pending', reason = ?2, attempts = max(attempts - 1, 0)
         WHERE key = ?1 AND phase = 'claimed'",
        params![subject.key, reason.into_str()],
    )?;
    // Its cost was settled when its row was closed; only the attempt is not counted.
    transaction.execute("UPDATE attempts SET counted = 0 WHERE session = ?1", [subject.session])?;
    Ok(Event::ItemDeferred { item: subject.key.clone(), reason })
}
