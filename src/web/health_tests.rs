//! Tests every reason separately.

use super::*;
use crate::breaker::provider::{Hold, HoldKind};
use crate::event::Trigger;
use crate::model::{FailureClass, ProcessIdentity, RunId, SessionId, SessionRef, Stage, Usd};
use crate::process::machine::Machine;
use crate::settings::Config;
use crate::store::{ActiveSession, Holder, RunRow, Spending};

type Change = fn(&mut Facts);

fn config() -> Config {
    toml::from_str(crate::config::DEFAULT_TOML).unwrap()
}

fn calm() -> Facts {
    let mut facts = Facts::empty("2026-11-16T08:00:00Z".parse().unwrap(), &config());
    facts.runs = vec![run(Some(RunOutcome::Completed))];
    facts
}

fn run(outcome: Option<RunOutcome>) -> RunRow {
    let at = "2026-11-16T07:00:00Z".parse().unwrap();
    RunRow {
        run: RunId(uuid::Uuid::nil()),
        trigger: Trigger::Schedule,
        started_at: at,
        ended_at: outcome.map(|_| at),
        outcome,
        summary: None,
    }
}

fn sessions_alive(facts: &mut Facts, count: usize) {
    let at = facts.now;
    let one = ActiveSession {
        host: None,
        session: SessionRef {
            id: SessionId(uuid::Uuid::nil()),
            run: RunId(uuid::Uuid::nil()),
            stage: Stage::Deep,
            item: None,
            attempt: 1,
        },
        keeper_pid: 1,
        agent_pid: None,
        tier: "pidns".into(),
        started_at: at,
        deadline_at: at,
        alive: true,
    };
    facts.active = vec![one; count];
}

fn held(facts: &mut Facts, heartbeat: &str) {
    let process =
        ProcessIdentity { pid: 7, start_time: 1, pidfd_inode: None, boot_id: String::new() };
    let heartbeat = heartbeat.parse().unwrap();
    let (purpose, host) = ("--once".into(), "here".into());
    let holder = Holder {
        process,
        purpose,
        run: None,
        since: heartbeat,
        heartbeat,
        heartbeat_awake_ms: None,
        host,
    };
    facts.holder = Some(holder.seen(&crate::clock::Clock::manual(facts.now)));
}

/// On a machine with two processors.
fn load_average(facts: &mut Facts, load: f64) {
    facts.machine = Machine { load, cores: 2, ..Machine::default() };
}

fn spend(facts: &mut Facts, spent: f64, reserved: f64) {
    facts.today = Spending {
        spent: Usd::from_dollars(spent),
        reserved: Usd::from_dollars(reserved),
        ..Spending::default()
    };
}

#[test]
fn every_reason_degrades_or_fails_as_documented() {
    use Status::{Blocked, Degraded, Healthy, Unhealthy};
    let cases: Vec<(&str, Status, &str, Change)> = vec![
        ("calm", Healthy, "", |_| {}),
        ("no run yet", Healthy, "", |f| f.runs.clear()),
        ("two of three", Healthy, "", |f| sessions_alive(f, 2)),
        ("full", Healthy, "", |f| sessions_alive(f, 3)),
        ("limit lowered during the run", Healthy, "", |f| {
            f.run_session_limit = Some(5);
            sessions_alive(f, 5);
        }),
        ("over", Unhealthy, "sessions_over_limit", |f| sessions_alive(f, 4)),
        ("over the limit of the run", Unhealthy, "sessions_over_limit", |f| {
            f.run_session_limit = Some(4);
            sessions_alive(f, 5);
        }),
        ("load at limit", Healthy, "", |f| load_average(f, 1.6)),
        ("busy", Degraded, "load", |f| load_average(f, 1.7)),
        ("twice the processors", Degraded, "load", |f| load_average(f, 4.0)),
        ("swamped", Unhealthy, "load", |f| load_average(f, 4.1)),
        ("breaker open", Degraded, "breaker_open", |f| {
            f.sources[0].1.breaker.state =
                BreakerState::Open { until: f.now, class: FailureClass::Auth };
        }),
        ("breaker half open", Degraded, "breaker_open", |f| {
            f.sources[0].1.breaker.state = BreakerState::HalfOpen { since: f.now };
        }),
        ("config", Degraded, "config_fault", |f| f.config_fault = Some("line 3".into())),
        ("store", Unhealthy, "store", |f| f.store_fault = Some("read-only".into())),
        ("no agent", Unhealthy, "agent", |f| f.agent_missing = Some("not there".into())),
        ("no reports", Degraded, "reports", |f| f.report_fault = Some("read-only".into())),
        ("upgraded", Degraded, "program", |f| f.is_replaced = true),
        ("lock fresh", Healthy, "", |f| held(f, "2026-11-16T07:59:00Z")),
        ("lock stale", Unhealthy, "stale_lock", |f| held(f, "2026-11-16T07:50:00Z")),
        ("run going on", Healthy, "", |f| {
            f.runs.insert(0, run(None));
            held(f, "2026-11-16T07:59:30Z");
        }),
        ("run lost", Degraded, "run_lost", |f| f.runs.insert(0, run(None))),
        ("provider", Blocked, "provider_suspended", |f| {
            let (kind, reason) = (HoldKind::Limit, "usage limit".into());
            f.provider = Some(Hold { kind, until: f.now, reason });
        }),
        ("agent", Unhealthy, "agent_config", |f| f.agent_fault = Some("correct it".into())),
        ("budget at 80 %", Healthy, "", |f| spend(f, 10.0, 6.0)),
        ("budget above 80 %", Degraded, "budget", |f| spend(f, 10.0, 6.01)),
        ("unkillable", Unhealthy, "unkillable", |f| f.totals.unkillable = vec!["x".into()]),
        ("survivors", Unhealthy, "survivors", |f| f.totals.survivors = 1),
    ];
    for (name, status, code, change) in cases {
        let mut facts = calm();
        change(&mut facts);
        let health = judge(&facts, Duration::ZERO);
        assert_eq!(health.status, status, "{name}: {health:?}");
        let first = health.reasons.first().map_or("", |doubt| doubt.code);
        assert_eq!(first, code, "{name}");
        assert!(health.reasons.iter().all(|doubt| !doubt.message.is_empty()), "{name}");
    }
}

