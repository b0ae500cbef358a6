//! The demo: the real job on simulators, on loopback, with a temporary state. No config, no
//! account, no cost.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use super::error::CommandError;
use super::{Overrides, Setting, StartOptions, TemporaryFolder};
use crate::clock::Clock;
use crate::config::{Discover, FlagValue, LoadRequest, load};
use crate::fetch::FixedCredential;
use crate::settings::Environment;
use crate::simulate::ado::{Simulator, SimulatorOptions};
use crate::simulate::sample;
use crate::store::{RunLock, prepare_folder};

/// Token of the simulated tracker.
const TOKEN: &str = "demo";
/// Duration of a simulated session in milliseconds: slow enough to watch.
const PACE: &str = "1500";

/// Makes the simulated agent return the findings written for the demo.
const SCRIPTED: &str = "--demo";
/// For how many seconds the first attempts at two items fail.
const MISHAPS: i64 = 100;
/// Interval of simulated edits and new items while the demo follows its schedule.
const PEOPLE_PACE: Duration = Duration::from_secs(45);

/// The demo's environment; dropping it ends it.
pub struct Demo {
    pub setting: Setting,
    /// The tracker, so that callers can change items.
    pub simulator: Simulator,
    /// The request that its configuration was loaded with, for reloads.
    pub request: LoadRequest,
    /// The sample code base, if it is not part of the state.
    _code: Option<TemporaryFolder>,
    /// The state of a dry run.
    _scratch: TemporaryFolder,
}

