//! Everything one run needs, from one configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::demo::{self, Demo, DemoMode, Fresh};
use super::error::CommandError;
use super::fleet::FleetRun;
use super::logging::Purpose;
use super::secrets::SettingSecrets;
use super::web::Observers;
use super::{ConfiguredCredential, Telemetry, TemporaryFolder, trackers};
use crate::clock::Clock;
use crate::config::{Discover, FlagValue, LoadRequest, Loaded, load};
use crate::context::{CodeBases, CodeCopies, Upstream};
use crate::event::Trigger;
use crate::fetch::{Credential, Turns};
use crate::model::RunId;
use crate::prompt::Prompts;
use crate::report::terminal::Progress;
use crate::run::{Edges, RunContext};
use crate::session::brief::Briefly;
use crate::session::keeper::launch::own_program;
use crate::session::{
    LiveSessions, MachineGate, StopHandle, SupervisedSessions, Supervisor, SupervisorSettings,
};
use crate::settings::{Config, Environment, LogFormat, LogLevel, RouteSettings};
use crate::store::{Journal, Owner};

/// In the state folder: work trees of the code bases' newest commits.
pub const CODE_FOLDER: &str = "code";

/// Command line options that override the configuration.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub config: Option<PathBuf>,
    pub state_dir: Option<PathBuf>,
    /// As `KEY=VALUE`.
    pub set: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct StartOptions {
    pub overrides: Overrides,
    pub environment: Environment,
    pub clock: Clock,
    pub log_level: Option<LogLevel>,
    pub log_format: Option<LogFormat>,
    pub progress: Progress,
    /// Use the simulators and a temporary state.
    pub demo: bool,
}

/// The layers of values: file, environment, flags.
pub fn load_request(
    overrides: &Overrides,
    environment: &Environment,
) -> Result<LoadRequest, CommandError> {
    let cwd = std::env::current_dir()
        .map_err(CommandError::io("cannot determine the working directory"))?;
    let mut flags = Vec::new();
    for pair in &overrides.set {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(CommandError::Usage(format!("`--set` expects KEY=VALUE, not `{pair}`")));
        };
        // A value that is not valid TOML is taken as text.
        let value = format!("x = {value}")
            .parse::<toml::Table>()
            .ok()
            .and_then(|mut table| table.remove("x"))
            .unwrap_or_else(|| toml::Value::String(value.to_owned()));
        flags.push(FlagValue { key: key.to_owned(), value, flag: format!("--set {key}") });
    }
    if let Some(folder) = &overrides.state_dir {
        let value = toml::Value::String(folder.to_string_lossy().into_owned());
        flags.push(FlagValue { key: "state.dir".into(), value, flag: "--state-dir".into() });
    }
    let (explicit, environment) = (overrides.config.clone(), environment.clone());
    Ok(LoadRequest { explicit, discover: Discover::UsualPlaces, environment, cwd, flags })
}

/// Fails if there is no file and a required key is missing.
pub fn ensure_configured(loaded: &Loaded) -> Result<(), CommandError> {
    if loaded.file.is_none() && !loaded.config.has_source() {
        return Err(CommandError::NoConfig);
    }
    Ok(())
}

/// The configured folder, or the default one of this configuration. Before folders had names, all
/// configurations of a user shared one; it stays with the one it belongs to.
pub fn state_folder(config: &Config, environment: &Environment) -> Result<PathBuf, CommandError> {
    if !config.state.dir.as_os_str().is_empty() {
        return Ok(config.state.dir.clone());
    }
    let home = environment.state_home().ok_or_else(|| {
        CommandError::Usage(
            "cannot choose a state folder: neither HOME nor XDG_STATE_HOME is set\n  hint: pass \
             --state-dir, or set `state.dir`"
                .into(),
        )
    })?;
    let shared = home.join("heartbeat");
    let Some(name) = config.state_name() else { return Ok(shared) };
    let named = home.join(format!("heartbeat-{name}"));
    let is_ours = Owner::is_used(&shared)
        && Owner::of_folder(&shared).is_none_or(|owner| owner.accepts(&owner_of(config)));
    Ok(if is_ours && !Owner::is_used(&named) { shared } else { named })
}

/// This configuration as the owner of a state.
pub fn owner_of(config: &Config) -> Owner {
    let sources = config.sources().iter().map(|source| {
        let kind: &str = source.kind.into();
        format!("{} ({kind} {} {})", source.name, source.base_url, source.project)
    });
    Owner { config: config.file.clone(), sources: sources.collect() }
}

/// Refuses a state of another configuration: its queue would be parked, and parked back. A state
/// without an owner is taken.
pub fn claim_state(
    config: &Config,
    options: &StartOptions,
    state: &Path,
) -> Result<(), CommandError> {
    // The simulated tracker has another address each time.
    if options.demo { Ok(()) } else { Ok(owner_of(config).claim(state)?) }
}

