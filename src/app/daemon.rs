//! Following the schedule until asked to stop.
//!
//! The loop decides, starts and waits; it never awaits a run and never sleeps longer than its wake
//! source allows. When to fire is decided from the wall clock and the table of ticks, so that a
//! late, doubled or lost wake-up costs nothing and no scheduled time is used twice.

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::error::CommandError;
use super::exit::Code;
use super::signals::Asked;
use super::timetable::Timetable;
use super::waker::{LONGEST_SLEEP, Pace, WakeSource};
use super::watchers::Watchers;
use super::web::{Liked, RunWish, Wishes};
use super::{Notifier, Setting, Signals, aftermath, once, startup};
use crate::config::{Changed, Reload, Reloader};
use crate::event::{Event, Sink, Trigger};
use crate::model::RunId;
use crate::report::terminal::Progress;
use crate::run::{self, RunEnd};
use crate::schedule::{Decision, day_in};
use crate::session::{StopHandle, StopReason};
use crate::settings::Config;
use crate::store::{Journal, LockError, RunLock, TickRow};

/// A run that is going on.
struct Running {
    id: RunId,
    stop: StopHandle,
    task: JoinHandle<Result<RunEnd, CommandError>>,
}

/// How long to wait before a state that could not be used is tried again.
const AFTER_A_FAULT: Duration = Duration::from_secs(5);

struct Daemon<F> {
    reloader: Reloader,
    make: F,
    setting: Setting,
    timetable: Timetable,
    journal: Journal,
    running: Option<Running>,
    progress: Progress,
    /// Size, time and place of the configuration file when it was last read.
    stamp: Option<Stamp>,
    /// The fault of the configuration that was last told, so that it is told once.
    config_fault: Option<String>,
    /// Keys that wait for the next start, as they were last told.
    waiting: Vec<String>,
    /// Why the state could not be used when it was last tried.
    store_fault: Option<String>,
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
    let timetable = Timetable::new(&setting.config, setting.clock.now())?;
    let mut signals = Signals::listen()?;
    let pace = Pace::of(&timetable.schedule);
    let mut waker = WakeSource::start(pace).await.map_err(|error| CommandError::Io {
        what: "cannot start the scheduler".into(),
        source: std::io::Error::other(error),
    })?;
    let (wishes, mut wished) = tokio::sync::mpsc::channel(1);
    let dashboard = super::web::serve(&mut setting, Some(wishes), liked, progress).await?;
    setting.audience.attend(&journal);
    let stamp = stamp(&reloader);
    startup::forget_config_faults(&journal).await?;
    startup::settle_the_past(&setting, &journal).await?;
    let mut notifier = Notifier::from_environment(&setting.environment);
    notifier.ready();
    let mut daemon = Daemon {
        reloader,
        make,
        setting,
        timetable,
        journal,
        running: None,
        progress,
        stamp,
        config_fault: None,
        waiting: Vec::new(),
        store_fault: None,
        notifier,
        aftermath: TaskTracker::new(),
    };
    daemon.run(&mut signals, &mut waker, &mut wished).await;
    daemon.finish_aftermath().await;
    if let Some(dashboard) = dashboard {
        dashboard.stop().await;
    }
    waker.shutdown().await;
    Ok(signals.stopped_by().unwrap_or(Code::Terminated))
}

