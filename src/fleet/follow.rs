//! One session on another host, from its start to its end: emits liveness events at every interval,
//! forwards stop requests, gets the end from the server or from its host.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::claim_queue;
use super::engine::{Described, Ended, Engine, EngineError, Sealed, Taken, What};
use super::hand_over::ask_host;
use super::lease::LeaseTimes;
use super::liveness::LivenessReporter;
use super::order::{Beat, Done, Order, Report};
use super::reports::{HostReports, ServerContact};
use super::seal::Seal;
use super::sessions::{AGAIN, Coordinator};
use crate::event::{Event, Reason, Sink as _};
use crate::model::{BoxFuture, Outcome, SessionEnd, SessionRef, Stage, milliseconds};
use crate::ports::{Ledger as _, LedgerError};
use crate::session::stop::StopState;
use crate::session::{StopReason, StopSignal};

/// How long a host may take to report a session that the server gave up, also after an outage of
/// the server; a disconnected host does not answer.
const REPORT: Duration = Duration::from_secs(15);

pub(super) struct Follower {
    shared: Arc<Coordinator>,
    session: SessionRef,
    id: String,
    reports: HostReports,
    /// Its order, until a host has it.
    order: Option<Order>,
    /// The host that has its order.
    host: Option<String>,
    /// A pending request to its host.
    asking: Option<BoxFuture<'static, HostReport>>,
    /// The server accepted a request to its host, which did not answer in time.
    silent: bool,
    /// Why it was asked to end.
    asked: Option<StopReason>,
    /// A request that has not reached the server yet.
    unsent: bool,
    immediate: bool,
    /// Since when the server is unreachable.
    cut_off: Option<Instant>,
    /// Since when the server is reachable.
    reached: Instant,
    /// When the server was last asked about the session.
    looked: Instant,
}

type EngineAnswer = Result<Option<Ended>, EngineError>;
type EngineLook = Result<Option<Described>, EngineError>;
type Claimed = Result<Option<Taken>, EngineError>;
/// A host's report; `None` if it does not answer.
type HostReport = Result<Option<Report>, EngineError>;

impl Follower {
    /// `host`: which got its order, if one did.
    pub(super) fn new(
        shared: Arc<Coordinator>,
        session: SessionRef,
        id: String,
        host: Option<String>,
    ) -> Self {
        let reports = HostReports::new(session.id, longest_silence(&shared));
        Self {
            shared,
            session,
            id,
            reports,
            order: None,
            host,
            asking: None,
            silent: false,
            asked: None,
            unsent: false,
            immediate: false,
            cut_off: None,
            reached: Instant::now(),
            looked: Instant::now(),
        }
    }

    /// Emits the event that the session has its row. The host that takes it will get this order.
    pub(super) fn announce(&mut self, order: Order) {
        self.order = Some(order);
        self.reports.expect_first_steps();
        let config = &self.shared.config;
        let worst_case = match self.session.stage {
            Stage::Triage | Stage::Locate => config.triage.max_cost,
            Stage::Deep => config.analyze.max_cost,
        };
        self.shared.journal.emit(Event::SessionRegistered {
            session: self.session.id,
            stage: self.session.stage,
            item: self.session.item.clone(),
            attempt: self.session.attempt,
            keeper_pid: 0,
            tier: "remote".to_owned(),
            limit_ms: milliseconds(self.shared.time_limit(self.session.stage)),
            worst_case,
        });
    }

