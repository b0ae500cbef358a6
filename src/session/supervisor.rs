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
use super::brief::Briefly;
use super::confinement::Strength;
use super::finished::{Finished, Row};
use super::in_force::{InForce, NOTHING};
use super::keeper::launch::{self, Keeper, LaunchError};
use super::live::Live;
use super::machine::End;
use super::redact::{RedactedEvents, redact};
use super::repair;
use super::slots::Slots;
use super::stop::{LiveSessions, StopSignal};
use crate::clock::Clock;
use crate::event::{Event, Sink};
use crate::gateway::{Account, Failure, Stop};
use crate::model::{
    FailureKind, Outcome, SessionEnd, SessionId, SessionTranscript, Stage, Untrusted, Usage, Usd,
    milliseconds, plain_text,
};
use crate::ports::{HeldCredentials, Ledger, LedgerError, LedgerRow};
use crate::private::{self, beneath};
use crate::prompt::schema::violations;
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

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) async fn held_credentials(&self) -> HeldSecrets {
        self.secrets.held_now().await
    }

    /// Starts short commands like its sessions.
    pub(super) fn briefly(&self) -> Briefly {
        let SupervisorSettings { keeper_program, containment, .. } = &self.settings;
        Briefly { keeper: keeper_program.clone(), containment: *containment }
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
            && (strength != Strength::Full || spec.confinement.is_none())
        {
            return Ok(too_weak(strength.explanation()));
        }
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
            launch::launch(keeper_program, spec.session.id.0, *containment, slots.as_ref()).await
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
        let in_force = in_force(spec, &keeper);
        if self.settings.containment == Containment::Strict && in_force.files == NOTHING {
            release_keeper(keeper).await;
            let end = too_weak("only its own sandbox would restrict its files");
            return Ok(StartResult::NotStarted(Box::new(end)));
        }
        let row = self.row(spec, &keeper, &in_force);
        let decoder = agent.decoder(&spec.task);
        let live = Live::new(spec, decoder, &row, &events, &*self.ledger, &self.settings, &held);
        let committed = self.ledger.register(row, self.settings.max_live).await;
        match Box::pin(live.run(&mut keeper, committed, stop)).await {
            Ok(finished) => Ok(StartResult::Over(Box::new((keeper, finished)))),
            Err(refused) => {
                release_keeper(keeper).await;
                Err(refused)
            }
        }
    }

    fn row(&self, spec: &SessionSpec, keeper: &Keeper, in_force: &InForce) -> LedgerRow {
        let started_at = self.clock.now();
        let strength = spec.confinement.as_ref().map(|_| Strength::of_this_machine());
        // With which way to the provider: without a gateway the agent holds the credential itself.
        let way = if spec.gateway.is_some() { "+gateway" } else { "" };
        let files = match in_force.files.as_str() {
            files if files.contains("mounts") => "+mounts",
            NOTHING if spec.confinement.is_some() => "+no-file-rules",
            _ => "",
        };
        let hard = SignedDuration::try_from(spec.limits.hard).unwrap_or(SignedDuration::MAX);
        LedgerRow {
            session: spec.session.clone(),
            keeper: keeper.identity.clone(),
            tier: format!("{}{files}{way}{}", keeper.tier, strength.unwrap_or(Strength::Missing)),
            cgroup: keeper.cgroup.clone(),
            scratch: spec.scratch.clone(),
            started_at,
            deadline_at: started_at.saturating_add(hard).unwrap_or(started_at),
            host: None,
            in_force: serde_json::to_string(in_force).ok(),
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
        let finished = self.believed(spec, with_cost(spec, agent, finished));
        let (mut end, mut row) = (judge(spec, agent, &finished), finished.row);
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
        } else if let Some(again) = self.objected(spec, agent, &end, &finished, &stop).await {
            (end, row) = self.ask_again(&again, agent, end, stop).await;
        }
        end.usage = metered(spec, &end.outcome, finished.json_lines > 0, end.usage);
        redact(spec.session.id, &mut end, &self.secrets.held_now().await);
        if row == Some(Row::Close) {
            remove_folder(&spec.scratch).await;
            self.ledger.close(spec.session.id, end.clone()).await?;
        } else {
            self.ledger.used(spec.session.id, end.usage).await?;
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
            words: end.last_words(),
            answered_by: end.fell_back_to.clone(),
        });
        Ok(end)
    }

    /// The question about an answer that its examiner does not take as it is.
    async fn objected(
        &self,
        spec: &SessionSpec,
        agent: &dyn Agent,
        end: &SessionEnd,
        finished: &Finished,
        stop: &StopSignal,
    ) -> Option<SessionSpec> {
        let examiner = spec.examiner.as_ref().filter(|_| stop.state().reason.is_none())?;
        let answer = end.output.clone().filter(|_| end.outcome.is_success())?;
        let objection = examiner.objection(answer.clone(), end.files_read.clone()).await?;
        let again = repair::question_about(spec, agent, finished, &answer, &objection)?;
        let what = "asked again about claims that the code does not confirm".to_owned();
        self.events.emit(Event::SessionProgressed { session: spec.session.id, what });
        Some(again)
    }

    /// An agent's numbers are not trusted: a cost that its limits rule out would use up the budget of
    /// all other items.
    fn believed(&self, spec: &SessionSpec, mut finished: Finished) -> Finished {
        let most = Usd::from_micros(spec.worst_case.micros().saturating_mul(BELIEVED_TIMES));
        if let Some(cost) = finished.usage.cost.filter(|cost| *cost > most && most > Usd::ZERO) {
            finished.usage.cost = Some(most);
            finished.usage.estimated = true;
            let what = format!(
                "the agent reported a cost of {cost}, which its limits rule out; {most} is counted"
            );
            self.events.emit(Event::SessionProgressed { session: spec.session.id, what });
        }
        finished
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
                let finished = self.believed(again, with_cost(again, agent, finished));
                let row = finished.row;
                if row == Some(Row::Close) {
                    release_keeper(keeper).await;
                }
                (repair::together(first, judge(again, agent, &finished)), row)
            }
            Ok(StartResult::NotStarted(_)) | Err(_) => (first, Some(Row::Close)),
        }
    }
}

