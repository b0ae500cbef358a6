//! One run at a time per state, across processes.
//!
//! The kernel's file lock decides, so a crash cannot leave it taken. The file's content is for
//! people and for error messages: who holds it, since when, and a heartbeat that is renewed while
//! the holder's event loop runs. A holder whose heartbeat is older than [`STALE_AFTER`] (not
//! counting suspend) is alive but hung.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::exclusive;
use crate::clock::Clock;
use crate::model::{ProcessIdentity, RunId};
use crate::private;
use crate::process;

/// Name of the lock in the state folder.
pub(super) const LOCK: &str = "run.lock";
/// Purpose of the lock of a host of a fleet, which has no schedule.
pub const WORKER: &str = "worker";
/// Purpose of the lock of a service that cleans up before its first run.
pub const STARTING: &str = "start";
/// How long a run waits for such a service, and how often it looks.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often the holder renews its heartbeat.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// A holder with an older heartbeat is hung.
const STALE_AFTER: SignedDuration = SignedDuration::from_secs(120);

/// What the holder wrote about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub process: ProcessIdentity,
    /// The command, such as `--once`.
    pub purpose: String,
    /// Its run, if it has one.
    #[serde(default)]
    pub run: Option<RunId>,
    pub since: Timestamp,
    /// When its event loop last ran.
    pub heartbeat: Timestamp,
    /// The same by [`Clock::awake_ms`], so that a suspended machine does not make a holder look
    /// hung.
    #[serde(default)]
    pub heartbeat_awake_ms: Option<u64>,
    #[serde(default)]
    pub host: String,
}

/// Whether the holder is working.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderHealth {
    /// The heartbeat is fresh.
    Alive,
    /// It holds the lock, but its heartbeat is stale.
    Hung,
}

/// The holder at one point in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    #[serde(flatten)]
    pub holder: Holder,
    pub health: HolderHealth,
    /// Seconds since its last heartbeat, without suspend.
    pub silent_s: i64,
}

impl Holder {
    /// Whether it runs on another machine, according to its heartbeat.
    fn is_elsewhere(&self, own_host: &str, now: Timestamp) -> bool {
        self.is_of_another_host(own_host) && now.duration_since(self.heartbeat).abs() <= STALE_AFTER
    }

    fn is_of_another_host(&self, own_host: &str) -> bool {
        !self.host.is_empty() && !own_host.is_empty() && self.host != own_host
    }

    /// Whether the content can be from the current holder. Content of a process of this machine
    /// that is gone is left from a crash.
    fn is_credible(&self) -> bool {
        self.is_of_another_host(&own_host()) || process::is_same(&self.process)
    }

    /// Judges by the age of its heartbeat: in time awake within one boot, else by the wall clock,
    /// where a clock that was set back looks fresh.
    pub fn seen(self, clock: &Clock) -> Held {
        let on_the_wall = clock.now().duration_since(self.heartbeat);
        let awake = self
            .heartbeat_awake_ms
            .filter(|_| self.process.boot_id == process::boot_id())
            .and_then(|then| i64::try_from(clock.awake_ms().saturating_sub(then)).ok())
            .map(SignedDuration::from_millis);
        let silent = awake.unwrap_or(on_the_wall);
        let health = if silent > STALE_AFTER { HolderHealth::Hung } else { HolderHealth::Alive };
        Held { holder: self, health, silent_s: silent.as_secs() }
    }
}

/// Why the lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run is in progress.
    #[error("{}", describe(.holder.as_deref(), *.now))]
    Held {
        /// The holder, as far as it could be read.
        holder: Option<Box<Held>>,
        /// Time of the attempt.
        now: Timestamp,
    },
    /// The lock file cannot be used.
    #[error("cannot use the lock file {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

fn describe(held: Option<&Held>, now: Timestamp) -> String {
    let Some(Held { holder, health, silent_s }) = held else {
        return "another run on this state is starting or ending; try again".into();
    };
    let pid = holder.process.pid;
    if holder.is_elsewhere(&own_host(), now) {
        return format!(
            "another machine is running on this state: {} (process {pid}, {}), with \
             a heartbeat at {}. Two machines cannot share a state folder: give each its own with \
             --state-dir. If that machine is gone, run again in two minutes",
            holder.host,
            holder.purpose,
            holder.heartbeat.strftime("%F %T UTC"),
        );
    }
    let since = holder.since.strftime("%F %T UTC");
    match health {
        HolderHealth::Alive => format!(
            "another run on this state is in progress: process {pid} ({}), since {since} ({} s ago), \
             alive ({silent_s} s since its last heartbeat). Nothing was started",
            holder.purpose,
            now.duration_since(holder.since).as_secs(),
        ),
        HolderHealth::Hung => format!(
            "another run on this state is hung: process {pid} ({}), since {since}, has sent no \
             heartbeat for {silent_s} s. End it with `kill -9 {pid}` and run again; its sessions end \
             automatically",
            holder.purpose,
        ),
    }
}