    /// Runs until its end is known, or until a stop was requested and the server is unreachable.
    pub(super) async fn follow(mut self, mut stop: StopSignal) -> Result<SessionEnd, LedgerError> {
        let mut known = StopState::default();
        let mut timer = tokio::time::interval(self.shared.config.timeouts.liveness);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut again = tokio::time::interval(AGAIN);
        let mut waiting: BoxFuture<'static, EngineAnswer> = self.wait(Duration::ZERO);
        let mut looking: Option<BoxFuture<'static, EngineLook>> = None;
        let mut claiming = self.next_claim(Duration::ZERO);
        let ended = loop {
            tokio::select! {
                answer = &mut waiting => match answer {
                    Ok(Some(ended)) => break ended,
                    Ok(None) => waiting = self.wait(Duration::ZERO),
                    Err(error @ EngineError::Unknown(..)) => break self.unknown(&error),
                    // Also a refusal, such as an expired credential: the session continues.
                    Err(error) => {
                        self.note_outage(&error);
                        waiting = self.wait(AGAIN);
                    }
                },
                _ = timer.tick() => {
                    self.emit_liveness();
                    looking.get_or_insert_with(|| self.look());
                }
                found = ready(&mut looking) => {
                    looking = None;
                    if self.take_look(found).await? {
                        self.emit_liveness();
                        timer.reset();
                    }
                }
                claimed = ready(&mut claiming) => {
                    let after = self.take_claim(claimed).await?;
                    claiming = self.next_claim(after);
                }
                answer = ready(&mut self.asking) => {
                    self.asking = None;
                    self.silent = matches!(answer, Ok(None));
                }
                state = stop.changed(known) => {
                    known = state;
                    self.note_stop(state);
                    self.forward_stop().await;
                }
                _ = again.tick() => {
                    let is_due = self.is_look_due();
                    looking = looking.or_else(|| is_due.then(|| self.look()));
                    self.emit_new_silence();
                    self.forward_stop().await;
                    if self.may_stop_waiting() {
                        return Err(LedgerError::LeftRunning);
                    }
                }
            }
        };
        let reporter = self.liveness_reporter();
        // Its row is open until its end is known, and an open row needs liveness events.
        tokio::select! {
            end = self.conclude(ended) => end,
            never = reporter.report_forever() => match never {},
        }
    }

    const fn note_stop(&mut self, state: StopState) {
        (self.asked, self.immediate, self.unsent) = (state.reason, state.immediate, true);
    }

    fn liveness_reporter(&self) -> LivenessReporter {
        LivenessReporter {
            shared: Arc::clone(&self.shared),
            session: self.session.id,
            host: self.reports.host().map(str::to_owned),
            since: self.reports.since,
            beats: self.reports.beats,
        }
    }

