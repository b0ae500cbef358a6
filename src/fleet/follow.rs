//! One session on another host, from its start to its end: a sign of life at every interval, requests
//! to stop passed on, its end taken from the server or asked for at its host.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::engine::{Described, Ended, EngineError, Sealed, Start, What};
use super::order::{Beat, Done, Report, Task};
use super::sessions::{AGAIN, Coordinator};
use crate::event::{Event, LiveVerdict, Liveness, Reason, Sink as _};
use crate::model::{BoxFuture, Outcome, SessionEnd, SessionId, SessionRef, Stage};
use crate::ports::{Ledger as _, LedgerError};
use crate::session::stop::StopState;
use crate::session::{StopReason, StopSignal};

/// How long a host may take to answer for a session; a host that is cut off answers nothing.
const REPORT_TAKEN: Duration = Duration::from_secs(15);
const REPORT_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct Follower {
    shared: Arc<Coordinator>,
    session: SessionRef,
    id: String,
    since: Instant,
    beats: u64,
    /// What its host told last, and when that was noticed.
    last: Option<(Beat, Instant)>,
    /// The server's time of the last beat, and when it was noticed here.
    heard: Option<(Timestamp, Instant)>,
    /// A question to its host that is under way.
    asking: Option<BoxFuture<'static, Asked>>,
    /// Its host was asked while the server was there, and did not answer.
    silent: bool,
    told_spawn: bool,
    told_model: bool,
    /// Why it was asked to end.
    asked: Option<StopReason>,
    /// A request that did not reach the server yet.
    unsent: bool,
    immediate: bool,
    /// The server is not reached since then.
    cut_off: Option<Instant>,
}

type Answer = Result<Option<Ended>, EngineError>;
type Look = Result<Option<Described>, EngineError>;
/// A host's answer; none: it does not answer.
type Asked = Result<Option<Report>, EngineError>;

impl Follower {
    pub(super) fn new(shared: Arc<Coordinator>, session: SessionRef, id: String) -> Self {
        Self {
            shared,
            session,
            id,
            since: Instant::now(),
            beats: 0,
            last: None,
            heard: None,
            asking: None,
            silent: false,
            told_spawn: false,
            told_model: false,
            asked: None,
            unsent: false,
            immediate: false,
            cut_off: None,
        }
    }

    /// Tells that the session has its row.
    pub(super) fn announce(&self) {
        let config = &self.shared.config;
        let (limit, worst_case) = match self.session.stage {
            Stage::Triage => (config.triage.timeout, config.triage.max_cost),
            Stage::Deep => (config.analyze.timeout, config.analyze.max_cost),
        };
        self.shared.journal.emit(Event::SessionRegistered {
            session: self.session.id,
            stage: self.session.stage,
            item: self.session.item.clone(),
            attempt: self.session.attempt,
            keeper_pid: 0,
            tier: "remote".to_owned(),
            limit_ms: milliseconds(limit),
            worst_case,
        });
    }

