//! Numbered, append-only migrations, each in its own transaction.

use std::path::Path;

use rusqlite::Connection;

use super::StoreError;
use super::error::explain;

/// In order; the position is the resulting version.
const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/0001_initial.sql")];

/// The schema version of this binary.
#[expect(clippy::cast_possible_truncation, reason = "a handful of migrations")]
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Marks a database as ours. States from before the first release do not have it, and their own
/// versions from 1 to [`LAST_UNRELEASED`] mean other schemas.
const APPLICATION: i32 = i32::from_be_bytes(*b"hbt1");
const LAST_UNRELEASED: u32 = 12;

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
    let read = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i32>(0));
    let read = |pragma| read(pragma).map_err(|e| explain(database, e));
    let found = read("PRAGMA user_version")?.unsigned_abs();
    match (read("PRAGMA application_id")?, found) {
        (0, 1..=LAST_UNRELEASED) => Err(StoreError::Unreleased { path: database.into() }),
        (0 | APPLICATION, _) => Ok(found),
        _ => Err(StoreError::NotOurs {
            path: database.into(),
            why: "it is a database of another program".into(),
        }),
    }
}

fn apply(connection: &mut Connection, version: u32, sql: &str) -> Result<(), rusqlite::Error> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another process may have migrated between the check and the lock.
    let found: u32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found < version {
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", version)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{DATABASE, Store};

    #[tokio::test]
    async fn an_empty_state_has_its_first_run_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.sources().first_run("ado".into()).await.unwrap(), None);
    }

    #[test]
    fn a_step_that_another_process_took_is_not_taken_again() {
        let mut connection = Connection::open_in_memory().unwrap();
        for _ in 0..2 {
            apply(&mut connection, 1, MIGRATIONS[0]).unwrap();
        }
        assert_eq!(version(&connection, Path::new(DATABASE)).unwrap(), 1);
    }

    #[test]
    fn a_database_of_another_program_is_left_alone() {
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "application_id", 7).unwrap();
        let error = version(&connection, Path::new(DATABASE)).unwrap_err();
        assert!(matches!(error, StoreError::NotOurs { .. }), "{error}");
    }
}
