//! State of an agent's model provider: its breakers, its stated limits, the credential it rejected.
//! Pure; the store keeps one record per provider.
//!
//! Each model has a breaker of its own. Outages (5xx, overload, dropped connections) count across
//! sessions, stages and runs and open it; an agent's program that does not work opens it at once. A
//! rejected credential opens the breaker of the account, until the credential changes. Usage limits
//! hold until their stated reset. During a hold no session starts and no item loses an attempt.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Admission, Policy, Signal};
use crate::model::{
    Breaker, BreakerState, FailureClass, FailureKind, ItemKey, Outcome, SessionId, Stage,
};
use crate::settings::AgentKind;

/// Shorter holds than the tracker's: a probe is one cheap request, and a quarter-hourly schedule
/// should reach the provider at its next tick.
pub const PROVIDER: Policy = Policy {
    threshold: 3,
    hold: SignedDuration::from_mins(1),
    long_hold: SignedDuration::from_mins(15),
    max_hold: SignedDuration::from_mins(15),
};
/// Hold for a limit without a stated reset.
const UNSTATED_LIMIT: SignedDuration = SignedDuration::from_mins(15);
/// The longest limits are weekly; a later time was written with a wrong clock.
const MAX_LIMIT: SignedDuration = SignedDuration::from_hours(24 * 8);

/// Small; stored as one JSON value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderRecord {
    /// Opened by a rejected credential: it concerns every model.
    pub breaker: Breaker,
    /// By the model's name in the configuration.
    pub models: BTreeMap<String, ModelRecord>,
    /// An account limit that the provider stated.
    pub limit: Option<Limit>,
    /// Fingerprint of the credential in use when the provider last refused work.
    pub refused_credential: Option<String>,
    /// Key of these fingerprints; unique per state.
    pub fingerprint_key: Option<String>,
    /// The last failure, with the setting to check.
    pub last_failure: Option<String>,
    /// When the provider last answered a session.
    pub last_answer: Option<Timestamp>,
    /// What is wrong with the agent's configuration, according to the last session.
    pub agent_fault: Option<String>,
}

/// What sessions with one model showed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelRecord {
    pub breaker: Breaker,
    /// What opened it.
    pub fault: Fault,
    /// The last failure, with what to do.
    pub last_failure: Option<String>,
    /// When a session last got an answer.
    pub last_answer: Option<Timestamp>,
    /// Whether the latest sessions got an answer, oldest first.
    pub recent: Vec<Recent>,
    /// Failures of one kind in a row, by stage; empty after a success.
    pub alike: BTreeMap<String, Alike>,
}

/// Who is to blame for an open breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    #[default]
    Provider,
    /// The agent's program.
    Program,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recent {
    pub answered: bool,
    /// `None` for triage and probes.
    pub item: Option<ItemKey>,
}

/// Sessions of one stage that failed alike, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alike {
    pub outcome: Outcome,
    /// One for each item.
    pub ends: Vec<(ItemKey, SessionId)>,
    /// They stopped the stage: the next run tries one item first.
    pub stopped: bool,
}

/// Sessions of different items that fail alike before their stage is stopped.
pub const MAX_ALIKE: usize = 3;
/// Sessions that show whether a model answers most requests.
const RECENT: usize = 12;

impl ModelRecord {
    /// Whether others got answers, as a rule: three of four of the latest sessions. In a brown-out
    /// a failure says nothing about its item.
    pub fn answers_others(&self, item: Option<&ItemKey>) -> bool {
        let others = self.recent.iter().filter(|one| item.is_none() || one.item.as_ref() != item);
        let (all, good) = others.fold((0_usize, 0_usize), |(all, good), one| {
            (all + 1, good + usize::from(one.answered))
        });
        all > 0 && good * 4 >= all * 3
    }

    pub fn answered_since(&self, at: Timestamp) -> bool {
        self.last_answer.is_some_and(|answer| answer > at)
    }

    pub fn is_open(&self) -> bool {
        !matches!(self.breaker.state, BreakerState::Closed)
    }

