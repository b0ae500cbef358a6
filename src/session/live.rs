//! The loop of one running session, over the keeper, the output, the timers and stop requests. The
//! state machine decides; [`Live::perform`] carries out every effect it returns.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use super::agent::{Decoder, Exit};
use super::beat::SessionTimers;
use super::conversation::{Conversation, Notice, Tail};
use super::evidence::{Evidence, warn_of_unproven};
use super::finished::{Finished, Row};
use super::keeper::launch::Keeper;
use super::keeper::protocol::{FromKeeper, OwnReason, StartFailure, StartStep, ToKeeper};
use super::machine::{Cause, Effect, End, Input, State, step};
use super::orphans::evidence_of;
use super::redact::shown_transcript;
use super::stop::{StopSignal, StopState};
use super::supervisor::SupervisorSettings;
use super::{SessionSpec, children, orphans};
use crate::event::{Event, Sink};
use crate::model::{FailureKind, Untrusted, Usage, Usd, milliseconds};
use crate::ports::{Ledger, LedgerError, LedgerRow};
use crate::process;
use crate::settings::{HeldSecrets, Price};
use ::supervisor::folder::FolderWatch;

/// Longest wait for pipes that another process holds open.
const DRAIN_WITHIN: Duration = Duration::from_secs(1);
/// Longest time a keeper may take after the grace period: its own limit of ten seconds, plus a
/// margin.
const CERTIFICATE_WITHIN: Duration = Duration::from_secs(12);
/// Time limit of our own sweep after a lost keeper.
const CATCH_WITHIN: Duration = Duration::from_secs(10);
/// Minimum interval between events about content.
const CONTENT_EVERY: Duration = Duration::from_secs(1);
/// Minimum interval between two updates of what a live session has read and said.
const SAID_EVERY: Duration = Duration::from_secs(1);
/// Longest time that such an update may hold up the loop.
const SAID_WITHIN: Duration = Duration::from_millis(200);

pub struct Live<'a> {
    spec: &'a SessionSpec,
    events: &'a dyn Sink,
    ledger: &'a dyn Ledger,
    settings: &'a SupervisorSettings,
    state: State,
    conversation: Conversation,
    stderr: Tail,
    timers: SessionTimers,
    started: Instant,
    /// Deadlines that become inputs of the state machine.
    init_at: Option<Instant>,
    hard_at: Instant,
    drain_at: Option<Instant>,
    give_up_at: Option<Instant>,
    content_reported_at: Option<Instant>,
    /// When the transcript was shown last, and how many lines it had.
    said: (Option<Instant>, usize),
    held: &'a HeldSecrets,
    pace: Pace,
    pending: Vec<Effect>,
    row: Option<Row>,
    /// Effective containment and confinement, as named in rows and events.
    tier: String,
    evidence: Evidence,
    exit: Option<Exit>,
    swept: u32,
    survivors: u32,
    detail: String,
    /// We ended it because the provider kept it waiting.
    provider_failed: bool,
    folder: FolderWatch,
    /// When the loop last turned; its timers turn it every second.
    turned: Instant,
    /// What the ledger knows that it has used, and the last request in it that was over.
    used: Option<Usage>,
    settled: u64,
}

/// What the loop waits for.
enum Turn {
    Keeper(Option<FromKeeper>),
    Output(std::io::Result<usize>),
    Errors(std::io::Result<usize>),
    Check,
    Liveness,
    Beat,
    Alarm,
    Stop(StopState),
}

impl<'a> Live<'a> {
    pub fn new(
        spec: &'a SessionSpec,
        decoder: Box<dyn Decoder>,
        row: &LedgerRow,
        events: &'a dyn Sink,
        ledger: &'a dyn Ledger,
        settings: &'a SupervisorSettings,
        held: &'a HeldSecrets,
    ) -> Self {
        let now = Instant::now();
        Self {
            spec,
            events,
            ledger,
            settings,
            state: State::Prepared,
            conversation: Conversation::new(decoder, spec.limits.max_line, now),
            stderr: Tail::default(),
            timers: SessionTimers::new(now, spec.limits.liveness, settings),
            started: now,
            init_at: None,
            hard_at: now + spec.limits.hard,
            drain_at: None,
            give_up_at: None,
            content_reported_at: None,
            said: (None, 0),
            held,
            pace: Pace::default(),
            pending: Vec::new(),
            row: None,
            tier: row.tier.clone(),
            evidence: evidence_of(row),
            exit: None,
            swept: 0,
            survivors: 0,
            detail: String::new(),
            provider_failed: false,
            folder: FolderWatch::default(),
            turned: now,
            used: None,
            settled: 0,
        }
    }

