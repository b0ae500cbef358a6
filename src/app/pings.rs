//! Pings the configured monitor about runs, and about a heartbeat that cannot run.

use std::time::Duration;

use super::error::CommandError;
use super::exit::Code;
use super::setting::load_request;
use super::{Setting, StartOptions};
use crate::config::ping_variable;
use crate::model::text::in_words;
use crate::model::{RunId, plain_text};
use crate::outbound::ping::{Monitor, RunPings, Signal};
use crate::run::RunEnd;
use crate::settings::{Environment, HeldSecrets};
use crate::store::LockError;

/// How long a process that is about to exit waits for its monitor.
const PING_TIMEOUT: Duration = Duration::from_secs(30);

/// The monitor of a configuration. An address that cannot be used is logged.
fn monitor(variable: &str, environment: &Environment) -> Option<Monitor> {
    Monitor::named(variable, environment).unwrap_or_else(|error| {
        tracing::error!(variable, %error, "cannot ping the monitor named by monitor.ping_env");
        None
    })
}

pub(super) fn monitor_of(setting: &Setting) -> Option<Monitor> {
    monitor(&setting.config.monitor.ping_env, &setting.environment)
}

/// A run begins; call it with the run lock held, so that a run which only waits its turn is silent.
pub(super) fn begin(setting: &Setting, run: RunId) -> RunPings {
    RunPings::begin(monitor_of(setting), run.0)
}

/// The text of a run's end, without the secrets of the setting.
pub(super) fn end_of_run(setting: &Setting, end: &RunEnd, code: Code) -> (Signal, String) {
    let summary = &end.summary;
    let mut text = format!(
        "heartbeat: {} (exit code {})\n{} items read, {} triaged, {} analysed, {} sessions failed, \
         cost {}\n",
        in_words(end.outcome),
        code.number(),
        summary.fetched,
        summary.triaged,
        summary.analysed,
        summary.failed_sessions,
        summary.cost_text(),
    );
    if let Some(error) = &end.error {
        text.push_str(&format!("{error}\n"));
    }
    (signal(code), without_secrets(setting, &text))
}

pub(super) fn failure(setting: &Setting, code: Code, error: &str) -> (Signal, String) {
    (signal(code), without_secrets(setting, &format!("heartbeat: {error}\n")))
}

fn without_secrets(setting: &Setting, text: &str) -> String {
    let mut text = plain_text(text);
    HeldSecrets::of(&setting.config, &setting.environment, Vec::new()).remove_from(&mut text);
    text
}

/// A run that a limit held back is a healthy one. One that a person stopped is neither success nor
/// failure; if no other follows it, the monitor says so.
const fn signal(code: Code) -> Signal {
    match code {
        Code::Done | Code::NotNow => Signal::Success,
        Code::Interrupted | Code::Terminated => Signal::Log,
        code => Signal::Failure(code.number()),
    }
}

/// Waits for a ping as long as a process that is about to exit may.
pub(super) async fn patiently(ping: impl Future<Output = ()>) {
    if tokio::time::timeout(PING_TIMEOUT, ping).await.is_err() {
        tracing::error!("the monitor did not answer in time");
    }
}

/// heartbeat cannot run: tells the monitor why, with as much of the configuration as can be read.
pub(super) async fn cannot_run(options: &StartOptions, run: Option<RunId>, error: &CommandError) {
    // The demo has no monitor; the run that holds the lock pings for itself.
    if options.demo || matches!(error, CommandError::Lock(LockError::Held { .. })) {
        return;
    }
    let Ok(request) = load_request(&options.overrides, &options.environment) else { return };
    let Some(variable) = ping_variable(&request) else { return };
    let Some(monitor) = monitor(&variable, &options.environment) else { return };
    let text = plain_text(&format!("heartbeat cannot run: {error}\n"));
    patiently(monitor.tell(signal(error.code()), run.map(|run| run.0), &text)).await;
}
