//! A host of a fleet: waits for sessions, runs each under the same supervisor as a single machine
//! does, and delivers its end.
//!
//! The host's own limits and gates decide whether it asks for work at all. A fault of the host
//! (no checkout, no agent, no login) gives the session back as not started, and the host asks for
//! nothing for a while.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::checkout::WorkTree;
use super::engine::{Engine, EngineError, Held, Taken, What};
use super::follow::ready;
use super::lease::{Lease, Terms};
use super::order::{Beat, Order, Task, WIRE};
use super::queue;
use super::verdict::{PAUSE, Token, Verdict, not_started, pause_for, verdict};
use crate::clock::Clock;
use crate::event::{Event, Recorded};
use crate::model::{BoxFuture, SessionEnd, SessionId};
use crate::ports::LedgerError;
use crate::session::stop::StopState;
use crate::session::{Gate, Job, LiveSessions, Sessions, StopHandle, StopReason, StopSignal};
use crate::settings::{Config, Environment};
use crate::store::{Journal, StoreError};

/// The same for a host that is only full.
const SHORT_PAUSE: Duration = Duration::from_secs(5);
/// Between two tries to reach a server that is down.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// How long ends are delivered after a request to stop.
const DELIVER_WITHIN: Duration = Duration::from_secs(10);

/// Builds the sessions of this host for one order's limits, with the longest silence of this process
/// that its keepers bear.
pub type MakeSessions =
    Arc<dyn Fn(Config, Duration) -> Result<Arc<dyn Sessions>, String> + Send + Sync>;

/// All that a worker works with.
pub struct Worker {
    pub engine: Engine,
    pub config: Arc<Config>,
    pub environment: Environment,
    pub journal: Journal,
    pub clock: Clock,
    pub host: String,
    /// Where work trees are made.
    pub trees: PathBuf,
    pub live: LiveSessions,
    pub make: MakeSessions,
    pub gate: Arc<dyn Gate>,
    pub shared: Shared,
}

/// What the parts of a worker tell one another.
#[derive(Default)]
pub struct Shared {
    beats: Mutex<HashMap<SessionId, Beat>>,
    paused_until: Mutex<Option<Instant>>,
    pub(super) to_deliver: Notify,
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

