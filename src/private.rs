//! Folders and files that only their owner may open: the one place that says how they are made.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes a folder with whatever is missing above it. What exists is left as it is.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// For opening a file that, should it be made, is private.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// A file of this name, empty and open for writing.
pub fn create_file(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// A file of this name with this content.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    create_file(path)?.write_all(content)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_made_is_closed_to_others_and_what_was_there_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let there = folder.path().join("there");
        std::fs::create_dir(&there).unwrap();
        std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o755)).unwrap();
        create_folder(&there.join("a/b")).unwrap();
        write(&there.join("a/b/c"), b"x").unwrap();
        let modes = ["", "a", "a/b", "a/b/c"].map(|name| mode(&there.join(name)));
        assert_eq!(modes, [0o755, 0o700, 0o700, 0o600]);
    }
}