    /// Starts the agent if its row was `committed`, and runs until the end.
    ///
    /// An error means that the row was refused; nothing was started then.
    pub async fn run(
        mut self,
        keeper: &mut Keeper,
        committed: Result<(), LedgerError>,
        mut stop: StopSignal,
    ) -> Result<Finished, LedgerError> {
        self.input(if committed.is_ok() { Input::RowCommitted } else { Input::RowRefused });
        self.perform(keeper).await;
        committed?;
        let mut known = StopState::default();
        let (mut out, mut err) = (vec![0; 64 * 1024], vec![0; 8 * 1024]);
        let (mut out_open, mut err_open) = (true, true);
        while !matches!(self.state, State::Ended(_)) {
            // The agent may write before its keeper reports the start; this keeps the order.
            let (started, alarm) = (self.state != State::Launching, self.next_alarm());
            let turn = tokio::select! {
                message = keeper.from.next() => Turn::Keeper(message),
                read = keeper.stdout.read(&mut out), if out_open && started => Turn::Output(read),
                read = keeper.stderr.read(&mut err), if err_open => Turn::Errors(read),
                _ = self.timers.check.tick() => Turn::Check,
                _ = self.timers.liveness.tick() => Turn::Liveness,
                _ = self.timers.beat.tick() => Turn::Beat,
                () = tokio::time::sleep_until(alarm) => Turn::Alarm,
                state = stop.changed(known) => Turn::Stop(state),
            };
            self.notice_stop(Instant::now());
            match turn {
                Turn::Keeper(message) => self.on_keeper(message, keeper).await,
                Turn::Output(Ok(read)) if read > 0 => {
                    self.on_output(&out[..read]);
                    self.keep_answers().await;
                }
                Turn::Output(_) => out_open = false,
                Turn::Errors(Ok(read)) if read > 0 => self.stderr.push(&err[..read]),
                Turn::Errors(_) => err_open = false,
                Turn::Check => {
                    self.on_check(keeper);
                    self.keep_used().await;
                }
                Turn::Liveness => self.on_liveness(),
                Turn::Beat => keeper.to.send(&ToKeeper::Beat(self.timers.next_beat())).await,
                Turn::Alarm => self.on_alarm(),
                Turn::Stop(state) => {
                    known = state;
                    self.on_stop(state);
                }
            }
            self.perform(keeper).await;
            self.show_transcript().await;
        }
        let duration = self.started.elapsed();
        self.drain(keeper, out_open, err_open).await;
        Ok(self.finish(duration))
    }

    /// Shows what was read and said since the last time. A failure changes nothing.
    async fn show_transcript(&mut self) {
        let said = &self.conversation.transcript;
        let lines = said.lines.len() + usize::try_from(said.left_out).unwrap_or_default();
        let (at, shown) = self.said;
        if lines == shown || at.is_some_and(|at| at.elapsed() < SAID_EVERY) {
            return;
        }
        self.said = (Some(Instant::now()), lines);
        let said = self.ledger.said(self.spec.session.id, shown_transcript(said, self.held));
        if let Ok(Err(error)) = tokio::time::timeout(SAID_WITHIN, said).await {
            tracing::debug!(session = %self.spec.session.id, %error, "could not show the transcript");
        }
    }