    /// Stays until its end is known, or until nobody waits for it and the server is not reached.
    pub(super) async fn follow(mut self, mut stop: StopSignal) -> Result<SessionEnd, LedgerError> {
        let mut known = StopState::default();
        let mut timer = tokio::time::interval(self.shared.config.timeouts.liveness);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut again = tokio::time::interval(AGAIN);
        let mut waiting: BoxFuture<'static, Answer> = self.wait(Duration::ZERO);
        let mut looking: Option<BoxFuture<'static, Look>> = None;
        let ended = loop {
            tokio::select! {
                answer = &mut waiting => match answer {
                    Ok(Some(ended)) => break ended,
                    Ok(None) => waiting = self.wait(Duration::ZERO),
                    Err(error @ EngineError::Unknown(..)) => break self.unknown(&error),
                    // Also a refusal, such as that of a credential that expired: the session goes on.
                    Err(error) => {
                        self.note_outage(&error);
                        waiting = self.wait(AGAIN);
                    }
                },
                _ = timer.tick() => {
                    self.tell_life();
                    looking.get_or_insert_with(|| self.look());
                }
                found = ready(&mut looking) => {
                    looking = None;
                    if let Ok(Some(described)) = found {
                        self.cut_off = None;
                        self.take_note(described).await?;
                        self.ask_ahead();
                    }
                }
                answer = ready(&mut self.asking) => {
                    self.asking = None;
                    self.silent = matches!(answer, Ok(None));
                }
                state = stop.changed(known) => {
                    known = state;
                    self.asked = state.reason;
                    self.immediate = state.immediate;
                    self.unsent = true;
                    self.pass_on().await;
                }
                _ = again.tick() => {
                    // Where it runs is known within a second, not at the next sign of life.
                    looking = looking.or_else(|| self.last.is_none().then(|| self.look()));
                    self.pass_on().await;
                    if self.may_leave() {
                        return Err(LedgerError::LeftRunning);
                    }
                }
            }
        };
        let signs = self.signs();
        // Its row is open until its end is known, and an open row shows signs of life.
        tokio::select! {
            end = self.conclude(ended) => end,
            never = signs.keep_telling() => match never {},
        }
    }

    fn signs(&self) -> Signs {
        Signs {
            shared: Arc::clone(&self.shared),
            session: self.session.id,
            host: self.last.as_ref().map(|(last, _)| last.host.clone()),
            since: self.since,
            beats: self.beats,
        }
    }