    fn wait(&self, after: Duration) -> BoxFuture<'static, EngineAnswer> {
        let (engine, id) = (self.shared.engine.clone(), self.id.clone());
        Box::pin(async move {
            tokio::time::sleep(after).await;
            engine.wait_for(&id).await
        })
    }

    /// Waits for the host that takes the session, until one has its order.
    fn next_claim(&self, after: Duration) -> Option<BoxFuture<'static, Claimed>> {
        self.order.as_ref()?;
        let engine = self.shared.engine.clone();
        let queue = claim_queue(&self.shared.config.fleet.pool, self.session.id);
        Some(Box::pin(async move {
            tokio::time::sleep(after).await;
            engine.poll(&queue).await
        }))
    }

    /// Gives the order to the host that asks for it. Returns how long to wait before the next
    /// request is awaited, if there is to be one.
    async fn take_claim(&mut self, claimed: Claimed) -> Result<Duration, LedgerError> {
        let taken = match claimed {
            Ok(Some(taken)) => taken,
            Ok(None) => return Ok(Duration::ZERO),
            Err(error) => {
                self.note_outage(&error);
                return Ok(AGAIN);
            }
        };
        let claim = match self.shared.claimant(self.session.id, &taken) {
            Ok(claim) => claim,
            Err(why) => {
                tracing::error!(session_id = %self.session.id, why, "refused to give an order");
                self.shared.refuse_claim(&taken, &why).await;
                return Ok(Duration::ZERO);
            }
        };
        let Some(order) = self.order.clone() else { return Ok(Duration::ZERO) };
        self.shared.journal.placed(self.session.id, claim.host.clone()).await?;
        match self.shared.hand_over(order, &claim, &taken).await {
            // Also if it is unknown whether the host got it: nobody else gets it.
            Ok(true) | Err(EngineError::Unreachable(..)) => {
                (self.order, self.host) = (None, Some(claim.host));
            }
            Ok(false) => {}
            Err(error) => {
                tracing::error!(session_id = %self.session.id, %error, "could not give an order to a host");
            }
        }
        Ok(AGAIN)
    }

    /// The key that this session shares with its host; `None` if no host has its order.
    fn seal(&self) -> Option<Seal> {
        let host = self.host.as_ref()?;
        Some(self.shared.engine.keys().of_session(self.session.id, host).1)
    }

    fn look(&mut self) -> BoxFuture<'static, EngineLook> {
        self.looked = Instant::now();
        let (engine, id) = (self.shared.engine.clone(), self.id.clone());
        Box::pin(async move { engine.describe(&id).await })
    }

    /// Its host is known within a second, and a silent host is noticed well before the server gives
    /// it up, not only at the next liveness event.
    fn is_look_due(&self) -> bool {
        !self.reports.has_spawned() || self.looked.elapsed() >= poll_interval(&self.shared)
    }

    /// Whether a liveness event is due because of it.
    async fn take_look(&mut self, found: EngineLook) -> Result<bool, LedgerError> {
        match found {
            Ok(Some(described)) => {
                self.note_reached();
                let is_due = self.take_note(described).await?;
                self.ask_silent_host();
                Ok(is_due)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                self.note_outage(&error);
                Ok(false)
            }
        }
    }

    /// The server lost it, or was replaced.
    fn unknown(&self, error: &EngineError) -> Ended {
        tracing::error!(session_id = %self.session.id, %error, "the fleet's server has no record of a session any more");
        Ended::Lost("the server has no record of it any more")
    }

    fn note_outage(&mut self, error: &EngineError) {
        if self.cut_off.is_none() {
            tracing::warn!(session_id = %self.session.id, %error, "waiting for the fleet's server; the session continues on its host");
            self.cut_off = Some(Instant::now());
        }
    }

    fn note_reached(&mut self) {
        if self.cut_off.take().is_some() {
            self.reached = Instant::now();
        }
    }

    fn contact(&self) -> ServerContact {
        ServerContact { cut_off: self.cut_off, reached: self.reached }
    }

    /// After a stop request it does not wait for an unreachable server: a later run gets its end.
    fn may_stop_waiting(&self) -> bool {
        let longest = self.shared.config.timeouts.grace.saturating_add(Duration::from_secs(10));
        self.asked.is_some() && self.cut_off.is_some_and(|since| since.elapsed() > longest)
    }

    /// Also by a timer, independent of host and server.
    fn emit_liveness(&mut self) {
        let event = self.reports.liveness(self.contact());
        self.shared.journal.emit(event);
    }

    fn emit_new_silence(&mut self) {
        if self.reports.became_silent(self.contact()) {
            self.emit_liveness();
        }
    }

    /// Asks a host that was silent for most of the heartbeat timeout before the timeout is over, so
    /// that a lost host costs no more than the timeout. A disconnected host may not answer: the
    /// answer is awaited only until the timeout. Time without the server says nothing about a host.
    fn ask_silent_host(&mut self) {
        let timeout = self.shared.heartbeat_timeout();
        let Some(quiet) = self.reports.heard_at().map(|at| at.max(self.reached)) else { return };
        if quiet.elapsed() < timeout * 5 / 8 {
            self.silent = false;
            return;
        }
        if let Some(host) = self.reports.host().filter(|_| self.asking.is_none() && !self.silent) {
            let by = (quiet + timeout).max(Instant::now() + timeout / 4);
            self.asking = Some(self.ask(host, by));
        }
    }

    /// Whether a liveness event is due because of it.
    async fn take_note(&mut self, described: Described) -> Result<bool, LedgerError> {
        if let Some(at) = described.reported_at {
            self.reports.note_heartbeat(at);
        }
        let Some(beat) = self.beat_in(&described) else { return Ok(false) };
        if self.reports.host() != Some(beat.host.as_str()) {
            self.shared.journal.placed(self.session.id, beat.host.clone()).await?;
        }
        let (events, is_due) = self.reports.take(beat);
        for event in events {
            self.shared.journal.emit(event);
        }
        Ok(is_due)
    }

    fn beat_in(&self, described: &Described) -> Option<Beat> {
        let details = described.details.as_ref()?;
        match Engine::open::<Beat>(&self.seal()?, What::Beat, &self.id, details) {
            Ok(beat) => Some(beat).filter(|beat| Some(&beat.host) == self.host.as_ref()),
            Err(error) => {
                tracing::error!(session_id = %self.session.id, %error, "could not read a host's heartbeat");
                None
            }
        }
    }

    /// Forwards a stop request until it has arrived.
    async fn forward_stop(&mut self) {
        let (Some(reason), true) = (self.asked, self.unsent) else { return };
        let word = reason.kind().into_str();
        let engine = &self.shared.engine;
        let sent = match self.immediate {
            true => engine.terminate(&self.id, word).await,
            false => engine.cancel(&self.id, word).await,
        };
        match sent {
            Ok(()) => self.unsent = false,
            Err(error) => self.note_outage(&error),
        }
    }

    async fn conclude(self, ended: Ended) -> Result<SessionEnd, LedgerError> {
        match ended {
            Ended::Completed(result) => match self.done_in(&result) {
                Some(done) => {
                    self.shared.journal.placed(self.session.id, done.host.clone()).await?;
                    self.close(Some(done.host), done.end).await
                }
                None => {
                    let host = self.reports.host().map(str::to_owned);
                    self.close(host, SessionEnd::empty(Outcome::Orphaned)).await
                }
            },
            Ended::Returned(why) => {
                let why = self.reason(&why);
                self.withdraw(Reason::NoWorker, why).await
            }
            Ended::NotTaken => {
                let wait = self.shared.config.limits.admission_wait.as_secs();
                let why = format!("no host of the fleet took the session within {wait} s");
                self.withdraw(Reason::NoWorker, why).await
            }
            Ended::Lost(why) => self.lost(why).await,
        }
    }

    /// Why nothing was started, if a host of this fleet says so.
    fn reason(&self, why: &Sealed) -> String {
        let opened = match (why.is_signed_only(), self.seal()) {
            (true, _) => Engine::read_signed(What::Result, &self.id, why)
                .and_then(|(signer, why)| self.shared.ensure_any_worker(&signer).map(|()| why)),
            (false, Some(seal)) => Engine::open(&seal, What::Result, &self.id, why),
            (false, None) => Ok("somebody without its order returned it".to_owned()),
        };
        opened.unwrap_or_else(|error| error.to_string())
    }

    fn done_in(&self, result: &Sealed) -> Option<Done> {
        let Some(seal) = self.seal() else {
            tracing::error!(session_id = %self.session.id, "ignored the end of a session whose order no host has");
            return None;
        };
        match Engine::open::<Done>(&seal, What::Result, &self.id, result) {
            Ok(done)
                if done.session == self.session.id && Some(&done.host) == self.host.as_ref() =>
            {
                Some(done)
            }
            Ok(done) => {
                tracing::error!(session_id = %self.session.id, host = done.host, "ignored a host's report about another session");
                None
            }
            Err(error) => {
                tracing::error!(session_id = %self.session.id, %error, "could not read a host's report; it is ignored");
                None
            }
        }
    }

    /// Without a heartbeat nothing was started. With one, its host is asked; a host that does not
    /// answer had to end it before the server gave it up, or will within the heartbeat timeout from
    /// now.
    async fn lost(mut self, why: &'static str) -> Result<SessionEnd, LedgerError> {
        let gone_by = Instant::now() + self.shared.heartbeat_timeout();
        let host = loop {
            match self.shared.engine.describe(&self.id).await {
                Ok(Some(described)) => break self.beat_in(&described).map(|beat| beat.host),
                Ok(None) => break self.reports.host().map(str::to_owned),
                Err(_) if self.asked.is_some() => return Err(LedgerError::LeftRunning),
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        };
        let Some(host) = host else { return self.withdraw(Reason::NoWorker, why.to_owned()).await };
        self.shared.journal.placed(self.session.id, host.clone()).await?;
        while !self.silent {
            let asking = self.asking.take();
            let asking = asking.unwrap_or_else(|| {
                self.ask(&host, Instant::now() + REPORT.min(self.shared.heartbeat_timeout()))
            });
            match asking.await {
                Ok(Some(Report::Ended(done))) if done.session == self.session.id => {
                    return self.close(Some(host), done.end).await;
                }
                Ok(Some(Report::NotStarted(why))) => {
                    return self.withdraw(Reason::NoWorker, why).await;
                }
                Ok(Some(Report::Running)) if Instant::now() < gone_by => {}
                Err(_) if self.asked.is_some() => return Err(LedgerError::LeftRunning),
                Err(error) if error.may_pass() => {}
                answer => {
                    tracing::warn!(session_id = %self.session.id, host, why, ?answer, "the host of a lost session could not report how it ended");
                    break;
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
        if why != super::engine::HOST_LOST {
            tokio::time::sleep_until(gone_by).await;
        }
        self.close(Some(host), SessionEnd::empty(Outcome::Orphaned)).await
    }

    /// Asks a host how the session ended. What somebody else answers is no answer.
    fn ask(&self, host: &str, by: Instant) -> BoxFuture<'static, HostReport> {
        let (shared, session, host) = (Arc::clone(&self.shared), self.session.id, host.to_owned());
        Box::pin(async move {
            let names =
                shared.names().await.map_err(|error| EngineError::Settings(error.to_string()))?;
            let (id, fleet) = (names.report(session), &shared.config.fleet);
            let answer = ask_host(&shared.engine, fleet, &host, (&id, session), by).await;
            if let Err(error @ EngineError::Untrusted(_)) = answer {
                tracing::error!(session_id = %session, host, %error, "ignored the answer of a host");
                return Ok(None);
            }
            answer
        })
    }

    /// Stores and logs its end. A requested stop is the reason for what followed.
    async fn close(self, host: Option<String>, end: SessionEnd) -> Result<SessionEnd, LedgerError> {
        let outcome = match (&end.outcome, self.asked) {
            (Outcome::Cancelled { .. } | Outcome::Orphaned, Some(reason)) => {
                Outcome::Cancelled { why: reason.kind() }
            }
            (outcome, _) => outcome.clone(),
        };
        let end = SessionEnd { outcome, ..end };
        let journal = &self.shared.journal;
        journal.close(self.session.id, end.clone()).await?;
        journal.emit(Event::SessionEnded {
            session: self.session.id,
            stage: self.session.stage,
            item: self.session.item.clone(),
            outcome: end.outcome.clone(),
            usage: end.usage,
            duration_ms: milliseconds(end.duration),
            files_read: end.reads,
            swept: end.swept,
            survivors: end.survivors,
            host,
            words: end.last_words(),
            answered_by: end.fell_back_to.clone(),
        });
        Ok(end)
    }

    /// Nothing was started for it.
    pub(super) async fn withdraw(
        self,
        reason: Reason,
        detail: String,
    ) -> Result<SessionEnd, LedgerError> {
        self.shared.withdraw(&self.session, reason, &detail).await?;
        match self.asked {
            Some(asked) => Ok(SessionEnd::empty(Outcome::Cancelled { why: asked.kind() })),
            None => Err(LedgerError::NotStarted(reason, detail)),
        }
    }
}

/// Interval between two requests to the server about a session: a host's heartbeat is seen by the
/// next one at the latest.
fn poll_interval(shared: &Coordinator) -> Duration {
    let beat = LeaseTimes::new(shared.heartbeat_timeout(), shared.config.timeouts.grace).beat;
    beat.min(shared.heartbeat_timeout() / 8)
}

/// More than two heartbeats of a host, and the time until they are seen here.
fn longest_silence(shared: &Coordinator) -> Duration {
    let beat = LeaseTimes::new(shared.heartbeat_timeout(), shared.config.timeouts.grace).beat;
    beat * 2 + poll_interval(shared)
}

/// Waits for a pending future; forever if there is none.
pub(super) async fn ready<T>(pending: &mut Option<BoxFuture<'static, T>>) -> T {
    match pending {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
