//! State of an agent's model provider: its breaker, its stated limits, the credential it rejected.
//! Pure; the store keeps one record per provider.
//!
//! Outages (5xx, overload, dropped connections) count across sessions, stages and runs and open the
//! breaker. A rejected credential opens it at once, until the credential changes. Usage limits hold
//! until their stated reset. During a hold no session starts and no item loses an attempt.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Admission, Policy, Signal};
use crate::model::{Breaker, BreakerState, FailureClass, FailureKind, Outcome};
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
const LONGEST_LIMIT: SignedDuration = SignedDuration::from_hours(24 * 8);

/// Small; stored as one JSON value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderRecord {
    /// Opened by outages and by a rejected credential.
    pub breaker: Breaker,
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
        let breakers = self.0.iter().map(|(_, record)| &record.breaker);
        let open = |breaker: &Breaker| !matches!(breaker.state, BreakerState::Closed);
        let most = breakers.max_by_key(|breaker| (open(breaker), breaker.failures));
        most.cloned().unwrap_or_default()
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
}

impl ProviderRecord {
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
        let before = self.breaker.state.clone();
        let admission = match waived {
            true => self.breaker.admit_changed(now, &PROVIDER),
            false => self.breaker.admit(now, &PROVIDER),
        };
        match admission {
            Admission::Go => ProviderAdmission::Go,
            Admission::Probe => ProviderAdmission::Probe,
            Admission::Refused { until } => {
                ProviderAdmission::Refused(self.breaker_hold(&before, until))
            }
        }
    }

    /// The current hold, for display. Changes nothing.
    pub fn hold(&self, now: Timestamp) -> Option<Hold> {
        let open = || {
            let until = self.breaker.state.until().filter(|until| *until > now)?;
            Some(self.breaker_hold(&self.breaker.state, until))
        };
        self.limit_hold(now).or_else(open)
    }

    /// Records how a session ended.
    pub fn note(&mut self, report: Report<'_>) {
        let now = report.now;
        match report.outcome {
            outcome if is_outage(outcome) => {
                self.last_failure = Some(report.reason);
                // Sessions that were already running when it opened add no information.
                if self.breaker.state.until().is_none() {
                    self.breaker.record(Signal::Failed(FailureClass::Transient), now, &PROVIDER);
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
                let until = report.until.unwrap_or(later(now, UNSTATED_LIMIT));
                let until = until.min(later(now, LONGEST_LIMIT));
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
            }
            _ => {}
        }
    }

    /// The probe did not run for a reason of ours: the next request may probe.
    pub fn abandon_probe(&mut self, now: Timestamp) {
        if matches!(self.breaker.state, BreakerState::HalfOpen { .. }) {
            self.breaker.state = BreakerState::Open { until: now, class: FailureClass::Transient };
        }
    }

    /// Closed by a person who fixed the cause.
    pub fn close(&mut self) {
        self.breaker.close();
        self.limit = None;
        self.refused_credential = None;
        self.last_failure = None;
    }

    /// Whether this end counts against the item. An outage does not, unless the provider answered
    /// another session while this one ran.
    pub fn blames_item(&self, outcome: &Outcome, started: Timestamp) -> bool {
        is_outage(outcome) && self.last_answer.is_some_and(|answer| answer > started)
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
        let holds = limit.until > now && limit.until <= later(now, LONGEST_LIMIT);
        let (until, reason) = (limit.until, limit.reason.clone());
        holds.then_some(Hold { kind: HoldKind::Limit, until, reason })
    }

    fn breaker_hold(&self, state: &BreakerState, until: Timestamp) -> Hold {
        let kind = match state {
            BreakerState::Open { class: FailureClass::Auth, .. } => HoldKind::Credential,
            BreakerState::HalfOpen { .. } => HoldKind::Probing,
            _ => HoldKind::Outage,
        };
        let reason = match kind {
            HoldKind::Probing => "a probe is under way".to_owned(),
            _ => self.last_failure.clone().unwrap_or_else(|| "it does not answer".to_owned()),
        };
        Hold { kind, until, reason }
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
        let request = Request { now: at(seconds), credential: Some(credential), by_hand: false };
        record.admit(request)
    }

    fn note(record: &mut ProviderRecord, outcome: &Outcome, until: Option<i64>, seconds: i64) {
        let (until, now) = (until.map(at), at(seconds));
        let credential = Some("old");
        record.note(Report { outcome, until, now, credential, reason: outcome.to_string() });
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
        assert_eq!(record.breaker, Breaker::default());
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
        let by_hand = Request { now: at(4), credential: None, by_hand: true };
        assert_eq!(record.admit(by_hand), ProviderAdmission::Probe);
        assert_eq!(refused(record.admit(by_hand)).0, HoldKind::Probing);
        record.abandon_probe(at(5));
        assert_eq!(ask(&mut record, 5, "old"), ProviderAdmission::Probe);
        record.close();
        assert_eq!(ask(&mut record, 6, "old"), ProviderAdmission::Go);
    }

    #[test]
    fn an_item_is_blamed_only_if_the_provider_answered_others_meanwhile() {
        let mut record = ProviderRecord::default();
        assert!(!record.blames_item(&OUTAGE, at(0)));
        note(&mut record, &Outcome::Completed, None, 10);
        assert!(record.blames_item(&OUTAGE, at(5)), "it answered while the session ran");
        assert!(!record.blames_item(&OUTAGE, at(11)), "it answered before, and not since");
        assert!(!record.blames_item(&REFUSED, at(5)));
    }
}
