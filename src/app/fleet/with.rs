//! Builds the coordinator's and the worker's parts.

use std::sync::Arc;
use std::time::Duration;

use super::FleetCheck;
use crate::app::error::CommandError;
use crate::app::exit::Code;
use crate::app::logging::{self, Purpose};
use crate::app::secrets::SettingSecrets;
use crate::app::setting::{load_request, state_folder};
use crate::app::{Notifier, Setting, Signals, StartOptions};
use crate::clock::Clock;
use crate::config::load;
use crate::fleet::account::Fingerprint;
use crate::fleet::engine::Engine;
use crate::fleet::gate::FleetGate;
use crate::fleet::keys::Keys;
use crate::fleet::name::ServeError;
use crate::fleet::right::{RightError, RunRight};
use crate::fleet::sessions::{Coordinator, FleetSessions};
use crate::fleet::worker::{MakeSessions, Shared, Worker};
use crate::fleet::{Names, doctor, own_host};
use crate::model::SessionId;
use crate::run::{Edges, Secrets as _};
use crate::session::{Sessions, StopHandle};
use crate::settings::{Config, Environment};
use crate::store::{Journal, RunLock, Store, WORKER};

/// The fleet of one run, if there is one.
pub struct FleetRun(Option<FleetParts>);

struct FleetParts {
    shared: Arc<Coordinator>,
    right: Arc<RunRight>,
}

fn engine(config: &Config, environment: &Environment) -> Result<Engine, CommandError> {
    Engine::new(&config.fleet, environment, &own_host(&config.fleet))
        .map_err(|error| CommandError::Fleet(error.to_string()))
}

impl FleetRun {
    /// Reads the key and the certificates; makes no request yet.
    pub fn new(
        setting: &Setting,
        journal: &Journal,
        stop: &StopHandle,
    ) -> Result<Self, CommandError> {
        let config = &setting.config;
        if !config.fleet.is_on() {
            return Ok(Self(None));
        }
        let engine = engine(config, &setting.environment)?;
        let right = RunRight::new(engine.clone(), journal.clone(), &config.fleet, stop.clone());
        let shared =
            Coordinator::new(engine, Arc::clone(config), journal.clone(), setting.live.clone());
        Ok(Self(Some(FleetParts { shared: Arc::new(shared), right: Arc::new(right) })))
    }

    /// Takes the right to run. With an unreachable server the tracker is still read: the gate asks
    /// again before a session starts.
    pub async fn begin(&self) -> Result<(), CommandError> {
        let Some(parts) = &self.0 else { return Ok(()) };
        match parts.right.take().await {
            Ok(()) => Ok(()),
            Err(RightError::Engine(error)) => {
                tracing::warn!(%error, "could not take the right to run; the run starts and requests it again before each session");
                Ok(())
            }
            Err(RightError::Store(error)) => Err(error.into()),
            Err(refused @ RightError::Held(_)) => Err(CommandError::NotNow(refused.to_string())),
            Err(refused @ RightError::OldCopy { .. }) => {
                Err(CommandError::OldState(refused.to_string()))
            }
        }
    }

    /// Releases it.
    pub async fn end(&self) {
        if let Some(parts) = &self.0 {
            parts.right.release().await;
        }
    }

    /// The same edges with the fleet's sessions and its gate.
    pub fn over(&self, edges: Edges) -> Edges {
        let Some(FleetParts { shared, right }) = &self.0 else { return edges };
        let sessions = FleetSessions::new(Arc::clone(shared), Arc::clone(&edges.sessions));
        let gate = FleetGate::new(Arc::clone(shared), Arc::clone(right), Arc::clone(&edges.gate));
        Edges { sessions: Arc::new(sessions), gate: Arc::new(gate), ..edges }
    }
}

/// Asks the host of a session to end it, on an operator's request.
pub async fn cancel(
    config: &Config,
    environment: &Environment,
    journal: &Journal,
    session: SessionId,
) -> Result<(), String> {
    let engine = engine(config, environment).map_err(|error| error.to_string())?;
    let state = journal.state_id().await.map_err(|error| error.to_string())?;
    let id = Names::new(&config.fleet, &state).session(session);
    engine.cancel(&id, "operator").await.map_err(|error| error.to_string())
}

/// Checks everything that a fleet needs.
pub async fn check_fleet(
    config: &Config,
    environment: &Environment,
    clock: &Clock,
) -> Vec<FleetCheck> {
    if !config.fleet.is_on() {
        return Vec::new();
    }
    let check = |(name, found, fix)| FleetCheck { name, found, fix };
    doctor::check_fleet(config, environment, clock).await.into_iter().map(check).collect()
}

