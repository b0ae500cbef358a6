//! `heartbeat doctor`: checks everything a run needs; each failure with cause and fix. Changes
//! nothing and starts no session. With `--live` it also asks the model provider, for nothing, and
//! tries the right to write.

mod agent;
mod live;
mod machine;
mod source;
mod state;

use std::path::Path;

use serde::Serialize;

use crate::clock::Clock;
use crate::config::ConfigError;
use crate::report::paint::Paint;
use crate::settings::{Config, Environment};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Ok,
    /// A run works, but someone should know.
    Warning,
    /// A run does not work.
    Failed,
    /// Not checked, because an earlier check failed or the feature is off.
    Skipped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorCheck {
    /// Stable.
    pub name: &'static str,
    pub status: Status,
    pub found: String,
    /// What to do, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl DoctorCheck {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), fix: None }
    }

    fn skipped(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Skipped, found: found.into(), fix: None }
    }

    fn warning(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: Status::Warning, found: found.into(), fix: Some(fix.into()) }
    }

    fn failed(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: Status::Failed, found: found.into(), fix: Some(fix.into()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// No check failed.
    pub healthy: bool,
    /// In the order in which a run needs them.
    pub checks: Vec<DoctorCheck>,
}

impl Diagnosis {
    fn new(checks: Vec<DoctorCheck>) -> Self {
        Self { healthy: checks.iter().all(|check| check.status != Status::Failed), checks }
    }

    /// Without a usable configuration.
    pub fn of_broken_config(error: &ConfigError) -> Self {
        let found = error.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let fix = "fix the lines named above; `heartbeat init --print` shows every key";
        let mut checks = vec![DoctorCheck::failed("config", found, fix)];
        let others = ["credential", "source", "agent", "repository", "state", "schedule"];
        checks.extend(others.map(|name| DoctorCheck::skipped(name, "needs a valid configuration")));
        Self::new(checks)
    }
}

pub struct DoctorInput {
    pub config: Config,
    /// `None` without a file.
    pub config_file: Option<std::path::PathBuf>,
    pub environment: Environment,
    pub clock: Clock,
    /// The state folder, or why it is not known.
    pub state: Result<std::path::PathBuf, String>,
    pub cwd: std::path::PathBuf,
    /// Also ask the model provider and try the right to write.
    pub live: bool,
}

async fn fleet(input: &DoctorInput) -> Vec<DoctorCheck> {
    let DoctorInput { config, environment, clock, .. } = input;
    if config.fleet.is_on() && !crate::fleet::BUILT {
        let fix =
            "build it with `cargo build --release --features fleet`, or remove [fleet] address";
        return vec![DoctorCheck::failed(
            "fleet",
            "this heartbeat was built without the feature",
            fix,
        )];
    }
    let checked = crate::app::fleet::check_fleet(config, environment, clock).await;
    let check = |result: crate::app::fleet::FleetCheck| match (result.found, result.fix) {
        (Ok(found), None) => DoctorCheck::ok(result.name, found),
        (Ok(found), Some(fix)) => DoctorCheck::warning(result.name, found, fix),
        (Err(found), fix) => {
            DoctorCheck::failed(result.name, found, fix.unwrap_or_else(|| "see [fleet]".to_owned()))
        }
    };
    checked.into_iter().map(check).collect()
}

pub async fn diagnose(input: &DoctorInput) -> Diagnosis {
    let mut checks = vec![config(input)];
    checks.extend(source::checks(input).await);
    checks.extend(agent::checks(input).await);
    if input.live {
        checks.extend(live::checks(input).await);
    }
    checks.push(machine::repository(input).await);
    checks.extend(state::checks(input).await);
    checks.extend(fleet(input).await);
    checks.push(machine::containment(input).await);
    checks.push(machine::free_resources(input));
    checks.push(machine::schedule(input));
    checks.push(machine::port(input).await);
    checks.push(machine::reports(input));
    checks.push(machine::webhook(input));
    checks.push(machine::ping(input).await);
    Diagnosis::new(checks)
}

/// Already loaded; checks what a run requires beyond that.
fn config(input: &DoctorInput) -> DoctorCheck {
    let from = input.config_file.as_deref().map_or_else(
        || "the built-in defaults, the environment and the flags".into(),
        |file| file.display().to_string(),
    );
    let mut config = input.config.clone();
    if config.repository.path.as_os_str().is_empty() && input.cwd.join(".git").exists() {
        config.repository.path.clone_from(&input.cwd);
    }
    if input.config_file.is_none() && !config.has_source() {
        let fix = "run `heartbeat init` to write one, or pass one with --config";
        return DoctorCheck::failed("config", "no heartbeat.toml found", fix);
    }
    if let Err(error) = config.require_for_run() {
        let found = error.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let fix = match &input.config_file {
            Some(file) => format!("set the keys in {}", file.display()),
            None => "create a configuration with `heartbeat init`, or pass one with \
                     --config"
                .into(),
        };
        return DoctorCheck::failed("config", found, fix);
    }
    if let Err(error) =
        crate::prompt::Prompts::load(&input.config, |path: &Path| std::fs::read_to_string(path))
    {
        return DoctorCheck::failed(
            "config",
            error.to_string(),
            "fix the template named in [prompts]",
        );
    }
    DoctorCheck::ok("config", format!("read from {from}"))
}

pub fn render(diagnosis: &Diagnosis, paint: Paint) -> String {
    let mut text = String::new();
    for check in &diagnosis.checks {
        let mark = match check.status {
            Status::Ok => paint.green("ok  "),
            Status::Warning => paint.yellow("warn"),
            Status::Failed => paint.red("FAIL"),
            Status::Skipped => paint.dim("skip"),
        };
        text.push_str(&format!("{mark}  {:<12} {}\n", check.name, check.found));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("      {:<12} fix: {fix}\n", ""));
        }
    }
    let count = |status| diagnosis.checks.iter().filter(|check| check.status == status).count();
    let (failed, warned) = (count(Status::Failed), count(Status::Warning));
    text.push_str(&match (failed, warned) {
        (0, 0) => "\nReady. `heartbeat --dry-run` shows what a run would do.\n".to_owned(),
        (0, _) => format!("\nReady, with {warned} warning(s).\n"),
        _ => format!("\nNot ready: {failed} check(s) failed.\n"),
    });
    text
}
