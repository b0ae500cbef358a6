//! The right to run, across hosts: one execution per state that the coordinator takes and renews
//! itself. A second coordinator finds it taken; one that died loses it after the heartbeat timeout;
//! a copy of the state that is older than the last run is recognised by its generation.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::engine::{Cover, Described, Engine, EngineError, HeldActivity, Start, Started, What};
use super::order::{Holder, Task};
use super::{Names, own_host};
use crate::process;
use crate::session::{StopHandle, StopReason};
use crate::settings::Fleet;
use crate::store::{Journal, StoreError};

/// Heartbeat timeout of a coordinator.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the coordinator's own task may wait for it.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// Longer than the longest run.
const MAX: Duration = Duration::from_hours(48);

/// Why this process may not run.
#[derive(Debug, thiserror::Error)]
pub enum RightError {
    #[error(
        "another coordinator of this state is running ({0}); only one may run. Its right to \
         run expires a minute after it stops"
    )]
    Held(String),
    #[error(
        "this state is an old copy: it has seen {own} runs, and the fleet's last run was number \
         {newest} on {host}. Restore the newest copy of the state; a run on this copy would pay for \
         items again"
    )]
    OldCopy { own: i64, newest: i64, host: String },
    #[error("{0}")]
    Engine(#[from] EngineError),
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// The right of one run: taken when it is first needed, released at the end.
pub struct RunRight {
    engine: Engine,
    journal: Journal,
    fleet: Fleet,
    /// Ends the run when the right is lost.
    run: StopHandle,
    kept: Mutex<Option<KeptRight>>,
    /// How far the server's clock is ahead of this machine's, in milliseconds.
    ahead: AtomicI64,
}

struct KeptRight {
    id: String,
    token: Vec<u8>,
    beats: JoinHandle<()>,
}

impl RunRight {
    pub fn new(engine: Engine, journal: Journal, fleet: &Fleet, run: StopHandle) -> Self {
        Self {
            engine,
            journal,
            fleet: fleet.clone(),
            run,
            kept: Mutex::new(None),
            ahead: AtomicI64::new(0),
        }
    }

    /// The server's time, as far as it is known, since its data on hosts is by its own clock.
    pub(super) fn server_time(&self) -> Timestamp {
        let now = self.journal.clock().now();
        let ahead = SignedDuration::from_millis(self.ahead.load(Ordering::Relaxed));
        now.saturating_add(ahead).unwrap_or(now)
    }

    fn heartbeat_timeout(&self) -> Duration {
        HEARTBEAT_TIMEOUT.min(self.fleet.lease)
    }

    /// Takes it, unless this run already has it.
    pub async fn take(&self) -> Result<(), RightError> {
        let mut kept = self.kept.lock().await;
        if kept.is_some() {
            return Ok(());
        }
        let names = Names::new(&self.fleet, &self.journal.state_id().await?);
        let id = names.run();
        if let Some(found) = self.engine.describe(&id).await? {
            self.ensure_free(&id, &found).await?;
        }
        let queue = format!("{}-run-{}", names.queue(), uuid::Uuid::now_v7().simple());
        let start = Start {
            id: &id,
            queue: &queue,
            task: &Task::Run,
            wait: TAKEN_WITHIN,
            limit: MAX,
            heartbeat_timeout: Some(self.heartbeat_timeout()),
            again: true,
        };
        if self.engine.start(start).await? == Started::Known {
            return Err(RightError::Held("it began just now".to_owned()));
        }
        let polled = tokio::time::timeout(TAKEN_WITHIN, self.engine.poll(&queue)).await;
        let Ok(Some(task)) = polled.unwrap_or(Ok(None)) else {
            let why = "the server did not assign the task for the right to run".to_owned();
            return Err(EngineError::Unreachable(self.fleet.address.clone(), why).into());
        };
        if let Some(at) = task.at {
            let ahead = at.duration_since(self.journal.clock().now()).as_millis();
            self.ahead.store(i64::try_from(ahead).unwrap_or(0), Ordering::Relaxed);
        }
        // Counted only now: a coordinator that found the right taken has not run.
        let generation = self.journal.next_generation().await?;
        let host = own_host(&self.fleet);
        let holder = Holder { host, pid: std::process::id(), generation };
        self.engine
            .beat(&id, &task.token, (self.engine.keys().own(), &holder), TAKEN_WITHIN)
            .await?;
        let renewer = RightRenewer {
            engine: self.engine.clone(),
            id: id.clone(),
            token: task.token.clone(),
            holder,
            heartbeat_timeout: self.heartbeat_timeout(),
            run: self.run.clone(),
        };
        *kept = Some(KeptRight { id, token: task.token, beats: tokio::spawn(renewer.renew()) });
        Ok(())
    }

    async fn ensure_free(&self, id: &str, found: &Described) -> Result<(), RightError> {
        let details = found.details.as_ref();
        let holder: Option<Holder> =
            match details.map(|it| Engine::open(self.engine.keys().own(), What::Beat, id, it)) {
                Some(opened) => Some(opened?),
                None => None,
            };
        let own = self.journal.generation().await?;
        if let Some(Holder { host, generation, .. }) = &holder
            && *generation > own
        {
            let (newest, host) = (*generation, host.clone());
            return Err(RightError::OldCopy { own, newest, host });
        }
        match holder {
            _ if !found.is_open => Ok(()),
            // This process holds the state's lock on this host, so the other one is gone.
            Some(holder) if holder.host == own_host(&self.fleet) && is_gone(holder.pid) => {
                Ok(self.engine.terminate(id, "its process is gone").await?)
            }
            Some(holder) => {
                Err(RightError::Held(format!("on {}, process {}", holder.host, holder.pid)))
            }
            None => Err(RightError::Held("it has not reported its host".to_owned())),
        }
    }

    /// Releases it.
    pub async fn release(&self) {
        let Some(kept) = self.kept.lock().await.take() else { return };
        kept.beats.abort();
        if let Err(error) = self.engine.complete(&kept.id, &kept.token, &Cover::Signed, &()).await {
            tracing::warn!(%error, "could not release the right to run; it expires within a minute");
        }
    }
}

fn is_gone(pid: u32) -> bool {
    pid == std::process::id() || process::stat(pid).is_none_or(|stat| stat.is_dead())
}

/// Renews the right for the duration of the run.
struct RightRenewer {
    engine: Engine,
    id: String,
    token: Vec<u8>,
    holder: Holder,
    heartbeat_timeout: Duration,
    run: StopHandle,
}

impl RightRenewer {
    async fn renew(self) {
        let mut heard = tokio::time::Instant::now();
        let longest = self.heartbeat_timeout - self.heartbeat_timeout / 8;
        loop {
            tokio::time::sleep(self.heartbeat_timeout / 6).await;
            let (sent, limit) = (tokio::time::Instant::now(), self.heartbeat_timeout / 6);
            match self
                .engine
                .beat(&self.id, &self.token, (self.engine.keys().own(), &self.holder), limit)
                .await
            {
                Ok(HeldActivity::Yes | HeldActivity::CancelRequested) => heard = sent,
                Ok(HeldActivity::No) => break,
                Err(_) if heard.elapsed() < longest => {}
                // Sessions of this run continue at their hosts; the next run gets their ends.
                Err(_) => break,
            }
        }
        tracing::error!("lost the right to run on this state; ending the run");
        self.run.stop(StopReason::LeaseLost);
    }
}

pub fn shared(engine: Engine, journal: Journal, fleet: &Fleet, run: StopHandle) -> Arc<RunRight> {
    Arc::new(RunRight::new(engine, journal, fleet, run))
}
