//! Numbered, append-only migrations, each in a transaction of its own.

use std::path::Path;

use rusqlite::Connection;

use super::{StoreError, explain};

/// Every migration in order; its position is the version it leads to.
const MIGRATIONS: [&str; 2] = [
    include_str!("../../migrations/0001_initial.sql"),
    include_str!("../../migrations/0002_attempts_and_facts.sql"),
];

/// The schema this binary works with.
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

/// For readers: a version that is not ours is not read.
pub fn refuse_other_versions(connection: &Connection, database: &Path) -> Result<(), StoreError> {
    match version(connection, database)? {
        SCHEMA_VERSION => Ok(()),
        found if found > SCHEMA_VERSION => Err(newer(database, found)),
        found => Err(StoreError::Unreadable(format!(
            "{} has schema version {found} and this heartbeat needs {SCHEMA_VERSION}; the next run \
             migrates it",
            database.display()
        ))),
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
    // Another process may have been faster between our look and our lock.
    let found: u32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found < version {
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "user_version", version)?;
    }
    transaction.commit()
}