    fn saw(&mut self, answered: bool, item: Option<&ItemKey>) {
        self.recent.push(Recent { answered, item: item.cloned() });
        let over = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..over);
    }

    fn succeed(&mut self, now: Timestamp) {
        self.breaker.record(Signal::Succeeded, now, &PROVIDER);
        self.fault = Fault::Provider;
        self.last_failure = None;
        self.last_answer = Some(now);
    }

    /// The agent's program does not work with this model: nothing starts until a probe succeeds.
    pub fn program_failed(&mut self, reason: String, now: Timestamp) {
        self.fault = Fault::Program;
        self.last_failure = Some(reason);
        self.breaker.record(Signal::Failed(FailureClass::Down), now, &PROVIDER);
    }

    /// There is no way to the provider: nothing starts until it can be reached. Whether it can is
    /// found out for nothing, so the hold is the short one.
    pub fn unreachable(&mut self, reason: String, now: Timestamp) {
        self.fault = Fault::Provider;
        self.last_failure = Some(reason);
        self.breaker.failures = self.breaker.failures.max(PROVIDER.threshold);
        self.breaker.record(Signal::Failed(FailureClass::Transient), now, &PROVIDER);
    }

    /// Everything in this stage failed alike: the next run tries one item first.
    pub fn stop(&mut self, stage: Stage, outcome: Outcome) {
        let stopped = Alike { outcome, ends: Vec::new(), stopped: true };
        self.alike.insert(stage.to_string(), stopped);
    }

    /// A failure that every item may have. Returns the sessions that failed alike, this one
    /// included, if they are enough to stop the stage.
    pub fn failed_alike(
        &mut self,
        stage: Stage,
        outcome: &Outcome,
        end: (ItemKey, SessionId),
    ) -> Option<Vec<SessionId>> {
        let fresh = || Alike { outcome: outcome.clone(), ends: Vec::new(), stopped: false };
        let alike = self.alike.entry(stage.to_string()).or_insert_with(fresh);
        if alike.outcome != *outcome {
            *alike = fresh();
        }
        // An item that fails again and again says nothing about the others.
        alike.ends.retain(|(item, _)| *item != end.0);
        alike.ends.push(end);
        let over = alike.ends.len().saturating_sub(MAX_ALIKE);
        alike.ends.drain(..over);
        alike.stopped |= alike.ends.len() >= MAX_ALIKE;
        alike.stopped.then(|| alike.ends.iter().map(|(_, session)| *session).collect())
    }
}

/// The provider accepts no work until a stated time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub until: Timestamp,
    pub reason: String,
}

/// A request to start a session.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub now: Timestamp,
    /// Fingerprint of the credential in use; `None` if unknown.
    pub credential: Option<&'a str>,
    /// Empty if it concerns the account alone.
    pub model: &'a str,
    /// A person started this run: the probe does not wait for the end of the hold.
    pub by_hand: bool,
}

/// What prevents sessions from starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hold {
    pub kind: HoldKind,
    pub until: Timestamp,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldKind {
    /// No answer, or only server errors.
    Outage,
    /// A probe is under way.
    Probing,
    /// Usage, rate or credit.
    Limit,
    /// Only another credential helps.
    Credential,
    /// The agent's program does not work.
    Program,
}

/// The records of the agents in use.
#[derive(Debug, Clone, Default)]
pub struct Providers(pub Vec<(AgentKind, ProviderRecord)>);

impl Providers {
    /// The current hold of each provider. The provider is named if there are several.
    pub fn holds(&self, now: Timestamp) -> impl Iterator<Item = Hold> {
        self.0.iter().filter_map(move |(agent, record)| {
            let hold = record.hold(now)?;
            Some(Hold { reason: self.with_agent_name(*agent, hold.reason), ..hold })
        })
    }

    /// The breaker that most needs attention.
    pub fn breaker(&self) -> Breaker {
        most_open(self.0.iter().flat_map(|(_, record)| record.breakers()))
    }

    pub fn agent_fault(&self) -> Option<String> {
        let faults = self.0.iter().filter_map(|(_, record)| record.agent_fault.clone());
        faults.into_iter().next()
    }

