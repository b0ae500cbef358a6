//! The connection to the database of a state, and whether it still is that database.
//!
//! Whoever removes or replaces the files under a running service must neither make it start over
//! nor leave it broken until a restart. So the identity of the files is compared at every use, and
//! a connection that failed is closed. The next use opens the database again; it never creates one.
//!
//! All connections of one process share SQLite's index of the log, so one that failed must be
//! closed even if it cannot be opened again yet: else the others would keep an outdated index.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::explain;
use super::{StoreError, connect, log_of, migrate};

/// How a connection is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Writing,
    Reading,
}

#[derive(Debug)]
pub(super) struct Link {
    access: Access,
    /// `None` after a failure, until it is opened again.
    connection: Option<Connection>,
    files: Files,
}

/// Device and inode of the database and its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Files {
    database: Option<(u64, u64)>,
    log: Option<(u64, u64)>,
}

impl Files {
    fn of(database: &Path) -> Self {
        let identity = |path: &Path| fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
        Self { database: identity(database), log: identity(&log_of(database)) }
    }
}

impl Link {
    pub(super) fn new(database: &Path, access: Access, connection: Connection) -> Self {
        Self { access, connection: Some(connection), files: Files::of(database) }
    }

    /// The connection, opened again if its files are others now.
    pub(super) fn connection(&mut self, database: &Path) -> Result<&mut Connection, StoreError> {
        let found = Files::of(database);
        if found != self.files || self.connection.is_none() {
            self.close(found);
            let opened = reopen(database, self.access)?;
            self.connection = Some(opened);
            self.files = Files::of(database);
            tracing::warn!(database = %database.display(), "opened the state again");
        }
        self.connection.as_mut().ok_or_else(|| StoreError::Vanished { path: database.into() })
    }

    /// Closes a connection that this error may have made useless.
    pub(super) fn note(&mut self, error: &rusqlite::Error) {
        let useless = [
            ErrorCode::SystemIoFailure,
            ErrorCode::CannotOpen,
            ErrorCode::ReadOnly,
            ErrorCode::DatabaseCorrupt,
            ErrorCode::NotADatabase,
        ];
        if error.sqlite_error_code().is_some_and(|code| useless.contains(&code)) {
            self.connection = None;
        }
    }

    /// If only the log was removed, this connection still has what was in it.
    fn close(&mut self, found: Files) {
        let Some(connection) = self.connection.take() else { return };
        let same_database = found.database.is_some() && found.database == self.files.database;
        if same_database && found.log.is_none() {
            let saved = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            tracing::error!(?saved, "the log of the database was removed by another program");
        }
    }
}

fn reopen(database: &Path, access: Access) -> Result<Connection, StoreError> {
    if !database.exists() {
        return Err(StoreError::Vanished { path: database.into() });
    }
    let connection = connect(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    migrate::refuse_other_versions(&connection, database)?;
    if access == Access::Reading {
        read_only(&connection, database)?;
    }
    Ok(connection)
}

pub(super) fn read_only(connection: &Connection, database: &Path) -> Result<(), StoreError> {
    connection.pragma_update(None, "query_only", true).map_err(|error| explain(database, error))
}
