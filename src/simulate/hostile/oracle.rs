//! An independent observer: the read end of the canary.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

#[derive(Debug)]
pub struct Oracle {
    path: PathBuf,
    reader: File,
    births: u64,
}

impl Oracle {
    /// Creates the named pipe and watches it.
    pub fn new(path: &Path) -> io::Result<Self> {
        // Writable for everyone: the agent may run as another user.
        nix::unistd::mkfifo(path, Mode::from_bits_truncate(0o622))?;
        let reader = File::options()
            .read(true)
            .custom_flags((OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits())
            .open(path)?;
        Ok(Self { path: path.to_owned(), reader, births: 0 })
    }

    /// Processes started so far, as far as they were counted.
    pub fn births(&mut self) -> u64 {
        self.is_silent();
        self.births
    }

    /// Whether no process holds the canary. Also true before one opened it.
    pub fn is_silent(&mut self) -> bool {
        let mut chunk = [0; 4096];
        loop {
            match self.reader.read(&mut chunk) {
                Ok(0) => return true,
                Ok(read) => self.births += u64::try_from(read).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Waits for silence; false on a timeout.
    pub fn wait_for_silence(&mut self, within: Duration) -> bool {
        let until = Instant::now() + within;
        while !self.is_silent() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Like [`Oracle::wait_for_silence`], polling as fast as possible: for measurements.
    pub fn wait_closely(&mut self, within: Duration) -> bool {
        let until = Instant::now() + within;
        while !self.is_silent() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        true
    }

    /// Number of processes that hold the canary, from the table of open files. At least one if it
    /// is not silent, even if the table cannot be read.
    pub fn survivors(&mut self) -> u32 {
        if self.is_silent() {
            return 0;
        }
        u32::try_from(self.holders().len()).unwrap_or(u32::MAX).max(1)
    }

    /// Processes that hold the canary, without ourselves.
    pub fn holders(&self) -> Vec<u32> {
        let own = std::process::id();
        let holds = |pid: &u32| {
            let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
            files
                .flatten()
                .any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target == self.path))
        };
        crate::process::all().into_iter().filter(|pid| *pid != own).filter(holds).collect()
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
    }
}