#[test]
fn paused_blocked_and_a_wrong_clock_have_their_own_words() {
    use Status::{Blocked, Degraded, Paused};
    let cases: Vec<(&str, Status, &str, Change)> = vec![
        ("budget used up", Blocked, "budget", |f| spend(f, 20.0, 0.0)),
        ("paused", Paused, "paused", |f| {
            f.paused = Some(crate::store::Pause { since: f.now, note: String::new() });
        }),
        ("clock set back", Degraded, "clock", |f| {
            f.now = f.runs[0].started_at - jiff::SignedDuration::from_hours(9);
        }),
    ];
    for (name, status, code, change) in cases {
        let mut facts = calm();
        change(&mut facts);
        let health = judge(&facts, Duration::ZERO);
        let first = health.reasons.first().map_or("", |doubt| doubt.code);
        assert_eq!((health.status, first), (status, code), "{name}: {health:?}");
    }
}

#[test]
fn health_never_quotes_the_configuration() {
    let mut facts = calm();
    facts.config_fault = Some("/home/ann/heartbeat.toml:2:13: a value".into());
    let health = judge(&facts, Duration::ZERO);
    let message = &health.reasons[0].message;
    assert!(message.contains("heartbeat status") && !message.contains("ann"), "{message}");
    let body = super::super::hub::health_body(&facts, &health);
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(body.contains("\"config\":\"invalid\"") && !body.contains("ann"), "{body}");
}

#[test]
fn the_last_outcome_decides_as_documented() {
    use Status::{Degraded, Healthy, Unhealthy};
    let outcomes = [
        (RunOutcome::NothingNew, Healthy),
        (RunOutcome::Interrupted, Healthy),
        (RunOutcome::SomeFailed, Degraded),
        (RunOutcome::TriageFailed, Degraded),
        (RunOutcome::SourceUnavailable, Degraded),
        (RunOutcome::NotNow, Degraded),
        (RunOutcome::Crashed, Degraded),
        (RunOutcome::CredentialRefused, Unhealthy),
        (RunOutcome::ConfigRefused, Unhealthy),
        (RunOutcome::StoreFailed, Unhealthy),
    ];
    for (outcome, status) in outcomes {
        let facts = Facts { runs: vec![run(Some(outcome))], ..calm() };
        assert_eq!(judge(&facts, Duration::ZERO).status, status, "{outcome:?}");
    }
}

#[test]
fn the_worst_reason_decides_and_comes_first() {
    let mut facts = calm();
    load_average(&mut facts, 2.0);
    facts.store_fault = Some("gone".into());
    let health = judge(&facts, Duration::ZERO);
    assert_eq!(health.status, Status::Unhealthy);
    assert_eq!(health.reasons.iter().map(|r| r.code).collect::<Vec<_>>(), ["store", "load"]);
}

#[test]
fn old_facts_are_no_basis() {
    let health = judge(&calm(), STALE_AFTER + Duration::from_secs(1));
    assert_eq!(health.reasons[0].code, "stale_view");
}
