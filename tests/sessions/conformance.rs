//! The conformance cases on sessions of this machine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use heartbeat::clock::Clock;
use heartbeat::event::Trigger;
use heartbeat::model::RunId;
use heartbeat::ports::{Ledger as _, LedgerRow};
use heartbeat::session::{SupervisedSessions, Supervisor, SupervisorSettings};
use heartbeat::settings::{Config, Containment, Environment};
use heartbeat::store::{Journal, Store};
use support::conformance::{self, CAP, ScriptedAgent, Subject};
use uuid::Uuid;

async fn local(folder: &Path, change: impl FnOnce(&mut Config)) -> Subject {
    let program = Path::new(env!("CARGO_BIN_EXE_heartbeat"));
    let agent = ScriptedAgent::write(&folder.join("agent"), program);
    let mut config = conformance::config(&agent);
    change(&mut config);
    let config = Arc::new(config);
    let state = folder.join("state");
    let run = RunId(Uuid::now_v7());
    let store = Store::open(&state).unwrap();
    let journal = Journal::open(store, Clock::system(), Some(run)).unwrap();
    journal.runs().begin(run, Trigger::Manual, CAP).await.unwrap();
    let settings = SupervisorSettings::new(program.to_owned(), Containment::Auto, CAP);
    let ledger = Arc::new(journal.clone());
    let supervisor = Supervisor::new(settings, Arc::clone(&ledger) as _, ledger, Clock::system());
    let environment = Environment::new(std::env::vars_os());
    let sessions = Arc::new(SupervisedSessions::new(supervisor, &config, &environment, &state));
    Subject { sessions, journal, run, agent }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_this_machine_do_what_all_sessions_do() {
    let folder = tempfile::tempdir().unwrap();
    conformance::all(&local(folder.path(), |_| {}).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_this_machine_ends_at_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let limited = |config: &mut Config| config.triage.timeout = Duration::from_secs(1);
    conformance::a_session_ends_at_its_limit(&local(folder.path(), limited).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_on_this_machine_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let without = |config: &mut Config| config.agent.command = vec!["/no/such/agent".into()];
    let subject = local(folder.path(), without).await;
    conformance::an_agent_that_is_not_there_starts_nothing(&subject).await;
}

/// A row of another host has another boot: closing it would free a slot that is in use.
#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_another_host_is_not_an_orphan_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let subject = local(folder.path(), |_| {}).await;
    let id = subject.claim().await;
    let session = subject.job(id, conformance::Play::Hang).session;
    let now = Clock::system().now();
    let nobody = heartbeat::model::ProcessIdentity {
        pid: 0,
        start_time: 0,
        pidfd_inode: None,
        boot_id: String::new(),
    };
    let row = LedgerRow {
        session,
        keeper: nobody,
        tier: "remote".into(),
        cgroup: None,
        scratch: folder.path().join("nothing"),
        started_at: now,
        deadline_at: now,
        host: Some("elsewhere".into()),
        in_force: None,
    };
    subject.journal.register(row, CAP).await.unwrap();
    subject.sessions.resolve_orphans().await.unwrap();
    assert_eq!(subject.open_rows().await, 1);
}
