//! The daemon: runs on schedule until a signal stops it.
//!
//! Each iteration of the loop does what is due and then waits for the next event: a wake-up, a
//! request, a signal, the end of a run. What is due is decided from the wall clock and the stored
//! ticks, so a late, doubled or lost wake-up has no effect and no scheduled time is used twice.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc::Receiver;
use tokio_util::task::TaskTracker;

use super::demo::{self, DemoMode, Fresh};
use super::early::Early;
use super::error::CommandError;
use super::exit::Code;
use super::integrity::IntegrityCheck;
use super::logging::{self, Purpose};
use super::running::{self, Running};
use super::setting::{claim_state, ensure_configured, load_request};
use super::signals::SignalRequest;
use super::timetable::Timetable;
use super::waker::{MAX_SLEEP, Pace, WakeSource};
use super::web::{AnnounceOptions, Requests, RunRequest, RunRequests};
use super::{Notifier, Setting, Signals, StartOptions, after_run, digest, pings, silence, startup};
use crate::config::{Changed, Reload, Reloader};
use crate::event::{Event, Sink, Trigger};
use crate::model::RunId;
use crate::report::terminal::Progress;
use crate::schedule::{Decision, day_in};
use crate::settings::Config;
use crate::store::{Journal, LockError, RunLock, SchedulerMark, Store, TickRow};

const RETRY_STATE_AFTER: Duration = Duration::from_secs(5);

struct Daemon<F> {
    reloader: Reloader,
    make: F,
    setting: Setting,
    timetable: Timetable,
    journal: Journal,
    running: Option<Running>,
    progress: Progress,
    /// Size, time and path of the configuration file when it was last read.
    stamp: Option<ConfigStamp>,
    /// The last reported configuration error: each is reported once.
    config_fault: Option<String>,
    /// Changed keys that need a restart, as last reported.
    waiting: Vec<String>,
    /// The last reported error of the state database.
    store_fault: Option<String>,
    integrity: IntegrityCheck,
    notifier: Notifier,
    silence_checked: Option<Timestamp>,
    /// An event that a tracker sent, until a run has followed it.
    early: Early,
    /// Reports and webhooks of finished runs.
    reports: TaskTracker,
}

type ConfigStamp = (u64, Option<std::time::SystemTime>, PathBuf);

/// Runs on schedule until a signal; returns the exit code for that signal. If it cannot, the monitor
/// is told why.
pub async fn follow(options: &StartOptions) -> Result<Code, CommandError> {
    let ended = Box::pin(follow_schedule(options)).await;
    if let Err(error) = &ended {
        pings::cannot_run(options, None, error).await;
    }
    ended
}

async fn follow_schedule(options: &StartOptions) -> Result<Code, CommandError> {
    let demo = match options.demo {
        true => Some(demo::start(options, Fresh::Yes, DemoMode::Schedule).await?),
        false => None,
    };
    if let Some(demo) = &demo {
        demo.simulate_users();
    }
    let request = match &demo {
        Some(demo) => demo.request.clone(),
        None => load_request(&options.overrides, &options.environment)?,
    };
    let reloader = Reloader::start(request.clone())?;
    ensure_configured(reloader.current())?;
    let telemetry = logging::start(&reloader.current().config, options, Purpose::Service)?;
    super::guard_children();
    let make = |config: Config| {
        let credential = demo.as_ref().and_then(|demo| demo.setting.credentials.first().cloned());
        let setting = Setting::new(config, options, credential, &request.cwd)?;
        Ok(Setting { telemetry: telemetry.clone(), ..setting })
    };
    let code = Box::pin(serve(reloader, make, options)).await;
    telemetry.clone().finish().await;
    if let Some(demo) = demo {
        demo.simulator.stop().await;
    }
    code
}

