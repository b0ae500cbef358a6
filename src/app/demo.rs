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

/// What the simulated tracker asks for.
const TOKEN: &str = "demo";
/// How long a simulated session takes, in milliseconds: slow enough to watch.
const PACE: &str = "1500";

/// Makes the simulated agent give the findings that were written for the demo.
const SCRIPTED: &str = "--demo";
/// For how many seconds the first attempts at two items go wrong.
const MISHAPS: i64 = 100;
/// How often somebody edits or reports an item while the demo follows its schedule.
const PEOPLE_PACE: Duration = Duration::from_secs(45);

/// The demo's world, alive as long as this is.
pub struct Demo {
    /// What its runs work on.
    pub setting: Setting,
    /// The tracker, for whoever wants to change items.
    pub simulator: Simulator,
    /// The request its configuration was loaded with, for reloads.
    pub request: LoadRequest,
    /// The sample code base, if it is not part of the state.
    _code: Option<TemporaryFolder>,
}

impl Demo {
    /// Lets people edit and report items, for somebody who watches. Not with an agent of the user's
    /// own, which would be asked about them.
    pub fn people_at_work(&self) {
        let config = &self.setting.config;
        if config.command_of(config.agent.kind).iter().any(|word| word == SCRIPTED) {
            self.simulator.people_at_work(PEOPLE_PACE);
        }
    }
}

/// Whether the temporary state begins empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    /// What an earlier demo left is removed, unless the user named the folder.
    Yes,
    /// It stays as it is, to the last byte.
    No,
}

/// Whether somebody watches one run or the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// One run, in which everything goes well.
    OneRun,
    /// One run after another: at first a session hangs and another answers badly, and both are
    /// tried again.
    Schedule,
}

/// Starts the tracker and writes the sample code base. The command line may name a state folder and
/// override keys; a configuration file is not read.
pub async fn start(
    options: &StartOptions,
    fresh: Fresh,
    watched: Watched,
) -> Result<Demo, CommandError> {
    let StartOptions { overrides, environment, clock, .. } = options;
    let state = match &overrides.state_dir {
        Some(folder) => std::path::absolute(folder)
            .map_err(CommandError::io("cannot determine the state folder"))?,
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
    let agent = agent_keys(overrides, clock, watched)?;
    let request = request(overrides, environment, &simulator, &code, &state, agent)?;
    let loaded = load(&request)?;
    let secret = FixedCredential::new(SecretString::from(TOKEN), "the demo");
    let setting = Setting::new(loaded.config, options, Some(Arc::new(secret)), &request.cwd)?;
    Ok(Demo { setting, simulator, request, _code: temporary })
}

/// One folder per user, so that the demo's findings can be read afterwards and nothing piles up.
fn temporary_state() -> Result<PathBuf, CommandError> {
    let user = nix::unistd::Uid::current();
    let folder = std::env::temp_dir().join(format!("heartbeat-demo-{user}"));
    if let Ok(found) = std::fs::symlink_metadata(&folder) {
        // The place is open to all users: only a folder of our own is used.
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
    for name in ["heartbeat.db", "heartbeat.db-wal", "heartbeat.db-shm"] {
        // What is not there need not be removed.
        drop(std::fs::remove_file(state.join(name)));
    }
    for name in ["runs", "scratch", "index", "slots", "agents"] {
        drop(std::fs::remove_dir_all(state.join(name)));
    }
    Ok(())
}

/// In the state, where nothing else can be in its way; for a dry run, which writes nothing there,
/// in a folder that goes with the demo.
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

/// The keys of the simulated agent, which speaks like the kind that the command line asks for.
fn agent_keys(
    overrides: &Overrides,
    clock: &Clock,
    watched: Watched,
) -> Result<Vec<(&'static str, toml::Value)>, CommandError> {
    let asked = overrides.set.iter().rev().find_map(|pair| pair.strip_prefix("agent.kind="));
    let kind = asked.map(|kind| kind.trim_matches('"'));
    let command = |kind: &str| agent_command(clock, watched, kind);
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

/// The simulated agent as a command.
fn agent_command(clock: &Clock, watched: Watched, kind: &str) -> Result<toml::Value, CommandError> {
    let own = std::env::current_exe()
        .map_err(CommandError::io("cannot locate the heartbeat executable"))?;
    let mut words = vec![own.to_string_lossy().into_owned()];
    words
        .extend(["simulate", "agent", "--kind", kind, "--pace", PACE, SCRIPTED].map(str::to_owned));
    if watched == Watched::Schedule {
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
        // The demo starts small processes only: a busy machine is no reason to wait.
        ("limits.max_load_per_core", toml::Value::Float(100.0)),
        ("limits.max_memory_pressure", toml::Value::Float(100.0)),
        // Nor does it take a slot of a real heartbeat.
        ("limits.slots_dir", text(&state.join("slots").to_string_lossy())),
        ("timeouts.liveness", text("1s")),
        // Every finding that was written for it.
        ("limits.max_deep_per_run", toml::Value::Integer(20)),
        // A session that hangs is stopped and tried again while somebody still watches.
        ("timeouts.stall", text("15s")),
        ("dedupe.retry_delay", text("30s")),
        ("http.listen", text("127.0.0.1:0")),
    ];
    let demo = values.into_iter().chain(agent).map(|(key, value)| FlagValue {
        key: key.into(),
        value,
        flag: "--demo".into(),
    });
    // What the user says comes last and wins.
    request.flags.splice(0..0, demo);
    request.discover = Discover::Nowhere;
    Ok(request)
}

fn text(text: &str) -> toml::Value {
    toml::Value::String(text.to_owned())
}