fn in_force(spec: &SessionSpec, keeper: &Keeper) -> InForce {
    let strength = Strength::of_this_machine();
    InForce::of(spec.confinement.as_ref(), strength, keeper.tier, keeper.walls)
}

/// `strict` starts nothing that is not confined.
fn too_weak(why: &str) -> SessionEnd {
    let detail =
        format!("state.containment is \"strict\", but the agent cannot be confined here: {why}");
    not_started(Outcome::SpawnFailed { why: FailureKind::KeeperFailed }, detail)
}

/// A session exceeds its limit by its last request at most, never by this factor.
const BELIEVED_TIMES: i64 = 4;

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

/// What the session used, by the provider's own counts as the gateway saw them. The agent's figure
/// is only compared.
fn metered(spec: &SessionSpec, outcome: &Outcome, spoke: bool, said: Usage) -> Usage {
    let Some(account) = spec.gateway.as_ref().map(|gateway| gateway.account()) else {
        return if spoke { said } else { unless_unreadable(outcome, said) };
    };
    if account.requests == 0 {
        let nothing = said.cost.is_none() && said.tokens() == 0;
        return Usage { cost: if nothing { Some(Usd::ZERO) } else { said.cost }, ..said };
    }
    let session = spec.session.id;
    if let Some(model) = account.unpriced {
        tracing::warn!(session_id = %session, %model, "no price for this model: it counts as the dearest one known; add it to [agent.price]");
    }
    let reported = said.cost.filter(|_| said.is_reported() && !account.usage.estimated);
    if let (Some(counted), Some(reported)) = (account.usage.cost, reported) {
        let differ = (counted - reported).dollars().abs();
        if differ > 0.000_1_f64.max(counted.dollars() / 100.0) {
            tracing::warn!(session_id = %session, %counted, %reported, "the agent reports another cost than the provider's tokens have at list price");
        }
    }
    account.usage
}

/// An agent that never wrote a line of its protocol has not spoken to its provider, unless what it
/// wrote cannot be read.
fn unless_unreadable(outcome: &Outcome, said: Usage) -> Usage {
    let readable = !matches!(outcome, Outcome::BadOutput { .. } | Outcome::Completed);
    let nothing = readable && said.cost.is_none() && said.tokens() == 0;
    Usage { cost: if nothing { Some(Usd::ZERO) } else { said.cost }, ..said }
}

