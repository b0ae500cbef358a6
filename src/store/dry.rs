//! Copies the state for `--dry-run`, which runs the real code path without changing a byte of the
//! original.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::backup::{copy_database, is_in_use};
use super::{DATABASE, StoreError};

/// Copies the database from `state` into `to` as of one moment, also while others write to it. The
/// original is only read; if there is no state yet, the folder stays empty.
pub fn scratch_copy(state: &Path, to: &Path) -> Result<(), StoreError> {
    let (from, to) = (state.join(DATABASE), to.join(DATABASE));
    let unreadable = |source| StoreError::Folder {
        path: from.clone(),
        source,
        hint: "Check that it can be read by this user",
    };
    let before = match stamp(&from) {
        Ok(before) => before,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unreadable(error)),
    };
    if !is_in_use(&from) {
        // SQLite would create side files to read it, unless it is told that nothing changes.
        copy_database(&from, &to, true)?;
        if !is_in_use(&from) && stamp(&from).map_err(unreadable)? == before {
            return Ok(());
        }
        fs::remove_file(&to).map_err(unreadable)?;
    }
    copy_database(&from, &to, false)
}

fn stamp(path: &Path) -> io::Result<(u64, SystemTime)> {
    let data = fs::metadata(path)?;
    Ok((data.len(), data.modified()?))
}
