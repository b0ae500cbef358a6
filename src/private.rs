//! Folders and files that only their owner may open: the one place that says how they are made.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes a folder with whatever is missing above it. What exists is left as it is.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Options for opening a file; if it has to be made, it is private.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Creates or empties a file and opens it for writing.
pub fn create_file(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Creates or overwrites a file.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    create_file(path)?.write_all(content)
}

/// Replaces a file at once: a reader sees the old content or the new, never a part.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    write(Path::new(&beside), content)?;
    std::fs::rename(&beside, path)
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
        replace(&there.join("a/b/c"), b"y").unwrap();
        assert_eq!(std::fs::read(there.join("a/b/c")).unwrap(), b"y");
        let modes = ["", "a", "a/b", "a/b/c"].map(|name| mode(&there.join(name)));
        assert_eq!(modes, [0o755, 0o700, 0o700, 0o600]);
    }
}
