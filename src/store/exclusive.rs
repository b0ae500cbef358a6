//! The exclusive lock on a file, and a check whether it is held.
//!
//! On Linux the lock belongs to the open file and can be checked without taking it, so a check
//! never blocks a run. Other systems have no such check: there the file's content and the identity
//! of the process it names decide.

use std::fs::File;
use std::io;

/// Takes the lock until the file is closed. False if it is held.
#[cfg(target_os = "linux")]
pub(super) fn try_take(file: &File) -> io::Result<bool> {
    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, fcntl};
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file())) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the lock is held. Takes nothing. True where the kernel cannot tell.
#[cfg(target_os = "linux")]
pub(super) fn may_be_taken(file: &File) -> io::Result<bool> {
    use nix::fcntl::{FcntlArg, fcntl};
    let mut found = whole_file();
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok(i32::from(found.l_type) != libc::F_UNLCK)
}

#[cfg(target_os = "linux")]
fn whole_file() -> libc::flock {
    #[expect(clippy::cast_possible_truncation, reason = "both are small constants")]
    let (kind, from) = (libc::F_WRLCK as libc::c_short, libc::SEEK_SET as libc::c_short);
    libc::flock { l_type: kind, l_whence: from, l_start: 0, l_len: 0, l_pid: 0 }
}

/// Takes the lock until the file is closed. False if it is held.
#[cfg(not(target_os = "linux"))]
pub(super) fn try_take(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(std::fs::TryLockError::WouldBlock) => Ok(false),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Whether the lock is held. Takes nothing. True where the kernel cannot tell.
#[cfg(not(target_os = "linux"))]
pub(super) fn may_be_taken(_: &File) -> io::Result<bool> {
    Ok(true)
}
