//! A copy of the state to rehearse on, so that `--dry-run` is the real code path and still changes
//! no byte of the original.

use std::fs;
use std::io;
use std::path::Path;

use super::{DATABASE, StoreError};

/// Copies the database and its write-ahead log from `state` into `to`. The original is only read;
/// a state that does not exist yet gives an empty folder.
pub fn scratch_copy(state: &Path, to: &Path) -> Result<(), StoreError> {
    for suffix in ["", "-wal"] {
        let name = format!("{DATABASE}{suffix}");
        match fs::copy(state.join(&name), to.join(&name)) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(StoreError::Folder {
                    path: state.join(name),
                    source,
                    hint: "Check that it can be read by this user",
                });
            }
        }
    }
    Ok(())
}