/// Everything one run needs. A run keeps the setting it started with.
#[derive(Clone)]
pub struct Setting {
    pub config: Arc<Config>,
    pub prompts: Arc<Prompts>,
    pub environment: Environment,
    pub clock: Clock,
    /// In the order of the sources.
    pub credentials: Vec<Arc<dyn Credential>>,
    /// One request at a time per organisation.
    pub turns: Turns,
    /// The state folder.
    pub state: PathBuf,
    /// Folder of the code-base indexes.
    pub cache: PathBuf,
    /// Heartbeat's own work trees of the code bases.
    pub code: CodeCopies,
    /// Sessions of this process that can be ended one by one.
    pub live: LiveSessions,
    /// One verification of findings at a time.
    pub verifying: Arc<tokio::sync::Mutex<()>>,
    pub observers: Observers,
    pub telemetry: Telemetry,
}

impl Setting {
    /// For `--once` or a dry run: as configured or, for the demo, on simulators that live as long
    /// as the second value.
    pub async fn for_one_run(
        options: &StartOptions,
        purpose: Purpose,
    ) -> Result<(Self, Option<Demo>), CommandError> {
        if options.demo {
            let fresh = if purpose == Purpose::DryRun { Fresh::No } else { Fresh::Yes };
            let demo = demo::start(options, fresh, DemoMode::OneRun).await?;
            return Ok((demo.setting.clone(), Some(demo)));
        }
        let request = load_request(&options.overrides, &options.environment)?;
        let loaded = load(&request)?;
        ensure_configured(&loaded)?;
        Ok((Self::new(loaded.config, options, None, &request.cwd)?, None))
    }

    /// Checks what can be checked without side effects. Without a given credential, the configured
    /// one is read when it is needed.
    pub fn new(
        mut config: Config,
        options: &StartOptions,
        credential: Option<Arc<dyn Credential>>,
        cwd: &Path,
    ) -> Result<Self, CommandError> {
        config.require_for_run()?;
        resolve_code_bases(&mut config, cwd)?;
        let credentials = match credential {
            Some(credential) => vec![credential; config.sources().len()],
            None => configured_credentials(&config, &options.environment),
        };
        Self::assemble(config, options, credentials)
    }

    /// For a worker, which reads no tracker and receives its prompts.
    #[cfg(feature = "fleet")]
    pub(super) fn of_worker(config: Config, options: &StartOptions) -> Result<Self, CommandError> {
        Self::assemble(config, options, Vec::new())
    }

    fn assemble(
        config: Config,
        options: &StartOptions,
        credentials: Vec<Arc<dyn Credential>>,
    ) -> Result<Self, CommandError> {
        let environment = options.environment.clone();
        let state = state_folder(&config, &environment)?;
        Ok(Self {
            prompts: Arc::new(Prompts::load(&config, |path| std::fs::read_to_string(path))?),
            cache: state.join("index"),
            code: CodeCopies::Fetched(state.join(CODE_FOLDER)),
            config: Arc::new(config),
            environment,
            clock: options.clock.clone(),
            credentials,
            turns: Turns::default(),
            state,
            live: LiveSessions::default(),
            verifying: Arc::default(),
            observers: Observers::default(),
            telemetry: Telemetry::default(),
        })
    }

    /// The same setting on a copy of its state, for a dry run.
    pub fn on_copy(&self, folder: &TemporaryFolder) -> Result<Self, CommandError> {
        crate::store::scratch_copy(&self.state, folder.path())?;
        let state = folder.path().to_path_buf();
        let code = CodeCopies::Existing(self.state.join(CODE_FOLDER));
        Ok(Self { cache: state.join("index"), state, code, ..self.clone() })
    }

    pub fn run_context(
        &self,
        trigger: Trigger,
        journal: Journal,
        id: RunId,
        stop: StopHandle,
        fleet: Option<&FleetRun>,
    ) -> Result<RunContext, CommandError> {
        let edges = self.edges(&journal)?;
        let edges = match fleet {
            Some(fleet) => fleet.over(edges),
            None => edges,
        };
        let (config, prompts) = (Arc::clone(&self.config), Arc::clone(&self.prompts));
        Ok(RunContext::new(id, trigger, config, prompts, journal, edges, stop))
    }

    /// Supervised sessions of the configured agent.
    pub(super) fn sessions(&self, journal: &Journal) -> Result<SupervisedSessions, CommandError> {
        self.sessions_within(journal, None)
    }