impl<F> Daemon<F>
where
    F: Fn(Config) -> Result<Setting, CommandError>,
{
    /// Turns until a signal asks to stop. Nothing that fails in a turn ends it: whatever is going on
    /// would be left without anybody who ends it well.
    async fn run(&mut self, signals: &mut Signals, waker: &mut WakeSource, wished: &mut Wishes) {
        loop {
            let nap = match self.turn().await {
                Ok(nap) => {
                    self.recovered();
                    nap
                }
                Err(error) => {
                    self.stumbled(&error);
                    AFTER_A_FAULT
                }
            };
            // Right after something was done, nobody knows yet what comes next.
            if nap > Duration::ZERO {
                waker.expect_in(nap).await;
            }
            self.setting.audience.turned();
            self.feed_watchdog().await;
            let nap = self.notifier.nap(nap);
            tokio::select! {
                Some(wish) = wished.recv() => self.grant(wish),
                _ = waker.woken(nap) => self.look_at_config(Look::IfChanged),
                ended = finished(&mut self.running) => {
                    self.running = None;
                    tell_end(ended);
                }
                asked = signals.next() => match asked {
                    Asked::Reload => self.look_at_config(Look::Always),
                    Asked::Stop => return self.stop(signals).await,
                },
            }
        }
    }

    /// Acts on what is due and stores what was observed; returns how long nothing will be due.
    async fn turn(&mut self) -> Result<Duration, CommandError> {
        let nap = self.decide().await?;
        self.journal.flush().await?;
        Ok(nap)
    }

    /// The state could not be used: told, shown in `/health`, and tried again.
    fn stumbled(&mut self, error: &CommandError) {
        let message = error.to_string();
        if self.store_fault.as_ref() != Some(&message) {
            tracing::error!(error = %message, "cannot use the state database; will retry");
        }
        self.setting.audience.tell_fault(Some(message.clone()));
        self.store_fault = Some(message);
    }

    fn recovered(&mut self) {
        if self.store_fault.take().is_some() {
            tracing::info!("the state database is usable again");
            self.setting.audience.tell_fault(None);
        }
    }

    async fn decide(&mut self) -> Result<Duration, CommandError> {
        let now = self.setting.clock.now();
        let schedule = self.timetable.schedule.key();
        let running = self.running.as_ref().map(|running| running.id);
        let tick = |nominal, missed| TickRow { schedule, nominal, run: None, missed };
        let settled = match self.timetable.decide(self.journal.store(), now, running).await? {
            Decision::Fire { nominal, missed } => self.fire(tick(nominal, missed)).await?,
            Decision::Skip { nominal, blocked_by, missed } => {
                self.pass_over(tick(nominal, missed), Some(blocked_by)).await?
            }
            Decision::Lapse { nominal, missed } => {
                self.pass_over(tick(nominal, missed), None).await?
            }
            Decision::Wait { until, .. } => {
                return Ok(Duration::try_from(until.duration_since(now)).unwrap_or_default());
            }
            Decision::Never => return Ok(LONGEST_SLEEP),
        };
        // A time that somebody else has used up is no reason to ask again at once.
        Ok(if settled { Duration::ZERO } else { self.timetable.until_next(now) })
    }

    /// The right to run comes first, so that a time is recorded as used only if a run follows. The
    /// time is used up before anything starts, so that nobody can use it again. False: it was.
    async fn fire(&mut self, tick: TickRow) -> Result<bool, CommandError> {
        self.look_at_config(Look::Always);
        let id = RunId(uuid::Uuid::now_v7());
        match once::take_lock(&self.setting, "schedule", Some(id)) {
            Ok(lock) => {
                let used = self.journal.ticks().take(TickRow { run: Some(id), ..tick }).await?;
                if used {
                    self.running = Some(self.start(id, Trigger::Schedule, lock));
                }
                Ok(used)
            }
            Err(CommandError::Lock(LockError::Held { holder, .. })) => {
                let blocked_by = holder.and_then(|held| held.holder.run);
                self.pass_over(tick, blocked_by).await
            }
            Err(error) => Err(error),
        }
    }

    fn start(&self, id: RunId, trigger: Trigger, lock: RunLock) -> Running {
        let stop = StopHandle::new();
        let (setting, handle, progress) = (self.setting.clone(), stop.clone(), self.progress);
        let aftermath = self.aftermath.clone();
        let task = tokio::spawn(async move {
            let ended = run_once(&setting, lock, id, trigger, handle, progress).await;
            if ended.is_ok() {
                // Beside the next run, never before it.
                aftermath.spawn(async move {
                    match setting.open_store() {
                        Ok(store) => aftermath::after_run(&setting, &store, id).await,
                        Err(error) => tracing::error!(%error, "could not build the report"),
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
        match store.check_writable().await {
            Ok(()) => self.notifier.alive(),
            Err(error) => {
                tracing::error!(%error, "state write probe failed; watchdog not notified");
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
        let live = store.sessions().active().await?.len();
        let today = store.budget().on_day(day_in(&config.schedule.timezone, now)).await?;
        let next = self.timetable.schedule.next_after(now);
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
            tracing::error!("webhook timed out");
        }
    }

    /// A person asks for a run. One at a time, also for persons: the lock is taken before the
    /// answer, so that what was promised happens.
    fn grant(&mut self, wish: RunWish) {
        let id = RunId(uuid::Uuid::now_v7());
        let answer = match &self.running {
            Some(running) => Err(format!("run {} is in progress", running.id)),
            None => match once::take_lock(&self.setting, "run now", Some(id)) {
                Ok(lock) => {
                    self.running = Some(self.start(id, Trigger::Manual, lock));
                    Ok(id)
                }
                Err(error) => Err(error.to_string()),
            },
        };
        // Whoever asked may have gone away.
        wish.send(answer).ok();
    }

    async fn pass_over(
        &self,
        tick: TickRow,
        blocked_by: Option<RunId>,
    ) -> Result<bool, CommandError> {
        let (nominal, missed) = (tick.nominal, tick.missed);
        let passed = self.journal.ticks().skip(tick, blocked_by).await?;
        if passed {
            tracing::warn!(%nominal, ?blocked_by, missed, "skipped a scheduled run");
        }
        Ok(passed)
    }

    /// Reads the configuration again. A run that is going on keeps the one it started with; a
    /// broken file keeps the last good one in force, and is told. What is told is stored with the
    /// next turn.
    fn look_at_config(&mut self, look: Look) {
        let stamp = stamp(&self.reloader);
        if look == Look::IfChanged && stamp == self.stamp {
            return;
        }
        self.stamp = stamp;
        let (adopted, fault) = match self.reloader.look() {
            Ok(Reload::Unchanged) => (false, None),
            Ok(Reload::Changed(changed)) => match self.adopt(*changed) {
                Ok(()) => (true, None),
                Err(error) => (false, Some(error.to_string())),
            },
            Err(error) => (false, Some(error.to_string())),
        };
        match &fault {
            Some(message) if self.config_fault.as_ref() != Some(message) => {
                tracing::error!(error = %message, "invalid configuration; keeping the last valid \
                                                   one");
                self.journal.emit(Event::ConfigBroken { message: message.clone() });
            }
            None if self.config_fault.is_some() => {
                tracing::info!("the configuration is valid again");
                self.journal.emit(Event::ConfigReloaded);
            }
            None if adopted => self.journal.emit(Event::ConfigReloaded),
            _ => {}
        }
        self.config_fault = fault;
    }

    /// Puts new values in force, if everything can be made from them.
    fn adopt(&mut self, changed: Changed) -> Result<(), CommandError> {
        let Changed { loaded, keys, need_restart } = changed;
        let setting = (self.make)(loaded.config.clone())?;
        if keys.iter().any(|key| key.starts_with("schedule.")) {
            self.timetable = Timetable::new(&setting.config, setting.clock.now())?;
        }
        self.reloader.keep(loaded);
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
        tracing::info!(?keys, "configuration reloaded");
        if self.waiting != need_restart {
            if !need_restart.is_empty() {
                tracing::warn!(keys = ?need_restart, "these keys take effect after a restart");
            }
            self.journal.emit(Event::RestartNeeded { keys: need_restart.clone() });
            self.waiting = need_restart;
        }
        Ok(())
    }

    /// The first signal ends the run with its sessions; the second insists.
    async fn stop(&mut self, signals: &mut Signals) {
        self.notifier.stopping();
        if let Some(mut running) = self.running.take() {
            running.stop.stop(StopReason::Shutdown);
            loop {
                tokio::select! {
                    ended = &mut running.task => break tell_end(ended),
                    asked = signals.next() => if asked == Asked::Stop {
                        running.stop.stop_now(StopReason::Shutdown);
                    },
                }
            }
        }
        if let Err(error) = self.journal.flush().await {
            tracing::error!(%error, "could not store the last events");
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
) -> Result<Result<RunEnd, CommandError>, tokio::task::JoinError> {
    match running {
        Some(running) => (&mut running.task).await,
        None => std::future::pending().await,
    }
}

/// One run, with the right to it.
async fn run_once(
    setting: &Setting,
    mut lock: RunLock,
    id: RunId,
    trigger: Trigger,
    stop: StopHandle,
    progress: Progress,
) -> Result<RunEnd, CommandError> {
    let journal = Journal::open(setting.open_store()?, setting.clock.clone(), Some(id))?;
    startup::close_crashed_runs(journal.store(), &setting.clock).await?;
    let watchers = Watchers::attach(setting, &journal, progress);
    let cx = setting.run_context(trigger, journal.clone(), id, stop)?;
    let ended = tokio::select! {
        ended = run::perform(&cx).instrument(once::run_span(id)) => ended?,
        never = lock.keep_fresh(&setting.clock) => match never {},
    };
    once::tidy(setting, journal.store()).await;
    drop((cx, journal));
    watchers.finish().await;
    Ok(ended)
}

fn tell_end(ended: Result<Result<RunEnd, CommandError>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(ended)) => match ended.error {
            Some(error) => tracing::error!(outcome = ?ended.outcome, %error, "run ended"),
            // Its end was told with its figures by the lines about runs.
            None => tracing::debug!(outcome = ?ended.outcome, "run ended"),
        },
        Ok(Err(error)) => tracing::error!(%error, "could not start a run"),
        Err(panic) => tracing::error!(%panic, "a run panicked"),
    }
}
