//! The coordinator's side: a session is a row here, an execution at the server, and a supervised
//! session at some host.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use super::engine::{Engine, EngineError, Start, Started};
use super::follow::Follower;
use super::order::{Offer, Order, Task, WIRE};
use super::{Names, checkout};
use crate::event::{Event, Reason, Sink as _};
use crate::model::{BoxFuture, Outcome, ProcessIdentity, SessionEnd, SessionRef, Stage};
use crate::ports::{Ledger as _, LedgerError, LedgerRow};
use crate::session::stop::StopState;
use crate::session::{Job, LiveSessions, Sessions, StopSignal};
use crate::settings::{Config, WhenDown};
use crate::store::Journal;

/// Between two attempts to reach the server.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// Additional time of a host for a session: checkout, start, delivery.
const BEYOND_LIMITS: Duration = Duration::from_mins(7);

/// Shared by the coordinator's sessions.
pub struct Coordinator {
    pub(super) engine: Engine,
    pub(super) config: Arc<Config>,
    pub(super) journal: Journal,
    /// Sessions that a task of this process waits for.
    pub(super) live: LiveSessions,
    names: OnceCell<Names>,
}

impl Coordinator {
    pub fn new(engine: Engine, config: Arc<Config>, journal: Journal, live: LiveSessions) -> Self {
        Self { engine, config, journal, live, names: OnceCell::new() }
    }

    /// The names of this state's executions.
    pub async fn names(&self) -> Result<&Names, LedgerError> {
        let named = self.names.get_or_try_init(|| async {
            let state = self.journal.state_id().await?;
            Ok::<_, crate::store::StoreError>(Names::new(&self.config.fleet, &state))
        });
        named.await.map_err(LedgerError::store)
    }

    /// Heartbeat timeout.
    pub(super) fn heartbeat_timeout(&self) -> Duration {
        self.config.fleet.lease
    }

    /// The agent's time limit.
    pub(super) fn time_limit(&self, stage: Stage) -> Duration {
        match stage {
            Stage::Triage | Stage::Locate => self.config.triage.timeout,
            Stage::Deep => self.config.analyze.timeout,
        }
    }

    /// The longest time that a host may have a session.
    fn limit(&self, stage: Stage) -> Duration {
        let times = &self.config.timeouts;
        let parts = [times.init, times.grace, times.drain, BEYOND_LIMITS];
        parts.into_iter().fold(self.time_limit(stage), Duration::saturating_add)
    }

    /// Starts the same id with an empty task. If that is accepted, a start in doubt will be
    /// refused; if it is refused, the first start was accepted.
    async fn occupy_id(&self, id: &str) -> Result<Started, EngineError> {
        let queue = format!("{}-void", self.config.fleet.pool);
        let second = Duration::from_secs(1);
        let void = Start {
            id,
            queue: &queue,
            task: &Task::Void,
            wait: second,
            limit: second,
            heartbeat_timeout: None,
            again: false,
        };
        self.engine.start(void).await
    }
}

/// Result of giving a session to the server.
enum Dispatch {
    Accepted,
    /// No host will get it.
    Refused(String),
    /// It is unknown whether a host gets it, and a stop was requested.
    InDoubt,
}

/// Runs sessions on the hosts of a fleet.
pub struct FleetSessions {
    shared: Arc<Coordinator>,
    /// Rows of this machine, and sessions while the server is unreachable, if configured.
    local: Arc<dyn Sessions>,
}

impl FleetSessions {
    pub fn new(shared: Arc<Coordinator>, local: Arc<dyn Sessions>) -> Self {
        Self { shared, local }
    }

    async fn runs_here(&self) -> bool {
        let here = self.shared.config.fleet.when_down == WhenDown::Local;
        here && self.shared.engine.version().await.is_err()
    }

    /// The order for a job; an error tells why no host could do it.
    async fn order(&self, job: &Job) -> Result<Order, LedgerError> {
        let not_now = |why: &dyn std::fmt::Display| {
            LedgerError::NotStarted(Reason::CannotStart, why.to_string())
        };
        let checkout = match &job.repository {
            Some(root) => Some(checkout::of(root).await.map_err(|error| not_now(&error))?),
            None => None,
        };
        let order = Order::new(job, checkout, &self.shared.config);
        self.shared.engine.ensure_fits(&order).map_err(|error| not_now(&error))?;
        Ok(order)
    }

    fn row(&self, session: &SessionRef) -> LedgerRow {
        let now = self.shared.journal.clock().now();
        // The agent's own limit, as everywhere else; the wait for a host is not part of it.
        let limit = self.shared.time_limit(session.stage);
        let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
        LedgerRow {
            session: session.clone(),
            keeper: ProcessIdentity {
                pid: 0,
                start_time: 0,
                pidfd_inode: None,
                boot_id: String::new(),
            },
            tier: "remote".to_owned(),
            cgroup: None,
            scratch: std::path::PathBuf::new(),
            started_at: now,
            deadline_at: now.saturating_add(limit).unwrap_or(now),
            host: Some(String::new()),
            in_force: None,
        }
    }

