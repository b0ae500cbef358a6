//! The conformance cases on real workers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use heartbeat::clock::Clock;
use heartbeat::event::Trigger;
use heartbeat::fleet::engine::Engine;
use heartbeat::fleet::sessions::{Coordinator, FleetSessions};
use heartbeat::model::RunId;
use heartbeat::session::{LiveSessions, SupervisedSessions, Supervisor, SupervisorSettings};
use heartbeat::settings::{Config, Containment, Environment};
use heartbeat::store::{Journal, Store};
use support::conformance::{self, CAP, Subject};
use uuid::Uuid;

use crate::world::{HEARTBEAT, LEASE, World};

/// Sessions of this machine, with a separate state and this test's agent.
pub async fn here(
    world: &World,
    state: &str,
    change: impl FnOnce(&mut Config),
) -> (Subject, Arc<Config>) {
    let mut config = conformance::config(&world.agent);
    config.fleet.address = world.address();
    config.fleet.key_file = world.key();
    config.fleet.workers = world.workers();
    config.fleet.host = "coordinator".into();
    config.fleet.lease = LEASE;
    config.limits.admission_wait = Duration::from_secs(10);
    change(&mut config);
    let config = Arc::new(config);
    let state = world.path().join(state);
    let run = RunId(Uuid::now_v7());
    let journal = Journal::open(Store::open(&state).unwrap(), Clock::system(), Some(run)).unwrap();
    journal.runs().begin(run, Trigger::Manual, CAP).await.unwrap();
    let environment = Environment::new(std::env::vars_os());
    let settings = SupervisorSettings::new(Path::new(HEARTBEAT).into(), Containment::Auto, CAP);
    let ledger = Arc::new(journal.clone());
    let supervisor = Supervisor::new(settings, Arc::clone(&ledger) as _, ledger, Clock::system());
    let sessions = Arc::new(SupervisedSessions::new(supervisor, &config, &environment, &state));
    (Subject { sessions, journal, run, agent: world.agent.clone() }, config)
}

/// A coordinator in this process, with this test's agent.
pub async fn coordinator(world: &World, change: impl FnOnce(&mut Config)) -> Subject {
    let (local, config) = here(world, "coordinator", change).await;
    let environment = Environment::new(std::env::vars_os());
    let engine = Engine::new(&config.fleet, &environment, "coordinator").unwrap();
    let journal = local.journal.clone();
    let shared = Coordinator::new(engine, config, journal, LiveSessions::default());
    let sessions = FleetSessions::new(Arc::new(shared), Arc::clone(&local.sessions));
    Subject { sessions: Arc::new(sessions), ..local }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_fleet_do_what_all_sessions_do() {
    let Some(world) = World::new(24) else { return };
    let _worker = world.ready_worker("w0", 8);
    conformance::all(&coordinator(&world, |_| {}).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_fleet_ends_at_its_limit() {
    let Some(world) = World::new(24) else { return };
    let _worker = world.ready_worker("w0", 8);
    let limited = |config: &mut Config| config.triage.timeout = Duration::from_secs(1);
    conformance::a_session_ends_at_its_limit(&coordinator(&world, limited).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_on_no_host_starts_nothing() {
    let Some(world) = World::new(24) else { return };
    std::fs::remove_file(world.agent.folder.join("agent.sh")).unwrap();
    let config = world.config("w0", 8, "");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace("\"/bin/sh\"", "\"/no/such/agent\"");
    std::fs::write(&config, text).unwrap();
    let _worker = crate::world::Process::start(&mut world.command(&config, "w0", &["worker"]));
    let subject = coordinator(&world, |_| {}).await;
    conformance::an_agent_that_is_not_there_starts_nothing(&subject).await;
    let said = world.said("w0");
    assert!(said.contains("this host asks for no work for a while"), "{said}");
}