fn is_starting(held: &Held) -> bool {
    held.holder.purpose == STARTING
}

/// The right to run on a state, until it is dropped.
#[derive(Debug)]
pub struct RunLock {
    file: File,
    path: PathBuf,
    holder: Holder,
}

impl RunLock {
    /// Like [`Self::acquire`], but waits for a service that is just starting: it holds the lock for
    /// a moment without a run, so a run that a person starts then has no reason to be refused.
    pub async fn acquire_after_start(
        folder: &Path,
        purpose: &str,
        run: Option<RunId>,
        clock: &Clock,
    ) -> Result<Self, LockError> {
        let mut waited = Duration::ZERO;
        loop {
            match Self::acquire(folder, purpose, run, clock) {
                Err(LockError::Held { holder, .. })
                    if waited < START_TIMEOUT && holder.as_deref().is_none_or(is_starting) => {}
                other => return other,
            }
            tokio::time::sleep(LOOK_EVERY).await;
            waited += LOOK_EVERY;
        }
    }

    /// Takes the lock or returns its holder. Never waits. `run` is set if the lock is for a run.
    pub fn acquire(
        folder: &Path,
        purpose: &str,
        run: Option<RunId>,
        clock: &Clock,
    ) -> Result<Self, LockError> {
        let path = folder.join(LOCK);
        let io = |source| LockError::Io { path: path.clone(), source };
        let mut file = private::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io)?;
        let held = |holder: Option<Holder>| LockError::Held {
            holder: holder.map(|holder| Box::new(holder.seen(clock))),
            now: clock.now(),
        };
        if !exclusive::try_take(&file).map_err(io)? {
            return Err(held(read_holder(&mut file).filter(Holder::is_credible)));
        }
        let (now, host) = (clock.now(), own_host());
        // The kernel's lock may not reach another machine; a fresh heartbeat from there shows that
        // it runs.
        if let Some(holder) =
            read_holder(&mut file).filter(|holder| holder.is_elsewhere(&host, now))
        {
            return Err(held(Some(holder)));
        }
        let holder = Holder {
            process: process::own_identity(),
            purpose: purpose.into(),
            run,
            since: now,
            heartbeat: now,
            heartbeat_awake_ms: Some(clock.awake_ms()),
            host,
        };
        let mut lock = Self { file, path: path.clone(), holder };
        lock.write().map_err(io)?;
        Ok(lock)
    }

    /// The holder of this state's lock, if there is one. Takes and writes nothing, so it never
    /// blocks a run.
    pub fn look(folder: &Path, clock: &Clock) -> Result<Option<Held>, LockError> {
        let path = folder.join(LOCK);
        let look = || -> io::Result<Option<Holder>> {
            let mut file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let taken = exclusive::may_be_taken(&file)?;
            Ok(read_holder(&mut file).filter(|holder| taken && holder.is_credible()))
        };
        match look() {
            Ok(holder) => Ok(holder.map(|holder| holder.seen(clock))),
            Err(source) => Err(LockError::Io { path, source }),
        }
    }

    /// Renews the heartbeat forever; run it next to the work and drop it with it. It is a task on
    /// the same event loop, so a hung loop shows as a stale heartbeat.
    pub async fn keep_fresh(&mut self, clock: &Clock) -> Infallible {
        let mut every = tokio::time::interval(RENEW_EVERY);
        loop {
            every.tick().await;
            self.holder.heartbeat = clock.now();
            self.holder.heartbeat_awake_ms = Some(clock.awake_ms());
            if let Err(error) = self.write() {
                tracing::warn!(path = %self.path.display(), %error, "could not write the lock's heartbeat");
            }
        }
    }

    /// One write of a fixed length, so that a reader never sees a mix of two versions.
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
    /// Clears the content. After a crash it stays, but the kernel frees the lock.
    fn drop(&mut self) {
        if let Err(error) = self.file.set_len(0) {
            tracing::debug!(%error, "could not clear the lock file; it still names its last holder");
        }
    }
}

