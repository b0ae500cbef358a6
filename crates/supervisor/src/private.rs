//! Creates folders and files that only their owner may open.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

pub mod beneath;

/// Creates a folder and its missing parents. Existing ones are not changed.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Options for opening a file; a new file is private.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Creates or truncates a file and opens it for writing.
pub fn create_file(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Creates or overwrites a file.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    create_file(path)?.write_all(content)
}

/// Opens a regular file for reading. Links are not followed, and a pipe does not block.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_regular_with(OpenOptions::new().read(true), path)
}

/// The same with other options.
pub fn open_regular_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    let opened = options.custom_flags(flags).open(path);
    let is_link = |error: &io::Error| error.raw_os_error() == Some(libc::ELOOP);
    let file = opened.map_err(|error| if is_link(&error) { refused() } else { error })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused()) }
}

/// The bytes of a file of the user, who may have put a link in its place; at most `most`.
pub fn read_own(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let real = std::fs::canonicalize(path)?;
    let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    };
    beneath::read(folder, Path::new(name), most)
}

/// Creates a folder where nothing is; its parent exists.
pub fn create_new_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Replaces a file atomically: a reader sees either the old content or the new.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = Path::new(&temporary);
    // Opening a pipe would block, and opening a link would overwrite its target.
    if std::fs::symlink_metadata(temporary).is_ok_and(|found| !found.is_file()) {
        std::fs::remove_file(temporary)?;
    }
    write(temporary, content)?;
    std::fs::rename(temporary, path)
}

/// Removes a folder and its content at any depth: nested folders are moved to the top and emptied
/// there, so neither the stack nor the path length is a limit. Folders without permissions are made
/// accessible. Only for folders that are no longer in use. A link to a folder is refused: its target
/// belongs to someone else.
pub fn remove_folder(folder: &Path) -> io::Result<()> {
    if !std::fs::symlink_metadata(folder)?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is a link or a file"));
    }
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

    /// Deeper than recursion or a path allows.
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
    fn neither_a_link_nor_a_file_is_removed_as_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::create_dir(&target).unwrap();
        std::fs::write(target.join("kept"), "x").unwrap();
        std::fs::set_permissions(target.join("kept"), Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for path in [link, target.join("kept")] {
            let error = remove_folder(&path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        }
        let kept = std::fs::metadata(target.join("kept")).unwrap();
        assert_eq!(kept.permissions().mode() & 0o7777, 0o640);
    }

    #[test]
    fn a_file_is_replaced_although_a_link_or_a_pipe_is_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let [path, temporary, other] = ["a", "a.new", "b"].map(|name| folder.path().join(name));
        std::fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, &temporary).unwrap();
        replace(&path, b"1").unwrap();
        nix::unistd::mkfifo(&temporary, nix::sys::stat::Mode::S_IRWXU).unwrap();
        replace(&path, b"2").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"2");
        assert_eq!(std::fs::read(&other).unwrap(), b"kept");
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
