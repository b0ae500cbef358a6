//! One run now, or a dry run.

use jiff::SignedDuration;
use tracing::Instrument as _;

use super::error::CommandError;
use super::exit::Code;
use super::watchers::Watchers;
use super::web::{self, Showing};
use super::{Setting, Signals, TemporaryFolder, aftermath, startup};
use crate::event::{RunOutcome, Trigger};
use crate::model::RunId;
use crate::report::summary::{MOST_OPEN, RunReport, TextSaving};
use crate::report::terminal::Progress;
use crate::run::{self, DryRun, RunEnd};
use crate::session::StopHandle;
use crate::store::{Journal, Store};

/// An index that was not used for so long belongs to a code base that is gone.
const KEEP_INDEXES: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Performs one run, with its progress on the terminal and, if configured, on the dashboard.
pub async fn once(
    mut setting: Setting,
    showing: Showing,
    progress: Progress,
) -> Result<RunReport, CommandError> {
    super::guard_children();
    let dashboard = web::serve_beside(&mut setting, showing, progress).await;
    let report = perform(&setting, progress).await;
    if let Some(dashboard) = dashboard {
        dashboard.stop().await;
    }
    setting.telemetry.finish().await;
    report
}

async fn perform(setting: &Setting, progress: Progress) -> Result<RunReport, CommandError> {
    let store = Store::open(&setting.state)?;
    let id = RunId(uuid::Uuid::now_v7());
    let mut lock = setting.take_lock("--once", Some(id))?;
    let mut signals = Signals::listen()?;
    let stop = StopHandle::new();
    let journal = Journal::open(store.clone(), setting.clock.clone(), Some(id))?;
    startup::close_crashed_runs(&store, &setting.clock).await?;
    let watchers = Watchers::attach(setting, &journal, progress);
    let cx = setting.run_context(Trigger::Manual, journal.clone(), id, stop.clone())?;
    let ended = tokio::select! {
        ended = run::perform(&cx).instrument(run_span(id)) => ended?,
        // Neither of these ends by itself: they live beside the run.
        never = signals.pass_on(&stop) => match never {},
        never = lock.keep_fresh(&setting.clock) => match never {},
    };
    watchers.finish().await;
    tidy(setting, &store).await;
    drop(lock);
    let report = report(&store, &journal, id, ended, signals.stopped_by()).await?;
    // The run is over and stored; a chat that does not answer is only waited for so long.
    let after = aftermath::after_run(setting, &store, id);
    if tokio::time::timeout(aftermath::PATIENCE, after).await.is_err() {
        tracing::error!(run_id = %id, "webhook timed out");
    }
    Ok(report)
}

/// The run that every line of the log belongs to.
pub(super) fn run_span(id: RunId) -> tracing::Span {
    tracing::error_span!("run", run_id = %id)
}

/// Shows what a run would do, on a copy of the state.
pub async fn dry_run(setting: &Setting) -> Result<DryRun, CommandError> {
    let folder = TemporaryFolder::new("dry-run")
        .map_err(CommandError::io("cannot create a temporary folder"))?;
    let setting = setting.on_copy(&folder)?;
    let journal = Journal::open(Store::open(&setting.state)?, setting.clock.clone(), None)?;
    let id = RunId(uuid::Uuid::now_v7());
    let cx = setting.run_context(Trigger::Manual, journal, id, StopHandle::new())?;
    Ok(run::dry_run(&cx).await?)
}

/// Old events and logs go when a run is over; what cannot go now goes next time.
pub(super) async fn tidy(setting: &Setting, store: &Store) {
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

async fn report(
    store: &Store,
    journal: &Journal,
    run: RunId,
    ended: RunEnd,
    stopped_by: Option<Code>,
) -> Result<RunReport, CommandError> {
    let view = journal.view();
    let code = match (ended.outcome, stopped_by) {
        (RunOutcome::Interrupted, Some(code)) => code,
        (outcome, _) => Code::of_run(outcome),
    };
    Ok(RunReport {
        run,
        outcome: ended.outcome,
        exit_code: code.number(),
        // A run that started nothing says what it waited for in vain.
        error: ended.error.map(|error| error.to_string()).or_else(|| {
            let refused = view.waits_for.clone();
            refused.filter(|_| ended.outcome == RunOutcome::NotNow)
        }),
        summary: ended.summary,
        text: TextSaving::of(view.raw_bytes, view.clean_bytes, view.fetched, view.alarms),
        alarmed: view.alarmed.clone(),
        findings: store.findings().in_run(run).await?,
        open: store.items().open(MOST_OPEN).await?,
    })
}
