//! Health as a pure function of the facts, with a reason for every problem. It is readable without
//! sign-in, so a message never quotes a tracker, an agent, a provider or the configuration.
//!
//! Two more words: `paused` by a person, and `blocked` if the next run cannot do its work, which is
//! in the column of `degraded`.
//!
//! | code | degraded or blocked | unhealthy |
//! |---|---|---|
//! | `paused` | a person paused the schedule | |
//! | `clock` | the clock was set back, or a tracker dates its items later than ours | |
//! | `sessions_over_limit` | | more live sessions than allowed when the run started |
//! | `load` | load per core above `max_load_per_core`: no session starts | above `unhealthy_load_per_core` |
//! | `breaker_open` | the source's circuit breaker is open or half open | |
//! | `unread_items` | a tracker lists items and does not return them | |
//! | `last_run` | failed in part, or could not do its work | state, credential or configuration failed |
//! | `config_fault` | the file on disk is invalid, the last valid one is in use | |
//! | `store` | | the state cannot be read or written |
//! | `agent` | | its program does not exist or is not executable |
//! | `reports` | reports cannot be written to `report.dir` | |
//! | `program` | the program's file was replaced: a restart runs the new one | |
//! | `stale_lock` | | a run holds the lock and sends no heartbeat |
//! | `run_lost` | a run is recorded as in progress, but the lock is free | |
//! | `provider_suspended` | the agent's provider states a limit | |
//! | `provider_down` | the agent's provider does not answer; its breaker is open | |
//! | `provider_credential` | the agent's provider refuses the credential | |
//! | `undelivered` | comments or digests were given up | |
//! | `other_model` | another model than the configured one answered in the last run | |
//! | `agent_config` | | no session can work with the agent's program or its settings |
//! | `budget` | more than 80 % of the day's budget is spent or reserved | |
//! | `unkillable` | | a session's process cannot be killed |
//! | `survivors` | | a process outlived its session |
//! | `stale_view` | | the facts are outdated |

use std::time::Duration;

use serde::Serialize;

use super::facts::{CLOCK_TOLERANCE, Facts};
use crate::breaker::provider::{Hold, HoldKind};
use crate::event::RunOutcome;
use crate::model::BreakerState;
use crate::model::text::{clip, in_words};
use crate::report::moment::date_time;
use crate::store::HolderHealth;

/// Facts older than this cannot be judged.
pub const STALE_AFTER: Duration = Duration::from_secs(15);
/// Percentage of the day's budget that is reported.
const BUDGET_WARNING: i64 = 80;

/// The worst reason decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Status {
    /// The next scheduled run can do its work.
    Healthy,
    /// A person paused the schedule.
    Paused,
    /// It works, with a limitation.
    Degraded,
    /// It works, but the next run cannot do its work until something outside changes.
    Blocked,
    /// It does not work, or a process is out of control.
    Unhealthy,
}

impl Status {
    pub const ALL: [Self; 5] =
        [Self::Healthy, Self::Paused, Self::Degraded, Self::Blocked, Self::Unhealthy];
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthReason {
    /// Stable.
    pub code: &'static str,
    pub status: Status,
    pub message: String,
}

/// Reasons are sorted, worst first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    pub status: Status,
    pub reasons: Vec<HealthReason>,
}

/// Judges the facts, which are `age` old.
pub fn judge(facts: &Facts, age: Duration) -> Health {
    let checks = [
        sessions,
        load,
        breaker,
        agent_config,
        last_run,
        config,
        store,
        agent,
        reports,
        program,
        lock,
        provider,
        undelivered,
        budget,
        escaped,
        paused,
        clock,
        trackers_clock,
        unread_items,
        other_model,
    ];
    let mut reasons: Vec<HealthReason> = checks.iter().filter_map(|check| check(facts)).collect();
    if age > STALE_AFTER {
        let message = format!("no data could be collected for {} s", age.as_secs());
        reasons.push(unhealthy("stale_view", message));
    }
    reasons.sort_by_key(|doubt| std::cmp::Reverse(doubt.status));
    let status = reasons.first().map_or(Status::Healthy, |doubt| doubt.status);
    Health { status, reasons }
}

fn degraded(code: &'static str, message: String) -> HealthReason {
    HealthReason { code, status: Status::Degraded, message }
}

