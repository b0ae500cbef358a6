//! The supervisor: starts a keeper, commits the row, sends `Go`, and runs the session until its
//! processes are certified gone.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::SessionSpec;
use super::agent::{Agent, Exit, Transcript};
use super::confinement::Strength;
use super::finished::{Finished, Row};
use super::keeper::launch::{self, Keeper, LaunchError};
use super::live::Live;
use super::machine::End;
use super::redact::{RedactedEvents, redact};
use super::repair;
use super::slots::Slots;
use super::spec::stdin_file;
use super::stop::{LiveSessions, StopSignal};
use crate::clock::Clock;
use crate::event::{Event, Sink};
use crate::model::{
    FailureKind, Outcome, SessionEnd, SessionId, SessionTranscript, Untrusted, milliseconds,
    plain_text,
};
use crate::ports::{HeldCredentials, Ledger, LedgerError, LedgerRow};
use crate::private;
use crate::settings::{Containment, HeldSecrets};

#[derive(Debug, Clone)]
pub struct SupervisorSettings {
    /// The binary that is started as keeper; usually this one.
    pub keeper_program: PathBuf,
    /// How strongly agents are contained.
    pub containment: Containment,
    /// Over all processes that share the ledger.
    pub max_live: u32,
    /// Slots shared by all states of this user on this machine; `None`: only the ledger's limit
    /// applies.
    pub slots: Option<Slots>,
    /// Longest silence of heartbeat before a keeper ends its session.
    pub lease: Duration,
    /// Interval between two checks of the limits.
    pub check_every: Duration,
}

impl SupervisorSettings {
    /// With the default times.
    pub fn new(keeper_program: PathBuf, containment: Containment, max_live: u32) -> Self {
        Self {
            keeper_program,
            containment,
            max_live,
            slots: None,
            lease: Duration::from_secs(30),
            check_every: Duration::from_secs(1),
        }
    }
}

/// Runs sessions concurrently. One per process.
pub struct Supervisor {
    settings: SupervisorSettings,
    ledger: Arc<dyn Ledger>,
    events: Arc<dyn Sink>,
    clock: Clock,
    live: LiveSessions,
    secrets: Arc<dyn HeldCredentials>,
}

impl Supervisor {
    pub fn new(
        settings: SupervisorSettings,
        ledger: Arc<dyn Ledger>,
        events: Arc<dyn Sink>,
        clock: Clock,
    ) -> Self {
        let secrets = Arc::new(HeldSecrets::default());
        Self { settings, ledger, events, clock, live: LiveSessions::default(), secrets }
    }

    /// Removes these credentials from everything its agents write.
    #[must_use]
    pub fn removing(self, secrets: Arc<dyn HeldCredentials>) -> Self {
        Self { secrets, ..self }
    }

    /// Registers its sessions in `live`, so that they can be ended separately.
    #[must_use]
    pub fn sharing(self, live: LiveSessions) -> Self {
        Self { live, ..self }
    }

    /// Sessions that this process supervises now.
    pub fn live_sessions(&self) -> HashSet<SessionId> {
        self.live.ids()
    }

    pub(super) fn ledger(&self) -> &dyn Ledger {
        &*self.ledger
    }

    pub(super) fn events(&self) -> &dyn Sink {
        &*self.events
    }

    /// Runs one session, from its row to the certificate that its processes are gone.
    ///
    /// An error means that the ledger refused or failed; [`LedgerError::Full`] is returned
    /// unchanged and nothing was started. If the future is dropped, the keeper ends the tree and
    /// the row is resolved before the next tick.
    pub async fn run(
        &self,
        spec: SessionSpec,
        agent: &dyn Agent,
        stop: StopSignal,
    ) -> Result<SessionEnd, LedgerError> {
        let entry = self.live.register(spec.session.id);
        let stop = stop.and(&entry.handle);
        if let Some(reason) = stop.state().reason {
            return Ok(not_started(Outcome::Cancelled { why: reason.kind() }, String::new()));
        }
        let strength = Strength::of_this_machine();
        if self.settings.containment == Containment::Strict
            && (strength != Strength::Full
                || spec.confinement.as_ref().is_none_or(|made| made.makes_own_sandbox))
        {
            let why = FailureKind::KeeperFailed;
            let detail = format!(
                "state.containment is \"strict\", but the agent cannot be confined here: {}",
                strength.explanation()
            );
            return Ok(not_started(Outcome::SpawnFailed { why }, detail));
        }
        let spec = SessionSpec {
            confinement: spec.confinement.filter(|_| strength != Strength::Missing),
            ..spec
        };
        match Box::pin(self.run_keeper(&spec, agent, stop.clone())).await? {
            StartResult::NotStarted(end) => Ok(*end),
            StartResult::Over(over) => {
                let (keeper, finished) = *over;
                Box::pin(self.conclude(&spec, agent, keeper, finished, stop)).await
            }
        }
    }