/// Corrects an outcome by what the gateway saw: it knows why requests ended, the agent only says so
/// in its own words. What heartbeat itself decided stays.
fn witnessed(account: &Account, outcome: Outcome) -> Outcome {
    use FailureKind::{
        Interrupted, KeeperFailed, MaxOutputTokens, MaxToolCalls, MaxTurns, SchemaExhausted,
    };
    if outcome == (Outcome::AgentError { why: KeeperFailed }) {
        return outcome;
    }
    let is_agents_word = matches!(
        outcome,
        Outcome::AgentError { .. }
            | Outcome::BadOutput { .. }
            | Outcome::ProviderLimit { .. }
            | Outcome::ExitCode { .. }
            | Outcome::InitTimeout
            | Outcome::Stalled
            | Outcome::TimedOut
    );
    let is_agents_end = matches!(
        outcome,
        Outcome::AgentError {
            why: Interrupted | MaxOutputTokens | MaxToolCalls | MaxTurns | SchemaExhausted
        }
    );
    match (account.stop, &account.failure) {
        _ if !is_agents_word => outcome,
        (Some(Stop::Budget), _) => Outcome::BudgetReached,
        (Some(Stop::Calls), _) => Outcome::AgentError { why: MaxTurns },
        (None, Some(failure)) if !is_agents_end => failure.class.outcome(),
        // It started well enough to ask: what is missing is the answer.
        (None, None) if outcome == Outcome::InitTimeout && is_unanswered(account) => {
            Outcome::AgentError { why: FailureKind::ApiError }
        }
        _ => outcome,
    }
}

/// The agent asked and nothing came back.
const fn is_unanswered(account: &Account) -> bool {
    account.requests > 0 && account.calls == 0
}

/// A complete answer that fits its schema is paid for and counts, whatever the agent says
/// afterwards. What a person or the machine ended stays ended.
fn keep_answer(spec: &SessionSpec, finished: &Finished, outcome: Outcome) -> Outcome {
    let may_count = matches!(
        outcome,
        Outcome::AgentError { .. }
            | Outcome::ProviderLimit { .. }
            | Outcome::ExitCode { .. }
            | Outcome::BudgetReached
            | Outcome::Stalled
            | Outcome::TimedOut
    );
    let answer = finished.result.as_ref().and_then(|result| result.structured_output.as_ref());
    let fits = |answer: &Untrusted<serde_json::Value>| {
        violations(&spec.task.schema, answer.raw()).is_empty()
    };
    if may_count && answer.is_some_and(fits) { Outcome::Completed } else { outcome }
}

/// The agent's standard error, with why its requests ended.
fn words_of(spec: &SessionSpec, account: Option<&Account>, finished: &Finished) -> Untrusted {
    let why = account.and_then(|account| match account.stop {
        Some(Stop::Budget) => {
            Some(format!("the session reached its budget of {}", spec.worst_case))
        }
        Some(Stop::Calls) => Some("the session called the model as often as it may".to_owned()),
        None if account.failure.is_none() && is_unanswered(account) => {
            Some(Failure::outage("no answer came").text())
        }
        None => account.failure.as_ref().map(Failure::text),
    });
    match why {
        Some(why) => {
            Untrusted::new(format!("{}\n{why}", finished.stderr_tail.raw()).trim().to_owned())
        }
        None => finished.stderr_tail.clone(),
    }
}

/// Classifies the end from the machine's result, the agent's report and what the gateway saw.
fn judge(spec: &SessionSpec, agent: &dyn Agent, finished: &Finished) -> SessionEnd {
    let account = spec.gateway.as_ref().map(|gateway| gateway.account());
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
    let outcome = match &account {
        Some(account) => witnessed(account, outcome),
        None => outcome,
    };
    let outcome = keep_answer(spec, finished, outcome);
    // An answer about code of which nothing could be read is a guess, however sure it sounds.
    let read_nothing = spec.session.stage == Stage::Deep
        && finished.tried_calls > 0
        && finished.failed_calls >= finished.tried_calls;
    let outcome = match outcome {
        Outcome::Completed if read_nothing => Outcome::BadOutput { why: FailureKind::NothingRead },
        outcome => outcome,
    };
    let reset = account.as_ref().and_then(|account| account.failure.as_ref()?.reset);
    let structured = finished.result.as_ref().and_then(|result| result.structured_output.clone());
    SessionEnd {
        output: structured.filter(|_| outcome.is_success()).map(Untrusted::into_plain),
        usage: finished.usage,
        suspended_until: reset.or(finished.suspended_until),
        duration: finished.duration,
        reads: finished.reads,
        files_read: Some(finished.files_read.clone()),
        swept: finished.swept,
        survivors: finished.survivors,
        stderr_tail: match outcome {
            // Its last words are of another matter.
            Outcome::AgentError { why: FailureKind::KeeperFailed } => Untrusted::new(
                "the process that supervises this session was ended from outside, and the session \
                 with it"
                    .to_owned(),
            ),
            _ => words_of(spec, account.as_ref(), finished),
        },
        transcript: plain_transcript(&finished.transcript),
        fell_back_to: finished.fell_back_to.as_deref().map(plain_text),
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
    let (scratch, name, stdin) = (spec.scratch.clone(), spec.stdin_name(), spec.stdin.clone());
    let made = tokio::task::spawn_blocking(move || {
        private::create_folder(&scratch)?;
        beneath::create(&scratch, &name, &stdin)
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