async fn serve<F>(reloader: Reloader, make: F, options: &StartOptions) -> Result<Code, CommandError>
where
    F: Fn(Config) -> Result<Setting, CommandError>,
{
    // Without a terminal, the log shows the progress.
    let progress = match options.progress {
        Progress::Lines => Progress::Silent,
        other => other,
    };
    let mut setting = make(reloader.current().config.clone())?;
    claim_state(&setting.config, options, &setting.state)?;
    let journal = Journal::open(Store::open(&setting.state)?, setting.clock.clone(), None)?;
    // Held until exit: `status` shows a next run only while a scheduler is running.
    let _mark = SchedulerMark::set(&setting.state)
        .map_err(CommandError::io("cannot write the scheduler mark in the state folder"))?;
    let timetable = Timetable::new(&setting.config, setting.clock.now())?;
    let mut signals = Signals::listen()?;
    let pace = Pace::of(&timetable.schedule);
    let mut waker = WakeSource::start(pace).await.map_err(|error| CommandError::Io {
        what: "cannot start the scheduler".into(),
        source: std::io::Error::other(error),
    })?;
    let (runs, mut requested) = tokio::sync::mpsc::channel(1);
    let (events, mut happened) = tokio::sync::mpsc::channel(1);
    let requests = Requests { runs, events };
    let announce_options = AnnounceOptions::service(options);
    let dashboard =
        super::web::serve(&mut setting, Some(requests), announce_options, progress).await?;
    setting.observers.subscribe(&journal);
    let stamp = stamp(&reloader);
    startup::forget_config_faults(&journal).await?;
    startup::recover_on_start(&setting, &journal).await?;
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
        integrity: IntegrityCheck::default(),
        notifier,
        silence_checked: None,
        early: Early::default(),
        reports: TaskTracker::new(),
    };
    daemon.run(&mut signals, &mut waker, (&mut requested, &mut happened)).await;
    daemon.finish_reports().await;
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
    /// Loops until a signal. An error does not end the loop, because a run in progress must be
    /// ended properly.
    async fn run(
        &mut self,
        signals: &mut Signals,
        waker: &mut WakeSource,
        (requests, events): (&mut RunRequests, &mut Receiver<()>),
    ) {
        loop {
            let sleep = match self.act().await {
                Ok(sleep) => {
                    self.state_recovered();
                    sleep
                }
                Err(error) => {
                    self.state_failed(&error);
                    RETRY_STATE_AFTER
                }
            };
            // Zero: something was done, and the next step is not decided yet.
            if sleep > Duration::ZERO {
                waker.expect_in(sleep).await;
            }
            self.setting.observers.beat();
            self.notify_watchdog().await;
            let sleep = self.notifier.cap_sleep(sleep);
            tokio::select! {
                Some(request) = requests.recv() => self.accept(request),
                Some(()) = events.recv() => self.early.note(self.setting.clock.now()),
                _ = waker.woken(sleep) => self.reload_config(ReloadWhen::Changed),
                () = running::ended(&mut self.running) => {}
                asked = signals.next() => match asked {
                    SignalRequest::Reload => self.reload_config(ReloadWhen::Always),
                    SignalRequest::Stop => return self.stop(signals).await,
                },
            }
        }
    }

    /// Does what is due and stores observations. Returns how long nothing will be due.
    async fn act(&mut self) -> Result<Duration, CommandError> {
        if self.running.is_none() {
            let (store, now) = (self.journal.store(), self.setting.clock.now());
            if let Some(damage) = self.integrity.run_if_due(store, now).await {
                self.setting.observers.report_fault(Some(damage.clone()));
                // No run is started on it: what it would store may be lost with it.
                return Ok(RETRY_STATE_AFTER);
            }
            // A fault of the last turn stays until this one has worked.
            if self.store_fault.is_none() {
                self.setting.observers.report_fault(None);
            }
        }
        let sleep = self.decide().await?;
        let sleep = sleep.min(self.start_early().await?);
        self.journal.flush().await?;
        if self.running.is_none() {
            self.notice_silence();
        }
        Ok(sleep)
    }

    /// Starts the run that events of a tracker asked for, if it is time. Returns how long it is not.
    async fn start_early(&mut self) -> Result<Duration, CommandError> {
        let (now, interval) = (self.setting.clock.now(), self.setting.config.http.min_interval);
        match self.early.wait(now, interval) {
            None => Ok(MAX_SLEEP),
            // Its end wakes the loop, and the event is not forgotten.
            Some(_) if self.running.is_some() => Ok(MAX_SLEEP),
            Some(wait) if wait > Duration::ZERO => Ok(wait),
            Some(_) if self.journal.ticks().pause_state().await?.is_some() => {
                self.early.forget();
                Ok(MAX_SLEEP)
            }
            Some(_) => {
                self.reload_config(ReloadWhen::Always);
                let id = RunId(uuid::Uuid::now_v7());
                match self.take_lock("event", id) {
                    // As the schedule would have started it, only earlier.
                    Ok(lock) => self.start(id, Trigger::Schedule, lock),
                    // Another process reads the tracker now; whatever it misses, the schedule reads.
                    Err(LockError::Held { .. }) => self.early.forget(),
                    Err(error) => return Err(error.into()),
                }
                Ok(MAX_SLEEP)
            }
        }
    }

    /// In the background: a webhook that does not answer holds up nothing.
    fn notice_silence(&mut self) {
        let now = self.setting.clock.now();
        let is_due = |last: Timestamp| now.duration_since(last) >= silence::EVERY || now < last;
        let digest = |last| digest::is_due(&self.setting.config, last, now);
        if !self.silence_checked.is_none_or(|last| is_due(last) || digest(last)) {
            return;
        }
        self.silence_checked = Some(now);
        let (setting, store) = (self.setting.clone(), self.journal.store().clone());
        let (schedule, since) = (self.timetable.schedule.clone(), self.timetable.since);
        self.reports.spawn(async move {
            silence::tell(&setting, &store, Some((&schedule, since))).await;
            digest::send_if_due(&setting, &store).await;
        });
    }

    /// Logged once, shown in `/health`, and retried.
    fn state_failed(&mut self, error: &CommandError) {
        let message = error.to_string();
        if self.store_fault.as_ref() != Some(&message) {
            tracing::error!(error = %message, "cannot use the state database; will retry");
            if let Some(monitor) = pings::monitor_of(&self.setting) {
                let (signal, text) = pings::failure(&self.setting, error.code(), &message);
                self.reports.spawn(async move { monitor.tell(signal, None, &text).await });
            }
        }
        self.setting.observers.report_fault(Some(message.clone()));
        self.store_fault = Some(message);
    }

    fn state_recovered(&mut self) {
        if self.store_fault.take().is_some() {
            tracing::info!("the state database is usable again");
            self.setting.observers.report_fault(self.integrity.damage().cloned());
        }
    }

    async fn decide(&mut self) -> Result<Duration, CommandError> {
        let now = self.setting.clock.now();
        let schedule = self.timetable.schedule.key();
        let running = self.running.as_ref().map(|running| running.id);
        let tick = |nominal, missed| TickRow { schedule, nominal, run: None, missed };
        let settled = match self.timetable.decide(self.journal.store(), now, running).await? {
            Decision::Fire { nominal, missed } => {
                let tick = tick(nominal, missed);
                match self.journal.ticks().pause_state().await? {
                    Some(_) => self.pass_over(tick).await?,
                    None => self.fire(tick).await?,
                }
            }
            Decision::Skip { nominal, blocked_by, missed } => {
                self.skip_tick(tick(nominal, missed), Some(blocked_by)).await?
            }
            Decision::Drop { nominal, missed } => {
                self.skip_tick(tick(nominal, missed), None).await?
            }
            Decision::Wait { until, .. } => {
                return Ok(Duration::try_from(until.duration_since(now)).unwrap_or_default());
            }
            Decision::Never => return Ok(MAX_SLEEP),
        };
        // Another process used this time.
        Ok(if settled { Duration::ZERO } else { self.timetable.until_next(now) })
    }

    /// Takes the run lock, marks the scheduled time as used, then starts: a time is marked only if
    /// a run follows, and is never used twice. False if another process used it.
    async fn fire(&mut self, tick: TickRow) -> Result<bool, CommandError> {
        self.reload_config(ReloadWhen::Always);
        let id = RunId(uuid::Uuid::now_v7());
        match self.take_lock("schedule", id) {
            Ok(lock) => {
                let used = self.journal.ticks().take(TickRow { run: Some(id), ..tick }).await?;
                if used {
                    self.start(id, Trigger::Schedule, lock);
                }
                Ok(used)
            }
            Err(LockError::Held { holder, .. }) => {
                let blocked_by = holder.and_then(|held| held.holder.run);
                self.skip_tick(tick, blocked_by).await
            }
            Err(error) => Err(error.into()),
        }
    }

    fn take_lock(&self, purpose: &str, run: RunId) -> Result<RunLock, LockError> {
        RunLock::acquire(&self.setting.state, purpose, Some(run), &self.setting.clock)
    }

    /// Marks a scheduled time of a paused schedule as used without a run, so that it is not run
    /// late after `resume`. False if another process used it.
    async fn pass_over(&self, tick: TickRow) -> Result<bool, CommandError> {
        let nominal = tick.nominal;
        let passed = self.journal.ticks().take(tick).await?;
        if passed {
            tracing::info!(%nominal, "the schedule is paused; no run is started");
        }
        Ok(passed)
    }

    fn start(&mut self, id: RunId, trigger: Trigger, lock: RunLock) {
        let running =
            Running::start(&self.setting, id, trigger, lock, self.progress, &self.reports);
        self.running = Some(running);
        self.early.run_started(self.setting.clock.now());
    }

    /// Notifies the service manager's watchdog after a write probe of the state.
    async fn notify_watchdog(&mut self) {
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
        let next = match store.ticks().pause_state().await? {
            Some(_) => "paused".into(),
            None => next.map_or_else(|| "never".into(), |next| next.to_string()),
        };
        let (most, spent) = (config.limits.max_live_sessions, today.committed());
        Ok(format!(
            "{live}/{most} sessions, next {next}, {spent} of {} today",
            config.budget.per_day
        ))
    }

    async fn finish_reports(&self) {
        self.reports.close();
        if tokio::time::timeout(after_run::DELIVERY_TIMEOUT, self.reports.wait()).await.is_err() {
            tracing::error!(
                "the webhook or the search for fixes took too long and was abandoned; the next run tries again"
            );
        }
    }

    /// Starts a run requested by a person. The lock is taken before the answer is sent, so the
    /// answer is reliable.
    fn accept(&mut self, request: RunRequest) {
        let id = RunId(uuid::Uuid::now_v7());
        let answer = match &self.running {
            Some(running) => Err(format!("run {} is in progress", running.id)),
            None => match self.take_lock("run now", id) {
                Ok(lock) => {
                    self.start(id, Trigger::Manual, lock);
                    Ok(id)
                }
                Err(error) => Err(error.to_string()),
            },
        };
        // The requester may be gone.
        request.send(answer).ok();
    }

    async fn skip_tick(
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

    /// Reads the configuration again. A run in progress keeps the one it started with; an invalid
    /// file is reported once, and the last valid configuration stays in use.
    fn reload_config(&mut self, when: ReloadWhen) {
        let stamp = stamp(&self.reloader);
        if when == ReloadWhen::Changed && stamp == self.stamp {
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

    /// Applies new values if everything can be built from them.
    fn adopt(&mut self, changed: Changed) -> Result<(), CommandError> {
        let Changed { loaded, keys, need_restart } = changed;
        let setting = (self.make)(loaded.config.clone())?;
        if keys.iter().any(|key| key.starts_with("schedule.")) {
            self.timetable = Timetable::new(&setting.config, setting.clock.now())?;
        }
        self.reloader.keep(loaded);
        // The state folder stays: moving it needs a restart.
        self.setting = Setting {
            state: self.setting.state.clone(),
            cache: self.setting.cache.clone(),
            live: self.setting.live.clone(),
            observers: self.setting.observers.clone(),
            telemetry: self.setting.telemetry.clone(),
            ..setting
        };
        self.setting.observers.adopt(&self.setting.config);
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

    /// Ends the run in progress and stores observations.
    async fn stop(&mut self, signals: &mut Signals) {
        self.notifier.stopping();
        if let Some(running) = self.running.take() {
            running.stop(signals).await;
        }
        if let Err(error) = self.journal.flush().await {
            tracing::error!(%error, "could not store the last events");
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReloadWhen {
    Changed,
    Always,
}

fn stamp(reloader: &Reloader) -> Option<ConfigStamp> {
    let file = reloader.current().file.clone()?;
    let data = std::fs::metadata(&file).ok();
    let length = data.as_ref().map_or(0, std::fs::Metadata::len);
    Some((length, data.and_then(|data| data.modified().ok()), file))
}
