//! The facts in the Prometheus text format. Pure.
//!
//! Names begin with `heartbeat_`, use base units and have no work item as a label: the number of
//! series does not grow with the backlog. [`FAMILIES`] is the reference.

use std::fmt::Write as _;

use super::budgets::OtherBudget;
use super::facts::Facts;
use super::health::{Health, Status};
use crate::event::RunOutcome;
use crate::store::{DURATION_BUCKETS, SessionTotal};

pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

type Fill = fn(&mut Family<'_>, &Facts, &Health);

/// Every family: name without the prefix, kind, help, samples.
#[rustfmt::skip]
pub const FAMILIES: [(&str, Kind, &str, Fill); 42] = [
    ("build_info", Kind::Gauge, "Always 1; the version is a label.", |family, _, _| {
        family.add("", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    }),
    ("health_status", Kind::Gauge, "1 for the current status of /health, 0 for the others.", |family, _, health| {
        for status in Status::ALL {
            family.add("", &[("status", status.into_str())], flag(health.status == status));
        }
    }),
    ("sessions_running", Kind::Gauge, "Sessions running now.", |family, facts, _| {
        family.set(count(facts.active.len()));
    }),
    ("sessions_limit", Kind::Gauge, "Sessions that may run at once.", |family, facts, _| {
        family.set(facts.limits.max_live_sessions.into());
    }),
    ("host_sessions_running", Kind::Gauge, "Sessions running now on other hosts, by host. Only hosts with a session are listed.", |family, facts, _| {
        let mut hosts = std::collections::BTreeMap::<&str, usize>::new();
        for host in facts.active.iter().filter_map(|session| session.host.as_deref()).filter(|host| !host.is_empty()) {
            *hosts.entry(host).or_default() += 1;
        }
        for (host, sessions) in hosts {
            family.add("", &[("host", host)], count(sessions));
        }
    }),
    ("sessions_waiting_for_host", Kind::Gauge, "Sessions that no host has taken yet.", |family, facts, _| {
        family.set(count(facts.active.iter().filter(|session| session.host.as_deref() == Some("")).count()));
    }),
    ("sessions_total", Kind::Counter, "Sessions that ended, by purpose, outcome and, where there is one, its reason: a session that a person stopped is cancelled by operator.", |family, facts, _| {
        for total in &facts.totals.sessions {
            let mut labels = vec![("phase", &*total.stage), ("outcome", &*total.outcome)];
            if !total.reason.is_empty() {
                labels.push(("reason", &*total.reason));
            }
            family.add("", &labels, to_f64(total.count));
        }
    }),
    ("session_duration_seconds", Kind::Histogram, "Time from the start of a session until none of its processes is left.", durations),
    ("session_processes", Kind::Gauge, "Processes of all sessions at their last liveness sample.", |family, facts, _| {
        family.set(facts.processes.into());
    }),
    ("session_oldest_output_age_seconds", Kind::Gauge, "Time since the last output of the session that has been silent longest; 0 without a session.", |family, facts, _| {
        family.set(seconds(facts.oldest_output_ms.unwrap_or(0)));
    }),
    ("session_survivors_total", Kind::Counter, "Processes that outlived their session: anything but 0 needs attention.", |family, facts, _| {
        family.set(to_f64(facts.totals.survivors));
    }),
    ("sessions_unkillable", Kind::Gauge, "Sessions with a process that cannot be killed.", |family, facts, _| {
        family.set(count(facts.totals.unkillable.len()));
    }),
    ("orphans_reaped_total", Kind::Counter, "Sessions of an earlier heartbeat process that were found and cleaned up.", |family, facts, _| {
        family.set(to_f64(facts.totals.orphans));
    }),
    ("runs_total", Kind::Counter, "Runs that ended, by outcome.", |family, facts, _| {
        for (outcome, runs) in &facts.totals.runs {
            family.add("", &[("outcome", outcome)], to_f64(*runs));
        }
    }),
    ("run_active", Kind::Gauge, "1 while a run is in progress.", |family, facts, _| {
        family.set(flag(facts.running().is_some() && facts.holder.is_some()));
    }),
    ("last_run_duration_seconds", Kind::Gauge, "How long the last run took.", |family, facts, _| {
        let took = facts.last_ended().and_then(|run| run.ended_at.map(|end| end.duration_since(run.started_at)));
        family.maybe(took.map(|took| took.as_secs_f64()));
    }),
    ("last_tick_success_timestamp_seconds", Kind::Gauge, "When the last successful run ended.", |family, facts, _| {
        let good = |outcome| matches!(outcome, Some(RunOutcome::Completed | RunOutcome::NothingNew));
        let ended = facts.runs.iter().find(|run| good(run.outcome)).and_then(|run| run.ended_at);
        family.maybe(ended.map(timestamp));
    }),
    ("next_run_timestamp_seconds", Kind::Gauge, "When the schedule fires next.", |family, facts, _| {
        family.maybe(facts.next_run.map(timestamp));
    }),
    ("schedule_paused", Kind::Gauge, "1 while a person has paused the schedule.", |family, facts, _| {
        family.set(flag(facts.paused.is_some()));
    }),
    ("ticks_total", Kind::Counter, "Scheduled runs, by what happened to them.", |family, facts, _| {
        for (outcome, ticks) in &facts.totals.ticks {
            family.add("", &[("outcome", outcome)], to_f64(*ticks));
        }
    }),
    ("ticks_missed_total", Kind::Counter, "Scheduled runs missed while heartbeat was stopped or the machine slept.", |family, facts, _| {
        family.set(to_f64(facts.totals.missed_ticks));
    }),
    ("items", Kind::Gauge, "Work items, by phase.", |family, facts, _| {
        for (phase, items) in &facts.items {
            family.add("", &[("phase", phase.into_str())], (*items).into());
        }
    }),
    ("findings", Kind::Gauge, "Findings, by feedback (useful, wrong, done, none).", |family, facts, _| {
        for (feedback, findings) in &facts.totals.feedback {
            family.add("", &[("feedback", feedback)], to_f64(*findings));
        }
    }),
    ("findings_fixed", Kind::Gauge, "Findings compared with the fix of their item, by result (confirmed: the fix changed a file that the finding named; missed, too_late, not_fixed).", |family, facts, _| {
        for (fix, findings) in &facts.totals.fixes {
            family.add("", &[("fix", fix)], to_f64(*findings));
        }
    }),
    ("cost_usd_total", Kind::Counter, "Billed and assumed cost of all sessions, in US dollars, by purpose.", |family, facts, _| {
        for (stage, money) in &facts.spent_by_stage {
            family.add("", &[("phase", stage.into_str())], money.spent.dollars());
        }
    }),
    ("cost_assumed_usd_total", Kind::Counter, "The assumed part of the cost, in US dollars, by purpose: the worst case of sessions that ended without a figure.", |family, facts, _| {
        for (stage, money) in &facts.spent_by_stage {
            family.add("", &[("phase", stage.into_str())], money.assumed.dollars());
        }
    }),
    ("cost_month_usd", Kind::Gauge, "Cost of this month in US dollars, by kind (billed, assumed, reserved).", |family, facts, _| {
        let month = facts.spending.month;
        for (kind, amount) in [("billed", month.billed), ("assumed", month.assumed), ("reserved", month.reserved)] {
            family.add("", &[("kind", kind)], amount.dollars());
        }
    }),
    ("cost_month_forecast_usd", Kind::Gauge, "What this month will have cost if it goes on like this, in US dollars; from its third day.", |family, facts, _| {
        family.maybe(facts.spending.month_forecast.map(crate::model::Usd::dollars));
    }),
    ("cost_today_usd", Kind::Gauge, "Spent today in the schedule's time zone, in US dollars, by purpose.", |family, facts, _| {
        for spent in &facts.today_by_stage {
            family.add("", &[("phase", spent.stage.into_str())], spent.money.spent.dollars());
        }
    }),
    ("tokens_total", Kind::Counter, "Tokens used, by type.", |family, facts, _| {
        let sum = |of: fn(&SessionTotal) -> u64| to_f64(facts.totals.sessions.iter().map(of).sum());
        family.add("", &[("type", "input")], sum(|total| total.input_tokens));
        family.add("", &[("type", "output")], sum(|total| total.output_tokens));
        family.add("", &[("type", "cache_read")], sum(|total| total.cache_read_tokens));
        family.add("", &[("type", "cache_creation")], sum(|total| total.cache_creation_tokens));
    }),
    ("budget_limit_usd", Kind::Gauge, "Budget in US dollars, by window.", |family, facts, _| {
        other(family, facts, |budget| budget.limit.dollars());
        family.add("", &[("window", "day")], facts.limits.per_day.dollars());
        family.add("", &[("window", "run")], facts.limits.per_run.dollars());
    }),
    ("budget_spent_usd", Kind::Gauge, "Cost of sessions that have ended, in US dollars, by window.", |family, facts, _| {
        other(family, facts, |budget| budget.used.spent.dollars());
        family.add("", &[("window", "day")], facts.today.spent.dollars());
        family.add("", &[("window", "run")], in_progress(facts).spent.dollars());
    }),
    ("budget_reserved_usd", Kind::Gauge, "Worst-case cost of running sessions, in US dollars, by window; reserved, not spent.", |family, facts, _| {
        other(family, facts, |budget| budget.used.reserved.dollars());
        family.add("", &[("window", "day")], facts.today.reserved.dollars());
        family.add("", &[("window", "run")], in_progress(facts).reserved.dollars());
    }),
    ("budget_estimated_usd", Kind::Gauge, "The part of today's spending that is computed from tokens and prices.", |family, facts, _| {
        family.set(facts.today_by_stage.iter().map(|stage| stage.money.estimated.dollars()).sum());
    }),
    ("budget_remaining_usd", Kind::Gauge, "Budget neither spent nor reserved, in US dollars, by window.", |family, facts, _| {
        let left = |cap: crate::model::Usd, used: crate::store::Spending| cap.saturating_sub(used.committed()).dollars();
        other(family, facts, |budget| left(budget.limit, budget.used));
        family.add("", &[("window", "day")], left(facts.limits.per_day, facts.today));
        family.add("", &[("window", "run")], left(facts.limits.per_run, in_progress(facts)));
    }),
    ("circuit_state", Kind::Gauge, "1 for the current state of a source's circuit breaker, 0 for the others.", |family, facts, _| {
        for (source, record) in &facts.sources {
            let now = record.breaker.state.into_str();
            for state in ["closed", "open", "half_open"] {
                family.add("", &[("source", source), ("state", state)], flag(state == now));
            }
        }
    }),
    ("removed_source_items", Kind::Gauge, "Items that are parked because their source is no longer configured.", |family, facts, _| {
        family.set(facts.removed_sources.values().map(|items| *items as f64).sum());
    }),
    ("provider_circuit_state", Kind::Gauge, "1 for the current state of the circuit breaker of an agent's model provider, 0 for the others.", |family, facts, _| {
        for (agent, breaker) in &facts.provider_breakers {
            let now = breaker.state.into_str();
            for state in ["closed", "open", "half_open"] {
                family.add("", &[("agent", agent), ("state", state)], flag(state == now));
            }
        }
    }),
    ("outbox_messages", Kind::Gauge, "Comments and digests that are not delivered, by state: pending or given up (failed).", |family, facts, _| {
        family.add("", &[("state", "pending")], facts.outbox.pending.into());
        family.add("", &[("state", "failed")], facts.outbox.failed.into());
    }),
    ("provider_suspended", Kind::Gauge, "1 while the agent's provider is suspended.", |family, facts, _| {
        family.set(flag(facts.provider.is_some()));
    }),
    ("load_per_core_ratio", Kind::Gauge, "One-minute load average divided by the number of processors.", |family, facts, _| {
        family.set(facts.machine.load_per_core());
    }),
    ("event_clients", Kind::Gauge, "Open event streams, such as dashboards.", |family, facts, _| {
        family.set(count(facts.clients));
    }),
];

/// The same figure for budgets that only some configurations have.
fn other(family: &mut Family<'_>, facts: &Facts, figure: impl Fn(&OtherBudget) -> f64) {
    for budget in &facts.other_budgets {
        let mut labels = vec![("window", budget.window)];
        labels.extend(budget.source.as_deref().map(|source| ("source", source)));
        family.add("", &labels, figure(budget));
    }
}

/// Cost of the run in progress.
fn in_progress(facts: &Facts) -> crate::store::Spending {
    facts.running().map(|_| facts.run_spending).unwrap_or_default()
}

/// The samples of one family, as text.
pub struct Family<'a> {
    name: &'a str,
    text: &'a mut String,
}

impl Family<'_> {
    fn set(&mut self, value: f64) {
        self.add("", &[], value);
    }

    fn maybe(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.set(value);
        }
    }

    fn add(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        let mut written = String::new();
        for (name, label) in labels {
            let comma = if written.is_empty() { "" } else { "," };
            let label = label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            // Writing to a string cannot fail, here and below.
            let _: std::fmt::Result = write!(written, "{comma}{name}=\"{label}\"");
        }
        let labels = if written.is_empty() { written } else { format!("{{{written}}}") };
        let name = self.name;
        let _: std::fmt::Result = writeln!(self.text, "heartbeat_{name}{suffix}{labels} {value}");
    }
}

