//! A host's name belongs to one process: one execution per name that the worker takes and renews
//! itself. Two workers with the same name would be asked about each other's sessions without
//! knowing them, so the second one is refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::engine::{Cover, Engine, EngineError, HeldActivity, Start, Started, What};
use super::faults::CallFaults;
use super::order::Task;
use super::queue_of;
use super::worker::{AGAIN, Worker};
use crate::process::machine::host_name;
use crate::session::StopSignal;
use crate::session::stop::StopState;
use crate::store::StoreError;

/// Heartbeat timeout of the holder of a name.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the worker's own task may wait for it.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// A name that is held for longer is taken again.
const MAX: Duration = Duration::from_hours(24 * 30);

/// Why this process may not use its name.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NameError {
    #[error(
        "another worker is named {host} in pool {pool} ({holder}), and names must be unique: \
         set [fleet] host to a different name on each host, or stop the other worker. The name of a \
         worker that died is free within a minute"
    )]
    Taken { host: String, pool: String, holder: String },
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// Why a worker stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{0}")]
    Name(#[from] NameError),
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// Report of the holder of a name with every heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NameHolder {
    /// A state has one process: its next one takes over the name.
    state: String,
    /// Unique to this process, also among processes on a copy of the state.
    process: String,
    machine: String,
    pid: u32,
}

/// The name of a host, held or not.
pub(super) struct Name {
    engine: Engine,
    id: String,
    queue: String,
    pool: String,
    host: String,
    heartbeat_timeout: Duration,
    own: NameHolder,
    /// The server's task token.
    token: Mutex<Vec<u8>>,
}

impl Name {
    pub(super) fn new(worker: &Worker, state: String) -> Self {
        let (fleet, host) = (&worker.config.fleet, worker.host.clone());
        let process = uuid::Uuid::now_v7().simple().to_string();
        Self {
            engine: worker.engine.clone(),
            id: format!("hb/host/{}/{host}", fleet.pool),
            queue: format!("{}-name-{process}", queue_of(&fleet.pool, &host)),
            pool: fleet.pool.clone(),
            heartbeat_timeout: HEARTBEAT_TIMEOUT.min(fleet.lease),
            own: NameHolder { state, process, machine: host_name(), pid: std::process::id() },
            token: Mutex::default(),
            host,
        }
    }

    fn token(&self) -> MutexGuard<'_, Vec<u8>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self, holder: String) -> NameError {
        NameError::Taken { host: self.host.clone(), pool: self.pool.clone(), holder }
    }

    /// Takes the name. A newly started process takes it from an earlier one of its state.
    async fn take(&self, just_started: bool) -> Result<(), NameError> {
        if let Some(found) = self.engine.describe(&self.id).await?.filter(|found| found.is_open) {
            let (details, own) = (found.details.as_ref(), self.engine.keys().own());
            match details.map(|it| Engine::open::<NameHolder>(own, What::Beat, &self.id, it)) {
                Some(Ok(holder))
                    if holder.process == self.own.process
                        || (just_started && holder.state == self.own.state) =>
                {
                    self.engine.terminate(&self.id, "its process is gone").await?;
                }
                Some(Ok(holder)) => {
                    let place = format!("process {} on {}", holder.pid, holder.machine);
                    return Err(self.taken(place));
                }
                Some(Err(_)) => return Err(self.taken("a host with another key".to_owned())),
                None => return Err(self.taken("it began just now".to_owned())),
            }
        }
        let start = Start {
            id: &self.id,
            queue: &self.queue,
            task: &Task::Void,
            wait: TAKEN_WITHIN,
            limit: MAX,
            heartbeat_timeout: Some(self.heartbeat_timeout),
            again: true,
        };
        if self.engine.start(start).await? == Started::Known {
            return Err(self.taken("it began just now".to_owned()));
        }
        let polled = tokio::time::timeout(TAKEN_WITHIN, self.engine.poll(&self.queue)).await;
        let Some(task) = polled.unwrap_or(Ok(None))? else {
            let why = "the server did not assign the task for this host's name".to_owned();
            return Err(EngineError::Unreachable(self.engine.address().to_owned(), why).into());
        };
        self.token().clone_from(&task.token);
        self.beat(&task.token, TAKEN_WITHIN).await?;
        Ok(())
    }

    async fn beat(&self, token: &[u8], limit: Duration) -> Result<HeldActivity, EngineError> {
        let own = (self.engine.keys().own(), &self.own);
        self.engine.beat(&self.id, token, own, limit).await
    }

    /// Sends heartbeats until the name is lost. An outage of the server alone does not lose it.
    async fn hold(&self) {
        let (every, token) = (self.heartbeat_timeout / 6, self.token().clone());
        loop {
            tokio::time::sleep(every).await;
            if let Ok(HeldActivity::No) = self.beat(&token, every).await {
                return;
            }
        }
    }

    /// Releases the name.
    pub(super) async fn release(&self) {
        let token = self.token().clone();
        if let Err(error) = self.engine.complete(&self.id, &token, &Cover::Signed, &()).await {
            tracing::debug!(%error, "could not release the host's name; it expires in a minute");
        }
    }
}

impl Worker {
    /// Takes this host's name as soon as the server is reachable. `None` if a stop was requested
    /// first.
    pub(super) async fn take_name(
        &self,
        stop: &mut StopSignal,
    ) -> Result<Option<Arc<Name>>, ServeError> {
        let name = Arc::new(Name::new(self, self.journal.state_id().await?));
        let mut faults = CallFaults::default();
        loop {
            tokio::select! {
                taken = name.take(true) => match taken {
                    Ok(()) => return Ok(Some(name)),
                    Err(error @ NameError::Taken { .. }) => return Err(error.into()),
                    Err(error) => log_failure(&mut faults, &error),
                },
                state = stop.changed(StopState::default()) => {
                    if state.reason.is_some() {
                        return Ok(None);
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Keeps this host's name. While another worker has it, this one takes no work.
    pub(super) async fn keep_name(self: Arc<Self>, name: Arc<Name>) {
        loop {
            self.shared.named.send_replace(true);
            name.hold().await;
            let mut faults = CallFaults::default();
            while let Err(error) = name.take(false).await {
                if let NameError::Taken { .. } = error {
                    self.shared.named.send_replace(false);
                }
                log_failure(&mut faults, &error);
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

fn log_failure(faults: &mut CallFaults, error: &NameError) {
    let text = error.to_string();
    if faults.should_log(&text) {
        tracing::error!(error = text, "could not take this host's name; retrying");
    }
}
