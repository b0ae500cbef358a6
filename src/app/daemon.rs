//! Following the schedule until asked to stop.
//!
//! The loop decides, starts and waits; it never awaits a run and never sleeps longer than its wake
//! source allows. When to fire is decided from the wall clock and the table of ticks, so that a
//! late, doubled or lost wake-up costs nothing and no scheduled time is used twice.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::error::CommandError;
use super::exit::Code;
use super::signals::Asked;
use super::watchers::Watchers;
use super::web::{Liked, RunWish, Wishes};
use super::{Notifier, Setting, Signals, aftermath, once, startup};
use crate::config::{Config, Reload, Reloader};
use crate::event::{Event, Sink, Trigger};
use crate::model::RunId;
use crate::report::terminal::Progress;
use crate::run::Ended;
use crate::schedule::waker::{Pace, WakeSource};
use crate::schedule::{Decision, Policy, Schedule, Situation, delay_on_host};
use crate::session::{StopHandle, StopReason};
use crate::store::{Journal, LockError, RunLock, TickRow};

/// A run that is going on.
struct Running {
    id: RunId,
    stop: StopHandle,
    task: JoinHandle<Result<Ended, CommandError>>,
}

/// The schedule in force.
struct InForce {
    schedule: Schedule,
    policy: Policy,
    since: Timestamp,
}

impl InForce {
    fn new(config: &Config, now: Timestamp) -> Result<Self, CommandError> {
        let schedule = Schedule::parse(&config.schedule.cron, &config.schedule.timezone)?;
        let delay = delay_on_host(&host(), &schedule, config.schedule.jitter);
        let policy = Policy { delay, catch_up: config.schedule.catch_up };
        Ok(Self { schedule, policy, since: now })
    }
}

/// A name that stays with this machine.
fn host() -> String {
    ["/etc/machine-id", "/proc/sys/kernel/hostname"]
        .iter()
        .find_map(|file| std::fs::read_to_string(file).ok())
        .unwrap_or_default()
}

struct Daemon<F> {
    reloader: Reloader,
    make: F,
    setting: Setting,
    in_force: InForce,
    journal: Journal,
    running: Option<Running>,
    progress: Progress,
    /// Size, time and place of the configuration file when it was last read.
    stamp: Option<Stamp>,
    /// The fault that was last told, so that it is told once.
    told_fault: Option<String>,
    /// The service manager.
    notifier: Notifier,
    /// Reports and webhooks of runs that are over.
    aftermath: TaskTracker,
}

type Stamp = (u64, Option<std::time::SystemTime>, PathBuf);

/// Runs on schedule until a signal asks to stop; returns the exit code that tells which.
pub async fn follow<F>(
    reloader: Reloader,
    make: F,
    progress: Progress,
    liked: Liked,
) -> Result<Code, CommandError>
where
    F: Fn(Config) -> Result<Setting, CommandError>,
{
    let mut setting = make(reloader.current().config.clone())?;
    let journal = Journal::open(setting.open_store()?, setting.clock.clone(), None)?;
    let in_force = InForce::new(&setting.config, setting.clock.now())?;
    let mut signals = Signals::listen()?;
    let pace = Pace::of(&in_force.schedule);
    let mut waker = WakeSource::start(pace).await.map_err(|error| CommandError::Io {
        what: "no wake-ups".into(),
        source: std::io::Error::other(error),
    })?;
    let (wishes, mut wished) = tokio::sync::mpsc::channel(1);
    let dashboard = super::web::serve(&mut setting, Some(wishes), liked, progress).await?;
    setting.audience.attend(&journal);
    let stamp = stamp(&reloader);
    startup::settle_the_past(&setting, &journal).await?;
    let mut notifier = Notifier::from_environment(&setting.environment);
    notifier.ready();
    let mut daemon = Daemon {
        reloader,
        make,
        setting,
        in_force,
        journal,
        running: None,
        progress,
        stamp,
        told_fault: None,
        notifier,
        aftermath: TaskTracker::new(),
    };
    let ended = daemon.run(&mut signals, &mut waker, &mut wished).await;
    daemon.finish_aftermath().await;
    if let Some(dashboard) = dashboard {
        dashboard.stop().await;
    }
    waker.shutdown().await;
    ended?;
    Ok(signals.stopped_by().unwrap_or(Code::Terminated))
}

