//! After a run: writes its report, sends its digest to a chat, compares findings with later
//! commits. A failure of these does not fail the run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use super::Setting;
use super::error::CommandError;
use super::later_fixes::score_findings;
use super::secrets::SettingSecrets;
use super::stale::mark_stale;
use crate::brief::brief;
use crate::clock::Clock;
use crate::model::{RunId, SessionId};
use crate::ports::HeldCredentials as _;
use crate::private;
use crate::prompt::Fence;
use crate::report::code_links::CodeLinks;
use crate::report::digest::{Report, Scope};
use crate::report::names::Names;
use crate::report::{html, markdown, webhook};
use crate::settings::{Config, ReportFormat};
use crate::store::{Delivery, Journal, MessageKind, Store};

/// Wait before the second attempt at a webhook.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// How long a process that is about to exit waits for a webhook and for git.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

pub fn render(report: &Report, format: ReportFormat) -> Result<String, CommandError> {
    Ok(match format {
        ReportFormat::Md => markdown::render(report),
        ReportFormat::Html => {
            html::render(report).map_err(|error| CommandError::Command(error.into()))?
        }
        ReportFormat::Json => {
            let text = serde_json::to_string_pretty(report).map_err(|error| {
                CommandError::Usage(format!("cannot write the report as JSON: {error}"))
            })?;
            format!("{text}\n")
        }
    })
}

/// Creates reports on demand, with the settings of the service's start.
pub struct Reporter {
    config: Arc<Config>,
    clock: Clock,
    secrets: SettingSecrets,
}

impl Reporter {
    pub fn new(setting: &Setting) -> Self {
        let (config, clock) = (Arc::clone(&setting.config), setting.clock.clone());
        Self { config, clock, secrets: SettingSecrets::new(setting) }
    }

    /// Without secrets.
    pub async fn text(
        &self,
        store: &Store,
        scope: Scope,
        format: ReportFormat,
    ) -> Result<String, CommandError> {
        render(&self.gather(store, scope).await?, format)
    }

    /// The finding of this session as a task for a coding agent.
    pub async fn brief(
        &self,
        store: &Store,
        session: SessionId,
    ) -> Result<Option<String>, CommandError> {
        let Some(row) = store.findings().of_session(session).await? else { return Ok(None) };
        let Some(item) = store.items().get(row.key.clone()).await? else { return Ok(None) };
        let name = Names::read(store).await?.name(&row.key);
        let mut text = brief(&item, &row, &name, &Fence::new(uuid::Uuid::now_v7()));
        self.secrets.held_now().await.remove_from(&mut text);
        Ok(Some(text))
    }

    pub(super) async fn gather(&self, store: &Store, scope: Scope) -> Result<Report, CommandError> {
        let (projects, now) = (self.config.projects(), self.clock.now());
        let report = Report::gather(store, scope, &projects, now).await?;
        Ok(report
            .linked(CodeLinks::configured(&self.config))
            .without(&self.secrets.held_now().await))
    }
}

/// Writes and sends what the configuration asks for. Failures are logged.
pub async fn follow_up(setting: &Setting, store: &Store, run: RunId) {
    let config = &setting.config.report;
    let written = async {
        if config.dir.as_os_str().is_empty() {
            return Ok(());
        }
        let report = report_of(setting, store, run).await?;
        match report.is_news() {
            true => write_all(&config.dir, &config.formats, &report, &file_name(&report, run)),
            false => Ok(()),
        }
    };
    if let Err(error) = written.await {
        tracing::error!(run_id = %run, %error, "could not write the report");
    }
    if let Err(error) = deliver_digests(setting, store).await {
        tracing::error!(run_id = %run, %error, "could not read the outbox");
    }
    // Last, because a long history takes time and nothing waits for it.
    match score_findings(&setting.config, &setting.clock, store, &setting.code).await {
        Ok(0) => {}
        Ok(findings) => {
            tracing::info!(run_id = %run, findings, "found commits that fix items with findings");
        }
        Err(error) => {
            tracing::error!(run_id = %run, %error, "could not score findings by later commits");
        }
    }
    match mark_stale(&setting.config, &setting.clock, store, &setting.code).await {
        Ok((0, 0)) => {}
        Ok((findings, queued)) => {
            tracing::info!(run_id = %run, findings, queued, "files named in findings were changed later; the queued items will be analysed again");
        }
        Err(error) => {
            tracing::error!(run_id = %run, %error, "could not compare findings with later commits");
        }
    }
}

async fn report_of(setting: &Setting, store: &Store, run: RunId) -> Result<Report, CommandError> {
    Reporter::new(setting).gather(store, Scope::Run { run }).await
}

/// Sends the digests that are due: of this run, and of earlier ones whose webhook failed.
async fn deliver_digests(setting: &Setting, store: &Store) -> Result<(), CommandError> {
    if setting.config.report.webhook_env.is_empty() {
        return Ok(());
    }
    let journal = Journal::open(store.clone(), setting.clock.clone(), None)?;
    for message in store.outbox().due(MessageKind::Digest, setting.clock.now()).await? {
        if !journal.outbox().begin(message.id, message.attempts).await? {
            continue;
        }
        let report = report_of(setting, store, message.run).await?;
        let delivery = send(setting, &report, message.run).await;
        journal.outbox().end(message, delivery).await?;
    }
    Ok(())
}

/// One file per format, `NAME.md` and so on.
pub(super) fn write_all(
    dir: &Path,
    formats: &[ReportFormat],
    report: &Report,
    name: &str,
) -> Result<(), CommandError> {
    let failed = || CommandError::io(format!("cannot write {}", dir.display()));
    private::create_folder(dir).map_err(failed())?;
    for format in formats {
        let path = dir.join(format!("{name}.{}", format.extension()));
        private::replace(&path, render(report, *format)?.as_bytes()).map_err(failed())?;
    }
    Ok(())
}

/// Sorts by time, and contains the run's id.
fn file_name(report: &Report, run: RunId) -> String {
    let began = report.runs.first().map_or(report.made_at, |run| run.started_at);
    let (when, id) = (began.strftime("%Y%m%dT%H%M%SZ"), run.to_string());
    format!("{when}-{id}")
}

async fn send(setting: &Setting, report: &Report, run: RunId) -> Delivery {
    let config = &setting.config.report;
    if !webhook::wants(config.webhook_when, report) {
        return Delivery::Dropped;
    }
    let Some(address) = setting.environment.text(&config.webhook_env) else {
        let variable = &config.webhook_env;
        tracing::warn!(run_id = %run, variable, "report.webhook_env names a variable that is not \
                                                 set; no webhook is called");
        return Delivery::Dropped;
    };
    let message = webhook::message(config.webhook_style, report);
    let address = SecretString::from(address);
    match webhook::send(&address, &message, FIRST_WAIT).await {
        Ok(()) => {
            tracing::debug!(run_id = %run, "webhook delivered");
            Delivery::Arrived(None)
        }
        Err(error) => {
            tracing::error!(run_id = %run, %error, "webhook delivery failed");
            Delivery::Failed { class: "webhook".to_owned(), message: error.to_string() }
        }
    }
}