/// The name of this machine; empty if it is unknown.
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

    fn take(folder: &Path, purpose: &str, clock: &Clock) -> Result<RunLock, LockError> {
        RunLock::acquire(folder, purpose, None, clock)
    }

    fn clock() -> Clock {
        Clock::manual("2026-11-16T08:00:00Z".parse().unwrap())
    }

    #[test]
    fn the_second_is_refused_with_the_holder_and_since_when() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let _first = take(folder.path(), "--once", &clock).unwrap();
        clock.advance_ms(90_000);
        let error = take(folder.path(), "daemon", &clock).unwrap_err();
        let text = error.to_string();
        let own = std::process::id();
        let who = format!("process {own} (--once), since 2026-11-16 08:00:00 UTC");
        assert!(text.contains(&who), "{text}");
        assert!(text.contains("alive (90 s since its last heartbeat)"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_waits_for_a_service_that_starts_and_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let wait = |purpose| RunLock::acquire_after_start(folder.path(), purpose, None, &clock);
        let starting = take(folder.path(), STARTING, &clock).unwrap();
        let (run, ()) = tokio::join!(wait("--once"), async {
            tokio::time::sleep(LOOK_EVERY * 3).await;
            drop(starting);
        });
        let began = tokio::time::Instant::now();
        let error = wait("second").await.unwrap_err().to_string();
        assert!(error.contains("(--once)") && began.elapsed().is_zero(), "{error}");
        drop(run.unwrap());
        let _stuck = take(folder.path(), STARTING, &clock).unwrap();
        let error = wait("third").await.unwrap_err().to_string();
        assert!(error.contains("(start)") && began.elapsed() >= START_TIMEOUT, "{error}");
    }

    #[test]
    fn a_stale_heartbeat_is_reported_as_hung() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let _first = take(folder.path(), "--once", &clock).unwrap();
        clock.advance_ms(121_000);
        let error = take(folder.path(), "--once", &clock).unwrap_err();
        assert!(error.to_string().contains("is hung: process"), "{error}");
        let LockError::Held { holder: Some(held), .. } = error else { panic!() };
        assert_eq!(held.health, HolderHealth::Hung);
    }

    #[tokio::test(start_paused = true)]
    async fn the_heartbeat_is_renewed_every_thirty_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let mut lock = take(folder.path(), "--once", &clock).unwrap();
        for _ in 0..10 {
            clock.advance_ms(60_000);
            let renewing = tokio::time::timeout(Duration::from_secs(31), lock.keep_fresh(&clock));
            assert!(renewing.await.is_err(), "renewing never ends by itself");
            let held = RunLock::look(folder.path(), &clock).unwrap().unwrap();
            assert_eq!(held.holder.heartbeat, clock.now());
            assert_eq!((held.health, held.silent_s), (HolderHealth::Alive, 0));
        }
    }

    #[test]
    fn a_fresh_heartbeat_from_another_machine_is_believed_and_a_stale_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let elsewhere = Holder {
            process: crate::process::own_identity(),
            purpose: "schedule".into(),
            run: None,
            since: clock.now(),
            heartbeat: clock.now(),
            heartbeat_awake_ms: None,
            host: "build-7".into(),
        };
        // Another machine that our lock does not reach.
        std::fs::write(folder.path().join(LOCK), serde_json::to_string(&elsewhere).unwrap())
            .unwrap();
        let error = take(folder.path(), "--once", &clock).unwrap_err();
        assert!(
            error.to_string().contains("another machine is running on this state: build-7"),
            "{error}"
        );
        clock.advance_ms(121_000);
        drop(take(folder.path(), "--once", &clock).unwrap());
        let left = std::fs::read_to_string(folder.path().join(LOCK)).unwrap();
        assert_eq!(left, "", "a lock that was given back names nobody");
    }

    #[test]
    fn after_a_hung_holder_is_gone_the_next_run_works() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let hung = take(folder.path(), "--once", &clock).unwrap();
        clock.advance_ms(600_000);
        // As when a process dies: its descriptors close, the lock is free.
        drop(hung);
        assert_eq!(RunLock::look(folder.path(), &clock).unwrap(), None);
        take(folder.path(), "--once", &clock).unwrap();
    }

    #[test]
    fn a_machine_that_slept_for_hours_makes_no_healthy_run_look_hung() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let _run = take(folder.path(), "--once", &clock).unwrap();
        clock.sleep_ms(8 * 3_600_000);
        clock.advance_ms(20_000);
        let held = RunLock::look(folder.path(), &clock).unwrap().unwrap();
        assert_eq!((held.health, held.silent_s), (HolderHealth::Alive, 20));
        let refused = take(folder.path(), "--once", &clock).unwrap_err().to_string();
        assert!(refused.contains("alive (20 s") && !refused.contains("kill -9"), "{refused}");
        clock.advance_ms(101_000);
        let held = RunLock::look(folder.path(), &clock).unwrap().unwrap();
        assert_eq!(held.health, HolderHealth::Hung, "two minutes awake are two minutes");
    }

    #[test]
    fn a_look_is_in_nobodys_way_and_neither_is_a_foreign_lock_on_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        drop(take(folder.path(), "--once", &clock).unwrap());
        // While this exists, a conflicting lock could not be taken.
        let file = File::open(folder.path().join(LOCK)).unwrap();
        file.try_lock_shared().unwrap();
        assert_eq!(RunLock::look(folder.path(), &clock).unwrap(), None);
        let run = take(folder.path(), "--once", &clock).unwrap();
        assert!(RunLock::look(folder.path(), &clock).unwrap().is_some());
        drop(run);
    }

    #[test]
    fn the_words_of_a_dead_holder_are_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let mut run = take(folder.path(), "--once", &clock).unwrap();
        run.holder.process.start_time += 1;
        run.write().unwrap();
        assert_eq!(RunLock::look(folder.path(), &clock).unwrap(), None);
        let refused = take(folder.path(), "--once", &clock).unwrap_err().to_string();
        assert!(refused.contains("is starting or ending"), "{refused}");
    }
}
