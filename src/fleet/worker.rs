//! A host of a fleet: waits for sessions, runs each under the same supervisor as on a single
//! machine, and delivers its end.
//!
//! The host's own limits and gates decide whether it asks for work. A fault of the host (no
//! checkout, no agent, no login) returns the session as not started, and the host pauses.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::account::Fingerprint;
use super::blame::{HostBlame, PAUSE, Token, blame, not_started};
use super::checkout::WorkTree;
use super::engine::{Cover, Engine, EngineError, HeldActivity, Taken};
use super::faults::CallFaults;
use super::follow::ready;
use super::hand_over::NoOrder;
use super::lease::{Lease, LeaseTimes};
use super::name::ServeError;
use super::order::{Beat, Letter, Order, Task, WIRE};
use super::queue;
use super::seal::Seal;
use crate::clock::Clock;
use crate::event::{Event, Reason, Recorded};
use crate::model::{BoxFuture, Outcome, SessionEnd, SessionId};
use crate::ports::LedgerError;
use crate::session::stop::StopState;
use crate::session::{Gate, Job, LiveSessions, Sessions, StopHandle, StopReason, StopSignal};
use crate::settings::{Config, Environment};
use crate::store::{Journal, StoreError};

/// Pause of a host that is only full.
const SHORT_PAUSE: Duration = Duration::from_secs(5);
/// Interval of heartbeats until the start of the agent was reported.
const FIRST_BEATS: Duration = Duration::from_millis(500);
/// Between two attempts to reach the server.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// How long ends are delivered after a stop request.
const DELIVER_WITHIN: Duration = Duration::from_secs(10);

/// Builds the sessions of this host for one order's limits, with the longest silence of this
/// process that its keepers tolerate.
pub type MakeSessions =
    Arc<dyn Fn(Config, Duration) -> Result<Arc<dyn Sessions>, String> + Send + Sync>;

/// Dependencies of a worker.
pub struct Worker {
    pub engine: Engine,
    pub config: Arc<Config>,
    pub environment: Environment,
    pub journal: Journal,
    pub clock: Clock,
    pub host: String,
    /// Folder of the work trees.
    pub trees: PathBuf,
    pub live: LiveSessions,
    pub make: MakeSessions,
    pub gate: Arc<dyn Gate>,
    pub fingerprint: Fingerprint,
    pub shared: Shared,
}

/// State shared by the parts of a worker.
#[derive(Default)]
pub struct Shared {
    beats: Mutex<HashMap<SessionId, Beat>>,
    paused_until: Mutex<Option<Instant>>,
    pub(super) to_deliver: Notify,
    /// Whether this process has the host's name.
    pub(super) named: watch::Sender<bool>,
    /// Ends every session of this worker.
    shutdown: StopHandle,
}

impl Worker {
    fn beats(&self) -> MutexGuard<'_, HashMap<SessionId, Beat>> {
        self.shared.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paused_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.shared.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pause(&self, time: Duration, why: &str) {
        tracing::error!(
            host = self.host,
            seconds = time.as_secs(),
            why,
            "this host asks for no work for a while"
        );
        *self.paused_until() = Some(Instant::now() + time);
    }

    /// Serves until a stop request; then ends its sessions and delivers their ends.
    pub async fn serve(self: Arc<Self>, mut stop: StopSignal) -> Result<(), ServeError> {
        self.recover().await?;
        let mut background = JoinSet::new();
        background.spawn(Arc::clone(&self).follow_events());
        background.spawn(Arc::clone(&self).write_events());
        background.spawn(Arc::clone(&self).deliver_ends());
        let name = self.take_name(&mut stop).await?;
        if let Some(name) = &name {
            background.spawn(Arc::clone(&self).keep_name(Arc::clone(name)));
            background.spawn(Arc::clone(&self).answer_reports());
            self.serve_named(&mut stop).await;
        }
        background.shutdown().await;
        if let Some(name) = &name {
            name.release().await;
        }
        Ok(self.journal.flush().await?)
    }