    fn wait(&self, after: Duration) -> BoxFuture<'static, Answer> {
        let (engine, id) = (self.shared.engine.clone(), self.id.clone());
        Box::pin(async move {
            tokio::time::sleep(after).await;
            engine.wait_for(&id).await
        })
    }

    fn look(&self) -> BoxFuture<'static, Look> {
        let (engine, id) = (self.shared.engine.clone(), self.id.clone());
        Box::pin(async move { engine.describe(&id).await })
    }

    /// The server lost it, or was replaced by another.
    fn unknown(&self, error: &EngineError) -> Ended {
        tracing::error!(session_id = %self.session.id, %error, "the fleet's server does not know a session any more");
        Ended::Lost("the server does not know it any more")
    }

    fn note_outage(&mut self, error: &EngineError) {
        if self.cut_off.is_none() {
            tracing::warn!(session_id = %self.session.id, %error, "waiting for the fleet's server; the session goes on at its host");
            self.cut_off = Some(Instant::now());
        }
    }

    /// Whoever wants to leave does not wait for a server that is down: a later run takes its end.
    fn may_leave(&self) -> bool {
        let longest = self.shared.config.timeouts.grace.saturating_add(Duration::from_secs(10));
        self.asked.is_some() && self.cut_off.is_some_and(|since| since.elapsed() > longest)
    }

    /// The regular sign of life: by a timer, whatever the host or the server do.
    fn tell_life(&mut self) {
        self.beats += 1;
        let (beat, session) = (self.beats, self.session.id);
        let age = |since: &Instant| since.elapsed().as_secs();
        let told =
            self.last.as_ref().and_then(|(last, at)| Some((last.liveness.clone()?, last, at)));
        let liveness = match told {
            Some((liveness, last, at)) => {
                let late = at.elapsed() > self.shared.patience() / 2;
                let evidence = match late {
                    true => format!("{}: not heard for {} s", last.host, age(at)),
                    false => format!("{}: {}", last.host, liveness.evidence),
                };
                let verdict = if late { LiveVerdict::Suspect } else { liveness.verdict };
                Liveness { beat, verdict, evidence, ..liveness }
            }
            None => {
                let evidence = match &self.last {
                    Some((last, _)) => format!("{}: starting", last.host),
                    None => format!("waits for a host for {} s", age(&self.since)),
                };
                sign(beat, LiveVerdict::Starting, evidence, self.since.elapsed())
            }
        };
        self.shared.journal.emit(Event::SessionLiveness { session, liveness });
    }

    /// A host that was not heard of for most of the server's patience is asked before the patience
    /// is over, so that a host that is gone costs no more than that.
    fn ask_ahead(&mut self) {
        let patience = self.shared.patience();
        let Some((_, heard)) = self.heard.filter(|(_, at)| at.elapsed() > patience * 3 / 4) else {
            self.silent = false;
            return;
        };
        if let Some((last, _)) =
            self.last.as_ref().filter(|_| self.asking.is_none() && !self.silent)
        {
            let until = (heard + patience).saturating_duration_since(Instant::now());
            self.asking = Some(self.ask(&last.host, until + AGAIN));
        }
    }

    async fn take_note(&mut self, described: Described) -> Result<(), LedgerError> {
        if let Some(told) = described.told_at
            && self.heard.is_none_or(|(known, _)| known != told)
        {
            self.heard = Some((told, Instant::now()));
        }
        let Some(beat) = self.beat_in(&described) else { return Ok(()) };
        let (session, journal) = (self.session.id, &self.shared.journal);
        let is_new = self.last.as_ref().is_none_or(|(last, _)| last.host != beat.host);
        if is_new {
            journal.placed(session, beat.host.clone()).await?;
        }
        if let Some(pid) = beat.pid.filter(|_| !self.told_spawn) {
            self.told_spawn = true;
            let host = Some(beat.host.clone());
            journal.emit(Event::SessionSpawned { session, pid, host });
        }
        if let Some(model) = beat.model.clone().filter(|_| !self.told_model) {
            self.told_model = true;
            let version = beat.build.clone();
            journal.emit(Event::SessionInitialised { session, model, version });
        }
        let fresh = self.last.as_ref().is_none_or(|(last, _)| *last != beat);
        if fresh {
            self.last = Some((beat, Instant::now()));
        }
        Ok(())
    }

    fn beat_in(&self, described: &Described) -> Option<Beat> {
        let details = described.details.as_ref()?;
        match self.shared.engine.open(What::Beat, &self.id, details) {
            Ok(beat) => Some(beat),
            Err(error) => {
                tracing::error!(session_id = %self.session.id, %error, "a host's beat cannot be read");
                None
            }
        }
    }

    /// Passes a request to stop on, until it arrived.
    async fn pass_on(&mut self) {
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
                    self.shared.journal.placed(self.session.id, done.host).await?;
                    self.close(done.end).await
                }
                None => self.close(SessionEnd::empty(Outcome::Orphaned)).await,
            },
            Ended::GivenBack(why) => {
                let why = self.shared.engine.reason_of(&self.id, &why);
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

    fn done_in(&self, result: &Sealed) -> Option<Done> {
        let opened: Result<Done, _> = self.shared.engine.open(What::Result, &self.id, result);
        match opened {
            Ok(done) if done.session == self.session.id => Some(done),
            Ok(done) => {
                tracing::error!(session_id = %self.session.id, host = done.host, "a host answered with another session's end; it is not used");
                None
            }
            Err(error) => {
                tracing::error!(session_id = %self.session.id, %error, "a host's answer cannot be read; it is not used");
                None
            }
        }
    }

    /// Without a beat nothing was started. With one, its host is asked; a host that does not answer
    /// had to end it before the server gave it up, or within the server's patience from now.
    async fn lost(mut self, why: &'static str) -> Result<SessionEnd, LedgerError> {
        let gone_by = Instant::now() + self.shared.patience();
        let host = loop {
            match self.shared.engine.describe(&self.id).await {
                Ok(Some(described)) => break self.beat_in(&described).map(|beat| beat.host),
                Ok(None) => break self.last.take().map(|(beat, _)| beat.host),
                Err(_) if self.asked.is_some() => return Err(LedgerError::LeftRunning),
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        };
        let Some(host) = host else { return self.withdraw(Reason::NoWorker, why.to_owned()).await };
        self.shared.journal.placed(self.session.id, host.clone()).await?;
        while !self.silent {
            let asking = self.asking.take();
            let asking = asking.unwrap_or_else(|| self.ask(&host, REPORT_TAKEN));
            match asking.await {
                Ok(Some(Report::Ended(done))) if done.session == self.session.id => {
                    return self.close(done.end).await;
                }
                Ok(Some(Report::NotStarted(why))) => {
                    return self.withdraw(Reason::NoWorker, why).await;
                }
                Ok(Some(Report::Running)) if Instant::now() < gone_by => {}
                Err(_) if self.asked.is_some() => return Err(LedgerError::LeftRunning),
                Err(error) if error.may_pass() => {}
                answer => {
                    tracing::warn!(session_id = %self.session.id, host, why, ?answer, "its host does not know how it ended");
                    break;
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
        if why != super::engine::HOST_LOST {
            tokio::time::sleep_until(gone_by).await;
        }
        self.close(SessionEnd::empty(Outcome::Orphaned)).await
    }

    /// Asks a host how the session ended, which it has to begin with within `wait`.
    fn ask(&self, host: &str, wait: Duration) -> BoxFuture<'static, Asked> {
        let (shared, session, host) = (Arc::clone(&self.shared), self.session.id, host.to_owned());
        Box::pin(async move {
            let names =
                shared.names().await.map_err(|error| EngineError::Settings(error.to_string()))?;
            let (id, queue) = (names.report(session), names.queue_of(&host));
            let patience = shared.patience();
            let start = Start {
                id: &id,
                queue: &queue,
                task: &Task::Report(session),
                wait: wait.min(patience),
                limit: REPORT_WITHIN.min(patience),
                patience: None,
                again: false,
            };
            shared.engine.start(start).await?;
            loop {
                match shared.engine.wait_for(&id).await? {
                    None => {}
                    Some(Ended::Completed(result)) => {
                        return shared.engine.open(What::Result, &id, &result).map(Some);
                    }
                    Some(_) => return Ok(None),
                }
            }
        })
    }

    /// Its end, in the state and in the log. What was asked for is the reason for what followed.
    async fn close(self, end: SessionEnd) -> Result<SessionEnd, LedgerError> {
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

/// Waits for what is under way; for ever if nothing is.
pub(super) async fn ready<T>(pending: &mut Option<BoxFuture<'static, T>>) -> T {
    match pending {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Signs of life while the end of a session is looked for.
struct Signs {
    shared: Arc<Coordinator>,
    session: SessionId,
    host: Option<String>,
    since: Instant,
    beats: u64,
}

impl Signs {
    async fn keep_telling(mut self) -> Infallible {
        let every = self.shared.config.timeouts.liveness;
        loop {
            tokio::time::sleep(every).await;
            self.beats += 1;
            let host = self.host.as_deref().unwrap_or("its host");
            let evidence = format!("{host}: asking how it ended");
            let liveness = sign(self.beats, LiveVerdict::Suspect, evidence, self.since.elapsed());
            self.shared.journal.emit(Event::SessionLiveness { session: self.session, liveness });
        }
    }
}

/// A sign of life without a host's own figures.
fn sign(beat: u64, verdict: LiveVerdict, evidence: String, since: Duration) -> Liveness {
    Liveness {
        beat,
        verdict,
        evidence,
        elapsed_ms: milliseconds(since),
        deadline_in_ms: 0,
        since_progress_ms: 0,
        since_output_ms: 0,
        stdout_bytes: 0,
        lines: 0,
        open_tool: None,
        processes: 0,
        new_processes: 0,
        cpu_leader_ms: 0,
        cpu_tools_ms: 0,
        rss_kib: 0,
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