    /// Starts a keeper, commits the row and runs until the tree is gone.
    async fn run_keeper(
        &self,
        spec: &SessionSpec,
        agent: &dyn Agent,
        stop: StopSignal,
    ) -> Result<StartResult, LedgerError> {
        let held = self.secrets.held_now().await;
        let events = RedactedEvents { events: &*self.events, held: &held };
        let prepared = async {
            prepare_folder(spec).await?;
            let SupervisorSettings { keeper_program, containment, slots, .. } = &self.settings;
            launch::launch(keeper_program, spec.session.id, *containment, slots.as_ref()).await
        };
        let mut keeper = match prepared.await {
            Ok(keeper) => keeper,
            Err(LaunchError::NoSlot { in_use }) => {
                let max = self.settings.slots.as_ref().map_or(0, Slots::limit);
                return Err(LedgerError::MachineFull { live: in_use, max });
            }
            Err(LaunchError::Io(error)) => {
                let why = FailureKind::KeeperFailed;
                let end = not_started(Outcome::SpawnFailed { why }, error.to_string());
                return Ok(StartResult::NotStarted(Box::new(end)));
            }
        };
        let row = self.row(spec, &keeper);
        let decoder = agent.decoder(&spec.task);
        let live = Live::new(spec, decoder, &row, &events, &*self.ledger, &self.settings);
        let committed = self.ledger.register(row, self.settings.max_live).await;
        match Box::pin(live.run(&mut keeper, committed, stop)).await {
            Ok(finished) => Ok(StartResult::Over(Box::new((keeper, finished)))),
            Err(refused) => {
                release_keeper(keeper).await;
                Err(refused)
            }
        }
    }

    fn row(&self, spec: &SessionSpec, keeper: &Keeper) -> LedgerRow {
        let started_at = self.clock.now();
        let strength = spec.confinement.as_ref().map(|_| Strength::of_this_machine());
        let hard = SignedDuration::try_from(spec.limits.hard).unwrap_or(SignedDuration::MAX);
        LedgerRow {
            session: spec.session.clone(),
            keeper: keeper.identity.clone(),
            tier: format!("{}{}", keeper.tier, strength.unwrap_or(Strength::Missing)),
            cgroup: keeper.cgroup.clone(),
            scratch: spec.scratch.clone(),
            started_at,
            deadline_at: started_at.saturating_add(hard).unwrap_or(started_at),
            host: None,
        }
    }

    /// Classifies the end, asks once more where that helps, and closes the row if the machine said
    /// so.
    async fn conclude(
        &self,
        spec: &SessionSpec,
        agent: &dyn Agent,
        keeper: Keeper,
        finished: Finished,
        stop: StopSignal,
    ) -> Result<SessionEnd, LedgerError> {
        let finished = with_cost(spec, agent, finished);
        let (mut end, mut row) = (judge(agent, &finished), finished.row);
        if row == Some(Row::Close) {
            release_keeper(keeper).await;
        }
        let may_ask = !agent.enforces_schema() && stop.state().reason.is_none();
        let again = may_ask.then(|| repair::question(spec, agent, &end, &finished));
        if let Some(again) = again.flatten() {
            let session = spec.session.id;
            let what = "asked again for an answer that fits the schema".to_owned();
            self.events.emit(Event::SessionProgressed { session, what });
            (end, row) = self.ask_again(&again, agent, end, stop).await;
        }
        redact(spec.session.id, &mut end, &self.secrets.held_now().await);
        if row == Some(Row::Close) {
            remove_folder(&spec.scratch).await;
            self.ledger.close(spec.session.id, end.clone()).await?;
        }
        self.events.emit(Event::SessionEnded {
            session: spec.session.id,
            stage: spec.session.stage,
            item: spec.session.item.clone(),
            outcome: end.outcome.clone(),
            usage: end.usage,
            duration_ms: milliseconds(end.duration),
            files_read: end.reads,
            swept: end.swept,
            survivors: end.survivors,
            host: None,
        });
        Ok(end)
    }

    /// Runs the second request if there is one; the row stays open until it is over.
    async fn ask_again(
        &self,
        again: &SessionSpec,
        agent: &dyn Agent,
        first: SessionEnd,
        stop: StopSignal,
    ) -> (SessionEnd, Option<Row>) {
        match Box::pin(self.run_keeper(again, agent, stop)).await {
            Ok(StartResult::Over(over)) => {
                let (keeper, finished) = *over;
                let finished = with_cost(again, agent, finished);
                let row = finished.row;
                if row == Some(Row::Close) {
                    release_keeper(keeper).await;
                }
                (repair::together(first, judge(agent, &finished)), row)
            }
            Ok(StartResult::NotStarted(_)) | Err(_) => (first, Some(Row::Close)),
        }
    }
}