    /// Moves every limit by the time that we did not run ourselves: a laptop asleep, a paused
    /// virtual machine, a stopped tree. A loop that did not turn for half of a lease was stopped.
    fn notice_stop(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.turned);
        self.turned = now;
        let usual = self.settings.check_every;
        let lost = since.saturating_sub(usual);
        if lost < self.settings.lease / 2 {
            return;
        }
        for at in [&mut self.init_at, &mut self.drain_at, &mut self.give_up_at] {
            *at = at.map(|at| at + lost);
        }
        self.hard_at += lost;
        self.started += lost;
        self.conversation.pass_over(lost, now);
        let what = format!("was stopped for {} s, which count for no limit", lost.as_secs());
        self.events.emit(Event::SessionProgressed { session: self.spec.session.id, what });
    }

    /// Keeps what the session has used in the ledger, so that a crash of ours is not booked at the
    /// worst case.
    async fn keep_used(&mut self) {
        let used = match &self.spec.gateway {
            Some(gateway) => gateway.used(),
            None => priced(self.conversation.usage(), self.spec.price),
        };
        if self.used == Some(used) {
            return;
        }
        self.used = Some(used);
        if let Err(error) = self.ledger.used(self.spec.session.id, used).await {
            tracing::warn!(session = %self.spec.session.id, %error, "could not store what the session has used");
        }
    }

    /// A complete answer is in the ledger before the agent has done much with it.
    async fn keep_answers(&mut self) {
        let settled = self.spec.gateway.as_ref().map_or(0, |gateway| gateway.last_settled());
        if settled != self.settled {
            self.settled = settled;
            self.keep_used().await;
        }
    }

    fn input(&mut self, input: Input) {
        match step(self.state, input) {
            Ok((state, effects)) => {
                self.state = state;
                self.pending.extend(effects);
            }
            // An illegal input has no effect; the limits still apply.
            Err(illegal) => {
                tracing::error!(session = %self.spec.session.id, %illegal, "ignored an illegal session event");
            }
        }
    }

    async fn perform(&mut self, keeper: &mut Keeper) {
        for effect in std::mem::take(&mut self.pending) {
            match effect {
                Effect::SendGo => self.send_go(keeper).await,
                Effect::SendStop => {
                    self.give_up_in(self.spec.limits.grace + CERTIFICATE_WITHIN);
                    keeper.to.send(&ToKeeper::Stop).await;
                }
                Effect::SendKill => {
                    self.give_up_in(CERTIFICATE_WITHIN);
                    keeper.to.send(&ToKeeper::Kill).await;
                }
                Effect::AnnounceStop(cause) => {
                    // Judged now: an interrupted agent closes its open answer itself.
                    let now = Instant::now();
                    let wait = self.conversation.provider_wait;
                    self.provider_failed = wait.explains(cause, now - self.started, now);
                    self.give_up_in(self.spec.limits.grace + CERTIFICATE_WITHIN);
                    self.events.emit(Event::SessionStopping {
                        session: self.spec.session.id,
                        reason: cause.name(),
                        why: cause.who_asked(),
                    });
                }
                Effect::StartDrain => {
                    self.drain_at = Some(Instant::now() + self.spec.limits.drain);
                }
                Effect::KillKeeper => keeper.process.kill(),
                Effect::CatchEscapees => self.catch(keeper).await,
                // The supervisor closes it after the output is read and the end is classified.
                Effect::CloseRow => self.row = Some(Row::Close),
                Effect::KeepRow => {
                    self.row = Some(Row::KeepOpen);
                    let (session, detail) = (self.spec.session.id, self.detail.clone());
                    self.events.emit(Event::Unkillable { session, detail });
                }
            }
        }
    }

    async fn send_go(&mut self, keeper: &mut Keeper) {
        self.events.emit(Event::SessionRegistered {
            session: self.spec.session.id,
            stage: self.spec.session.stage,
            item: self.spec.session.item.clone(),
            attempt: self.spec.session.attempt,
            keeper_pid: keeper.identity.pid,
            tier: self.tier.clone(),
            limit_ms: milliseconds(self.spec.limits.hard),
            worst_case: self.spec.worst_case,
        });
        self.init_at = Some(Instant::now() + self.spec.limits.init);
        let order = self.spec.order(self.settings.lease);
        keeper.to.send(&ToKeeper::Go(Box::new(order))).await;
    }

    fn give_up_in(&mut self, time: Duration) {
        self.give_up_at = Some(Instant::now() + time);
    }

    fn next_alarm(&self) -> Instant {
        let stopping = self.give_up_at.is_some();
        [self.init_at, self.drain_at, self.give_up_at, (!stopping).then_some(self.hard_at)]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.hard_at)
    }

    fn on_alarm(&mut self) {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if due(self.give_up_at) {
            self.give_up_at = None;
            self.input(Input::CertificateOverdue);
            return;
        }
        if due(self.init_at) {
            self.init_at = None;
            self.input(Input::Stop(Cause::InitTimeout));
        }
        if due(self.drain_at) {
            self.drain_at = None;
            self.input(Input::Stop(Cause::FinishedNotExiting));
        }
        if now >= self.hard_at && self.give_up_at.is_none() {
            // The keeper enforces this limit too; either may be first.
            self.give_up_in(self.spec.limits.grace + CERTIFICATE_WITHIN);
            self.input(Input::Stop(Cause::HardLimit));
        }
    }

    fn on_stop(&mut self, state: StopState) {
        let Some(reason) = state.reason else { return };
        let cause = Cause::Cancelled(reason.kind());
        self.input(if state.immediate { Input::Kill(cause) } else { Input::Stop(cause) });
    }

    async fn on_keeper(&mut self, message: Option<FromKeeper>, keeper: &mut Keeper) {
        match message {
            None => self.input(Input::KeeperGone),
            // Only sent before `Go`.
            Some(
                FromKeeper::Ready { .. }
                | FromKeeper::NoSlot { .. }
                | FromKeeper::SlotsFailed { .. },
            ) => {}
            Some(FromKeeper::Started { pid }) => self.on_started(pid, keeper).await,
            Some(FromKeeper::NotStarted(failure)) => {
                self.stderr.push(failure.to_string().as_bytes());
                self.input(Input::NotStarted(kind_of(failure)));
            }
            Some(FromKeeper::Exited(ending)) => {
                self.exit = Some(ending);
                self.init_at = None;
                self.drain_at = None;
                self.give_up_in(CERTIFICATE_WITHIN);
                self.input(Input::Exited);
            }
            Some(FromKeeper::Stopping(reason)) => self.input(Input::KeeperStops(match reason {
                OwnReason::Deadline => Cause::HardLimit,
                OwnReason::LeaseMissed => Cause::Cancelled(FailureKind::LeaseLost),
                OwnReason::Signalled => Cause::Cancelled(FailureKind::Operator),
            })),
            Some(FromKeeper::Swept { killed }) => {
                self.swept += killed;
                self.input(Input::Swept);
            }
            Some(FromKeeper::Unkillable { left, detail }) => {
                self.survivors = left;
                self.detail = detail;
                self.input(Input::Unkillable);
            }
            Some(FromKeeper::Beat(number)) => self.timers.answered(number),
        }
    }

    async fn on_started(&mut self, pid: u32, keeper: &Keeper) {
        self.started = Instant::now();
        self.hard_at = self.started + self.spec.limits.hard;
        self.init_at = Some(self.started + self.spec.limits.init);
        self.conversation.last_progress = self.started;
        self.conversation.last_output = self.started;
        self.timers.watch(keeper, pid, self.started);
        self.events.emit(Event::SessionSpawned { session: self.spec.session.id, pid, host: None });
        self.input(Input::Started);
        // Before the pid, with which nothing stored would mean that nothing is known.
        self.keep_used().await;
        if let Err(error) = self.ledger.spawned(self.spec.session.id, pid).await {
            // Only informational; the row that counts is already committed.
            tracing::warn!(session = %self.spec.session.id, %error, "could not store the agent's pid");
        }
    }

    fn on_output(&mut self, bytes: &[u8]) {
        let notices = self.conversation.feed(bytes, Instant::now());
        for notice in notices {
            self.on_notice(notice);
        }
        if let Some(cause) = self.conversation.beyond(&self.spec.limits) {
            self.input(Input::Stop(cause));
        }
    }

    fn on_notice(&mut self, notice: Notice) {
        let session = self.spec.session.id;
        match notice {
            Notice::FirstLine => {
                self.init_at = None;
                self.input(Input::Initialised);
            }
            Notice::Initialised { model, version } => {
                let (model, version) = (model.unwrap_or_default(), version.unwrap_or_default());
                self.events.emit(Event::SessionInitialised { session, model, version });
            }
            Notice::Progress(what) => {
                let now = Instant::now();
                if !self.pace.allows(now) {
                    return;
                }
                let recent = self.content_reported_at.is_some_and(|at| now < at + CONTENT_EVERY);
                if what == "content" && recent {
                    return;
                }
                self.content_reported_at = Some(now);
                self.events.emit(Event::SessionProgressed { session, what: what.to_owned() });
            }
            // An agent writes such lines as fast as it likes; each event is stored.
            Notice::Retrying { .. } | Notice::FellBack { .. }
                if !self.pace.allows(Instant::now()) => {}
            Notice::Retrying { attempt, delay_ms, status } => {
                self.events.emit(Event::SessionRetrying { session, attempt, delay_ms, status });
            }
            Notice::FellBack { model } => {
                let what = format!("model fallback to {model}");
                self.events.emit(Event::SessionProgressed { session, what });
            }
            Notice::Result => self.input(Input::ResultSeen),
            // Further output is useless: no grace period.
            Notice::Flood => self.input(Input::Kill(Cause::OutputFlood)),
        }
    }

    fn on_check(&mut self, keeper: &Keeper) {
        // Also before the start is reported: the agent may have stopped its keeper.
        if process::stat(keeper.identity.pid).is_some_and(|stat| stat.is_stopped()) {
            keeper.process.wake();
            self.input(Input::Kill(Cause::KeeperLost));
        }
        let Some(sample) = self.timers.measure() else { return };
        if !matches!(self.state, State::Starting | State::Running | State::Draining) {
            return;
        }
        let limits = &self.spec.limits;
        if sample.processes > limits.max_processes {
            self.input(Input::Kill(Cause::TooManyProcesses));
        } else if sample.rss_kib.max(sample.files_kib) > limits.max_memory / 1024 {
            self.input(Input::Kill(Cause::TooMuchMemory));
        } else if self.folder.is_over(&self.spec.scratch, sample.nameless_kib) {
            self.input(Input::Kill(Cause::TooMuchDisk));
        }
    }

    fn on_liveness(&mut self) {
        let left = self.hard_at.saturating_duration_since(Instant::now());
        let stall = self.spec.limits.stall;
        let Some((liveness, hung)) = self.timers.liveness_event(&self.conversation, stall, left)
        else {
            return;
        };
        self.events.emit(Event::SessionLiveness { session: self.spec.session.id, liveness });
        if hung && matches!(self.state, State::Running) {
            self.input(Input::Stop(Cause::Stalled));
        }
    }

    /// The keeper is gone: its processes became our children, or are found by their marks.
    async fn catch(&mut self, keeper: &mut Keeper) {
        keeper.process.kill();
        tokio::time::timeout(CATCH_WITHIN, keeper.process.wait()).await.ok();
        if let Some(group) = &keeper.cgroup {
            super::keeper::kill_group(group);
        }
        let seen = self.timers.seen();
        let evidence = vec![self.evidence.clone()];
        let caught = children::catch_escapees(&evidence, &seen, CATCH_WITHIN).await;
        let marked = orphans::end_marked(evidence, CATCH_WITHIN).await;
        warn_of_unproven(&marked.unproven);
        self.swept += caught.killed + marked.killed;
        self.survivors = caught.left + marked.left;
        if self.survivors == 0 {
            self.input(Input::Caught);
        } else {
            self.detail = format!("{} processes outlived their keeper", self.survivors);
            self.input(Input::NotCaught);
        }
    }

    /// Reads what is left in the pipes. No process of the tree can write any more, but another
    /// process may hold the other end.
    async fn drain(&mut self, keeper: &mut Keeper, out_open: bool, err_open: bool) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let both = async {
            tokio::join!(
                read_rest(&mut keeper.stdout, &mut out, self.spec.limits.max_line, out_open),
                read_rest(&mut keeper.stderr, &mut err, 64 * 1024, err_open),
            )
        };
        tokio::time::timeout(DRAIN_WITHIN, both).await.ok();
        let now = Instant::now();
        let mut notices = self.conversation.feed(&out, now);
        notices.extend(self.conversation.finish(now));
        for notice in notices {
            // The machine has ended; only informational events are emitted.
            if !matches!(notice, Notice::FirstLine | Notice::Result | Notice::Flood) {
                self.on_notice(notice);
            }
        }
        self.stderr.push(&err);
    }

    fn finish(self, duration: Duration) -> Finished {
        let end = match self.state {
            State::Ended(end) => end,
            _ => End::Unkillable,
        };
        Finished {
            end,
            row: self.row,
            exit: self.exit,
            json_lines: self.conversation.json_lines,
            last_error: self.conversation.last_error(),
            reads: self.conversation.reads(),
            files_read: self.conversation.files_read(),
            tried_calls: self.conversation.tried_calls,
            failed_calls: self.conversation.failed_calls,
            suspended_until: self.conversation.suspended_until(),
            fell_back_to: self.conversation.fell_back_to(),
            usage: self.conversation.usage(),
            transcript: self.conversation.transcript,
            result: self.conversation.result,
            stderr_tail: Untrusted::new(self.stderr.text()),
            duration,
            swept: self.swept,
            survivors: self.survivors,
            provider_failed: self.provider_failed,
        }
    }
}

