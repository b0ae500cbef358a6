//! `heartbeat doctor`: everything a run needs, looked at one by one; each failure with its cause
//! and its fix. Changes nothing and starts no session.

mod agent;
mod machine;
mod source;
mod state;

use std::path::Path;

use serde::Serialize;

use crate::clock::Clock;
use crate::config::ConfigError;
use crate::report::paint::Paint;
use crate::settings::{Config, Environment};

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should be.
    Ok,
    /// A run will work, but somebody should know.
    Warning,
    /// A run will not work.
    Failed,
    /// Not looked at, because something before it failed or is switched off.
    Skipped,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its stable name.
    pub name: &'static str,
    /// How it went.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What to do, if there is something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
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

/// All checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// No check failed.
    pub healthy: bool,
    /// In the order of a run's needs.
    pub checks: Vec<Check>,
}

impl Diagnosis {
    fn new(checks: Vec<Check>) -> Self {
        Self { healthy: checks.iter().all(|check| check.status != Status::Failed), checks }
    }

    /// When there is no configuration to go on with.
    pub fn of_broken_config(error: &ConfigError) -> Self {
        let found = error.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let fix = "fix the lines named above; `heartbeat init --print` shows every key";
        let mut checks = vec![Check::failed("config", found, fix)];
        let others = ["credential", "source", "agent", "repository", "state", "schedule"];
        checks.extend(others.map(|name| Check::skipped(name, "needs a valid configuration")));
        Self::new(checks)
    }
}

/// What the checks look at.
pub struct DoctorInput {
    /// The configuration.
    pub config: Config,
    /// The file it was read from, if any.
    pub config_file: Option<std::path::PathBuf>,
    /// Heartbeat's environment.
    pub environment: Environment,
    /// Time.
    pub clock: Clock,
    /// Where the state lives, or why that is not known.
    pub state: Result<std::path::PathBuf, String>,
    /// The working directory.
    pub cwd: std::path::PathBuf,
}

async fn fleet(patient: &DoctorInput) -> Vec<Check> {
    let DoctorInput { config, environment, clock, .. } = patient;
    if config.fleet.is_on() && !crate::fleet::BUILT {
        let fix =
            "build it with `cargo build --release --features fleet`, or empty [fleet] address";
        return vec![Check::failed("fleet", "this heartbeat was built without the feature", fix)];
    }
    let looked = crate::app::fleet::look(config, environment, clock).await;
    let check = |look: crate::app::fleet::FleetCheck| match (look.found, look.fix) {
        (Ok(found), None) => Check::ok(look.name, found),
        (Ok(found), Some(fix)) => Check::warning(look.name, found, fix),
        (Err(found), fix) => {
            Check::failed(look.name, found, fix.unwrap_or_else(|| "see [fleet]".to_owned()))
        }
    };
    looked.into_iter().map(check).collect()
}

/// Looks at everything.
pub async fn diagnose(patient: &DoctorInput) -> Diagnosis {
    let mut checks = vec![config(patient)];
    checks.extend(source::checks(patient).await);
    checks.extend(agent::checks(patient).await);
    checks.push(machine::repository(patient).await);
    checks.extend(state::checks(patient).await);
    checks.extend(fleet(patient).await);
    checks.push(machine::containment(patient).await);
    checks.push(machine::free_resources(patient));
    checks.push(machine::schedule(patient));
    checks.push(machine::port(patient).await);
    checks.push(machine::webhook(patient));
    Diagnosis::new(checks)
}

/// Loaded already; here it is looked at for what a run needs beyond that.
fn config(patient: &DoctorInput) -> Check {
    let from = patient.config_file.as_deref().map_or_else(
        || "the built-in defaults, the environment and the flags".into(),
        |file| file.display().to_string(),
    );
    let mut config = patient.config.clone();
    if config.repository.path.as_os_str().is_empty() && patient.cwd.join(".git").exists() {
        config.repository.path.clone_from(&patient.cwd);
    }
    if patient.config_file.is_none() && !config.names_a_source() {
        let fix = "run `heartbeat init` to write one, or pass one with --config";
        return Check::failed("config", "no heartbeat.toml found", fix);
    }
    if let Err(error) = config.require_for_run() {
        let found = error.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let fix = match &patient.config_file {
            Some(file) => format!("set the keys in {}", file.display()),
            None => "create a configuration with `heartbeat init`, or pass one with \
                     --config"
                .into(),
        };
        return Check::failed("config", found, fix);
    }
    if let Err(error) =
        crate::prompt::Prompts::load(&patient.config, |path: &Path| std::fs::read_to_string(path))
    {
        return Check::failed("config", error.to_string(), "fix the template named in [prompts]");
    }
    Check::ok("config", format!("read from {from}"))
}

/// For a terminal.
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
