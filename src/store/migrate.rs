//! Numbered, append-only migrations, each in its own transaction.

use std::path::Path;

use rusqlite::Connection;

use super::StoreError;
use super::error::explain;

/// In order; the position is the resulting version.
const MIGRATIONS: [&str; 12] = [
    include_str!("../../migrations/0001_initial.sql"),
    include_str!("../../migrations/0002_attempts_and_facts.sql"),
    include_str!("../../migrations/0003_provider_and_outbox.sql"),
    include_str!("../../migrations/0004_feedback.sql"),
    include_str!("../../migrations/0005_area_path.sql"),
    include_str!("../../migrations/0006_readings.sql"),
    include_str!("../../migrations/0007_transcripts.sql"),
    include_str!("../../migrations/0008_fixes.sql"),
    include_str!("../../migrations/0009_hosts.sql"),
    include_str!("../../migrations/0010_duplicates.sql"),
    include_str!("../../migrations/0011_source_budgets.sql"),
    include_str!("../../migrations/0012_stale_findings.sql"),
];

/// The schema version of this binary.
#[expect(clippy::cast_possible_truncation, reason = "a handful of migrations")]
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Brings the database up to [`SCHEMA_VERSION`]; refuses one that is newer.
pub fn migrate(connection: &mut Connection, database: &Path) -> Result<(), StoreError> {
    let found = version(connection, database)?;
    if found > SCHEMA_VERSION {
        return Err(newer(database, found));
    }
    for (version, sql) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        apply(connection, version, sql).map_err(|e| explain(database, e))?;
    }
    Ok(())
}

/// For readers: rejects every other version.
pub fn refuse_other_versions(connection: &Connection, database: &Path) -> Result<(), StoreError> {
    match version(connection, database)? {
        SCHEMA_VERSION => Ok(()),
        found if found > SCHEMA_VERSION => Err(newer(database, found)),
        found => Err(StoreError::Older { path: database.into(), found, needed: SCHEMA_VERSION }),
    }
}

fn newer(database: &Path, found: u32) -> StoreError {
    StoreError::Newer { path: database.into(), found, known: SCHEMA_VERSION }
}

fn version(connection: &Connection, database: &Path) -> Result<u32, StoreError> {
    connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|e| explain(database, e))
}

fn apply(connection: &mut Connection, version: u32, sql: &str) -> Result<(), rusqlite::Error> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another process may have migrated between the check and the lock.
    let found: u32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found < version {
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "user_version", version)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ItemId, ItemKey, Opinion, Outcome, Phase, Verdict};
    use crate::store::rows::from_json;
    use crate::store::{DATABASE, FirstRunFact, Store};

    /// Sample data of each version, inserted as soon as its schema exists.
    const SAMPLES: [&str; MIGRATIONS.len()] = [
        include_str!("../../tests/data/migrations/0001_sample.sql"),
        include_str!("../../tests/data/migrations/0002_sample.sql"),
        include_str!("../../tests/data/migrations/0003_sample.sql"),
        include_str!("../../tests/data/migrations/0004_sample.sql"),
        include_str!("../../tests/data/migrations/0005_sample.sql"),
        include_str!("../../tests/data/migrations/0006_sample.sql"),
        include_str!("../../tests/data/migrations/0007_sample.sql"),
        include_str!("../../tests/data/migrations/0008_sample.sql"),
        include_str!("../../tests/data/migrations/0009_sample.sql"),
        include_str!("../../tests/data/migrations/0010_sample.sql"),
        include_str!("../../tests/data/migrations/0011_sample.sql"),
        include_str!("../../tests/data/migrations/0012_sample.sql"),
    ];

    #[tokio::test]
    async fn data_of_every_version_goes_through_every_later_step() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = Connection::open(folder.path().join(DATABASE)).unwrap();
        for ((version, sql), sample) in (1..).zip(MIGRATIONS).zip(SAMPLES) {
            apply(&mut connection, version, sql).unwrap();
            apply(&mut connection, version, sql).unwrap();
            connection.execute_batch(sample).unwrap();
        }
        drop(connection);
        let store = Store::open(folder.path()).unwrap();
        let key = |id| ItemKey::new("ado", ItemId(id));
        let item = store.items().get(key(2)).await.unwrap().unwrap();
        assert_eq!((item.phase, item.deferrals), (Phase::Pending, 2));
        assert!(item.verdict.is_some());
        let findings = store.findings().of_item(key(1)).await.unwrap();
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].feedback.as_ref().unwrap().opinion, Opinion::Useful);
        assert!(findings[0].score().unwrap().confirmed());
        assert_eq!(findings[0].stale.as_ref().unwrap().commits[0].subject, "Round once");
        assert_eq!(item.area_path, None, "not read yet");
        let first = store.items().get(key(1)).await.unwrap().unwrap();
        assert_eq!(first.area_path.as_deref(), Some("Shop\\Web"));
        assert_eq!(
            store.sources().first_run("ado".into()).await.unwrap(),
            Some(FirstRunFact::Over)
        );
        let counted: Vec<bool> = store
            .sessions()
            .attempts_of(key(1))
            .await
            .unwrap()
            .into_iter()
            .chain(store.sessions().attempts_of(key(3)).await.unwrap())
            .map(|attempt| attempt.counted)
            .collect();
        assert_eq!(counted, [true, false]);
        let provider = store.provider().record(crate::settings::AgentKind::Claude).await.unwrap();
        assert_eq!(provider.limit.unwrap().until.as_millisecond(), 1_763_290_800_000);
        assert_eq!(provider.agent_fault.as_deref(), Some("correct [triage] model"));
        let spent = store.budget().by_stage_since("2026-11-16".into()).await.unwrap();
        assert_eq!(spent[0].estimated.micros(), 1_500_000, "the one without a cost");
        let messages = store.outbox().of_item(key(1)).await.unwrap();
        assert_eq!((messages[0].attempts, messages[0].revision), (1, Some(4)));
        let sql = "SELECT verdict FROM readings";
        let reading = store.read_here(|c| c.query_row(sql, [], |row| from_json(row, "verdict")));
        assert_eq!(reading.map(|verdict: Verdict| verdict.reason).unwrap(), "A wish.");
        let group = store.items().duplicates_of(key(1)).await.unwrap();
        assert_eq!(group.items.len(), 2);
        assert_eq!(group.items[1].why, "both lack the total");
        let session = "00000000-0000-7000-8000-000000000001".parse().unwrap();
        let transcript = store.sessions().transcript(session).await.unwrap().unwrap();
        assert_eq!(transcript.lines[0].text, "src/total.ts");
        let elsewhere = "018f0000-0000-7000-8000-0000000000a1".parse().unwrap();
        let elsewhere = store.sessions().get(elsewhere).await.unwrap().unwrap();
        assert_eq!(elsewhere.host.as_deref(), Some("build-2"));
        let undelivered = store.sessions().undelivered().await.unwrap();
        assert_eq!(undelivered.len(), 1);
        assert_eq!(undelivered[0].token, [1, 2]);
        assert_eq!(undelivered[0].end.outcome, Outcome::TimedOut);
    }

    #[tokio::test]
    async fn an_empty_state_has_its_first_run_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.sources().first_run("ado".into()).await.unwrap(), None);
    }
}