/// As the detail of an outcome.
fn kind_of(failure: StartFailure) -> FailureKind {
    match (failure.step, failure.errno) {
        (StartStep::Program, libc::ENOENT | libc::ENOTDIR) => FailureKind::NotFound,
        (StartStep::Program, libc::EACCES | libc::EPERM) => FailureKind::NotExecutable,
        (StartStep::NotInForce, _) => FailureKind::SandboxFailed,
        _ => FailureKind::ExecFailed,
    }
}

/// An agent that reports no cost is priced by the list; nothing seen is nothing spent.
fn priced(usage: Usage, price: Option<Price>) -> Usage {
    let cost = match (usage.cost, price) {
        (None, _) if usage.tokens() == 0 => Some(Usd::ZERO),
        (None, Some(price)) => Some(price.of(&usage)),
        (cost, _) => cost,
    };
    Usage { cost, estimated: usage.cost.is_none() && cost.is_some(), ..usage }
}

async fn read_rest(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    into: &mut Vec<u8>,
    at_most: usize,
    open: bool,
) {
    let mut chunk = vec![0; 16 * 1024];
    while open && into.len() < at_most {
        match from.read(&mut chunk).await {
            Ok(read) if read > 0 => into.extend_from_slice(&chunk[..read]),
            _ => return,
        }
    }
}
/// Bounds the events of one session that its agent causes: a burst is kept, a flood is not.
#[derive(Debug, Default)]
struct Pace {
    /// When the current second began, and how many events it has had.
    second: Option<(Instant, u32)>,
    total: u32,
}

impl Pace {
    const PER_SECOND: u32 = 20;
    const IN_ALL: u32 = 10_000;

    fn allows(&mut self, now: Instant) -> bool {
        let second = self.second.filter(|(began, _)| now < *began + Duration::from_secs(1));
        let (began, count) = second.unwrap_or((now, 0));
        let allowed = count < Self::PER_SECOND && self.total < Self::IN_ALL;
        self.second = Some((began, count.saturating_add(1)));
        self.total = self.total.saturating_add(u32::from(allowed));
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_events_is_cut_to_a_few_a_second() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let at = |tenth: u32| start + Duration::from_millis(100) * tenth;
        let flood = |pace: &mut Pace, tenth| (0..500).filter(|_| pace.allows(at(tenth))).count();
        assert_eq!([0, 5, 9].map(|tenth| flood(&mut pace, tenth)), [20, 0, 0]);
        assert_eq!(flood(&mut pace, 10), 20);
        let all: usize = (2..2_000).map(|second| flood(&mut pace, second * 10)).sum();
        assert_eq!(all + 40, 10_000);
    }
}
