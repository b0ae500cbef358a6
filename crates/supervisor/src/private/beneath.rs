//! Opens files in places that a confined process could write.
//!
//! Everything there may be a trap: a link to another file, a pipe that blocks its reader, a device
//! without an end. A path is therefore walked one folder at a time without following a link, only a
//! regular file is opened, never so that it blocks, and only a bounded part of it is read. All of
//! the program reads and writes such places through this module only;
//! `tests/library/architecture.rs` checks that.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

/// Whatever is opened, a link is not followed, and nothing is waited for.
const CAREFUL: OFlag =
    OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC).union(OFlag::O_NOCTTY);

/// The bytes of a regular file below `folder`, if there are at most `most`. `folder` itself must be
/// a place that the process could not replace.
pub fn read(folder: &Path, name: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (parent, last) = walk(folder, name)?;
    let file = File::from(openat(&parent, last, CAREFUL | OFlag::O_RDONLY, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(refused("it is not a regular file"));
    }
    if about.len() > most {
        return Err(refused("it is too large"));
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(refused("it is too large")) } else { Ok(bytes) }
}

/// The text of a regular file, as [`read`] reads it.
pub fn read_text(folder: &Path, name: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(folder, name, most)?).map_err(|_| refused("it is not text"))
}

/// Creates a private file below `folder`. Whatever is in its place is an error.
pub fn create(folder: &Path, name: &Path, content: &[u8]) -> io::Result<()> {
    let (parent, last) = walk(folder, name)?;
    let new = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
    let file = openat(&parent, last, CAREFUL | new, Mode::S_IRUSR | Mode::S_IWUSR)?;
    File::from(file).write_all(content)
}

/// The open parent of a file, and the file's name in it.
fn walk<'a>(folder: &Path, name: &'a Path) -> io::Result<(OwnedFd, &'a Path)> {
    let is_folder = CAREFUL | OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let mut at = open(folder, is_folder, Mode::empty())?;
    let mut parts = name.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(part) = part else {
            return Err(refused("its path leaves the folder"));
        };
        if parts.peek().is_none() {
            return Ok((at, Path::new(part)));
        }
        at = openat(&at, part, is_folder, Mode::empty())?;
    }
    Err(refused("it has no name"))
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_small_regular_file_inside_is_read() {
        let place = tempfile::tempdir().unwrap();
        let (inside, outside) = (place.path().join("inside"), place.path().join("outside"));
        std::fs::create_dir_all(inside.join("deep")).unwrap();
        std::fs::write(&outside, "secret").unwrap();
        std::fs::write(inside.join("deep/good"), "fine").unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(place.path(), inside.join("up")).unwrap();
        symlink("/dev/zero", inside.join("endless")).unwrap();
        nix::unistd::mkfifo(&inside.join("pipe"), Mode::S_IRWXU).unwrap();
        let read = |name: &str| read(&inside, Path::new(name), 10);
        assert_eq!(read("deep/good").unwrap(), b"fine");
        for trap in
            ["link", "up/outside", "endless", "pipe", "../outside", "deep", ".", "/etc/passwd"]
        {
            assert!(read(trap).is_err(), "{trap}");
        }
        std::fs::write(inside.join("large"), [0; 11]).unwrap();
        assert!(read("large").is_err());
        assert!(super::read(&inside.join("up"), Path::new("outside"), 10).is_err());
    }

    #[test]
    fn a_file_is_created_only_where_nothing_is() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        let inside = place.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        nix::unistd::mkfifo(&inside.join("pipe"), Mode::S_IRWXU).unwrap();
        for trap in ["link", "pipe", "../outside"] {
            assert!(create(&inside, Path::new(trap), b"x").is_err(), "{trap}");
        }
        assert!(!outside.exists());
        create(&inside, Path::new("new"), b"x").unwrap();
        assert!(create(&inside, Path::new("new"), b"y").is_err());
        assert_eq!(std::fs::read(inside.join("new")).unwrap(), b"x");
    }
}
