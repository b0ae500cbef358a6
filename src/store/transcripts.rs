//! Summaries of what sessions read and said.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::rows::{Ms, from_json, to_json};
use super::subjects::{Reader, Sessions};
use super::{Journal, Sql, StoreError};
use crate::model::{SessionId, SessionTranscript};

/// Most transcripts kept.
const MAX: u32 = 2_000;

impl Sessions<'_, Journal> {
    /// Stores a session's transcript; the caller has removed secrets.
    pub async fn keep_transcript(
        self,
        session: SessionId,
        transcript: SessionTranscript,
    ) -> Result<(), StoreError> {
        let now = Ms(self.0.clock().now());
        self.0
            .commit(move |transaction, _| {
                transaction
                    .execute(
                        "INSERT OR REPLACE INTO transcripts (session, stored_at, lines)
                         VALUES (?1, ?2, ?3)",
                        params![session, now, to_json(&transcript)?],
                    )
                    .map(drop)
            })
            .await
    }
}

impl<R: Reader> Sessions<'_, R> {
    /// A session's transcript; `None` if none was stored, or it was removed by retention.
    pub async fn transcript(
        self,
        session: SessionId,
    ) -> Result<Option<SessionTranscript>, StoreError> {
        let sql = "SELECT lines FROM transcripts WHERE session = ?1";
        self.first_row(sql, [session], |row| from_json(row, "lines")).await
    }
}

/// Removes transcripts older than `before` and those above the limit; returns how many.
pub(super) fn prune(transaction: &Transaction<'_>, before: Ms) -> Sql<usize> {
    let bound = newest_beyond(transaction)?.map_or(before, |beyond| Ms(beyond.0.max(before.0)));
    transaction.execute("DELETE FROM transcripts WHERE stored_at < ?1", [bound])
}

fn newest_beyond(connection: &Connection) -> Sql<Option<Ms>> {
    connection
        .query_row(
            "SELECT stored_at FROM transcripts ORDER BY stored_at DESC LIMIT 1 OFFSET ?1",
            [MAX],
            |row| row.get(0),
        )
        .optional()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;
    use crate::model::TranscriptKind;
    use crate::store::Store;

    #[tokio::test]
    async fn a_transcript_is_kept_as_long_as_everything_else() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual("2026-11-16T08:00:00Z".parse().unwrap());
        let store = Store::open(folder.path()).unwrap();
        let journal = Journal::open(store.clone(), clock.clone(), None).unwrap();
        let id = |number| SessionId(uuid::Uuid::from_u128(number));
        let mut transcript = SessionTranscript::default();
        transcript.push(1_500, TranscriptKind::Read, "src/total.ts");
        journal.sessions().keep_transcript(id(1), transcript.clone()).await.unwrap();
        clock.advance_ms(1000 * 60 * 60 * 24 * 20);
        journal.sessions().keep_transcript(id(2), transcript.clone()).await.unwrap();
        assert_eq!(store.sessions().transcript(id(1)).await.unwrap(), Some(transcript.clone()));
        let keep = Duration::from_secs(60 * 60 * 24 * 10);
        let pruned = store.prune(clock.now(), keep).await.unwrap();
        assert_eq!(pruned.transcripts, 1);
        assert_eq!(store.sessions().transcript(id(1)).await.unwrap(), None);
        assert_eq!(store.sessions().transcript(id(2)).await.unwrap(), Some(transcript));
    }
}
