//! Paths in agents' output.

use std::path::{Component, Path, PathBuf};

/// Makes a path absolute and removes `.` and `..`, so that a file has one name. Links are not
/// followed.
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

/// A path for display: relative to the code base if it is inside.
pub fn shown(cwd: &Path, path: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).to_string_lossy().into_owned()
}