/// Result of a start.
enum StartResult {
    NotStarted(Box<SessionEnd>),
    Over(Box<(Keeper, Finished)>),
}

/// Adds the usage that the agent left in files, and the cost by the price list if it reported
/// tokens but no cost. Tokens seen in a stream that broke off are not priced.
fn with_cost(spec: &SessionSpec, agent: &dyn Agent, mut finished: Finished) -> Finished {
    let reported = agent.collect(&spec.task).or_else(|| Some(finished.result.as_ref()?.usage));
    let Some(reported) = reported.filter(|reported| reported.tokens() > 0) else { return finished };
    let usage = &mut finished.usage;
    usage.input_tokens = usage.input_tokens.max(reported.input_tokens);
    usage.output_tokens = usage.output_tokens.max(reported.output_tokens);
    usage.cache_read_tokens = usage.cache_read_tokens.max(reported.cache_read_tokens);
    usage.cache_creation_tokens = usage.cache_creation_tokens.max(reported.cache_creation_tokens);
    if let (None, Some(price)) = (usage.cost, spec.price) {
        (usage.cost, usage.estimated) = (Some(price.of(usage)), true);
    }
    finished
}

/// Classifies the end from the machine's result and the agent's report.
fn judge(agent: &dyn Agent, finished: &Finished) -> SessionEnd {
    let classify = |exit: Exit| {
        agent.classify(&Transcript {
            exit,
            result: finished.result.clone(),
            json_lines: finished.json_lines,
            last_error: finished.last_error.clone(),
            stderr_tail: finished.stderr_tail.clone(),
        })
    };
    let outcome = match finished.end {
        // A refused row returns earlier; nothing was started then.
        End::Refused => Outcome::SpawnFailed { why: FailureKind::KeeperFailed },
        End::NotStarted(why) => Outcome::SpawnFailed { why },
        End::Left => classify(finished.exit.unwrap_or(Exit::Code(0))),
        // We ended the process, but its result was complete before.
        End::Ended { cause, had_result } if had_result && cause.leaves_result_valid() => {
            classify(Exit::Code(0))
        }
        // The provider caused the end, not the item.
        End::Ended { .. } if finished.provider_failed => {
            agent.classify_provider_failure(finished.last_error.as_deref())
        }
        End::Ended { cause, .. } => {
            cause.outcome().unwrap_or(Outcome::BadOutput { why: FailureKind::NoResult })
        }
        End::Unkillable => Outcome::Unkillable,
    };
    let structured = finished.result.as_ref().and_then(|result| result.structured_output.clone());
    SessionEnd {
        output: structured.filter(|_| outcome.is_success()).map(Untrusted::into_plain),
        usage: finished.usage,
        suspended_until: finished.suspended_until,
        duration: finished.duration,
        reads: finished.reads,
        swept: finished.swept,
        survivors: finished.survivors,
        stderr_tail: finished.stderr_tail.clone(),
        transcript: plain_transcript(&finished.transcript),
        outcome,
    }
}

fn plain_transcript(transcript: &SessionTranscript) -> SessionTranscript {
    let mut plain = transcript.clone();
    plain.texts_mut().for_each(|text| *text = plain_text(text));
    plain
}

fn not_started(outcome: Outcome, why: String) -> SessionEnd {
    SessionEnd { stderr_tail: Untrusted::new(why), ..SessionEnd::empty(outcome) }
}

/// Lets a keeper exit and reaps it.
async fn release_keeper(keeper: Keeper) {
    let Keeper { to, from, mut process, .. } = keeper;
    drop((to, from));
    if tokio::time::timeout(Duration::from_secs(5), process.wait()).await.is_err() {
        // Nothing is left to supervise, but it does not exit: it was stopped.
        process.kill();
        tokio::time::timeout(Duration::from_secs(5), process.wait()).await.ok();
    }
}

/// Creates the private folder with the file that becomes standard input.
async fn prepare_folder(spec: &SessionSpec) -> io::Result<()> {
    let (scratch, stdin) = (spec.scratch.clone(), spec.stdin.clone());
    let made = tokio::task::spawn_blocking(move || {
        private::create_folder(&scratch)?;
        private::write(&stdin_file(&scratch), &stdin)
    });
    made.await.map_err(io::Error::other)?
}

pub(super) async fn remove_folder(scratch: &Path) {
    let folder = scratch.to_owned();
    let removed = tokio::task::spawn_blocking(move || private::remove_folder(&folder)).await;
    match removed.map_err(io::Error::other).flatten() {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, folder = %scratch.display(), "could not remove \
                                                                           session directory"),
    }
}
