//! Claims work: before a session starts, its item, attempt and budget are taken in one transaction,
//! and released in one if it never starts.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::budget::{self, BudgetCaps, BudgetRefusal, Reservation};
use super::rows::{Ms, to_json};
use super::subjects::Claims;
use super::{Journal, Sql, StoreError};
use crate::model::{ItemKey, RunId, SessionId, SessionRef, Stage, Usd};

#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The session that will do it.
    pub session: SessionId,
    pub run: RunId,
    pub stage: Stage,
    /// Items with the fingerprints they are judged by.
    pub subject: Vec<(ItemKey, String)>,
    /// The most it may cost.
    pub worst_case: Usd,
    /// Budget limits that the claim must respect.
    pub caps: BudgetCaps,
    /// The budget day, as `2026-11-16`.
    pub day: String,
    /// Attempts per item and text; a claim beyond them is refused.
    pub max_attempts: u32,
}

impl Claim {
    /// The session of this claim, with its attempt number.
    pub fn session_ref(&self, attempt: u32) -> SessionRef {
        let item = deep_item(self);
        SessionRef { id: self.session, run: self.run, stage: self.stage, item, attempt }
    }
}

/// Why a claim was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClaimRefusal {
    #[error("{0}")]
    Budget(#[from] BudgetRefusal),
    /// The item is no longer pending, or changed meanwhile.
    #[error("{0} is no longer waiting for analysis")]
    Taken(ItemKey),
}

impl Claims<'_, Journal> {
    /// Claims the work. A deep claim sets its item to `claimed`, counts the attempt and returns its
    /// number; a claim of triage or locate only reserves its budget and returns 1.
    pub async fn take(self, claim: Claim) -> Result<Result<u32, ClaimRefusal>, StoreError> {
        let now = self.0.clock().now();
        self.0.commit(move |transaction, _| {
            let attempt = match claim.stage {
                Stage::Triage | Stage::Locate => 1,
                Stage::Deep => match take_item(transaction, &claim)? {
                    Some(attempt) => attempt,
                    None => return Ok(Err(ClaimRefusal::Taken(subject_key(&claim)))),
                },
            };
            let reservation = Reservation {
                session: claim.session,
                run: claim.run,
                stage: claim.stage,
                day: &claim.day,
                source: source_of(&claim),
                worst_case: claim.worst_case,
            };
            if let Err(refusal) = budget::reserve(transaction, &reservation, claim.caps)? {
                if claim.stage == Stage::Deep {
                    give_back_item(transaction, &claim.subject)?;
                }
                return Ok(Err(refusal.into()));
            }
            transaction.execute(
                "INSERT INTO sessions (session, run, stage, item, attempt, subject, tier, keeper_pid, started_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, '', 0, ?7)",
                params![
                    claim.session,
                    claim.run,
                    claim.stage.into_str(),
                    deep_item(&claim),
                    attempt,
                    to_json(&claim.subject)?,
                    Ms(now)
                ],
            )?;
            if claim.stage == Stage::Deep {
                record_attempt(transaction, &claim, attempt, Ms(now))?;
            }
            Ok(Ok(attempt))
        })
        .await
    }

    /// Releases a claim completely: nothing was started for it.
    pub async fn give_back(self, claim: Claim) -> Result<(), StoreError> {
        self.0
            .commit(move |transaction, _| {
                budget::release(transaction, claim.session)?;
                transaction.execute("DELETE FROM attempts WHERE session = ?1", [claim.session])?;
                transaction.execute(
                    "DELETE FROM sessions WHERE session = ?1 AND ended_at IS NULL",
                    [claim.session],
                )?;
                if claim.stage == Stage::Deep {
                    give_back_item(transaction, &claim.subject)?;
                }
                Ok(())
            })
            .await
    }
}

pub(super) fn has_unstarted(connection: &Connection) -> Sql<bool> {
    connection.query_row(&format!("SELECT EXISTS ({LOST})"), [], |row| row.get(0))
}

/// Releases claims whose session never got a row: nothing was started.
pub(super) fn give_back_unstarted(transaction: &Transaction<'_>) -> Sql<()> {
    let lost = LOST;
    transaction.execute(
        &format!(
            "UPDATE heartbeat_state
             SET phase = 'pending', reason = 'carried_over', attempts = max(attempts - 1, 0)
             WHERE phase = 'claimed'
               AND key IN (SELECT item FROM sessions WHERE session IN ({lost}))"
        ),
        [],
    )?;
    for table in ["attempts", "budget", "sessions"] {
        transaction.execute(&format!("DELETE FROM {table} WHERE session IN ({lost})"), [])?;
    }
    Ok(())
}

/// Sessions that were claimed and never got a row.
const LOST: &str = "SELECT session FROM sessions WHERE applied = 0 AND ended_at IS NULL
                    AND session NOT IN (SELECT session FROM heartbeat_active_sessions)";

fn subject_key(claim: &Claim) -> ItemKey {
    claim
        .subject
        .first()
        .map_or_else(|| ItemKey::from_stored(String::new()), |(key, _)| key.clone())
}

/// Triage covers items of several sources and counts for none of them.
fn source_of(claim: &Claim) -> Option<&str> {
    let first = claim.subject.first().filter(|_| claim.stage == Stage::Deep);
    first.map(|(key, _)| key.source())
}

fn deep_item(claim: &Claim) -> Option<ItemKey> {
    (claim.stage == Stage::Deep).then(|| subject_key(claim))
}

/// The attempt's number; `None` if the item cannot be claimed.
fn take_item(transaction: &Transaction<'_>, claim: &Claim) -> Sql<Option<u32>> {
    let Some((key, fingerprint)) = claim.subject.first() else { return Ok(None) };
    transaction
        .query_row(
            "UPDATE heartbeat_state SET phase = 'claimed', reason = 'in_flight', attempts = attempts + 1
             WHERE key = ?1 AND fingerprint = ?2 AND phase = 'pending' AND attempts < ?3
             RETURNING attempts",
            params![key, fingerprint, claim.max_attempts],
            |row| row.get(0),
        )
        .optional()
}

fn give_back_item(transaction: &Transaction<'_>, subject: &[(ItemKey, String)]) -> Sql<()> {
    for (key, _) in subject {
        transaction.execute(
            "UPDATE heartbeat_state
             SET phase = 'pending', reason = 'carried_over', attempts = max(attempts - 1, 0)
             WHERE key = ?1 AND phase = 'claimed'",
            [key],
        )?;
    }
    Ok(())
}

fn record_attempt(transaction: &Transaction<'_>, claim: &Claim, attempt: u32, now: Ms) -> Sql<()> {
    let Some((key, fingerprint)) = claim.subject.first() else { return Ok(()) };
    transaction
        .execute(
            "INSERT INTO attempts (key, fingerprint, attempt, session, run, claimed_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![key, fingerprint, attempt, claim.session, claim.run, now],
        )
        .map(drop)
}
