//! What a fleet adds to the state. A worker stores the sessions it runs for a coordinator, with
//! their task tokens, until the server has accepted their ends. A coordinator has an identity and
//! counts its runs, so that an old copy of its state is detected.

use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::rows::{Ms, from_json, to_json};
use super::subjects::{Reader, Sessions};
use super::{Journal, Sql, StoreError};
use crate::model::{SessionEnd, SessionId, SessionRef};

/// A session whose end the server has not accepted yet.
#[derive(Debug, Clone, PartialEq)]
pub struct UndeliveredEnd {
    pub session: SessionId,
    /// The server's task token.
    pub token: Vec<u8>,
    pub end: SessionEnd,
}

impl<R: Reader> Sessions<'_, R> {
    /// Ended sessions of other states whose end the server has not accepted yet, oldest first.
    pub async fn undelivered(self) -> Result<Vec<UndeliveredEnd>, StoreError> {
        let sql = "SELECT session, token, whole_end FROM sessions
                   WHERE token IS NOT NULL AND whole_end IS NOT NULL ORDER BY ended_at";
        self.rows(sql, [], undelivered).await
    }

    /// How a session ended that was run for another state, if it has ended.
    pub async fn whole_end(self, session: SessionId) -> Result<Option<SessionEnd>, StoreError> {
        let sql = "SELECT whole_end FROM sessions WHERE session = ?1 AND whole_end IS NOT NULL";
        self.first_row(sql, [session], |row| from_json(row, "whole_end")).await
    }
}

impl Sessions<'_, Journal> {
    /// Takes a session of another state, before anything of its work is known: if this process dies,
    /// its next one can say so. False if it was taken before; it must not start again.
    pub async fn take(self, session: SessionId, token: Vec<u8>) -> Result<bool, StoreError> {
        let now = Ms(self.0.clock().now());
        let taken = self.0.commit(move |transaction, _| {
            transaction.execute(
                "INSERT OR IGNORE INTO sessions
                     (session, run, stage, attempt, tier, keeper_pid, started_at, applied, token)
                 VALUES (?1, '', '', 0, '', 0, ?2, 1, ?3)",
                params![session, now, token],
            )
        });
        Ok(taken.await? == 1)
    }

    /// The work of a session that was taken, and what its end is delivered with.
    pub async fn accept(self, session: SessionRef, token: Vec<u8>) -> Result<(), StoreError> {
        self.0
            .commit(move |transaction, _| {
                let SessionRef { id, run, stage, item, attempt } = session;
                let sql =
                    "UPDATE sessions SET run = ?2, stage = ?3, item = ?4, attempt = ?5, token = ?6
                           WHERE session = ?1";
                let values = params![id, run, stage.into_str(), item, attempt, token];
                transaction.execute(sql, values).map(drop)
            })
            .await
    }

    /// Ends an accepted session for which nothing was started.
    pub async fn end_unstarted(
        self,
        session: SessionId,
        end: SessionEnd,
    ) -> Result<(), StoreError> {
        let now = Ms(self.0.clock().now());
        self.0
            .commit(move |transaction, _| {
                transaction.execute(
                    "UPDATE sessions SET ended_at = coalesce(ended_at, ?2), outcome = ?3
                     WHERE session = ?1",
                    params![session, now, to_json(&end.outcome)?],
                )?;
                keep_end(transaction, session, &end)
            })
            .await
    }

    /// Accepted sessions that have neither a row nor an end: the process died in between, and
    /// nothing was started.
    pub async fn accepted_unstarted(self) -> Result<Vec<SessionId>, StoreError> {
        let sql = "SELECT session FROM sessions WHERE token IS NOT NULL AND ended_at IS NULL
                   AND session NOT IN (SELECT session FROM heartbeat_active_sessions)";
        self.rows(sql, [], |row| row.get(0)).await
    }

    /// The server has accepted the end, or no longer wants it.
    pub async fn delivered(self, session: SessionId) -> Result<(), StoreError> {
        self.0
            .commit(move |transaction, _| {
                transaction
                    .execute("UPDATE sessions SET token = NULL WHERE session = ?1", [session])
                    .map(drop)
            })
            .await
    }
}

impl Journal {
    /// This state's unique id on the server; created at the first call.
    pub async fn state_id(&self) -> Result<String, StoreError> {
        // Read first: `kill` and the dashboard open the state read-only.
        let sql = "SELECT value FROM facts WHERE name = 'state_id'";
        let known: Option<String> = self.store().first_row(sql, [], |row| row.get(0)).await?;
        if let Some(known) = known {
            return Ok(known);
        }
        let fresh = uuid::Uuid::now_v7().simple().to_string();
        self.commit(move |transaction, _| {
            transaction.execute(
                "INSERT OR IGNORE INTO facts (name, value) VALUES ('state_id', ?1)",
                [fresh],
            )?;
            let sql = "SELECT value FROM facts WHERE name = 'state_id'";
            transaction.query_row(sql, [], |row| row.get(0))
        })
        .await
    }

    /// Number of fleet runs of this state.
    pub async fn generation(&self) -> Result<i64, StoreError> {
        let sql = "SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'generation'";
        let known: Option<i64> = self.store().first_row(sql, [], |row| row.get(0)).await?;
        Ok(known.unwrap_or(0))
    }