impl Demo {
    /// Simulates people who edit and report items. Not with the user's own agent, which would be
    /// charged for them.
    pub fn simulate_users(&self) {
        let config = &self.setting.config;
        if config.command_of(config.agent.kind).iter().any(|word| word == SCRIPTED) {
            self.simulator.simulate_users(PEOPLE_PACE);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    /// Removes an earlier demo's state, unless the user chose the folder.
    Yes,
    /// Leaves the state unchanged.
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DemoMode {
    /// One run without failures.
    OneRun,
    /// Repeated runs: at first a session hangs and another answers badly, and both are retried.
    Schedule,
}

/// Starts the tracker and writes the sample code base. The command line may set the state folder
/// and override keys; no configuration file is read.
pub async fn start(
    options: &StartOptions,
    fresh: Fresh,
    mode: DemoMode,
) -> Result<Demo, CommandError> {
    let StartOptions { overrides, environment, clock, .. } = options;
    let unwritable = || CommandError::io("cannot create a temporary folder");
    let scratch = TemporaryFolder::new("demo-state").map_err(unwritable())?;
    let state = match &overrides.state_dir {
        Some(folder) => std::path::absolute(folder)
            .map_err(CommandError::io("cannot determine the state folder"))?,
        // A dry run shows what a first run would do, also after a demo that has done it.
        None if fresh == Fresh::No => scratch.path().join("state"),
        None => temporary_state()?,
    };
    if fresh == Fresh::Yes && overrides.state_dir.is_none() {
        forget(&state, clock)?;
    }
    let simulated = SimulatorOptions { token: Some(TOKEN.into()), ..SimulatorOptions::default() };
    let simulator = Simulator::start(simulated).await.map_err(CommandError::io(
        "the simulated tracker cannot listen on the loopback \
                                   interface",
    ))?;
    simulator.report_in_german();
    let (code, temporary) = sample_code(&state, fresh)?;
    let agent = agent_keys(overrides, clock, mode)?;
    let request = request(overrides, environment, &simulator, &code, &state, agent)?;
    let loaded = load(&request)?;
    let secret = FixedCredential::new(SecretString::from(TOKEN), "the demo");
    let setting = Setting::new(loaded.config, options, Some(Arc::new(secret)), &request.cwd)?;
    Ok(Demo { setting, simulator, request, _code: temporary, _scratch: scratch })
}

/// One folder per user, so that the demo's findings can be read afterwards and old folders do not
/// accumulate.
fn temporary_state() -> Result<PathBuf, CommandError> {
    let user = nix::unistd::Uid::current();
    let folder = std::env::temp_dir().join(format!("heartbeat-demo-{user}"));
    if let Ok(found) = std::fs::symlink_metadata(&folder) {
        // All users can write here: only a folder of our own is used.
        if !found.is_dir() || found.uid() != user.as_raw() {
            return Err(CommandError::Usage(format!(
                "{} belongs to another user; choose another folder with --state-dir",
                folder.display()
            )));
        }
    }
    Ok(folder)
}

/// Removes an earlier demo's state, unless a demo is running on it.
fn forget(state: &Path, clock: &Clock) -> Result<(), CommandError> {
    if !state.exists() {
        return Ok(());
    }
    let _lock = RunLock::acquire(state, "--demo", None, clock)?;
    // The twin of the database too: it would tell the new one that everything is done.
    let twin = ["spent.json", "finished.json"];
    for name in
        ["heartbeat.db", "heartbeat.db-wal", "heartbeat.db-shm", "state.json"].iter().chain(&twin)
    {
        // Missing files are fine.
        drop(std::fs::remove_file(state.join(name)));
    }
    for name in ["runs", "scratch", "index", "slots", "agents", "verify"] {
        drop(std::fs::remove_dir_all(state.join(name)));
    }
    Ok(())
}

/// In the state folder; for a dry run, which writes nothing there, in a temporary folder.
fn sample_code(
    state: &Path,
    fresh: Fresh,
) -> Result<(PathBuf, Option<TemporaryFolder>), CommandError> {
    let unwritable = || CommandError::io("cannot write the sample code base");
    let temporary = match fresh {
        Fresh::Yes => {
            prepare_folder(state)?;
            None
        }
        Fresh::No => Some(TemporaryFolder::new("demo").map_err(unwritable())?),
    };
    let folder = temporary.as_ref().map_or(state, TemporaryFolder::path).join("parcel");
    sample::write_to(&folder).map_err(unwritable())?;
    Ok((folder, temporary))
}

/// Configuration keys of the simulated agent, which imitates the kind chosen on the command line.
fn agent_keys(
    overrides: &Overrides,
    clock: &Clock,
    mode: DemoMode,
) -> Result<Vec<(&'static str, toml::Value)>, CommandError> {
    let asked = overrides.set.iter().rev().find_map(|pair| pair.strip_prefix("agent.kind="));
    let kind = asked.map(|kind| kind.trim_matches('"'));
    let command = |kind: &str| agent_command(clock, mode, kind);
    let key = match kind {
        Some("codex") => "codex.command",
        Some("copilot") => "copilot.command",
        _ => return Ok(vec![("agent.command", command("claude")?)]),
    };
    let price = toml::toml! { [simulated]
        input = 1.0
        output = 10.0
    };
    Ok(vec![
        (key, command(kind.unwrap_or_default())?),
        ("triage.model", text("simulated")),
        ("analyze.model", text("simulated")),
        ("agent.price", price.into()),
    ])
}

fn agent_command(clock: &Clock, mode: DemoMode, kind: &str) -> Result<toml::Value, CommandError> {
    let own = std::env::current_exe()
        .map_err(CommandError::io("cannot locate the heartbeat executable"))?;
    let mut words = vec![own.to_string_lossy().into_owned()];
    words
        .extend(["simulate", "agent", "--kind", kind, "--pace", PACE, SCRIPTED].map(str::to_owned));
    if mode == DemoMode::Schedule {
        let until = clock.now().as_second() + MISHAPS;
        words.extend(["--mishaps-until".to_owned(), until.to_string()]);
    }
    Ok(words.into())
}

fn request(
    overrides: &Overrides,
    environment: &Environment,
    simulator: &Simulator,
    code: &Path,
    state: &Path,
    agent: Vec<(&'static str, toml::Value)>,
) -> Result<LoadRequest, CommandError> {
    let mut request = super::load_request(overrides, environment)?;
    let values = [
        ("source.base_url", text(&simulator.base_url())),
        ("source.project", text(simulator.project())),
        ("source.look_back", text("3650d")),
        ("repository.path", text(&code.to_string_lossy())),
        ("state.dir", text(&state.to_string_lossy())),
        ("schedule.cron", text("* * * * *")),
        ("schedule.first_run", text("process")),
        // The demo starts only small processes, so it ignores the machine's load.
        ("limits.max_load_per_core", toml::Value::Float(100.0)),
        ("limits.max_memory_pressure", toml::Value::Float(100.0)),
        // Does not take a slot of a real heartbeat.
        ("limits.slots_dir", text(&state.join("slots").to_string_lossy())),
        ("timeouts.liveness", text("1s")),
        // Enough for every finding written for the demo.
        ("limits.max_deep_per_run", toml::Value::Integer(20)),
        // A hung session is stopped and retried while the user still watches.
        ("timeouts.stall", text("15s")),
        ("dedupe.retry_delay", text("30s")),
        ("http.listen", text("127.0.0.1:0")),
        // Two findings bring a patch with a test that needs nothing else.
        ("verify.test", text("cd tools && python3 -m unittest {test}")),
        ("verify.timeout", text("30s")),
    ];
    let demo = values.into_iter().chain(agent).map(|(key, value)| FlagValue {
        key: key.into(),
        value,
        flag: "--demo".into(),
    });
    // The user's flags come last and win.
    request.flags.splice(0..0, demo);
    request.discover = Discover::Nowhere;
    Ok(request)
}

fn text(text: &str) -> toml::Value {
    toml::Value::String(text.to_owned())
}