    /// Serves until a request to stop; then ends its sessions and delivers their ends.
    pub async fn serve(self: Arc<Self>, mut stop: StopSignal) -> Result<(), StoreError> {
        self.recover().await?;
        let mut beside = JoinSet::new();
        beside.spawn(Arc::clone(&self).follow_events());
        beside.spawn(Arc::clone(&self).write_events());
        beside.spawn(Arc::clone(&self).answer_reports());
        beside.spawn(Arc::clone(&self).deliver_ends());
        let mut tasks: JoinSet<()> = JoinSet::new();
        self.work(&mut tasks, &mut stop).await;
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
            tracing::warn!("the server did not take every end; the next start delivers them");
        }
        beside.shutdown().await;
        self.journal.flush().await
    }

    /// What an earlier process left: its sessions are ended, and their ends wait for delivery.
    async fn recover(&self) -> Result<(), StoreError> {
        let lease = Terms::new(self.config.fleet.lease, self.config.timeouts.grace).lease;
        match (self.make)((*self.config).clone(), lease) {
            Ok(sessions) => sessions.resolve_orphans().await.map_err(StoreError::Ledger)?,
            Err(why) => tracing::error!(why, "cannot look for sessions of an earlier process"),
        }
        // Work trees of sessions that ended with an earlier process.
        if self.trees.exists()
            && let Err(error) = crate::private::remove_folder(&self.trees)
        {
            tracing::warn!(%error, "could not remove old work trees");
        }
        for session in self.journal.sessions().taken_and_not_started().await? {
            let end = not_started("the worker stopped before it started the session");
            self.journal.sessions().end_unstarted(session, end).await?;
        }
        Ok(())
    }

    /// Asks for work, one session at a time, as long as this host can carry another.
    async fn work(self: &Arc<Self>, tasks: &mut JoinSet<()>, stop: &mut StopSignal) {
        let slots = usize::try_from(self.config.limits.max_live_sessions).unwrap_or(1).max(1);
        let name = queue(&self.config.fleet.pool);
        let (mut known, mut fault, mut closed) = (StopState::default(), None, None);
        // Kept over turns: a poll that is dropped may swallow the session it was just given.
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
                            fault = None;
                            tasks.spawn(Arc::clone(self).run_task(task));
                        }
                        Ok(None) => fault = None,
                        Err(error) => {
                            let text = error.to_string();
                            if fault.as_ref() != Some(&text) {
                                tracing::error!(error = text, "cannot ask for work; trying again");
                                fault = Some(text);
                            }
                            tokio::time::sleep(AGAIN).await;
                        }
                    }
                }
                () = tokio::time::sleep(AGAIN), if polling.is_none() => {}
            }
        }
    }

    async fn may_ask(&self, closed: &mut Option<String>) -> bool {
        let paused = *self.paused_until();
        if paused.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        match self.gate.admit().await {
            Ok(()) => {
                *closed = None;
                true
            }
            Err((_, why)) => {
                if closed.as_ref() != Some(&why) {
                    tracing::warn!(why, "this machine can carry no other session now");
                    *closed = Some(why);
                }
                false
            }
        }
    }

    async fn run_task(self: Arc<Self>, taken: Taken) {
        if let Err(error) = self.run_taken(&taken).await {
            tracing::error!(id = taken.id, %error, "could not keep a session in the state");
            let why = format!("the state of host {} cannot be written: {error}", self.host);
            self.refuse(&taken, &why).await;
            self.pause(PAUSE, &why);
        }
    }

    /// Says that nothing was started. If the server does not hear it, it finds no beat.
    pub(super) async fn refuse(&self, taken: &Taken, why: &str) {
        if let Err(error) = self.engine.give_back(&taken.id, &taken.token, why).await {
            tracing::warn!(id = taken.id, %error, "could not give a session back");
        }
    }

    async fn run_taken(&self, taken: &Taken) -> Result<(), StoreError> {
        let order = match self.engine.open(What::Task, &taken.id, &taken.input) {
            Ok(Task::Session(order)) if order.wire == WIRE => *order,
            Ok(_) => {
                let why = format!("host {} has another version of heartbeat", self.host);
                self.refuse(taken, &why).await;
                return Ok(());
            }
            Err(error) => {
                let why = format!("host {} cannot read the order: {error}", self.host);
                self.refuse(taken, &why).await;
                self.pause(PAUSE, &why);
                return Ok(());
            }
        };
        let id = order.session.id;
        let token = Token { id: taken.id.clone(), token: taken.token.clone() };
        let token = serde_json::to_vec(&token).unwrap_or_default();
        if !self.journal.sessions().accept(order.session.clone(), token).await? {
            self.refuse(taken, "this host had the session before").await;
            return Ok(());
        }
        let first = Beat {
            host: self.host.clone(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            ..Beat::default()
        };
        self.beats().insert(id, first.clone());
        let terms = Terms::new(Duration::from_millis(order.patience_ms), order.timeouts.grace);
        let sent = self.clock.elapsed_ms();
        // The fence: without this answer the server may have given the session to another host.
        let held = self.engine.beat(&taken.id, &taken.token, &first, terms.call()).await;
        let end = match held {
            Ok(Held::Yes) => {
                let lease = Lease::begin(&terms, sent);
                self.perform(&order, taken, terms, lease).await
            }
            Ok(_) | Err(_) => Err("the session was taken away before it started".to_owned()),
        };
        self.beats().remove(&id);
        match end {
            Ok(end) => self.note_fault(&end),
            Err(why) => {
                let why = format!("host {}: {why}", self.host);
                self.journal.sessions().end_unstarted(id, not_started(&why)).await?;
            }
        }
        self.shared.to_deliver.notify_one();
        Ok(())
    }

    /// Runs the session while its beats go on; an error says why nothing was started.
    async fn perform(
        &self,
        order: &Order,
        taken: &Taken,
        terms: Terms,
        lease: Lease,
    ) -> Result<SessionEnd, String> {
        let own = StopHandle::new();
        let signal = own.signal().and(&self.shared.shutdown);
        let work = self.work_on(order, terms, signal);
        tokio::pin!(work);
        let beats = self.keep_beating(order.session.id, taken, terms, lease, own);
        tokio::pin!(beats);
        tokio::select! {
            end = &mut work => end,
            // The lease is over or lost: the session was told, and ends.
            () = &mut beats => work.await,
        }
    }

    async fn work_on(
        &self,
        order: &Order,
        terms: Terms,
        stop: StopSignal,
    ) -> Result<SessionEnd, String> {
        let folder = self.trees.join(order.session.id.to_string());
        let done = self.work_in(&folder, order, terms, stop).await;
        if order.checkout.is_some()
            && folder.exists()
            && let Err(error) = crate::private::remove_folder(&folder)
        {
            tracing::warn!(folder = %folder.display(), %error, "could not remove a work tree; the next start of the worker does");
        }
        done
    }

    async fn work_in(
        &self,
        folder: &Path,
        order: &Order,
        terms: Terms,
        mut stop: StopSignal,
    ) -> Result<SessionEnd, String> {
        let tree = match &order.checkout {
            Some(checkout) => {
                let made = WorkTree::make(&self.config, &self.environment, checkout, folder);
                let made = tokio::select! {
                    made = made => made,
                    _ = stop.changed(StopState::default()) => {
                        return Err("it was to end before it started".to_owned());
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
            triage: Some(order.triage.clone()),
            analyze: Some(order.analyze.clone()),
            attached: order.attached(),
        };
        let sessions = (self.make)(order.config_on(&self.config), terms.lease)?;
        sessions.perform(job, stop).await.map_err(|error| {
            if !matches!(error, LedgerError::Full { .. } | LedgerError::MachineFull { .. }) {
                tracing::error!(%error, "could not run a session");
            }
            self.pause(SHORT_PAUSE, &error.to_string());
            error.to_string()
        })
    }

    /// Returns when the session is not ours any more; it was asked to end by then.
    async fn keep_beating(
        &self,
        session: SessionId,
        taken: &Taken,
        terms: Terms,
        mut lease: Lease,
        stop: StopHandle,
    ) {
        loop {
            let Some(left) = lease.left(self.clock.elapsed_ms()) else {
                tracing::error!(session_id = %session, "the server was not reached for too long; ending the session");
                return stop.stop(StopReason::LeaseLost);
            };
            tokio::time::sleep(terms.beat.min(left)).await;
            let sent = self.clock.elapsed_ms();
            let Some(left) = lease.left(sent) else { continue };
            let beat = self.beats().get(&session).cloned().unwrap_or_default();
            let call = self.engine.beat(&taken.id, &taken.token, &beat, terms.call());
            match tokio::time::timeout(left.min(terms.call()), call).await {
                Ok(Ok(Held::Yes)) => lease.acknowledge(sent),
                Ok(Ok(Held::CancelRequested)) => {
                    lease.acknowledge(sent);
                    stop.stop(StopReason::Operator);
                }
                Ok(Ok(Held::No)) => {
                    tracing::warn!(session_id = %session, "the session is not this host's any more; ending it at once");
                    return stop.stop_now(StopReason::LeaseLost);
                }
                Ok(Err(_)) | Err(_) => {
                    tracing::debug!(session_id = %session, "a beat did not arrive");
                }
            }
        }
    }

    /// A fault of this host ends its asking for a while; the coordinator tries another host.
    fn note_fault(&self, end: &SessionEnd) {
        match verdict(end, self.config.fleet.account) {
            Verdict::Its(_) => {}
            Verdict::Hosts(why) => self.pause(pause_for(end, &self.clock), &why),
        }
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
            Event::SessionLiveness { liveness, .. } => beat.liveness = Some(liveness.clone()),
            _ => {}
        }
    }

    async fn write_events(self: Arc<Self>) {
        match self.journal.keep_writing().await {}
    }
}