impl<F> Daemon<F>
where
    F: Fn(Config) -> Result<Setting, CommandError>,
{
    async fn run(
        &mut self,
        signals: &mut Signals,
        waker: &mut WakeSource,
        wished: &mut Wishes,
    ) -> Result<(), CommandError> {
        loop {
            let nap = self.decide().await?;
            self.setting.audience.turned();
            self.feed_watchdog().await;
            let nap = self.notifier.nap(nap);
            tokio::select! {
                Some(wish) = wished.recv() => self.grant(wish),
                _ = waker.woken(nap) => self.look_at_config(Look::IfChanged).await?,
                ended = finished(&mut self.running) => {
                    self.running = None;
                    tell_end(ended);
                }
                asked = signals.next() => match asked {
                    Asked::Reload => self.look_at_config(Look::Always).await?,
                    Asked::Stop => return self.stop(signals).await,
                },
            }
        }
    }

    /// Acts on what is due; returns how long nothing will be.
    async fn decide(&mut self) -> Result<Duration, CommandError> {
        let now = self.setting.clock.now();
        let key = self.in_force.schedule.key();
        let situation = Situation {
            now,
            last_handled: self.journal.store().last_tick(key.clone()).await?,
            in_force_since: self.in_force.since,
            running: self.running.as_ref().map(|running| running.id),
        };
        match self.in_force.schedule.decide(self.in_force.policy, situation) {
            Decision::Fire { nominal, missed } => self.fire(key, nominal, missed).await?,
            Decision::Skip { nominal, blocked_by, missed } => {
                self.pass_over(key, nominal, Some(blocked_by), missed).await?;
            }
            Decision::Lapse { nominal, missed } => {
                self.pass_over(key, nominal, None, missed).await?;
            }
            Decision::Wait { until, .. } => {
                return Ok(Duration::try_from(until.duration_since(now)).unwrap_or_default());
            }
            Decision::Never => return Ok(Duration::from_secs(30)),
        }
        Ok(Duration::ZERO)
    }

    /// The scheduled time is used up before anything starts, so that nobody can use it again.
    async fn fire(
        &mut self,
        schedule: String,
        nominal: Timestamp,
        missed: u32,
    ) -> Result<(), CommandError> {
        self.look_at_config(Look::Always).await?;
        let id = RunId(uuid::Uuid::now_v7());
        let tick = TickRow { schedule, nominal, run: Some(id), missed };
        if self.journal.use_tick(tick).await? {
            self.running = Some(self.start(id, Trigger::Schedule, None));
        }
        Ok(())
    }

    /// `lock` is taken by the run itself unless it was taken for it.
    fn start(&self, id: RunId, trigger: Trigger, lock: Option<RunLock>) -> Running {
        let stop = StopHandle::new();
        let (setting, handle, progress) = (self.setting.clone(), stop.clone(), self.progress);
        let aftermath = self.aftermath.clone();
        let task = tokio::spawn(async move {
            let ended = run_once(&setting, id, trigger, lock, handle, progress).await;
            if ended.is_ok() {
                // Beside the next run, never before it.
                aftermath.spawn(async move {
                    match setting.open_store() {
                        Ok(store) => aftermath::after_run(&setting, &store, id).await,
                        Err(error) => tracing::error!(%error, "no report could be made"),
                    }
                });
            }
            ended
        });
        Running { id, stop, task }
    }

    /// The watchdog is fed only here: the loop has just turned, and the state has just been locked
    /// for writing.
    async fn feed_watchdog(&mut self) {
        if !self.notifier.is_due() {
            return;
        }
        let store = self.journal.store();
        match store.prove_alive().await {
            Ok(()) => self.notifier.alive(),
            Err(error) => {
                tracing::error!(%error, "the state gives no sign of life; the watchdog is not fed");
            }
        }
        if let Ok(status) = self.status().await {
            self.notifier.status(&status);
        }
    }

    /// Such as `2/3 sessions, next 2026-11-16T14:00:00Z, $1.20 of $20.00 today`.
    async fn status(&self) -> Result<String, CommandError> {
        let (store, config) = (self.journal.store(), &self.setting.config);
        let now = self.setting.clock.now();
        let live = store.active_sessions().await?.len();
        let today = store.spending_on(now.strftime("%F").to_string()).await?;
        let next = self.in_force.schedule.next_after(now);
        let next = next.map_or_else(|| "never".into(), |next| next.to_string());
        let (most, spent) = (config.limits.max_live_sessions, today.committed());
        Ok(format!(
            "{live}/{most} sessions, next {next}, {spent} of {} today",
            config.budget.per_day
        ))
    }

    async fn finish_aftermath(&self) {
        self.aftermath.close();
        if tokio::time::timeout(aftermath::PATIENCE, self.aftermath.wait()).await.is_err() {
            tracing::error!("a webhook did not answer in time");
        }
    }

    /// A person asks for a run. One at a time, also for persons: the lock is taken before the
    /// answer, so that what was promised happens.
    fn grant(&mut self, wish: RunWish) {
        let free = match &self.running {
            Some(running) => Err(format!("run {} is going on", running.id)),
            None => once::take_lock(&self.setting, "run now").map_err(|error| error.to_string()),
        };
        let answer = free.map(|lock| {
            let id = RunId(uuid::Uuid::now_v7());
            self.running = Some(self.start(id, Trigger::Manual, Some(lock)));
            id
        });
        // Whoever asked may have gone away.
        wish.send(answer).ok();
    }

    async fn pass_over(
        &self,
        schedule: String,
        nominal: Timestamp,
        blocked_by: Option<RunId>,
        missed: u32,
    ) -> Result<(), CommandError> {
        let tick = TickRow { schedule, nominal, run: None, missed };
        if self.journal.use_tick(tick).await? {
            self.journal.emit(Event::TickSkipped { nominal, blocked_by, missed });
            self.journal.flush().await?;
            tracing::warn!(%nominal, ?blocked_by, missed, "a scheduled time was passed over");
        }
        Ok(())
    }

    /// Reads the configuration again. A run that is going on keeps the one it started with; a
    /// broken file keeps the last good one in force, and is told.
    async fn look_at_config(&mut self, look: Look) -> Result<(), CommandError> {
        let stamp = stamp(&self.reloader);
        if look == Look::IfChanged && stamp == self.stamp {
            return Ok(());
        }
        self.stamp = stamp;
        let fault = match self.reloader.reload() {
            Ok(Reload::Unchanged) => None,
            Ok(Reload::Changed { keys, .. }) => self.adopt(&keys).err().map(|e| e.to_string()),
            Err(error) => Some(error.to_string()),
        };
        match (&fault, &self.told_fault) {
            (Some(message), told) if told.as_ref() != Some(message) => {
                tracing::error!(error = %message, "the configuration is broken; the last good one stays in force");
                self.journal.emit(Event::ConfigBroken { message: message.clone() });
            }
            (None, Some(_)) => {
                tracing::info!("the configuration is good again");
                self.journal.emit(Event::ConfigReloaded);
            }
            _ => {}
        }
        self.told_fault = fault;
        Ok(self.journal.flush().await?)
    }

    fn adopt(&mut self, keys: &[String]) -> Result<(), CommandError> {
        let config = self.reloader.current().config.clone();
        let setting = (self.make)(config)?;
        if keys.iter().any(|key| key.starts_with("schedule.")) {
            self.in_force = InForce::new(&setting.config, setting.clock.now())?;
        }
        // The state stays where it was opened: moving it needs a restart.
        self.setting = Setting {
            state: self.setting.state.clone(),
            cache: self.setting.cache.clone(),
            live: self.setting.live.clone(),
            audience: self.setting.audience.clone(),
            telemetry: self.setting.telemetry.clone(),
            ..setting
        };
        self.setting.audience.adopt(&self.setting.config);
        tracing::info!(?keys, "the configuration was read again");
        self.journal.emit(Event::ConfigReloaded);
        Ok(())
    }

    /// The first signal ends the run with its sessions; the second insists.
    async fn stop(&mut self, signals: &mut Signals) -> Result<(), CommandError> {
        self.notifier.stopping();
        let Some(mut running) = self.running.take() else { return Ok(()) };
        running.stop.stop(StopReason::Shutdown);
        loop {
            tokio::select! {
                ended = &mut running.task => {
                    tell_end(ended);
                    return Ok(());
                }
                asked = signals.next() => if asked == Asked::Stop {
                    running.stop.stop_now(StopReason::Shutdown);
                },
            }
        }
    }
}