    /// Increments the generation and returns it.
    pub async fn next_generation(&self) -> Result<i64, StoreError> {
        self.commit(|transaction, _| {
            transaction.query_row(
                "INSERT INTO facts (name, value) VALUES ('generation', '1')
                 ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1
                 RETURNING CAST(value AS INTEGER)",
                [],
                |row| row.get(0),
            )
        })
        .await
    }
}

/// Stores the complete end of a session that was run for another state.
pub(super) fn keep_end(
    transaction: &Transaction<'_>,
    session: SessionId,
    end: &SessionEnd,
) -> Sql<()> {
    let sql = "SELECT 1 FROM sessions WHERE session = ?1 AND token IS NOT NULL";
    let for_others = transaction.query_row(sql, [session], |_| Ok(())).optional()?;
    if for_others.is_none() {
        return Ok(());
    }
    let sql = "UPDATE sessions SET whole_end = ?2 WHERE session = ?1 AND whole_end IS NULL";
    transaction.execute(sql, params![session, to_json(end)?]).map(drop)
}

fn undelivered(row: &Row<'_>) -> Sql<UndeliveredEnd> {
    Ok(UndeliveredEnd {
        session: row.get("session")?,
        token: row.get("token")?,
        end: from_json(row, "whole_end")?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{caps, claim, key, ledger_row, page, planned, state};
    use crate::event::Decision;
    use crate::model::{Outcome, Phase, SessionEnd, SessionId, SessionRef, Stage};
    use crate::ports::{Ledger, LedgerRow};

    #[tokio::test]
    async fn a_session_of_others_is_taken_once_and_its_end_is_kept_until_it_is_delivered() {
        let state = state().await;
        let journal = &state.journal;
        let id = SessionId(uuid::Uuid::now_v7());
        let session =
            SessionRef { id, run: state.run, stage: Stage::Deep, item: Some(key(7)), attempt: 2 };
        assert!(journal.sessions().take(id, vec![1]).await.unwrap());
        assert!(!journal.sessions().take(id, vec![9]).await.unwrap(), "not a second time");
        assert_eq!(journal.sessions().accepted_unstarted().await.unwrap(), [id]);
        journal.sessions().accept(session, vec![1, 2]).await.unwrap();
        assert_eq!(journal.sessions().accepted_unstarted().await.unwrap(), [id]);
        assert!(journal.sessions().undelivered().await.unwrap().is_empty());
        let mut end = SessionEnd::empty(Outcome::Completed);
        end.output = Some(serde_json::json!({ "a": 1 }));
        end.stderr_tail = crate::model::Untrusted::new("\u{1b}[31mred");
        journal.close(id, end.clone()).await.unwrap();
        let waiting = journal.sessions().undelivered().await.unwrap();
        assert_eq!((&waiting[0].token[..], &waiting[0].end), (&[1, 2][..], &end));
        assert!(journal.sessions().accepted_unstarted().await.unwrap().is_empty());
        journal.close(id, SessionEnd::empty(Outcome::Orphaned)).await.unwrap();
        journal.sessions().delivered(id).await.unwrap();
        assert!(journal.sessions().undelivered().await.unwrap().is_empty());
        assert_eq!(journal.sessions().whole_end(id).await.unwrap(), Some(end), "the first stands");
        assert!(journal.store().results().unapplied().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_session_that_no_host_started_is_given_back_whole() {
        let state = state().await;
        let journal = &state.journal;
        journal
            .items()
            .record_page("ado", page(vec![planned(1, "f1", Decision::New)]))
            .await
            .unwrap();
        let claim = claim(&state, 1, caps(10.0, 10.0));
        journal.claims().take(claim.clone()).await.unwrap().unwrap();
        let row = LedgerRow { host: Some(String::new()), ..ledger_row(&claim) };
        journal.register(row, 3).await.unwrap();
        journal.placed(claim.session, "build-2".into()).await.unwrap();
        let active = journal.store().sessions().active().await.unwrap();
        assert_eq!((active[0].host.as_deref(), active[0].alive), (Some("build-2"), true));
        journal.results().recover().await.unwrap();
        let item = journal.store().items().get(key(1)).await.unwrap().unwrap();
        assert_eq!((item.phase, item.attempts), (Phase::Claimed, 1), "its row counts");
        journal.withdraw(claim.session).await.unwrap();
        journal.results().recover().await.unwrap();
        let item = journal.store().items().get(key(1)).await.unwrap().unwrap();
        assert_eq!((item.phase, item.attempts), (Phase::Pending, 0));
    }

    #[tokio::test]
    async fn a_state_has_one_name_and_counts_its_runs() {
        let state = state().await;
        let name = state.journal.state_id().await.unwrap();
        assert_eq!(state.journal.state_id().await.unwrap(), name);
        assert_eq!(state.journal.generation().await.unwrap(), 0);
        assert_eq!(state.journal.next_generation().await.unwrap(), 1);
        assert_eq!(state.journal.next_generation().await.unwrap(), 2);
        assert_eq!(state.journal.generation().await.unwrap(), 2);
    }
}
