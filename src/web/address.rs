//! The address of a state's dashboard while it is served: a file that the serving process keeps
//! locked. The lock ends with the process, so a stale address is never mistaken for a live one.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;

use crate::private;

/// Name of the file in the state folder.
pub const FILE: &str = "dashboard-address";

/// Keeps the address published until dropped.
#[derive(Debug)]
pub struct PublishedAddress(#[expect(dead_code, reason = "holds the lock")] File);

/// `None` if another process serves this state and has published its address.
pub fn publish(state: &Path, address: SocketAddr) -> io::Result<Option<PublishedAddress>> {
    let mut file = private::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(state.join(FILE))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    file.set_len(0)?;
    writeln!(file, "{address}")?;
    Ok(Some(PublishedAddress(file)))
}

/// The address at which this state's dashboard is served now.
pub fn published(state: &Path) -> Option<SocketAddr> {
    let mut file = File::open(state.join(FILE)).ok()?;
    if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_known_as_long_as_it_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(published(folder.path()), None);
        let first = publish(folder.path(), address(12345)).unwrap().unwrap();
        assert_eq!(published(folder.path()), Some(address(12345)));
        assert!(publish(folder.path(), address(2)).unwrap().is_none(), "the first one stays");
        assert_eq!(published(folder.path()), Some(address(12345)));
        drop(first);
        assert_eq!(published(folder.path()), None, "the file is there, the process is not");
        let second = publish(folder.path(), address(80)).unwrap();
        assert_eq!(published(folder.path()), Some(address(80)));
        drop(second);
    }
}