/// How hard to look at the configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    IfChanged,
    Always,
}

fn stamp(reloader: &Reloader) -> Option<Stamp> {
    let file = reloader.current().file.clone()?;
    let data = std::fs::metadata(&file).ok();
    let length = data.as_ref().map_or(0, std::fs::Metadata::len);
    Some((length, data.and_then(|data| data.modified().ok()), file))
}

/// Waits for the run that is going on; for ever if there is none.
async fn finished(
    running: &mut Option<Running>,
) -> Result<Result<Ended, CommandError>, tokio::task::JoinError> {
    match running {
        Some(running) => (&mut running.task).await,
        None => std::future::pending().await,
    }
}

/// One scheduled run. Somebody's `--once` in the way is no failure: the time is passed over.
async fn run_once(
    setting: &Setting,
    id: RunId,
    trigger: Trigger,
    lock: Option<RunLock>,
    stop: StopHandle,
    progress: Progress,
) -> Result<Ended, CommandError> {
    let mut lock = lock.map_or_else(|| once::take_lock(setting, "schedule"), Ok)?;
    let journal = Journal::open(setting.open_store()?, setting.clock.clone(), Some(id))?;
    startup::close_crashed_runs(journal.store(), &setting.clock).await?;
    let watchers = Watchers::attach(setting, &journal, progress);
    let run = setting.run(trigger, journal, id, stop)?;
    let ended = tokio::select! {
        ended = run.perform().instrument(once::run_span(id)) => ended?,
        never = lock.keep_fresh(&setting.clock) => match never {},
    };
    once::tidy(setting, run.journal.store()).await;
    drop(run);
    watchers.finish().await;
    Ok(ended)
}

fn tell_end(ended: Result<Result<Ended, CommandError>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(ended)) => match ended.error {
            Some(error) => tracing::error!(outcome = ?ended.outcome, %error, "run ended"),
            None => tracing::info!(outcome = ?ended.outcome, summary = ?ended.summary, "run ended"),
        },
        Ok(Err(CommandError::Lock(LockError::Held { holder, .. }))) => {
            let pid = holder.map(|holder| holder.process.pid);
            tracing::warn!(pid, "a scheduled run found another one going on");
        }
        Ok(Err(error)) => tracing::error!(%error, "a run could not be started"),
        Err(panic) => tracing::error!(%panic, "a run ended in a panic"),
    }
}