    async fn dispatch(
        &self,
        id: &str,
        stage: Stage,
        task: &Task,
        stop: &mut StopSignal,
    ) -> Result<Dispatch, LedgerError> {
        let shared = &self.shared;
        let queue = shared.names().await?.queue();
        let start = Start {
            id,
            queue: &queue,
            task,
            wait: shared.config.limits.admission_wait.max(Duration::from_secs(1)),
            limit: shared.limit(stage),
            heartbeat_timeout: Some(shared.heartbeat_timeout()),
            again: false,
        };
        let first = match shared.engine.start(start).await {
            Ok(_) => return Ok(Dispatch::Accepted),
            Err(error) if !error.is_in_doubt() => return Ok(Dispatch::Refused(error.to_string())),
            Err(error) => error,
        };
        tracing::warn!(%id, error = %first, "the server's answer to the start of a session was lost; asking the server whether it was started");
        loop {
            match shared.occupy_id(id).await {
                Ok(Started::New) => return Ok(Dispatch::Refused(first.to_string())),
                Ok(Started::Known) => return Ok(Dispatch::Accepted),
                // Also a refusal, which says nothing about the first start.
                Err(_) if stop.state().reason.is_some() => return Ok(Dispatch::InDoubt),
                Err(_) => {}
            }
            drop(tokio::time::timeout(AGAIN, stop.changed(StopState::default())).await);
        }
    }

    async fn run(&self, job: Job, mut stop: StopSignal) -> Result<SessionEnd, LedgerError> {
        let shared = &self.shared;
        let session = job.session.clone();
        let id = shared.names().await?.session(session.id);
        let order = self.order(&job).await?;
        drop(job);
        let most = shared.config.limits.max_live_sessions;
        shared.journal.register(self.row(&session), most).await?;
        let mut follower = Follower::new(Arc::clone(shared), session.clone(), id.clone(), None);
        let heartbeat_timeout_ms = order.heartbeat_timeout_ms;
        follower.announce(order);
        let offer = Task::Offer(Offer { wire: WIRE, session: session.id, heartbeat_timeout_ms });
        match self.dispatch(&id, session.stage, &offer, &mut stop).await? {
            Dispatch::Accepted => follower.follow(stop).await,
            Dispatch::Refused(why) => follower.withdraw(Reason::EngineUnavailable, why).await,
            Dispatch::InDoubt => Err(LedgerError::LeftRunning),
        }
    }

    /// Resumes a row that no task of this process waits for: closes it if its session is over, else
    /// follows it in the background.
    async fn attach(shared: Arc<Coordinator>, row: LedgerRow) -> Result<(), LedgerError> {
        let id = shared.names().await?.session(row.session.id);
        let host = row.host.clone().filter(|host| !host.is_empty());
        let is_open = match shared.engine.describe(&id).await {
            // A row names its host before the host gets the order: nobody has this one.
            Ok(Some(described)) if described.is_open && host.is_none() => {
                let why = "its order was given to nobody";
                return match shared.engine.terminate(&id, why).await {
                    Ok(()) => shared.withdraw(&row.session, Reason::NoWorker, why).await,
                    Err(error) => keep_row_open(&row, &error),
                };
            }
            Ok(Some(described)) => described.is_open,
            Ok(None) => match shared.occupy_id(&id).await {
                Ok(Started::New) => {
                    let why = "its start never reached the server";
                    let reason = Reason::EngineUnavailable;
                    return shared.withdraw(&row.session, reason, why).await;
                }
                Ok(Started::Known) => true,
                Err(error) => return keep_row_open(&row, &error),
            },
            Err(error) => return keep_row_open(&row, &error),
        };
        let follower = Follower::new(Arc::clone(&shared), row.session.clone(), id, host);
        if !is_open {
            return match follower.follow(crate::session::StopHandle::new().signal()).await {
                Ok(_) | Err(LedgerError::NotStarted(..) | LedgerError::LeftRunning) => Ok(()),
                Err(error) => Err(error),
            };
        }
        let entry = shared.live.register(row.session.id);
        tokio::spawn(async move {
            let signal = entry.handle().signal();
            match follower.follow(signal).await {
                Ok(_) | Err(LedgerError::NotStarted(..) | LedgerError::LeftRunning) => {}
                Err(error) => tracing::error!(%error, "could not close a session's row"),
            }
            drop(entry);
        });
        Ok(())
    }
}

/// Its row stays open and counts as live.
fn keep_row_open(row: &LedgerRow, error: &EngineError) -> Result<(), LedgerError> {
    tracing::warn!(session_id = %row.session.id, %error, "could not get the state of a session on another host; its row stays open");
    Ok(())
}

impl Sessions for FleetSessions {
    fn perform(
        &self,
        job: Job,
        stop: StopSignal,
    ) -> BoxFuture<'_, Result<SessionEnd, LedgerError>> {
        Box::pin(async move {
            if let Some(reason) = stop.state().reason {
                return Ok(SessionEnd::empty(Outcome::Cancelled { why: reason.kind() }));
            }
            if self.runs_here().await {
                return self.local.perform(job, stop).await;
            }
            let entry = self.shared.live.register(job.session.id);
            let stop = stop.and(entry.handle());
            Box::pin(self.run(job, stop)).await
        })
    }

    fn resolve_orphans(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            self.local.resolve_orphans().await?;
            let followed = self.shared.live.ids();
            let mut attached = JoinSet::new();
            for row in self.shared.journal.open_rows().await? {
                if row.host.is_some() && !followed.contains(&row.session.id) {
                    attached.spawn(Self::attach(Arc::clone(&self.shared), row));
                }
            }
            while let Some(ended) = attached.join_next().await {
                ended.map_err(LedgerError::store)??;
            }
            Ok(())
        })
    }
}

impl Coordinator {
    /// Records that no host started a session, and removes its row.
    pub(super) async fn withdraw(
        &self,
        session: &SessionRef,
        reason: Reason,
        detail: &str,
    ) -> Result<(), LedgerError> {
        self.journal.withdraw(session.id).await?;
        let (session, detail) = (session.id, detail.to_owned());
        self.journal.emit(Event::SessionWithdrawn { session, reason, detail });
        Ok(())
    }
}
