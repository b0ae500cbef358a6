//! The rules of `promtool check metrics` and of the naming conventions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::model::{Phase, Stage, Usd};
use crate::settings::Config;
use crate::store::{Spending, StageSpending};
use crate::web::health::judge;

fn facts() -> Facts {
    let config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
    let mut facts = Facts::empty("2026-11-16T08:00:00Z".parse().unwrap(), &config);
    let session = |stage: &str, outcome: &str, count| SessionTotal {
        stage: stage.into(),
        outcome: outcome.into(),
        reason: if outcome == "cancelled" { "operator".into() } else { String::new() },
        count,
        duration_ms: count * 12_000,
        within: [0, count, count, count, count, count, count, count],
        input_tokens: 10,
        ..SessionTotal::default()
    };
    facts.totals.sessions = vec![
        session("deep", "completed", 5),
        session("deep", "timed_out", 1),
        session("deep", "cancelled", 1),
        session("triage", "completed", 2),
    ];
    facts.totals.runs = vec![("completed".into(), 2)];
    facts.totals.ticks = vec![("fired".into(), 2), ("skipped".into(), 1)];
    facts.today_by_stage = vec![StageSpending {
        day: "2026-11-16".into(),
        stage: Stage::Deep,
        money: Spending {
            sessions: 6,
            spent: Usd::from_dollars(1.5),
            billed: Usd::from_dollars(1.5),
            ..Spending::default()
        },
    }];
    let all = |dollars: f64| Spending {
        spent: Usd::from_dollars(dollars),
        billed: Usd::from_dollars(dollars),
        ..Spending::default()
    };
    facts.spent_by_stage = vec![(Stage::Triage, all(0.02)), (Stage::Deep, all(0.07))];
    facts.items = vec![(Phase::Done, 9), (Phase::Waiting, 1)];
    facts.next_run = Some(facts.now);
    facts
}

fn rendered() -> String {
    let facts = facts();
    render(&facts, &judge(&facts, Duration::ZERO))
}

/// The family of a sample, given the families and their types.
fn family_of<'a>(sample: &'a str, types: &BTreeMap<&str, &str>) -> &'a str {
    let name = sample.split(['{', ' ']).next().unwrap();
    ["_bucket", "_sum", "_count"]
        .iter()
        .filter_map(|suffix| name.strip_suffix(suffix))
        .find(|base| types.get(base) == Some(&"histogram"))
        .unwrap_or(name)
}

#[test]
fn every_family_has_help_and_type_once_and_before_its_samples() {
    let text = rendered();
    let mut types = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(helped.insert(name), "{name} is explained twice");
            assert!(help.ends_with('.'), "{name}: {help}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(types.insert(name, kind).is_none(), "{name} has two types");
            assert!(helped.contains(name), "{name} has no help");
        } else {
            assert!(types.contains_key(family_of(line, &types)), "{line}: no type before it");
            let value: f64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
            assert!(value.is_finite(), "{line}");
            assert!(seen.insert(line.rsplit_once(' ').unwrap().0), "{line}: twice");
        }
    }
    assert!(text.ends_with('\n'));
}

#[test]
fn names_follow_the_conventions() {
    for (name, kind, _, _) in FAMILIES {
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
        for unit in ["_ms", "_milliseconds", "_minutes", "_kb", "_kib", "_percent", "_count"] {
            assert!(!name.contains(unit), "{name}: not a base unit");
        }
    }
    let names: BTreeSet<&str> = FAMILIES.iter().map(|family| family.0).collect();
    assert_eq!(names.len(), FAMILIES.len());
}

#[test]
fn buckets_add_up() {
    let text = rendered();
    let value = |line: &str| -> f64 {
        let found = text.lines().find(|l| l.starts_with(line)).unwrap_or_else(|| panic!("{line}"));
        found.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    let is = |line: &str, expected: f64| {
        let found = value(line);
        assert!((found - expected).abs() < 1e-9, "{line}: {found}, not {expected}");
    };
    is("heartbeat_session_duration_seconds_bucket{phase=\"deep\",le=\"5\"}", 0.0);
    is("heartbeat_session_duration_seconds_bucket{phase=\"deep\",le=\"15\"}", 7.0);
    is("heartbeat_session_duration_seconds_bucket{phase=\"deep\",le=\"+Inf\"}", 7.0);
    is("heartbeat_session_duration_seconds_sum{phase=\"deep\"}", 84.0);
    is("heartbeat_session_duration_seconds_count{phase=\"triage\"}", 2.0);
    is("heartbeat_sessions_total{phase=\"deep\",outcome=\"timed_out\"}", 1.0);
    let stopped =
        "heartbeat_sessions_total{phase=\"deep\",outcome=\"cancelled\",reason=\"operator\"}";
    is(stopped, 1.0);
    is("heartbeat_cost_today_usd{phase=\"deep\"}", 1.5);
    is("heartbeat_tokens_total{type=\"input\"}", 40.0);
    is("heartbeat_circuit_state{source=\"ado\",state=\"closed\"}", 1.0);
    is("heartbeat_next_run_timestamp_seconds", 1_794_816_000.0);
}

#[test]
fn sessions_on_other_hosts_are_counted_by_host() {
    use crate::model::{RunId, SessionId, SessionRef};
    let mut facts = facts();
    let on = |host: Option<&str>| crate::store::ActiveSession {
        host: host.map(str::to_owned),
        session: SessionRef {
            id: SessionId(uuid::Uuid::nil()),
            run: RunId(uuid::Uuid::nil()),
            stage: Stage::Deep,
            item: None,
            attempt: 1,
        },
        keeper_pid: 0,
        agent_pid: None,
        tier: "remote".into(),
        started_at: facts.now,
        deadline_at: facts.now,
        alive: true,
    };
    facts.active = vec![on(Some("w1")), on(Some("w0")), on(Some("")), on(Some("w1")), on(None)];
    let text = render(&facts, &judge(&facts, Duration::ZERO));
    let lines = ["host_sessions_running{host=\"w0\"} 1", "host_sessions_running{host=\"w1\"} 2"];
    for line in lines.iter().chain(&["sessions_waiting_for_host 1", "sessions_running 5"]) {
        assert!(text.contains(&format!("\nheartbeat_{line}\n")), "{line}: {text}");
    }
}

#[test]
fn labels_cannot_break_out_of_their_quotes() {
    let mut text = String::new();
    Family { name: "x", text: &mut text }.add("", &[("a", "q\" } 1\nheartbeat_y 2\\")], 1.0);
    assert_eq!(text, "heartbeat_x{a=\"q\\\" } 1\\nheartbeat_y 2\\\\\"} 1\n");
}

/// The full reference, so that a renamed metric is seen in review.
#[test]
fn no_item_is_ever_a_label() {
    let text = rendered();
    assert!(!text.contains("item="), "{text}");
    assert!(!text.contains("session="), "{text}");
}
