//! Copies the state for `--dry-run`, which runs the real code path without changing a byte of the
//! original.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::error::explain;
use super::{DATABASE, StoreError, create_private_file};

/// Copies the database from `state` into `to` as of one moment, also while others write to it. The
/// original is only read; if there is no state yet, the folder stays empty.
pub fn scratch_copy(state: &Path, to: &Path) -> Result<(), StoreError> {
    let (from, to) = (state.join(DATABASE), to.join(DATABASE));
    let unreadable = |source| StoreError::Folder {
        path: from.clone(),
        source,
        hint: "Check that it can be read by this user",
    };
    match copy_at_rest(&from, &to) {
        Ok(true) => Ok(()),
        Ok(false) => copy_in_use(&from, &to),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unreadable(error)),
    }
}

/// Copies a database that no process has open, as a plain file: SQLite would create side files to
/// read it. False if a process had it open before or during the copy.
fn copy_at_rest(from: &Path, to: &Path) -> io::Result<bool> {
    let before = fs::metadata(from)?;
    if has_side_files(from) {
        return Ok(false);
    }
    fs::copy(from, to)?;
    let after = fs::metadata(from)?;
    let same = before.len() == after.len() && before.modified()? == after.modified()?;
    if same && !has_side_files(from) {
        return Ok(true);
    }
    fs::remove_file(to)?;
    Ok(false)
}

/// The write-ahead log and its index exist while a process has the database open, and after a
/// crash.
fn has_side_files(database: &Path) -> bool {
    ["-wal", "-shm"].iter().any(|suffix| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name).exists()
    })
}

/// Copies in one read transaction of SQLite. A read-only connection writes nothing to the database
/// or its log, and does not clean up on close.
fn copy_in_use(from: &Path, to: &Path) -> Result<(), StoreError> {
    create_private_file(to)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copy = || {
        let connection = Connection::open_with_flags(from, flags)?;
        connection.busy_timeout(super::PATIENCE)?;
        connection.execute("VACUUM INTO ?1", [to.to_string_lossy()])
    };
    copy().map(drop).map_err(|error| explain(from, error))
}
