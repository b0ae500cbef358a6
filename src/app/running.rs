//! Performs runs: one run or a dry run for the command line, background tasks for the daemon.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::error::CommandError;
use super::exit::Code;
use super::fleet::FleetRun;
use super::logging::{self, Purpose};
use super::setting::claim_state;
use super::signals::SignalRequest;
use super::web::{self, AnnounceOptions};
use super::{
    Setting, Signals, StartOptions, TemporaryFolder, after_run, digest, lifecycle, pings, silence,
    verify,
};
use crate::event::fold::RunView;
use crate::event::{RunOutcome, Trigger};
use crate::model::RunId;
use crate::outbound::ping::RunPings;
use crate::report::live;
use crate::report::summary::{MAX_OPEN, RunReport, TextSaving};
use crate::report::terminal::{Progress, say, show};
use crate::report::worth;
use crate::run::{self, DryRun, RunEnd};
use crate::session::{StopHandle, StopReason};
use crate::store::{Journal, RunLock, Store};

/// How long a single run looks for damage in its database before it begins.
const CHECK_FOR: Duration = Duration::from_secs(5);

/// An index that was not used for this long belongs to a code base that is gone.
const KEEP_INDEXES: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Performs one run, with its progress on the terminal and, if configured, on the dashboard.
/// Returns its report and its state folder.
pub async fn once(options: &StartOptions) -> Result<(RunReport, PathBuf, Staying), CommandError> {
    let id = RunId(uuid::Uuid::now_v7());
    let ended = Box::pin(once_as(options, id)).await;
    if let Err(error) = &ended {
        pings::cannot_run(options, Some(id), error).await;
    }
    ended
}

/// A demo on a terminal: its dashboard stays until the person leaves.
#[derive(Default)]
pub struct Staying(Option<(web::Dashboard, super::demo::Demo)>);

impl Staying {
    /// Waits for Ctrl-C or another signal, if there is something to look at.
    pub async fn until_stopped(self) -> Result<(), CommandError> {
        let Some((dashboard, demo)) = self.0 else { return Ok(()) };
        let stays = format!("DEMO: {} stays open; Ctrl-C ends it.", dashboard.sign_in());
        say(Progress::Live, &stays);
        Signals::listen()?.next().await;
        dashboard.stop().await;
        demo.simulator.stop().await;
        Ok(())
    }
}

async fn once_as(
    options: &StartOptions,
    id: RunId,
) -> Result<(RunReport, PathBuf, Staying), CommandError> {
    let (mut setting, demo) = Setting::for_one_run(options, Purpose::Command).await?;
    setting.telemetry = logging::start(&setting.config, options, Purpose::Command)?;
    super::guard_children();
    let announce_options = AnnounceOptions::single_run(options);
    let dashboard =
        web::serve_in_background(&mut setting, announce_options, options.progress).await;
    if options.demo {
        say(options.progress, "DEMO: tracker and agent are simulated; prices are pretended.");
    }
    let report = run_once(&setting, options, id).await;
    setting.telemetry.clone().finish().await;
    let is_watched = options.progress == Progress::Live && std::io::stdin().is_terminal();
    let staying = match (dashboard, demo) {
        (Some(dashboard), Some(demo)) if is_watched && report.is_ok() => {
            Staying(Some((dashboard, demo)))
        }
        (dashboard, demo) => {
            if let Some(dashboard) = dashboard {
                dashboard.stop().await;
            }
            if let Some(demo) = demo {
                demo.simulator.stop().await;
            }
            Staying::default()
        }
    };
    let report = report.map(|report| RunReport { simulated: options.demo, ..report })?;
    Ok((report, setting.state, staying))
}

async fn run_once(
    setting: &Setting,
    options: &StartOptions,
    id: RunId,
) -> Result<RunReport, CommandError> {
    claim_state(&setting.config, options, &setting.state)?;
    let store = Store::open(&setting.state)?;
    let (state, clock) = (&setting.state, &setting.clock);
    let lock = RunLock::acquire_after_start(state, "--once", Some(id), clock).await?;
    if !store.check_integrity_within(CHECK_FOR).await? {
        tracing::warn!("the database is too large to be checked before a single run");
    }
    let pings = pings::begin(setting, id);
    let journal = Journal::begin_run(store.clone(), setting.clock.clone(), id).await?;
    let mut signals = Signals::listen()?;
    let (stop, run) = (StopHandle::new(), (id, Trigger::Manual));
    let performed = tokio::select! {
        performed =
            perform(setting, journal, lock, run, stop.clone(), options.progress) => performed?,
        // Never ends on its own; runs alongside the run.
        never = signals.pass_on(&stop) => match never {},
    };
    let code = code_of(performed.end.outcome, signals.stopped_by(), stop.state().reason);
    let (signal, text) = pings::end_of_run(setting, &performed.end, code);
    // Beside the rest, which may fail or take long.
    let pinged = tokio::spawn(pings.end(signal, text));
    // Before the report, which shows what came of it; each command has its time limit.
    if let Err(error) = verify::verify_findings(setting, &store).await {
        tracing::error!(run_id = %id, %error, "could not verify findings");
    }
    let report = report(&store, id, performed, code).await;
    // The run is over and stored; a chat or a git history that does not answer is not waited for
    // longer.
    let after = after_run::follow_up(setting, &store, id);
    if tokio::time::timeout(after_run::DELIVERY_TIMEOUT, after).await.is_err() {
        tracing::error!(run_id = %id, "the webhook or the search for fixes took too long and was abandoned; the next run tries again");
    }
    silence::tell(setting, &store, None).await;
    digest::send_if_due(setting, &store).await;
    pings::patiently(async { pinged.await.unwrap_or_default() }).await;
    report
}

