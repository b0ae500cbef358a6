//! Session slots of this user on this machine: one lock file per live session, shared by all
//! heartbeat processes, whatever their state folder.
//!
//! A session's keeper holds the lock, so the kernel frees the slot when the keeper exits, for any
//! reason.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::private;
use crate::settings;

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

    /// The slots that all states of this user share on this machine.
    pub fn of_machine(limits: &settings::Limits) -> Self {
        let limit = match limits.max_live_sessions_per_machine {
            0 => limits.max_live_sessions,
            limit => limit,
        };
        let configured = &limits.slots_dir;
        let folder = match configured.as_os_str().is_empty() {
            true => Self::default_folder(),
            false => configured.clone(),
        };
        Self::new(folder, limit)
    }

    /// Shared by all processes of this user: in memory, never on a network file system, and
    /// independent of the environment (service, cron job or shell).
    pub fn default_folder() -> PathBuf {
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() { shared } else { Path::new("/tmp") };
        parent.join(format!("heartbeat-{}", nix::unistd::Uid::effective()))
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
        let found = std::fs::symlink_metadata(&self.folder)?;
        if found.is_dir() && found.uid() == nix::unistd::Uid::effective().as_raw() {
            return Ok(());
        }
        let folder = self.folder.display();
        Err(io::Error::other(format!(
            "the folder of session slots {folder} belongs to another user; choose another one with \
             limits.slots_dir"
        )))
    }
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
