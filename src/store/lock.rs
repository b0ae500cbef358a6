//! One run at a time per state, across processes.
//!
//! The kernel's file lock decides, so a crash can never leave it taken. What is written in the
//! file is for people and for the loser's message: who holds it, since when, and a heartbeat that
//! is renewed while the holder's event loop turns. A holder whose heartbeat is older than
//! [`STALE_AFTER`] is alive but hung.

use std::convert::Infallible;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::session::ProcessIdentity;

/// Name of the lock in the state folder.
const LOCK: &str = "run.lock";
/// How often the holder renews its heartbeat.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// A heartbeat older than this means the holder hangs.
const STALE_AFTER: SignedDuration = SignedDuration::from_secs(120);

/// What the holder says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub process: ProcessIdentity,
    /// What it is doing, such as `--once`.
    pub purpose: String,
    /// When it took the lock.
    pub since: Timestamp,
    /// When its event loop last turned.
    pub heartbeat: Timestamp,
    /// The machine it runs on.
    #[serde(default)]
    pub host: String,
}

/// Is the holder at work?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderHealth {
    /// Its heartbeat is fresh.
    Alive,
    /// It holds the lock, but its heartbeat is stale.
    Hung,
}

impl Holder {
    /// Does it run on another machine, as far as its heartbeat tells?
    fn is_elsewhere(&self, own_host: &str, now: Timestamp) -> bool {
        let other = !self.host.is_empty() && !own_host.is_empty() && self.host != own_host;
        other && now.duration_since(self.heartbeat).abs() <= STALE_AFTER
    }

    /// Judged by the age of its heartbeat. A clock that was set back shows as fresh.
    pub fn health(&self, now: Timestamp) -> HolderHealth {
        if now.duration_since(self.heartbeat) > STALE_AFTER {
            HolderHealth::Hung
        } else {
            HolderHealth::Alive
        }
    }
}

/// Why the lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run is going on.
    #[error("{}", describe(.holder.as_deref(), *.now))]
    Held {
        /// Who has it, as far as it could be read.
        holder: Option<Box<Holder>>,
        /// When we looked.
        now: Timestamp,
    },
    /// The lock file cannot be used.
    #[error("the lock {path} cannot be used: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
}

fn describe(holder: Option<&Holder>, now: Timestamp) -> String {
    let Some(holder) = holder else {
        return "another run on this state is just starting or ending; try again".into();
    };
    let pid = holder.process.pid;
    if holder.is_elsewhere(&own_host(), now) {
        return format!(
            "another run on this state is going on on another machine: {} (process {pid}, {}), with \
             a heartbeat at {}. Two machines cannot share a state folder: give each its own with \
             --state-dir. If that machine is gone, run again in two minutes",
            holder.host,
            holder.purpose,
            holder.heartbeat.strftime("%F %T UTC"),
        );
    }
    let since = holder.since.strftime("%F %T UTC");
    let seconds = |t: Timestamp| now.duration_since(t).as_secs();
    match holder.health(now) {
        HolderHealth::Alive => format!(
            "another run on this state is going on: process {pid} ({}), since {since} ({} s ago), \
             alive ({} s since its last heartbeat). Nothing was started; it will be left to finish",
            holder.purpose,
            seconds(holder.since),
            seconds(holder.heartbeat),
        ),
        HolderHealth::Hung => format!(
            "another run on this state is hung: process {pid} ({}), since {since}, has given no \
             heartbeat for {} s. Its sessions end by themselves; end it with `kill -9 {pid}` and run \
             again",
            holder.purpose,
            seconds(holder.heartbeat),
        ),
    }
}

/// The right to run on a state, for as long as it is kept.
#[derive(Debug)]
pub struct RunLock {
    file: File,
    path: PathBuf,
    holder: Holder,
}

impl RunLock {
    /// Takes the lock or says who has it. Never waits.
    pub fn acquire(
        folder: &Path,
        process: ProcessIdentity,
        purpose: &str,
        clock: &Clock,
    ) -> Result<Self, LockError> {
        let path = folder.join(LOCK);
        let io = |source| LockError::Io { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = read_holder(&mut file).map(Box::new);
                return Err(LockError::Held { holder, now: clock.now() });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let (now, host) = (clock.now(), own_host());
        // The kernel's lock may not reach another machine; a fresh heartbeat from there does.
        if let Some(holder) =
            read_holder(&mut file).filter(|holder| holder.is_elsewhere(&host, now))
        {
            return Err(LockError::Held { holder: Some(Box::new(holder)), now });
        }
        let holder = Holder { process, purpose: purpose.into(), since: now, heartbeat: now, host };
        let mut lock = Self { file, path: path.clone(), holder };
        lock.write().map_err(io)?;
        Ok(lock)
    }

    /// Who holds the lock of this state, if anyone does. Takes nothing and writes nothing.
    pub fn look(folder: &Path) -> Result<Option<Holder>, LockError> {
        let path = folder.join(LOCK);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(LockError::Io { path, source }),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(read_holder(&mut file)),
            Err(TryLockError::Error(source)) => Err(LockError::Io { path, source }),
        }
    }