fn blocked(code: &'static str, message: String) -> HealthReason {
    HealthReason { code, status: Status::Blocked, message }
}

/// Nobody can run what is paused, so it does not look like a schedule that works.
fn paused(facts: &Facts) -> Option<HealthReason> {
    let pause = facts.paused.as_ref()?;
    let (since, note) = (date_time(pause.since), clip(&pause.note, 200));
    let note = if note.is_empty() { note } else { format!(" ({note})") };
    let message =
        format!("the schedule is paused since {since}{note}; `heartbeat resume` resumes it");
    Some(HealthReason { code: "paused", status: Status::Paused, message })
}

/// A newest run in the future: the clock was set back, or was ahead when that run began.
fn clock(facts: &Facts) -> Option<HealthReason> {
    let began = facts.runs.first()?.started_at;
    let ahead = began.duration_since(facts.now) > CLOCK_TOLERANCE;
    let began = date_time(began);
    let message = format!("the clock went back: the newest run began at {began} by it");
    ahead.then(|| degraded("clock", message))
}

/// Such an item is read again by every run until its date has come.
fn trackers_clock(facts: &Facts) -> Option<HealthReason> {
    let at = date_time(facts.item_to_come?);
    let message = format!(
        "the tracker dates an item {at}, which is still to come by our clock; `heartbeat doctor` \
         compares the clocks"
    );
    Some(degraded("clock", message))
}

fn unread_items(facts: &Facts) -> Option<HealthReason> {
    let items = facts.unread_items;
    let message = format!(
        "the tracker lists {items} item(s) and does not return them; after the third run they are \
         ignored until they change"
    );
    (items > 0).then(|| degraded("unread_items", message))
}

fn other_model(facts: &Facts) -> Option<HealthReason> {
    let message = "another model than the configured one answered in the last run; `heartbeat show` \
                   names it";
    facts.is_other_model.then(|| degraded("other_model", message.into()))
}

fn unhealthy(code: &'static str, message: String) -> HealthReason {
    HealthReason { code, status: Status::Unhealthy, message }
}

fn sessions(facts: &Facts) -> Option<HealthReason> {
    let live = facts.active.len();
    // A limit lowered during a run applies to new sessions, not to running ones.
    let max = facts.limits.max_live_sessions.max(facts.run_session_limit.unwrap_or_default());
    let message = format!("{live} sessions are running, {max} are allowed");
    (live > max as usize).then(|| unhealthy("sessions_over_limit", message))
}

fn load(facts: &Facts) -> Option<HealthReason> {
    let (load, limits) = (facts.machine.load_per_core(), &facts.limits);
    if load > limits.unhealthy_load_per_core {
        let limit = limits.unhealthy_load_per_core;
        let message = format!("load per core is {load:.2}, above the limit of {limit:.2}");
        return Some(unhealthy("load", message));
    }
    let limit = limits.max_load_per_core;
    let message = format!("load per core is {load:.2}, no session starts above {limit:.2}");
    (load > limit).then(|| degraded("load", message))
}

/// The first source whose breaker is not closed.
fn breaker(facts: &Facts) -> Option<HealthReason> {
    let message = facts.sources.iter().find_map(|(name, source)| {
        let message = broken(&source.breaker.state)?;
        Some(if facts.sources.len() > 1 { format!("{name}: {message}") } else { message })
    })?;
    Some(degraded("breaker_open", message))
}

fn broken(breaker: &BreakerState) -> Option<String> {
    Some(match breaker {
        BreakerState::Closed => return None,
        BreakerState::Open { until, class } => {
            let (class, until) = (class.into_str(), date_time(*until));
            format!("the source failed ({class}); its circuit breaker is open until {until}")
        }
        BreakerState::HalfOpen { since } => {
            let since = date_time(*since);
            format!("the source failed; a probe has been running since {since}")
        }
    })
}

