//! One run now, or a dry run.

use std::path::PathBuf;

use super::error::CommandError;
use super::exit::Code;
use super::logging::{self, Purpose};
use super::running::{self, Performed};
use super::web::{self, Showing};
use super::{Setting, Signals, StartOptions, TemporaryFolder, aftermath};
use crate::event::{RunOutcome, Trigger};
use crate::model::RunId;
use crate::report::summary::{MOST_OPEN, RunReport, TextSaving};
use crate::run::{self, DryRun};
use crate::session::StopHandle;
use crate::store::{Journal, RunLock, Store};

/// Performs one run, with its progress on the terminal and, if configured, on the dashboard. Returns
/// its report and its state folder.
pub async fn once(options: &StartOptions) -> Result<(RunReport, PathBuf), CommandError> {
    let (mut setting, demo) = Setting::for_one_run(options, Purpose::Command).await?;
    setting.telemetry = logging::start(&setting.config, options, Purpose::Command)?;
    super::guard_children();
    let showing = Showing::single_run(options);
    let dashboard = web::serve_beside(&mut setting, showing, options.progress).await;
    let report = run_once(&setting, options).await;
    if let Some(dashboard) = dashboard {
        dashboard.stop().await;
    }
    setting.telemetry.clone().finish().await;
    if let Some(demo) = demo {
        demo.simulator.stop().await;
    }
    Ok((report?, setting.state))
}

async fn run_once(setting: &Setting, options: &StartOptions) -> Result<RunReport, CommandError> {
    let id = RunId(uuid::Uuid::now_v7());
    let store = Store::open(&setting.state)?;
    let lock = RunLock::acquire(&setting.state, "--once", Some(id), &setting.clock)?;
    let journal = Journal::begin_run(store.clone(), setting.clock.clone(), id).await?;
    let mut signals = Signals::listen()?;
    let (stop, run) = (StopHandle::new(), (id, Trigger::Manual));
    let performed = tokio::select! {
        performed =
            running::perform(setting, journal, lock, run, stop.clone(), options.progress) => performed?,
        // It does not end by itself: it lives beside the run.
        never = signals.pass_on(&stop) => match never {},
    };
    let report = report(&store, id, performed, signals.stopped_by()).await?;
    // The run is over and stored; a chat or a history that does not answer is only waited for so long.
    let after = aftermath::after_run(setting, &store, id);
    if tokio::time::timeout(aftermath::PATIENCE, after).await.is_err() {
        tracing::error!(run_id = %id, "the webhook or the search for fixes took too long and was left; the next run tries again");
    }
    Ok(report)
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

async fn report(
    store: &Store,
    run: RunId,
    performed: Performed,
    stopped_by: Option<Code>,
) -> Result<RunReport, CommandError> {
    let Performed { end, view } = performed;
    let code = match (end.outcome, stopped_by) {
        (RunOutcome::Interrupted, Some(code)) => code,
        (outcome, _) => Code::of_run(outcome),
    };
    // A run that started nothing says what it waited for in vain.
    let refused = view.waits_for.filter(|_| end.outcome == RunOutcome::NotNow);
    Ok(RunReport {
        run,
        outcome: end.outcome,
        exit_code: code.number(),
        error: end.error.map(|error| error.to_string()).or(refused),
        summary: end.summary,
        text: TextSaving::of(view.raw_bytes, view.clean_bytes, view.fetched, view.alarms),
        alarmed: view.alarmed,
        findings: store.findings().in_run(run).await?,
        open: store.items().open(MOST_OPEN).await?,
    })
}