    /// Runs sessions until a stop request, and delivers their ends.
    async fn serve_named(self: &Arc<Self>, stop: &mut StopSignal) {
        let (fleet, limits) = (&self.config.fleet, &self.config.limits);
        tracing::info!(
            host = self.host,
            queue = queue(&fleet.pool),
            server = fleet.address,
            slots = limits.max_live_sessions,
            "worker waits for sessions"
        );
        let mut tasks: JoinSet<()> = JoinSet::new();
        self.work(&mut tasks, stop).await;
        self.drain(&mut tasks, stop).await;
        self.shared.shutdown.stop(StopReason::Shutdown);
        let mut known = stop.state();
        loop {
            tokio::select! {
                ended = tasks.join_next() => if ended.is_none() { break },
                state = stop.changed(known) => {
                    known = state;
                    self.shared.shutdown.stop_now(StopReason::Shutdown);
                }
            }
        }
        let delivered = async {
            while !self
                .journal
                .store()
                .sessions()
                .undelivered()
                .await
                .unwrap_or_default()
                .is_empty()
            {
                self.shared.to_deliver.notify_one();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(DELIVER_WITHIN, delivered).await.is_err() {
            tracing::warn!(
                "some session results could not be delivered to the server; the next start of the worker delivers them"
            );
        }
    }

    /// Lets running sessions end, for a while: a rolling update loses no work that was paid for. A
    /// second stop request ends the wait.
    async fn drain(&self, tasks: &mut JoinSet<()>, stop: &mut StopSignal) {
        let (time, running) = (self.config.fleet.drain, tasks.len());
        if tasks.is_empty() || time.is_zero() || stop.state().immediate {
            return;
        }
        tracing::info!(
            host = self.host,
            sessions = running,
            seconds = time.as_secs(),
            "asks for no more work and waits for its sessions to end; a second signal ends them"
        );
        let known = stop.state();
        let ended = async { while tasks.join_next().await.is_some() {} };
        tokio::select! {
            () = ended => tracing::info!(host = self.host, sessions = running, "all sessions ended"),
            () = tokio::time::sleep(time) => {
                tracing::warn!(host = self.host, "fleet.drain is over; hands back the sessions that are left");
            }
            _ = stop.changed(known) => {}
        }
    }

    /// Ends sessions of an earlier process; their ends wait for delivery.
    async fn recover(&self) -> Result<(), StoreError> {
        let lease = LeaseTimes::new(self.config.fleet.lease, self.config.timeouts.grace).lease;
        match (self.make)((*self.config).clone(), lease) {
            Ok(sessions) => sessions.resolve_orphans().await.map_err(StoreError::Ledger)?,
            Err(why) => tracing::error!(why, "cannot search for sessions of an earlier process"),
        }
        // Work trees of sessions that ended with an earlier process.
        if self.trees.exists()
            && let Err(error) = crate::private::remove_folder(&self.trees)
        {
            tracing::warn!(%error, "could not remove old work trees");
        }
        for session in self.journal.sessions().accepted_unstarted().await? {
            let end = not_started("the worker stopped before it started the session");
            self.journal.sessions().end_unstarted(session, end).await?;
        }
        Ok(())
    }

    /// Asks for work, one session at a time, while this host has capacity.
    async fn work(self: &Arc<Self>, tasks: &mut JoinSet<()>, stop: &mut StopSignal) {
        let slots = usize::try_from(self.config.limits.max_live_sessions).unwrap_or(1).max(1);
        let name = queue(&self.config.fleet.pool);
        let (mut known, mut closed) = (StopState::default(), None);
        let mut faults = CallFaults::default();
        // Kept across iterations: a dropped poll may lose the session it was just given.
        let mut polling: Option<BoxFuture<'static, Result<Option<Taken>, EngineError>>> = None;
        loop {
            if polling.is_none() && tasks.len() < slots && self.may_ask(&mut closed).await {
                let (engine, name) = (self.engine.clone(), name.clone());
                polling = Some(Box::pin(async move { engine.poll(&name).await }));
            }
            tokio::select! {
                state = stop.changed(known) => {
                    known = state;
                    if state.reason.is_some() {
                        return;
                    }
                }
                Some(_) = tasks.join_next() => {}
                polled = ready(&mut polling) => {
                    polling = None;
                    match polled {
                        Ok(Some(task)) => {
                            faults.clear();
                            match self.refuses_by_now().await {
                                Some(why) => self.refuse(&task, &why).await,
                                None => drop(tasks.spawn(Arc::clone(self).run_task(task))),
                            }
                        }
                        Ok(None) => faults.clear(),
                        Err(error) => {
                            let text = error.to_string();
                            if faults.should_log(&text) {
                                tracing::error!(error = text, "could not poll for work; retrying");
                            }
                            tokio::time::sleep(AGAIN).await;
                        }
                    }
                }
                () = tokio::time::sleep(AGAIN), if polling.is_none() => {}
            }
        }
    }

    fn is_paused(&self) -> bool {
        self.paused_until().is_some_and(|until| Instant::now() < until)
    }

    async fn may_ask(&self, closed: &mut Option<Reason>) -> bool {
        if self.is_paused() || !*self.shared.named.borrow() {
            return false;
        }
        let refused = match self.gate.admit().await {
            Ok(()) => self.account_refuses().await.map(|why| (Reason::ProviderLimit, why)),
            Err(refused) => Some(refused),
        };
        let reason = refused.as_ref().map(|(reason, _)| *reason);
        if let Some((_, why)) = refused.filter(|_| *closed != reason) {
            tracing::warn!(why, "this host has no capacity for another session now");
        }
        *closed = reason;
        reason.is_none()
    }

    /// Why this host must refuse the work that it was just given.
    async fn refuses_by_now(&self) -> Option<String> {
        let why = match self.account_was_refused().await {
            Some(why) => why,
            None if self.is_paused() => "it is paused after a failure".to_owned(),
            None if !*self.shared.named.borrow() => "another worker has its name".to_owned(),
            None => return None,
        };
        Some(format!("host {} no longer takes work: {why}", self.host))
    }

    async fn run_task(self: Arc<Self>, taken: Taken) {
        if let Err(error) = self.run_taken(&taken).await {
            tracing::error!(id = taken.id, %error, "could not store a session");
            let why = format!("the state of host {} cannot be written: {error}", self.host);
            self.refuse(&taken, &why).await;
            self.pause(PAUSE, &why);
        }
    }

    /// Reports that nothing was started. If that does not reach the server, it finds no heartbeat.
    pub(super) async fn refuse(&self, taken: &Taken, why: &str) {
        if let Err(error) =
            self.engine.return_task(&taken.id, &taken.token, &Cover::Signed, why).await
        {
            tracing::warn!(id = taken.id, %error, "could not return a session to the server");
        }
    }

    /// A host that cannot get or trust its orders asks for none until somebody can have mended it.
    async fn refuse_and_pause(&self, taken: &Taken, why: &str) -> Result<(), StoreError> {
        let why = format!("host {}: {why}", self.host);
        self.refuse(taken, &why).await;
        self.pause(PAUSE, &why);
        Ok(())
    }

    async fn end_without_order(&self, id: SessionId, why: NoOrder) -> Result<(), StoreError> {
        let (NoOrder::Unanswered(text) | NoOrder::Refused(text)) = &why;
        let text = format!("host {}: {text}", self.host);
        if let NoOrder::Refused(_) = why {
            self.pause(PAUSE, &text);
        }
        self.journal.sessions().end_unstarted(id, not_started(&text)).await?;
        self.shared.to_deliver.notify_one();
        Ok(())
    }

    async fn run_taken(&self, taken: &Taken) -> Result<(), StoreError> {
        let offer = match self.verified(taken) {
            Ok(Task::Offer(offer)) if offer.wire == WIRE => offer,
            Ok(_) => {
                let why = format!("host {} has another version of heartbeat", self.host);
                self.refuse(taken, &why).await;
                return Ok(());
            }
            Err(why) => return self.refuse_and_pause(taken, &why).await,
        };
        let (id, sessions) = (offer.session, self.journal.sessions());
        if !sessions.take(id, Token::stored(taken, None)).await? {
            self.refuse(taken, "this host already had this session").await;
            return Ok(());
        }
        let Letter { order, key, .. } = match self.claim(taken, &offer).await {
            Ok(letter) => letter,
            Err(no_order) => return self.end_without_order(id, no_order).await,
        };
        let seal = key.seal();
        sessions.accept(order.session.clone(), Token::stored(taken, Some(key))).await?;
        let first = Beat {
            host: self.host.clone(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            ..Beat::default()
        };
        self.beats().insert(id, first.clone());
        let times = LeaseTimes::new(
            Duration::from_millis(order.heartbeat_timeout_ms),
            order.timeouts.grace,
        );
        let sent = self.clock.elapsed_ms();
        // The fence: without this answer the server may have given the session to another host.
        let held = self.engine.beat(&taken.id, &taken.token, (&seal, &first), times.call()).await;
        let end = match held {
            Ok(HeldActivity::Yes) => {
                let lease = Lease::begin(&times, sent);
                self.perform(&order, (taken, &seal), times, lease).await
            }
            Ok(_) | Err(_) => Err("the session was reassigned before it started".to_owned()),
        };
        self.beats().remove(&id);
        match end {
            Ok(end) => self.note_fault(&order, &end).await?,
            Err(why) => {
                let why = format!("host {}: {why}", self.host);
                self.journal.sessions().end_unstarted(id, not_started(&why)).await?;
            }
        }
        self.shared.to_deliver.notify_one();
        Ok(())
    }

    /// Runs the session while its heartbeats continue; an error tells why nothing was started.
    async fn perform(
        &self,
        order: &Order,
        held: (&Taken, &Seal),
        times: LeaseTimes,
        lease: Lease,
    ) -> Result<SessionEnd, String> {
        let own = StopHandle::new();
        let signal = own.signal().and(&self.shared.shutdown);
        let work = self.work_on(order, times, signal);
        tokio::pin!(work);
        let beats = self.keep_beating(order.session.id, held, times, lease, own);
        tokio::pin!(beats);
        tokio::select! {
            end = &mut work => end,
            // The lease is over or lost: the session was asked to end.
            () = &mut beats => work.await,
        }
    }

    async fn work_on(
        &self,
        order: &Order,
        times: LeaseTimes,
        stop: StopSignal,
    ) -> Result<SessionEnd, String> {
        let folder = self.trees.join(order.session.id.to_string());
        let done = self.work_in(&folder, order, times, stop).await;
        if order.checkout.is_some()
            && folder.exists()
            && let Err(error) = crate::private::remove_folder(&folder)
        {
            tracing::warn!(folder = %folder.display(), %error, "could not remove a work tree; the next start of the worker removes it");
        }
        done
    }

    async fn work_in(
        &self,
        folder: &Path,
        order: &Order,
        times: LeaseTimes,
        mut stop: StopSignal,
    ) -> Result<SessionEnd, String> {
        let tree = match &order.checkout {
            Some(checkout) => {
                let made = WorkTree::make(&self.config, &self.environment, checkout, folder);
                let made = tokio::select! {
                    made = made => made,
                    _ = stop.changed(StopState::default()) => {
                        return Err("a stop was requested before it started".to_owned());
                    }
                };
                Some(made.map_err(|error| {
                    self.pause(PAUSE, &error.to_string());
                    error.to_string()
                })?)
            }
            None => None,
        };
        let job = Job {
            session: order.session.clone(),
            prompt: order.prompt(),
            repository: tree.map(|tree| tree.path().to_owned()),
            beside: Vec::new(),
            triage: Some(order.triage.clone()),
            analyze: Some(order.analyze.clone()),
            attached: order.attached(),
            examiner: None,
        };
        let sessions = (self.make)(order.config_on(&self.config), times.lease)?;
        sessions.perform(job, stop).await.map_err(|error| {
            if !matches!(error, LedgerError::Full { .. } | LedgerError::MachineFull { .. }) {
                tracing::error!(%error, "could not run a session");
            }
            self.pause(SHORT_PAUSE, &error.to_string());
            error.to_string()
        })
    }

    /// Returns when the session is no longer ours; by then it was asked to end.
    async fn keep_beating(
        &self,
        session: SessionId,
        (taken, seal): (&Taken, &Seal),
        times: LeaseTimes,
        mut lease: Lease,
        stop: StopHandle,
    ) {
        // The last beat that arrived named the agent's process.
        let mut pid_reported = false;
        loop {
            let Some(left) = lease.left(self.clock.elapsed_ms()) else {
                tracing::error!(session_id = %session, "the server was unreachable for too long; ending the session");
                return stop.stop(StopReason::LeaseLost);
            };
            let every = if pid_reported { times.beat } else { times.beat.min(FIRST_BEATS) };
            tokio::time::sleep(every.min(left)).await;
            let sent = self.clock.elapsed_ms();
            let Some(left) = lease.left(sent) else { continue };
            let beat = self.beats().get(&session).cloned().unwrap_or_default();
            let call = self.engine.beat(&taken.id, &taken.token, (seal, &beat), times.call());
            match tokio::time::timeout(left.min(times.call()), call).await {
                Ok(Ok(HeldActivity::Yes)) => {
                    lease.acknowledge(sent);
                    pid_reported = beat.pid.is_some();
                }
                Ok(Ok(HeldActivity::CancelRequested)) => {
                    lease.acknowledge(sent);
                    stop.stop(StopReason::Operator);
                }
                Ok(Ok(HeldActivity::No)) => {
                    tracing::warn!(session_id = %session, "the session is no longer assigned to this host; killing it");
                    return stop.stop_now(StopReason::LeaseLost);
                }
                Ok(Err(_)) | Err(_) => {
                    tracing::debug!(session_id = %session, "could not send a heartbeat; retrying");
                }
            }
        }
    }

    /// After a fault of this host it pauses; the coordinator tries another host.
    async fn note_fault(&self, order: &Order, end: &SessionEnd) -> Result<(), StoreError> {
        let agent = order.config_on(&self.config).agent_of(order.session.stage);
        self.note_account(agent, end).await?;
        if let Outcome::SpawnFailed { .. } = end.outcome
            && let HostBlame::Host(why) = blame(end, self.config.fleet.account)
        {
            self.pause(PAUSE, &why);
        }
        Ok(())
    }

    async fn follow_events(self: Arc<Self>) {
        let mut events = self.journal.follow();
        loop {
            match events.recv().await {
                Ok(recorded) => self.take_note(&recorded),
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
        }
    }

    fn take_note(&self, recorded: &Recorded) {
        let Some(session) = recorded.event.session() else { return };
        let mut beats = self.beats();
        let Some(beat) = beats.get_mut(&session) else { return };
        match &recorded.event {
            Event::SessionRegistered { tier, .. } => beat.tier.clone_from(tier),
            Event::SessionSpawned { pid, .. } => beat.pid = Some(*pid),
            Event::SessionInitialised { model, .. } => beat.model = Some(model.clone()),
            Event::SessionProgressed { what, .. } => beat.count_step(what),
            Event::SessionLiveness { liveness, .. } => beat.liveness = Some(liveness.clone()),
            _ => {}
        }
    }

    async fn write_events(self: Arc<Self>) {
        match self.journal.keep_writing().await {}
    }
}