    /// Like `sessions`; a keeper ends its session if heartbeat is silent for `silence`, if that is
    /// shorter than the default.
    pub(super) fn sessions_within(
        &self,
        journal: &Journal,
        silence: Option<Duration>,
    ) -> Result<SupervisedSessions, CommandError> {
        let keeper =
            own_program().map_err(CommandError::io("cannot locate the heartbeat executable"))?;
        let limits = &self.config.limits;
        let containment = self.config.state.containment;
        let usual = SupervisorSettings::new(keeper, containment, limits.max_live_sessions);
        let settings = SupervisorSettings {
            slots: Some(crate::session::admission::slots_of(limits)),
            lease: silence.map_or(usual.lease, |silence| silence.min(usual.lease)),
            ..usual
        };
        let journal = Arc::new(journal.clone());
        let supervisor =
            Supervisor::new(settings, Arc::clone(&journal) as _, journal, self.clock.clone())
                .sharing(self.live.clone())
                .removing(Arc::new(SettingSecrets::new(self)));
        Ok(SupervisedSessions::new(supervisor, &self.config, &self.environment, &self.state))
    }

    /// Runs commands like sessions.
    pub(super) fn briefly(&self) -> std::io::Result<Briefly> {
        let (keeper, containment) = (own_program()?, self.config.state.containment);
        Ok(Briefly { keeper, containment })
    }

    /// Whether this machine admits another session.
    pub(super) fn machine_gate(&self, journal: &Journal) -> MachineGate {
        let search_path = self.environment.raw("PATH").unwrap_or_default();
        let mut gate = MachineGate::new(&self.config.limits, Arc::new(journal.clone()));
        for kind in self.config.agents() {
            let agent = self.config.command_of(kind).first().map_or("", String::as_str);
            gate = gate.for_agent(agent, search_path);
        }
        gate
    }

    pub(super) fn edges(&self, journal: &Journal) -> Result<Edges, CommandError> {
        let repository = &self.config.repository;
        let upstream = Upstream::new(repository, &self.environment, self.code.clone());
        Ok(Edges {
            secrets: Arc::new(SettingSecrets::new(self)),
            trackers: trackers::trackers(self, journal),
            sessions: Arc::new(self.sessions(journal)?),
            gate: Arc::new(self.machine_gate(journal)),
            code: Arc::new(CodeBases::new(&self.config, &self.cache, upstream)),
        })
    }
}

/// In the order of the sources. Nothing is read yet.
fn configured_credentials(config: &Config, environment: &Environment) -> Vec<Arc<dyn Credential>> {
    let one = |source| -> Arc<dyn Credential> {
        Arc::new(ConfiguredCredential::new(source, config, environment))
    };
    config.sources().iter().map(one).collect()
}

/// Every configured code base must exist.
fn resolve_code_bases(config: &mut Config, cwd: &Path) -> Result<(), CommandError> {
    if config.needs_default_code_base() || !config.repository.path.as_os_str().is_empty() {
        config.repository.path = repository(&config.repository.path, cwd)?;
    }
    let Config { source, source_list, repository: default, .. } = config;
    let own = source_list.iter_mut().chain([source]);
    let (mut paths, mut routes) = (Vec::new(), vec![&mut default.routes]);
    for source in own {
        paths.push(&mut source.repository);
        routes.push(&mut source.routes);
    }
    paths.retain(|path| !path.as_os_str().is_empty());
    let mut routes: Vec<&mut RouteSettings> = routes.into_iter().flatten().collect();
    for route in &mut routes {
        paths.extend(std::iter::once(&mut route.path).chain(&mut route.also));
    }
    for path in paths {
        *path = repository(path, cwd)?;
    }
    // Links are resolved only now, so folders may have other names.
    match routes.iter().find_map(|route| route.contradiction()) {
        Some(why) => Err(CommandError::Repository(why)),
        None => Ok(()),
    }
}

/// The configured folder, or the working directory if it is a repository.
fn repository(configured: &Path, cwd: &Path) -> Result<PathBuf, CommandError> {
    let (path, origin) = if configured.as_os_str().is_empty() {
        if !cwd.join(".git").exists() {
            return Err(CommandError::Repository(format!(
                "there is no code base to analyse: `repository.path` is not set, and the working \
                 directory `{}` is not a git repository\n  hint: set `repository.path`, or run \
                 heartbeat inside the repository",
                cwd.display()
            )));
        }
        (cwd.to_path_buf(), "the working directory")
    } else {
        (cwd.join(configured), "`repository.path`")
    };
    let fail = |why: String| {
        CommandError::Repository(format!(
            "cannot read the code base `{}` ({origin}): {why}\n  hint: set `repository.path` to an \
             existing folder",
            path.display()
        ))
    };
    let resolved = path.canonicalize().map_err(|error| fail(error.to_string()))?;
    if resolved.is_dir() { Ok(resolved) } else { Err(fail("it is not a folder".into())) }
}