/// The exit code of a run; for an interruption the signal decides.
fn code_of(outcome: RunOutcome, stopped_by: Option<Code>, why: Option<StopReason>) -> Code {
    match (outcome, stopped_by, why) {
        (RunOutcome::Interrupted, _, Some(StopReason::LeaseLost)) => Code::ServerLost,
        (RunOutcome::Interrupted, Some(code), _) => code,
        (outcome, ..) => Code::of_run(outcome),
    }
}

struct Performed {
    end: RunEnd,
    view: RunView,
}

/// Performs one run while its observers follow it, then removes old data. `lock` is refreshed while
/// the run lasts.
async fn perform(
    setting: &Setting,
    journal: Journal,
    mut lock: RunLock,
    (id, trigger): (RunId, Trigger),
    stop: StopHandle,
    progress: Progress,
) -> Result<Performed, CommandError> {
    let fleet = FleetRun::new(setting, &journal, &stop)?;
    fleet.begin().await?;
    let watchers = Watchers::attach(setting, &journal, progress);
    let cx = setting.run_context(trigger, journal.clone(), id, stop, Some(&fleet))?;
    // The run that every log line belongs to.
    let span = tracing::error_span!("run", run_id = %id);
    let end = tokio::select! {
        ended = run::perform(&cx).instrument(span) => ended?,
        // Never ends on its own; runs alongside the run.
        never = lock.keep_fresh(&setting.clock) => match never {},
    };
    fleet.end().await;
    let view = journal.view();
    remove_old(setting, journal.store()).await;
    drop((cx, journal));
    watchers.finish().await;
    Ok(Performed { end, view })
}

/// Removes old events, logs and code indexes after a run; failures are retried next time.
async fn remove_old(setting: &Setting, store: &Store) {
    match store.prune(setting.clock.now(), setting.config.state.keep_events).await {
        Ok(pruned) => tracing::debug!(?pruned, "removed old events and logs"),
        Err(error) => tracing::warn!(%error, "could not remove old events and logs"),
    }
    let (cache, now) = (setting.cache.clone(), setting.clock.now());
    let Ok(before) = now.checked_sub(KEEP_INDEXES) else { return };
    let removed =
        tokio::task::spawn_blocking(move || crate::context::remove_unused(&cache, before.into()));
    if let Ok(removed @ 1..) = removed.await {
        tracing::info!(removed, "removed unused code indexes");
    }
}

/// Observers of a run: the screen, the log, `live.json`, telemetry. They end with its last event,
/// or when this is dropped.
struct Watchers(JoinSet<()>);

impl Watchers {
    /// Call before the run begins, so that the first event is not missed.
    fn attach(setting: &Setting, journal: &Journal, progress: Progress) -> Self {
        let mut watchers = JoinSet::new();
        watchers.spawn(show(journal.follow(), progress, setting.clock.clone()));
        watchers.spawn(lifecycle::follow(journal.follow(), setting.config.timeouts.stall));
        let (folder, every) = (setting.state.clone(), setting.config.timeouts.liveness);
        watchers.spawn(live::keep(journal.clone(), journal.follow(), folder, every));
        watchers.spawn(setting.telemetry.clone().follow(journal.follow()));
        setting.observers.subscribe(journal);
        Self(watchers)
    }

    /// Waits until all have processed the run's end.
    async fn finish(mut self) {
        while let Some(ended) = self.0.join_next().await {
            if let Err(panic) = ended {
                tracing::error!(%panic, "a run observer panicked");
            }
        }
    }
}

async fn report(
    store: &Store,
    run: RunId,
    performed: Performed,
    code: Code,
) -> Result<RunReport, CommandError> {
    let Performed { end, view } = performed;
    // A run that started nothing reports what it waited for.
    let refused = view.waits_for.filter(|_| end.outcome == RunOutcome::NotNow);
    let mut findings = store.findings().in_run(run).await?;
    worth::sort(&mut findings);
    Ok(RunReport {
        run,
        outcome: end.outcome,
        exit_code: code.number(),
        simulated: false,
        error: end.error.map(|error| error.to_string()).or(refused),
        summary: end.summary,
        text: TextSaving::of(view.raw_bytes, view.clean_bytes, view.fetched, view.alarms),
        alarmed: view.alarmed,
        findings,
        open: store.items().open(MAX_OPEN).await?,
    })
}

