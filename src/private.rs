//! Folders and files that only their owner may open: the one place that says how they are made.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
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

/// The text of a regular file that is no longer than `most` bytes; none otherwise.
pub fn read_small(path: &Path, most: u64) -> Option<String> {
    let about = std::fs::symlink_metadata(path).ok()?;
    (about.is_file() && about.len() <= most).then(|| std::fs::read_to_string(path).ok()).flatten()
}

/// Replaces a file at once: a reader sees the old content or the new, never a part.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    write(Path::new(&beside), content)?;
    std::fs::rename(&beside, path)
}

/// Removes a folder with everything in it, however deep it is: folders inside are moved to its top
/// and emptied there, so neither the stack nor the length of a path sets a limit. Folders that their
/// owner closed are opened. For folders that nobody uses any more.
pub fn remove_folder(folder: &Path) -> io::Result<()> {
    let (prefix, mut moved) = (uuid::Uuid::now_v7(), 0_u64);
    let mut full = vec![folder.to_owned()];
    while let Some(next) = full.pop() {
        std::fs::set_permissions(&next, Permissions::from_mode(0o700))?;
        let entries: Vec<_> = std::fs::read_dir(&next)?.collect::<Result<_, _>>()?;
        for entry in entries {
            if !entry.file_type()?.is_dir() {
                std::fs::remove_file(entry.path())?;
            } else if next == folder {
                full.push(entry.path());
            } else {
                std::fs::set_permissions(entry.path(), Permissions::from_mode(0o700))?;
                moved += 1;
                let to = folder.join(format!("{prefix}-{moved}"));
                std::fs::rename(entry.path(), &to)?;
                full.push(to);
            }
        }
        if next != folder {
            std::fs::remove_dir(&next)?;
        }
    }
    std::fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deeper than the stack of a thread allows when each folder is a call, and than a path may be.
    #[test]
    fn the_deepest_folder_is_removed_and_links_out_of_it_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "x").unwrap();
        std::fs::create_dir_all(inside.join("closed/within")).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        std::fs::set_permissions(inside.join("closed"), Permissions::from_mode(0o000)).unwrap();
        for number in 0..20_000 {
            // From the inside out, so that no path gets too long.
            let (shell, core) = (inside.join("shell"), inside.join("core"));
            std::fs::create_dir(&shell).unwrap();
            if number > 0 {
                std::fs::rename(&core, shell.join("d")).unwrap();
            }
            std::fs::rename(&shell, &core).unwrap();
        }
        let removing = std::thread::Builder::new().stack_size(128 << 10);
        let path = inside.clone();
        removing.spawn(move || remove_folder(&path)).unwrap().join().unwrap().unwrap();
        assert!(!inside.exists());
        assert_eq!(std::fs::read(outside.join("kept")).unwrap(), b"x");
    }

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