fn last_run(facts: &Facts) -> Option<HealthReason> {
    if let (Some(run), None) = (facts.running(), &facts.holder) {
        let started = date_time(run.started_at);
        let message = format!("the run of {started} crashed; the next one cleans up");
        return Some(degraded("run_lost", message));
    }
    let run = facts.last_ended()?;
    let outcome = run.outcome?;
    let message = format!("the last run ended: {}", in_words(outcome));
    match outcome {
        RunOutcome::Completed | RunOutcome::NothingNew | RunOutcome::Interrupted => None,
        RunOutcome::SomeFailed
        | RunOutcome::TriageFailed
        | RunOutcome::SourceUnavailable
        | RunOutcome::SourcesFailed
        | RunOutcome::NotNow
        | RunOutcome::Crashed => Some(degraded("last_run", message)),
        RunOutcome::CredentialRefused | RunOutcome::ConfigRefused | RunOutcome::StoreFailed => {
            Some(unhealthy("last_run", message))
        }
    }
}

/// The fault itself may quote the file, so it is only in the log and in `status`.
fn config(facts: &Facts) -> Option<HealthReason> {
    let message = "the configuration on disk is invalid, the last valid one is in use; \
                   `heartbeat status` says why";
    facts.config_fault.as_ref().map(|_| degraded("config_fault", message.into()))
}

fn store(facts: &Facts) -> Option<HealthReason> {
    facts.store_fault.clone().map(|fault| unhealthy("store", fault))
}

fn agent(facts: &Facts) -> Option<HealthReason> {
    facts.agent_missing.clone().map(|fault| unhealthy("agent", fault))
}

/// The path may name a person, so it is only in `doctor` and in the log.
fn reports(facts: &Facts) -> Option<HealthReason> {
    let message = "reports cannot be written to report.dir; `heartbeat doctor` says why";
    facts.report_fault.as_ref().map(|_| degraded("reports", message.into()))
}

fn program(facts: &Facts) -> Option<HealthReason> {
    let message =
        "the program's file was replaced or removed; restart the service to run the new one";
    facts.is_replaced.then(|| degraded("program", message.into()))
}

fn lock(facts: &Facts) -> Option<HealthReason> {
    let held = facts.holder.as_ref()?;
    (held.health == HolderHealth::Hung).then(|| {
        let (pid, since) = (held.holder.process.pid, date_time(held.holder.heartbeat));
        unhealthy(
            "stale_lock",
            format!("process {pid} holds the run lock but has sent no heartbeat since {since}"),
        )
    })
}

fn undelivered(facts: &Facts) -> Option<HealthReason> {
    let failed = facts.outbox.failed;
    let message =
        format!("{failed} comment(s) or digest(s) could not be delivered and were given up");
    (failed > 0).then(|| degraded("undelivered", message))
}

fn provider(facts: &Facts) -> Option<HealthReason> {
    let Hold { kind, until, .. } = facts.provider.as_ref()?;
    let (code, what) = match kind {
        HoldKind::Outage | HoldKind::Probing => ("provider_down", "is down"),
        HoldKind::Credential => ("provider_credential", "refuses the credential"),
        HoldKind::Limit => ("provider_suspended", "is suspended"),
        // `agent_config` reports it.
        HoldKind::Program => return None,
    };
    let until = date_time(*until);
    let message = format!("the model provider {what} until {until}; `heartbeat status` says why");
    Some(blocked(code, message))
}

fn agent_config(facts: &Facts) -> Option<HealthReason> {
    let message =
        "no session can work with the agent's program or its settings; `heartbeat status` says why";
    facts.agent_fault.as_ref().map(|_| unhealthy("agent_config", message.into()))
}

fn budget(facts: &Facts) -> Option<HealthReason> {
    let (committed, cap) = (facts.today.committed(), facts.limits.per_day);
    let passed =
        committed.micros().saturating_mul(100) > cap.micros().saturating_mul(BUDGET_WARNING);
    let message = format!("{committed} of today's {cap} are spent or reserved");
    let judge = if facts.today.spent >= cap { blocked } else { degraded };
    passed.then(|| judge("budget", message))
}

fn escaped(facts: &Facts) -> Option<HealthReason> {
    if let Some(session) = facts.totals.unkillable.first() {
        let message = format!("session {session} could not be killed; its slot stays in use");
        return Some(unhealthy("unkillable", message));
    }
    let survivors = facts.totals.survivors;
    let message = format!("{survivors} processes outlived their session");
    (survivors > 0).then(|| unhealthy("survivors", message))
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
