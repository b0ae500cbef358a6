//! Errors of the state, each with a remedy.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::ports::LedgerError;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot use the state folder {path}: {source}. {hint}")]
    Folder { path: PathBuf, source: io::Error, hint: &'static str },
    #[error(
        "the state in {path} has schema version {found}, but this heartbeat only knows {known}. \
         It was written by a newer heartbeat and is left untouched: upgrade heartbeat, or choose \
         another folder with --state-dir"
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error(
        "the state in {path} has schema version {found} and this heartbeat needs {needed}; the next \
         run migrates it"
    )]
    Older { path: PathBuf, found: u32, needed: u32 },
    #[error(
        "the state in {path} was written by a heartbeat from before the first release and is left \
         untouched. `heartbeat state import {path}` takes it over once and keeps the old file; or \
         choose another folder with --state-dir"
    )]
    Unreleased { path: PathBuf },
    #[error(
        "the state in {path} is damaged ({source}) and is left untouched. Stop heartbeat, then \
         restore a backup with `heartbeat state restore FILE`, or save what can still be read with \
         `heartbeat state rescue`; `heartbeat state new` starts over (findings are gone; what was \
         spent and which items were finished is known)"
    )]
    Corrupt { path: PathBuf, source: rusqlite::Error },
    #[error(
        "the state in {path} is damaged: {found}. Stop heartbeat, then restore a backup with \
         `heartbeat state restore FILE`, or save what can still be read with `heartbeat state \
         rescue`; `heartbeat state new` starts over (findings are gone; what was spent and which \
         items were finished is known)"
    )]
    Damaged { path: PathBuf, found: String },
    #[error(
        "the state in {path} is damaged: the file is empty, although runs were recorded here. \
         Restore a backup with `heartbeat state restore FILE`, or start over with `heartbeat state \
         new` (findings are gone; what was spent and which items were finished is known)"
    )]
    Emptied { path: PathBuf },
    #[error(
        "the state in {path} is gone: it was here, and another program removed or moved it. Put it \
         back, or restore a backup with `heartbeat state restore FILE`; `heartbeat state new` starts \
         over (findings are gone; what was spent and which items were finished is known)"
    )]
    Vanished { path: PathBuf },
    #[error(
        "cannot write the state in {path}: the disk is full. Nothing already stored is lost; free \
         some space and run again"
    )]
    Full { path: PathBuf },
    #[error(
        "the state in {path} is busy: another process has been writing to it for over 10 s. Nothing \
         already stored is lost; stop the process that holds it (`fuser {path}` names it) and run \
         again"
    )]
    Busy { path: PathBuf },
    #[error(
        "cannot read or write the state in {path}: {source}. Nothing already stored is lost; check \
         the disk (`dmesg`, quota, permissions) and run again"
    )]
    Disk { path: PathBuf, source: rusqlite::Error },
    #[error(
        "the state folder {path} is on a network file system ({kind}), where file locks do not work \
         between machines. Choose a folder on a local disk, with --state-dir or [state] dir"
    )]
    NetworkFolder { path: PathBuf, kind: &'static str },
    #[error(
        "{path} is not a heartbeat state folder: {why}; nothing was changed. Choose a new or an \
         empty folder with --state-dir or [state] dir"
    )]
    NotOurs { path: PathBuf, why: String },
    #[error(
        "the state in {path} belongs to another configuration: {owner}; this one is {this}. One \
         would park the queue of the other. Give this one a folder of its own with --state-dir or \
         [state] dir, or hand the state over to it with `heartbeat state adopt`"
    )]
    OtherOwner { path: PathBuf, owner: String, this: String },
    /// The session ledger, reported by the code that used it.
    #[error("{0}")]
    Ledger(#[source] LedgerError),
    #[error("the state in {path} failed: {source}")]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error("the state holds a value that cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// A panic or a cancelled task; its transaction was rolled back.
    #[error("the database thread stopped: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

/// Turns SQLite's error into one with a remedy.
pub(super) fn explain(database: &Path, error: rusqlite::Error) -> StoreError {
    let path = database.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { path, source: error }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        Some(ErrorCode::SystemIoFailure) => StoreError::Disk { path, source: error },
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::Folder {
                path,
                source: io::Error::new(io::ErrorKind::PermissionDenied, error),
                hint: "Check that this user can write to the folder",
            }
        }
        _ => StoreError::Sqlite { path, source: error },
    }
}