pub fn render(facts: &Facts, health: &Health) -> String {
    let mut text = String::with_capacity(8 << 10);
    for (name, kind, help, fill) in FAMILIES {
        let mut samples = String::new();
        fill(&mut Family { name, text: &mut samples }, facts, health);
        if samples.is_empty() {
            continue;
        }
        let kind = kind.into_str();
        let _: std::fmt::Result = write!(
            text,
            "# HELP heartbeat_{name} {help}\n# TYPE heartbeat_{name} {kind}\n{samples}"
        );
    }
    text
}

fn durations(family: &mut Family<'_>, facts: &Facts, _: &Health) {
    for (stage, totals) in by_stage(facts) {
        let count = to_f64(totals.iter().map(|total| total.count).sum());
        for (index, bound) in DURATION_BUCKETS.iter().enumerate() {
            let within = totals.iter().map(|total| total.within[index]).sum();
            let bound = bound.to_string();
            family.add("_bucket", &[("phase", stage), ("le", &bound)], to_f64(within));
        }
        family.add("_bucket", &[("phase", stage), ("le", "+Inf")], count);
        let sum = totals.iter().map(|total| total.duration_ms).sum();
        family.add("_sum", &[("phase", stage)], seconds(sum));
        family.add("_count", &[("phase", stage)], count);
    }
}

fn by_stage(facts: &Facts) -> Vec<(&str, Vec<&SessionTotal>)> {
    let mut stages: Vec<(&str, Vec<&SessionTotal>)> = Vec::new();
    for total in &facts.totals.sessions {
        match stages.iter_mut().find(|(stage, _)| *stage == total.stage) {
            Some((_, totals)) => totals.push(total),
            None => stages.push((&total.stage, vec![total])),
        }
    }
    stages
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn count(value: usize) -> f64 {
    to_f64(u64::try_from(value).unwrap_or(u64::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "the format knows no other number")]
fn to_f64(value: u64) -> f64 {
    value as f64
}

fn seconds(ms: u64) -> f64 {
    to_f64(ms) / 1000.0
}

fn timestamp(at: jiff::Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