    fn with_agent_name(&self, agent: AgentKind, reason: String) -> String {
        match self.0.len() {
            1 => reason,
            _ => format!("{}: {reason}", agent.title()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderAdmission {
    Go,
    /// Start one cheap session first, and nothing else before its result.
    Probe,
    Refused(Hold),
}

/// How a session ended, as far as the provider is concerned.
#[derive(Debug, Clone)]
pub struct Report<'a> {
    pub outcome: &'a Outcome,
    /// The stated reset of a limit.
    pub until: Option<Timestamp>,
    pub now: Timestamp,
    pub credential: Option<&'a str>,
    /// The failure, as text.
    pub reason: String,
    pub model: &'a str,
    /// `None` for triage and probes.
    pub item: Option<&'a ItemKey>,
}

/// The breaker that most needs attention.
fn most_open<'a>(breakers: impl Iterator<Item = &'a Breaker>) -> Breaker {
    let open = |breaker: &Breaker| !matches!(breaker.state, BreakerState::Closed);
    breakers.max_by_key(|breaker| (open(breaker), breaker.failures)).cloned().unwrap_or_default()
}

impl ProviderRecord {
    fn breakers(&self) -> impl Iterator<Item = &Breaker> {
        std::iter::once(&self.breaker).chain(self.models.values().map(|model| &model.breaker))
    }

    /// The breaker that most needs attention, of the account and its models.
    pub fn worst_breaker(&self) -> Breaker {
        most_open(self.breakers())
    }

    pub fn model(&mut self, name: &str) -> &mut ModelRecord {
        self.models.entry(name.to_owned()).or_default()
    }

    /// Whether a session may start. Letting a probe through changes the record.
    pub fn admit(&mut self, request: Request<'_>) -> ProviderAdmission {
        let now = request.now;
        let changed = self.has_other_credential(request.credential);
        if changed {
            self.limit = None;
        }
        if let Some(hold) = self.limit_hold(now) {
            return ProviderAdmission::Refused(hold);
        }
        let waived = request.by_hand || (changed && self.is_refused_credential());
        let admit = |breaker: &mut Breaker| match waived {
            true => breaker.admit_changed(now, &PROVIDER),
            false => breaker.admit(now, &PROVIDER),
        };
        let before = self.breaker.state.clone();
        match admit(&mut self.breaker) {
            Admission::Go => {}
            Admission::Probe => return ProviderAdmission::Probe,
            Admission::Refused { until } => {
                return ProviderAdmission::Refused(self.account_hold(&before, until));
            }
        }
        let Some(model) = self.models.get_mut(request.model) else { return ProviderAdmission::Go };
        let before = model.breaker.state.clone();
        match admit(&mut model.breaker) {
            Admission::Go => ProviderAdmission::Go,
            Admission::Probe => ProviderAdmission::Probe,
            Admission::Refused { until } => ProviderAdmission::Refused(model.hold(&before, until)),
        }
    }

    /// The current hold, for display. Changes nothing.
    pub fn hold(&self, now: Timestamp) -> Option<Hold> {
        let models = || self.models.keys().find_map(|model| self.model_hold(model, now));
        self.account_holds(now).or_else(models)
    }

    /// What prevents sessions with this model.
    pub fn hold_of(&self, model: &str, now: Timestamp) -> Option<Hold> {
        self.account_holds(now).or_else(|| self.model_hold(model, now))
    }

    fn account_holds(&self, now: Timestamp) -> Option<Hold> {
        let open = || {
            let until = self.breaker.state.until().filter(|until| *until > now)?;
            Some(self.account_hold(&self.breaker.state, until))
        };
        self.limit_hold(now).or_else(open)
    }

    fn model_hold(&self, model: &str, now: Timestamp) -> Option<Hold> {
        let model = self.models.get(model)?;
        let until = model.breaker.state.until().filter(|until| *until > now)?;
        Some(model.hold(&model.breaker.state, until))
    }

    /// Records how a session ended.
    pub fn note(&mut self, report: Report<'_>) {
        let now = report.now;
        match report.outcome {
            outcome if is_outage(outcome) => {
                let model = self.model(report.model);
                model.saw(false, report.item);
                model.fault = Fault::Provider;
                model.last_failure = Some(report.reason);
                // Sessions that were already running when it opened add no information.
                if model.breaker.state.until().is_none() {
                    model.breaker.record(Signal::Failed(FailureClass::Transient), now, &PROVIDER);
                }
            }
            Outcome::ProviderLimit { why: FailureKind::Authentication } => {
                self.refuse(report.credential, &report.reason);
                self.breaker.record(Signal::Failed(FailureClass::Auth), now, &PROVIDER);
            }
            Outcome::ProviderLimit { .. } => {
                self.refuse(report.credential, &report.reason);
                // The provider answered, so this is not an outage.
                self.breaker.record(Signal::ProbeSucceeded, now, &PROVIDER);
                let model = self.model(report.model);
                model.breaker.record(Signal::ProbeSucceeded, now, &PROVIDER);
                let until = report.until.unwrap_or(later(now, UNSTATED_LIMIT));
                let until = until.min(later(now, MAX_LIMIT));
                let known = self.limit.as_ref().map(|limit| limit.until).filter(|t| *t > now);
                // Of several stated resets, the earliest one counts.
                let until = known.map_or(until, |known| known.min(until));
                self.limit = Some(Limit { until, reason: report.reason });
            }
            outcome if shows_an_answer(outcome) => {
                self.breaker.record(Signal::Succeeded, now, &PROVIDER);
                self.limit = None;
                self.refused_credential = None;
                self.last_failure = None;
                self.last_answer = Some(now);
                let model = self.model(report.model);
                model.saw(true, report.item);
                model.succeed(now);
            }
            _ => {}
        }
    }

    /// The probe did not run for a reason of ours: the next request may probe.
    pub fn abandon_probe(&mut self, now: Timestamp) {
        let models = self.models.values_mut().map(|model| &mut model.breaker);
        for breaker in models.chain([&mut self.breaker]) {
            if matches!(breaker.state, BreakerState::HalfOpen { .. }) {
                breaker.state = BreakerState::Open { until: now, class: FailureClass::Transient };
            }
        }
    }

    /// Closed by a person who fixed the cause.
    pub fn close(&mut self) {
        self.breaker.close();
        self.models.clear();
        self.limit = None;
        self.refused_credential = None;
        self.last_failure = None;
        self.agent_fault = None;
    }

    fn refuse(&mut self, credential: Option<&str>, reason: &str) {
        self.refused_credential = credential.map(str::to_owned);
        self.last_failure = Some(reason.to_owned());
    }

    fn has_other_credential(&self, credential: Option<&str>) -> bool {
        let refused = self.refused_credential.as_deref();
        refused.is_some() && credential.is_some() && refused != credential
    }

    fn is_refused_credential(&self) -> bool {
        matches!(self.breaker.state, BreakerState::Open { class: FailureClass::Auth, .. })
    }

    fn limit_hold(&self, now: Timestamp) -> Option<Hold> {
        let limit = self.limit.as_ref()?;
        let holds = limit.until > now && limit.until <= later(now, MAX_LIMIT);
        let (until, reason) = (limit.until, limit.reason.clone());
        holds.then_some(Hold { kind: HoldKind::Limit, until, reason })
    }

    fn account_hold(&self, state: &BreakerState, until: Timestamp) -> Hold {
        let kind = match state {
            BreakerState::HalfOpen { .. } => HoldKind::Probing,
            _ => HoldKind::Credential,
        };
        Hold { kind, until, reason: reason_of(kind, self.last_failure.as_ref()) }
    }
}

impl ModelRecord {
    fn hold(&self, state: &BreakerState, until: Timestamp) -> Hold {
        let kind = match (state, self.fault) {
            (BreakerState::HalfOpen { .. }, _) => HoldKind::Probing,
            (_, Fault::Program) => HoldKind::Program,
            (_, Fault::Provider) => HoldKind::Outage,
        };
        Hold { kind, until, reason: reason_of(kind, self.last_failure.as_ref()) }
    }
}

fn reason_of(kind: HoldKind, last_failure: Option<&String>) -> String {
    match kind {
        HoldKind::Probing => "a probe is under way".to_owned(),
        _ => last_failure.cloned().unwrap_or_else(|| "it does not answer".to_owned()),
    }
}

/// The provider failed with a server error or was unreachable.
pub const fn is_outage(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::AgentError { why: FailureKind::ApiError })
}

/// Outcomes that require an answer from the model.
const fn shows_an_answer(outcome: &Outcome) -> bool {
    use FailureKind::{
        InvalidRequest, MaxOutputTokens, MaxToolCalls, MaxTurns, Refused, SchemaExhausted,
        SchemaIgnored, SchemaViolated,
    };
    matches!(
        outcome,
        Outcome::Completed
            | Outcome::BudgetReached
            | Outcome::TooManyReads
            | Outcome::TooMuchDisk
            | Outcome::BadOutput { why: SchemaIgnored | SchemaViolated }
            | Outcome::AgentError {
                why: InvalidRequest
                    | MaxOutputTokens
                    | MaxToolCalls
                    | MaxTurns
                    | Refused
                    | SchemaExhausted
            }
    )
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTAGE: Outcome = Outcome::AgentError { why: FailureKind::ApiError };
    const REFUSED: Outcome = Outcome::ProviderLimit { why: FailureKind::Authentication };
    const USED_UP: Outcome = Outcome::ProviderLimit { why: FailureKind::UsageLimit };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn ask(record: &mut ProviderRecord, seconds: i64, credential: &str) -> ProviderAdmission {
        let (now, credential) = (at(seconds), Some(credential));
        record.admit(Request { now, credential, model: "m", by_hand: false })
    }

    fn note(record: &mut ProviderRecord, outcome: &Outcome, until: Option<i64>, seconds: i64) {
        let (until, now) = (until.map(at), at(seconds));
        let credential = Some("old");
        let (reason, model, item) = (outcome.to_string(), "m", None);
        record.note(Report { outcome, until, now, credential, reason, model, item });
    }

    fn refused(admission: ProviderAdmission) -> (HoldKind, Timestamp) {
        match admission {
            ProviderAdmission::Refused(hold) => (hold.kind, hold.until),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn three_outages_in_a_row_open_it_and_one_probe_at_a_time_finds_the_end() {
        let mut record = ProviderRecord::default();
        for second in 0..3 {
            assert_eq!(ask(&mut record, second, "old"), ProviderAdmission::Go);
            note(&mut record, &OUTAGE, None, second);
        }
        assert_eq!(refused(ask(&mut record, 3, "old")), (HoldKind::Outage, at(62)));
        assert_eq!(ask(&mut record, 62, "old"), ProviderAdmission::Probe);
        assert_eq!(refused(ask(&mut record, 63, "old")).0, HoldKind::Probing);
        note(&mut record, &OUTAGE, None, 64);
        assert_eq!(refused(ask(&mut record, 65, "old")).1, at(184), "two minutes the second time");
        assert_eq!(ask(&mut record, 184, "old"), ProviderAdmission::Probe);
        note(&mut record, &Outcome::Completed, None, 185);
        assert_eq!(ask(&mut record, 186, "old"), ProviderAdmission::Go);
        assert_eq!(record.worst_breaker(), Breaker::default());
    }

    #[test]
    fn a_hold_never_outlasts_a_quarter_of_an_hour() {
        let mut record = ProviderRecord::default();
        let mut now = 0;
        for _ in 0..20 {
            note(&mut record, &OUTAGE, None, now);
            if let Some(hold) = record.hold(at(now)) {
                assert!(hold.until <= at(now + 15 * 60));
                now = hold.until.as_second() - at(0).as_second();
                assert_eq!(ask(&mut record, now, "old"), ProviderAdmission::Probe);
            }
        }
    }

    #[test]
    fn another_credential_is_tried_at_once_and_the_refused_one_is_not() {
        let mut record = ProviderRecord::default();
        note(&mut record, &REFUSED, None, 0);
        assert_eq!(refused(ask(&mut record, 1, "old")), (HoldKind::Credential, at(900)));
        assert_eq!(ask(&mut record, 2, "new"), ProviderAdmission::Probe);
        note(&mut record, &Outcome::Completed, None, 3);
        assert_eq!(ask(&mut record, 4, "new"), ProviderAdmission::Go);
        note(&mut record, &OUTAGE, None, 5);
        note(&mut record, &OUTAGE, None, 6);
        note(&mut record, &OUTAGE, None, 7);
        assert_eq!(refused(ask(&mut record, 8, "third")).0, HoldKind::Outage, "no cure for that");
    }

    #[test]
    fn the_earliest_stated_reset_wins() {
        let mut record = ProviderRecord::default();
        note(&mut record, &USED_UP, Some(3600), 0);
        note(&mut record, &USED_UP, Some(60), 1);
        note(&mut record, &USED_UP, None, 2);
        assert_eq!(refused(ask(&mut record, 3, "old")), (HoldKind::Limit, at(60)));
        assert_eq!(ask(&mut record, 60, "old"), ProviderAdmission::Go);
        note(&mut record, &USED_UP, Some(120), 61);
        assert_eq!(refused(ask(&mut record, 62, "old")).1, at(120), "a past reset is forgotten");
    }

    #[test]
    fn a_person_neither_waits_for_the_hold_nor_sends_two_probes() {
        let mut record = ProviderRecord::default();
        (0..3).for_each(|second| note(&mut record, &OUTAGE, None, second));
        let by_hand = Request { now: at(4), credential: None, model: "m", by_hand: true };
        assert_eq!(record.admit(by_hand), ProviderAdmission::Probe);
        assert_eq!(refused(record.admit(by_hand)).0, HoldKind::Probing);
        record.abandon_probe(at(5));
        assert_eq!(ask(&mut record, 5, "old"), ProviderAdmission::Probe);
        record.close();
        assert_eq!(ask(&mut record, 6, "old"), ProviderAdmission::Go);
    }

    fn item(number: i64) -> ItemKey {
        ItemKey::new("ado", crate::model::ItemId(number))
    }

    #[test]
    fn in_a_brown_out_no_failure_is_an_items() {
        let mut model = ModelRecord::default();
        let own = item(1);
        assert!(!model.answers_others(Some(&own)), "nobody was answered yet");
        (0..4).for_each(|_| model.saw(false, Some(&own)));
        model.saw(true, None);
        assert!(model.answers_others(Some(&own)), "it fails, and a probe does not");
        (2..20).for_each(|number| model.saw(number % 6 == 0, Some(&item(number))));
        assert!(!model.answers_others(Some(&own)), "most fail");
        (2..20).for_each(|number| model.saw(number % 6 != 0, Some(&item(number))));
        assert!(model.answers_others(Some(&own)), "most are answered");
        assert!(model.recent.len() <= RECENT);
    }

    #[test]
    fn a_program_that_does_not_work_holds_its_model_until_a_probe_succeeds() {
        let mut record = ProviderRecord::default();
        record.model("m").program_failed("exit code 1".into(), at(0));
        assert_eq!(refused(ask(&mut record, 1, "old")), (HoldKind::Program, at(900)));
        let other = Request { now: at(1), credential: None, model: "n", by_hand: false };
        assert_eq!(record.admit(other), ProviderAdmission::Go, "another model is not concerned");
        assert_eq!(ask(&mut record, 900, "old"), ProviderAdmission::Probe);
        note(&mut record, &Outcome::Completed, None, 901);
        assert_eq!(ask(&mut record, 902, "old"), ProviderAdmission::Go);
        assert!(!record.model("m").is_open());
    }

    #[test]
    fn three_items_that_fail_alike_stop_their_stage_and_one_item_does_not() {
        let mut model = ModelRecord::default();
        let outcome = Outcome::AgentError { why: FailureKind::SchemaExhausted };
        let session = |number: u128| SessionId(uuid::Uuid::from_u128(number));
        for number in 1..=5 {
            let end = (item(1), session(number));
            assert_eq!(model.failed_alike(Stage::Deep, &outcome, end), None);
        }
        assert_eq!(model.failed_alike(Stage::Deep, &outcome, (item(2), session(6))), None);
        let other = Outcome::ExitCode { code: 1 };
        assert_eq!(model.failed_alike(Stage::Deep, &other, (item(3), session(7))), None);
        assert_eq!(model.failed_alike(Stage::Deep, &other, (item(4), session(8))), None);
        let stopped = model.failed_alike(Stage::Deep, &other, (item(5), session(9)));
        assert_eq!(stopped, Some(vec![session(7), session(8), session(9)]));
        let again = model.failed_alike(Stage::Deep, &other, (item(6), session(10)));
        assert!(again.is_some(), "the next run stops after one");
    }
}