fn fleet_config(options: &StartOptions) -> Result<Config, CommandError> {
    let request = load_request(&options.overrides, &options.environment)?;
    let config = load(&request)?.config;
    if !config.fleet.is_on() {
        return Err(CommandError::Usage(
            "a worker needs the address of the fleet's server: set [fleet] address and key_file"
                .to_owned(),
        ));
    }
    Ok(config)
}

/// The public key of this process; its key is made if there is none.
pub fn public_key(options: &StartOptions) -> Result<String, CommandError> {
    let keys = Keys::read_or_make(&fleet_config(options)?.fleet.key_file);
    Ok(keys.map_err(|error| CommandError::Fleet(error.to_string()))?.public().to_string())
}

/// A worker needs to know its coordinator, and must not have its key.
fn ensure_roles(config: &Config) -> Result<(), CommandError> {
    let keys = Keys::read_or_make(&config.fleet.key_file);
    let public = keys.map_err(|error| CommandError::Fleet(error.to_string()))?.public();
    let (host, coordinator) = (own_host(&config.fleet), &config.fleet.coordinator);
    tracing::info!(host, public_key = %public, "the coordinator lists this key in [fleet.workers]");
    if coordinator.is_empty() {
        return Err(CommandError::Usage(format!(
            "a worker carries out the orders of one coordinator: write its public key into [fleet] \
             coordinator (`heartbeat doctor` on the coordinator prints it). The public key of this \
             host is {public}: write {host} = \"{public}\" into [fleet.workers] of the coordinator"
        )));
    }
    if coordinator.contains(&public.to_string()) {
        return Err(CommandError::Usage(format!(
            "this host has the coordinator's key, so whoever takes it over could give orders to \
             all hosts: set [fleet] key_file ({}) to a file of its own, which is then made",
            config.fleet.key_file.display()
        )));
    }
    Ok(())
}

/// Serves as a host of a fleet until a signal.
pub async fn worker(options: &StartOptions) -> Result<Code, CommandError> {
    let config = fleet_config(options)?;
    let telemetry = logging::start(&config, options, Purpose::Service)?;
    ensure_roles(&config)?;
    crate::app::guard_children();
    let state = state_folder(&config, &options.environment)?;
    let journal = Journal::open(Store::open(&state)?, options.clock.clone(), None)?;
    let mut lock = RunLock::acquire(&state, WORKER, None, &options.clock)?;
    let mut signals = Signals::listen()?;
    let stop = StopHandle::new();
    let worker = Arc::new(new_worker(config, options, journal)?);
    let mut notifier = Notifier::from_environment(&options.environment);
    notifier.ready();
    let served = tokio::select! {
        served = worker.serve(stop.signal()) => served,
        never = signals.pass_on(&stop) => match never {},
        never = lock.keep_fresh(&options.clock) => match never {},
    };
    telemetry.finish().await;
    served.map_err(|error| match error {
        ServeError::Store(error) => error.into(),
        error @ ServeError::Name(_) => CommandError::NotNow(error.to_string()),
    })?;
    Ok(signals.stopped_by().unwrap_or(Code::Terminated))
}

fn new_worker(
    config: Config,
    options: &StartOptions,
    journal: Journal,
) -> Result<Worker, CommandError> {
    let setting = Setting::of_worker(config, options)?;
    let gate = setting.machine_gate(&journal);
    let make: MakeSessions = {
        let (setting, journal) = (setting.clone(), journal.clone());
        Arc::new(move |config: Config, silence: Duration| {
            let setting = Setting { config: Arc::new(config), ..setting.clone() };
            let sessions = setting.sessions_within(&journal, Some(silence));
            sessions
                .map(|sessions| Arc::new(sessions) as Arc<dyn Sessions>)
                .map_err(|error| error.to_string())
        })
    };
    let secrets = Arc::new(SettingSecrets::new(&setting));
    let fingerprint: Fingerprint = Arc::new(move |agent, key| {
        let secrets = Arc::clone(&secrets);
        Box::pin(async move { secrets.agent_fingerprint(agent, &key) })
    });
    Ok(Worker {
        engine: engine(&setting.config, &setting.environment)?,
        host: own_host(&setting.config.fleet),
        trees: setting.state.join("trees"),
        environment: setting.environment.clone(),
        clock: setting.clock.clone(),
        live: setting.live.clone(),
        config: Arc::clone(&setting.config),
        gate: Arc::new(gate),
        shared: Shared::default(),
        fingerprint,
        journal,
        make,
    })
}
