//! Paths that agents name.

use std::path::{Component, Path, PathBuf};

/// The path without `.` and `..`, so that two names of one file are one file. Links are not followed.
pub fn absolute(cwd: &Path, path: &str) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in cwd.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    whole
}

/// A path as people know it: inside the code base without what is above it.
pub fn shown(cwd: &Path, path: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).to_string_lossy().into_owned()
}
