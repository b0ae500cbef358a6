//! A private temporary folder.

use std::io;
use std::path::{Path, PathBuf};

/// Removed on drop, with everything in it.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// A new folder of mode 0700 in the system's temporary folder.
    pub fn new(purpose: &str) -> io::Result<Self> {
        let template = std::env::temp_dir().join(format!("heartbeat-{purpose}-XXXXXX"));
        Ok(Self(nix::unistd::mkdtemp(&template)?))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "could not remove a temporary \
                                                                folder");
        }
    }
}
