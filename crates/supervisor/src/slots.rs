//! Session slots of this user on this machine: one lock file per live session, shared by all
//! heartbeat processes, whatever their state folder.
//!
//! A session's keeper holds the lock, so the kernel frees the slot when the keeper exits, for any
//! reason.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::private;

/// The slots in one folder, and how many may be in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots {
    folder: PathBuf,
    limit: u32,
}

/// Held until this process and every child it forked have exited.
#[derive(Debug)]
pub struct Slot(#[expect(dead_code, reason = "the open file is the lock")] File);

impl Slots {
    pub fn new(folder: PathBuf, limit: u32) -> Self {
        Self { folder, limit }
    }

    /// Shared by all processes of this user: in memory, never on a network file system, and
    /// independent of the environment (service, cron job or shell).
    pub fn default_folder() -> PathBuf {
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() { shared } else { Path::new("/tmp") };
        Self::folder_in(parent)
    }

    /// Every user may create names there. If somebody else has taken ours, a name that nobody can
    /// guess is used, and found again by its owner.
    fn folder_in(parent: &Path) -> PathBuf {
        let name = format!("heartbeat-{}", nix::unistd::Uid::effective());
        let usual = parent.join(&name);
        if is_own_folder(&usual) || std::fs::symlink_metadata(&usual).is_err() {
            return usual;
        }
        let prefix = format!("{name}-");
        let named = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.as_bytes().starts_with(prefix.as_bytes()))
        };
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let own =
            entries.map(|entry| entry.path()).filter(named).filter(|path| is_own_folder(path));
        own.min().unwrap_or_else(|| parent.join(format!("{prefix}{}", uuid::Uuid::new_v4())))
    }

    /// Arguments for the keeper's command line.
    pub fn to_arguments(&self) -> [OsString; 2] {
        [self.folder.clone().into_os_string(), self.limit.to_string().into()]
    }

    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Takes a free slot; the inner error is the number of slots in use.
    pub fn take(&self) -> io::Result<Result<Slot, u32>> {
        let (in_use, free) = self.count()?;
        Ok(match free {
            Some(file) if in_use < self.limit => Ok(Slot(file)),
            _ => Err(in_use),
        })
    }

    /// Slots in use now.
    pub fn in_use(&self) -> io::Result<u32> {
        Ok(self.count()?.0)
    }

    /// Counts the locked slots and locks the first free one. Slots beyond the limit count too: they
    /// belong to processes with a higher limit.
    fn count(&self) -> io::Result<(u32, Option<File>)> {
        self.prepare_folder()?;
        // One process at a time, so that two with different limits cannot both take the last slot.
        let turn = open(&self.folder.join("lock"))?;
        turn.lock()?;
        let (mut in_use, mut free) = (0, None);
        for number in 1_u32.. {
            let path = self.folder.join(format!("slot-{number}"));
            if number > self.limit && !path.exists() {
                break;
            }
            let file = open(&path)?;
            match file.try_lock() {
                Ok(()) if free.is_none() => free = Some(file),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => in_use += 1,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok((in_use, free))
    }

    /// The default parent is writable for all users, so the folder must be our own.
    fn prepare_folder(&self) -> io::Result<()> {
        private::create_folder(&self.folder)?;
        if is_own_folder(&self.folder) {
            return Ok(());
        }
        let folder = self.folder.display();
        Err(io::Error::other(format!(
            "the folder of session slots {folder} belongs to another user; choose another one with \
             limits.slots_dir"
        )))
    }
}

fn is_own_folder(path: &Path) -> bool {
    let own = nix::unistd::Uid::effective().as_raw();
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == own)
}

fn open(path: &Path) -> io::Result<File> {
    private::options().write(true).create(true).truncate(false).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_over_all_holders_and_freed_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let slots = |limit| Slots::new(folder.path().join("slots"), limit);
        let first = slots(2).take().unwrap().unwrap();
        let second = slots(2).take().unwrap().unwrap();
        assert_eq!(slots(2).take().unwrap().unwrap_err(), 2);
        let third = slots(3).take().unwrap().unwrap();
        assert_eq!(slots(2).in_use().unwrap(), 3, "a slot beyond the own limit counts");
        drop(first);
        assert_eq!(slots(2).take().unwrap().unwrap_err(), 2, "two others are still in use");
        drop(third);
        let again = slots(2).take().unwrap();
        assert!(again.is_ok());
        drop((second, again));
        assert_eq!(slots(2).in_use().unwrap(), 0);
    }

    /// One `mkdir` of a colleague must not stop all sessions.
    #[test]
    fn a_name_that_somebody_else_has_taken_is_passed_over() {
        if !nix::unistd::getuid().is_root() {
            println!("skipped: only root can make a folder of somebody else");
            return;
        }
        let parent = tempfile::tempdir().unwrap();
        let usual = Slots::folder_in(parent.path());
        std::fs::create_dir(&usual).unwrap();
        assert_eq!(Slots::folder_in(parent.path()), usual);
        nix::unistd::chown(&usual, Some(65_534.into()), None).unwrap();
        let other = Slots::folder_in(parent.path());
        assert_ne!(other, usual);
        assert!(Slots::new(other.clone(), 1).take().unwrap().is_ok());
        assert_eq!(Slots::folder_in(parent.path()), other, "found again");
    }

    #[test]
    fn of_many_takers_at_once_no_more_than_the_limit_succeed() {
        let folder = tempfile::tempdir().unwrap();
        let taken: Vec<_> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..12)
                .map(|n| {
                    let slots = Slots::new(folder.path().join("slots"), 3 + n % 2);
                    scope.spawn(move || slots.take().unwrap())
                })
                .collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).collect()
        });
        let count = taken.iter().filter(|slot| slot.is_ok()).count();
        assert!((3..=4).contains(&count), "{count}");
    }
}
