//! Whether a scheduler works on this state: it keeps a file locked while it runs, and the kernel
//! frees the lock however it ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use crate::private;

pub const SCHEDULER_FILE: &str = "scheduler.lock";

/// The lock of a running scheduler; released on drop.
#[derive(Debug)]
pub struct SchedulerMark(#[expect(dead_code, reason = "held, never read")] File);

impl SchedulerMark {
    /// `None` if another scheduler already works on this state.
    pub fn set(folder: &Path) -> io::Result<Option<Self>> {
        let file =
            private::options().create(true).append(true).open(folder.join(SCHEDULER_FILE))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether a scheduler holds it.
    pub fn is_set(folder: &Path) -> bool {
        let Ok(file) = File::open(folder.join(SCHEDULER_FILE)) else { return false };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_lives_as_long_as_its_scheduler() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!SchedulerMark::is_set(folder.path()));
        let mark = SchedulerMark::set(folder.path()).unwrap();
        assert!(mark.is_some() && SchedulerMark::is_set(folder.path()));
        assert!(SchedulerMark::set(folder.path()).unwrap().is_none());
        drop(mark);
        assert!(!SchedulerMark::is_set(folder.path()));
    }
}