    /// Renews the heartbeat for ever; run beside the work and dropped with it. It is a task on the
    /// same event loop as the work, so a loop that hangs shows as a stale heartbeat.
    pub async fn keep_fresh(&mut self, clock: &Clock) -> Infallible {
        let mut every = tokio::time::interval(RENEW_EVERY);
        loop {
            every.tick().await;
            self.holder.heartbeat = clock.now();
            if let Err(error) = self.write() {
                tracing::warn!(path = %self.path.display(), %error, "the lock's heartbeat could not be written");
            }
        }
    }

    /// In one write of a fixed length, so that a reader never sees half of two versions.
    fn write(&mut self) -> io::Result<()> {
        let mut text = serde_json::to_string(&self.holder)?;
        let padding = 1024_usize.saturating_sub(text.len() + 1);
        text.push_str(&" ".repeat(padding));
        text.push('\n');
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for RunLock {
    /// Nobody holds it now; a crash leaves its words, and the kernel frees the lock.
    fn drop(&mut self) {
        if let Err(error) = self.file.set_len(0) {
            tracing::debug!(%error, "the lock keeps the words of its last holder");
        }
    }
}

/// The name of this machine; empty where it cannot be told.
fn own_host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

impl fmt::Display for RunLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(text.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> ProcessIdentity {
        ProcessIdentity { pid: 42, start_time: 7, pidfd_inode: None, boot_id: "boot".into() }
    }

    fn clock() -> Clock {
        Clock::manual("2026-11-16T08:00:00Z".parse().unwrap())
    }

    #[test]
    fn the_second_is_refused_and_told_who_and_since_when() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let _first = RunLock::acquire(folder.path(), process(), "--once", &clock).unwrap();
        clock.advance_ms(90_000);
        let error = RunLock::acquire(folder.path(), process(), "daemon", &clock).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("process 42 (--once), since 2026-11-16 08:00:00 UTC"), "{text}");
        assert!(text.contains("alive (90 s since its last heartbeat)"), "{text}");
    }

    #[test]
    fn a_stale_heartbeat_is_told_as_hung() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let _first = RunLock::acquire(folder.path(), process(), "--once", &clock).unwrap();
        clock.advance_ms(121_000);
        let error = RunLock::acquire(folder.path(), process(), "--once", &clock).unwrap_err();
        assert!(error.to_string().contains("is hung: process 42"), "{error}");
        let LockError::Held { holder: Some(holder), now } = error else { panic!() };
        assert_eq!(holder.health(now), HolderHealth::Hung);
    }

    #[tokio::test(start_paused = true)]
    async fn the_heartbeat_is_renewed_every_thirty_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let mut lock = RunLock::acquire(folder.path(), process(), "--once", &clock).unwrap();
        for _ in 0..10 {
            clock.advance_ms(60_000);
            let renewing = tokio::time::timeout(Duration::from_secs(31), lock.keep_fresh(&clock));
            assert!(renewing.await.is_err(), "renewing never ends by itself");
            let holder = RunLock::look(folder.path()).unwrap().unwrap();
            assert_eq!(holder.heartbeat, clock.now());
            assert_eq!(holder.health(clock.now()), HolderHealth::Alive);
        }
    }

    #[test]
    fn a_fresh_heartbeat_from_another_machine_is_believed_and_a_stale_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let elsewhere = Holder {
            process: process(),
            purpose: "schedule".into(),
            since: clock.now(),
            heartbeat: clock.now(),
            host: "build-7".into(),
        };
        // A machine whose lock does not reach us.
        std::fs::write(folder.path().join(LOCK), serde_json::to_string(&elsewhere).unwrap())
            .unwrap();
        let error = RunLock::acquire(folder.path(), process(), "--once", &clock).unwrap_err();
        assert!(error.to_string().contains("on another machine: build-7"), "{error}");
        clock.advance_ms(121_000);
        drop(RunLock::acquire(folder.path(), process(), "--once", &clock).unwrap());
        let left = std::fs::read_to_string(folder.path().join(LOCK)).unwrap();
        assert_eq!(left, "", "a lock that was given back names nobody");
    }

    #[test]
    fn after_a_hung_holder_is_gone_the_next_run_works() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let hung = RunLock::acquire(folder.path(), process(), "--once", &clock).unwrap();
        clock.advance_ms(600_000);
        // What the kernel does when a process dies: its descriptors close, the lock is free.
        drop(hung);
        assert_eq!(RunLock::look(folder.path()).unwrap(), None);
        RunLock::acquire(folder.path(), process(), "--once", &clock).unwrap();
    }
}