/// Shows what a run would do, on a copy of the state.
pub async fn dry_run(options: &StartOptions) -> Result<DryRun, CommandError> {
    let (setting, demo) = Setting::for_one_run(options, Purpose::DryRun).await?;
    logging::start(&setting.config, options, Purpose::DryRun)?;
    let folder = TemporaryFolder::new("dry-run")
        .map_err(CommandError::io("cannot create a temporary folder"))?;
    let setting = setting.on_copy(&folder)?;
    let journal = Journal::open(Store::open(&setting.state)?, setting.clock.clone(), None)?;
    let id = RunId(uuid::Uuid::now_v7());
    let cx = setting.run_context(Trigger::Manual, journal, id, StopHandle::new(), None)?;
    let dry_run = run::dry_run(&cx).await?;
    if let Some(demo) = demo {
        demo.simulator.stop().await;
    }
    Ok(dry_run)
}

/// A run in its own task, so that the daemon's loop never waits for it.
pub(super) struct Running {
    pub(super) id: RunId,
    stop: StopHandle,
    task: JoinHandle<Result<RunEnd, CommandError>>,
    setting: Setting,
    pings: RunPings,
    reports: TaskTracker,
}

impl Running {
    /// Starts the run. Its report and webhook are tasks of `reports`, so the next run does not wait
    /// for them.
    pub(super) fn start(
        setting: &Setting,
        id: RunId,
        trigger: Trigger,
        lock: RunLock,
        progress: Progress,
        reports: &TaskTracker,
    ) -> Self {
        let stop = StopHandle::new();
        let (pings, kept) = (pings::begin(setting, id), (setting.clone(), reports.clone()));
        let (setting, handle, reports) = (setting.clone(), stop.clone(), reports.clone());
        let task = tokio::spawn(async move {
            let store = Store::open_existing(&setting.state)?;
            // Renewed since the last run, perhaps because that one said that it was rejected.
            for credential in &setting.credentials {
                credential.forget().await;
            }
            let clock = setting.clock.clone();
            let journal = Journal::begin_run(store.clone(), clock, id).await?;
            let run = (id, trigger);
            let performed = perform(&setting, journal, lock, run, handle, progress).await?;
            reports.spawn(async move {
                after_run::follow_up(&setting, &store, id).await;
                // Beside the schedule: a build may take longer than the next run waits.
                if let Err(error) = verify::verify_findings(&setting, &store).await {
                    tracing::error!(run_id = %id, %error, "could not verify findings");
                }
            });
            Ok(performed.end)
        });
        let (setting, reports) = kept;
        Self { id, stop, task, setting, pings, reports }
    }

    /// Logs the end and pings the monitor about it, whatever it was.
    fn conclude(self, ended: EndedRun) {
        let (signal, text) = match &ended {
            Ok(Ok(end)) => pings::end_of_run(&self.setting, end, Code::of_run(end.outcome)),
            Ok(Err(error)) => pings::failure(&self.setting, error.code(), &error.to_string()),
            Err(panic) => {
                pings::failure(&self.setting, Code::Unexpected, &format!("a run panicked: {panic}"))
            }
        };
        log_end(ended);
        self.reports.spawn(self.pings.end(signal, text));
    }

    /// Ends the run with its sessions and waits for it; a second signal skips the grace period.
    pub(super) async fn stop(mut self, signals: &mut Signals) {
        self.stop.stop(StopReason::Shutdown);
        loop {
            tokio::select! {
                ended = &mut self.task => return self.conclude(ended),
                request = signals.next() => if request == SignalRequest::Stop {
                    self.stop.stop_now(StopReason::Shutdown);
                },
            }
        }
    }
}

/// Waits for the end of the run, logs it and takes it away; never returns if there is no run.
pub(super) async fn ended(running: &mut Option<Running>) {
    let ended = match running {
        Some(running) => (&mut running.task).await,
        None => std::future::pending().await,
    };
    if let Some(running) = running.take() {
        running.conclude(ended);
    }
}

type EndedRun = Result<Result<RunEnd, CommandError>, tokio::task::JoinError>;

fn log_end(ended: EndedRun) {
    match ended {
        Ok(Ok(ended)) => match ended.error {
            Some(error) => tracing::error!(outcome = ?ended.outcome, %error, "run ended"),
            // Already logged by `lifecycle`.
            None => tracing::debug!(outcome = ?ended.outcome, "run ended"),
        },
        Ok(Err(error)) => tracing::error!(%error, "could not start a run"),
        Err(panic) => tracing::error!(%panic, "a run panicked"),
    }
}
