//! A session's timers: lease renewals to the keeper, samples of the process tree, and the liveness
//! event made of both. The timers depend on nothing else.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::conversation::Conversation;
use super::keeper::launch::Keeper;
use super::liveness::{Rule, Sample, judge};
use super::supervisor::SupervisorSettings;
use super::tree::{TreeSample, TreeWatch};
use crate::event::{LiveVerdict, Liveness};
use crate::model::milliseconds;

#[derive(Debug)]
pub struct SessionTimers {
    /// When the limits are checked.
    pub check: Interval,
    /// When the next liveness event is due.
    pub liveness: Interval,
    /// When the keeper's lease is renewed.
    pub beat: Interval,
    watch: Option<TreeWatch>,
    started: Instant,
    last_sample: Instant,
    beat_sent: u64,
    beat_answered: u64,
    samples: u64,
    streak: u32,
    asleep_before: Duration,
}

impl SessionTimers {
    /// Created before the agent runs; the timers start now.
    pub fn new(now: Instant, liveness: Duration, settings: &SupervisorSettings) -> Self {
        let every = |period: Duration| {
            let period = period.max(Duration::from_millis(5));
            let mut interval = tokio::time::interval_at(now + period, period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        };
        Self {
            check: every(settings.check_every),
            liveness: every(liveness),
            beat: every(settings.lease / 6),
            watch: None,
            started: now,
            last_sample: now,
            beat_sent: 0,
            beat_answered: 0,
            samples: 0,
            streak: 0,
            asleep_before: time_asleep(),
        }
    }

    /// Starts sampling once the agent runs.
    pub fn watch(&mut self, keeper: &Keeper, leader: u32, now: Instant) {
        let has_init = keeper.tier.has_namespace();
        let watch = TreeWatch::new(keeper.identity.pid, leader, has_init);
        self.watch = Some(watch.without(keeper.watcher));
        self.started = now;
        self.last_sample = now;
        self.liveness.reset();
        self.check.reset();
    }

    /// Processes seen in the tree, with their start times.
    pub fn seen(&self) -> HashSet<(u32, u64)> {
        self.watch.as_ref().map(|watch| watch.known().clone()).unwrap_or_default()
    }

    pub fn next_beat(&mut self) -> u64 {
        self.beat_sent += 1;
        self.beat_sent
    }

    /// Records a lease renewal that the keeper acknowledged.
    pub fn answered(&mut self, number: u64) {
        self.beat_answered = self.beat_answered.max(number);
    }

    /// The current state of the tree, for the limits.
    pub fn measure(&self) -> Option<TreeSample> {
        self.watch.as_ref().map(TreeWatch::measure)
    }

    /// Makes the liveness event and tells whether the session is hung.
    pub fn liveness_event(
        &mut self,
        conversation: &Conversation,
        stall: Duration,
        deadline_in: Duration,
    ) -> Option<(Liveness, bool)> {
        let now = Instant::now();
        let tree = self.watch.as_mut()?.sample();
        let sample = Sample {
            interval: now - self.last_sample,
            initialised: conversation.initialised,
            has_result: conversation.result.is_some(),
            since_progress: now - conversation.last_progress,
            since_output: now - conversation.last_output,
            retrying_for: conversation.retry_until.and_then(|at| at.checked_duration_since(now)),
            requesting: conversation.open_tools.is_empty(),
            open_tool: conversation.open_tools.last().map(|(_, name)| name.clone()),
            processes: tree.processes,
            // The first sample has nothing to compare with.
            new_processes: if self.samples == 0 { 0 } else { tree.new_processes },
            stopped: tree.stopped,
            cpu_tools: tree.cpu_tools,
            last_kind: conversation.last_kind.clone(),
        };
        let judgement = judge(&Rule::for_stall(stall), &sample, self.streak);
        self.streak = judgement.streak;
        self.samples += 1;
        self.last_sample = now;
        let liveness = Liveness {
            beat: self.samples,
            verdict: judgement.verdict,
            evidence: self.annotate(judgement.evidence),
            elapsed_ms: milliseconds(now - self.started),
            deadline_in_ms: milliseconds(deadline_in),
            since_progress_ms: milliseconds(sample.since_progress),
            since_output_ms: milliseconds(sample.since_output),
            stdout_bytes: conversation.bytes,
            lines: conversation.lines,
            open_tool: sample.open_tool,
            processes: tree.processes,
            new_processes: sample.new_processes,
            cpu_leader_ms: milliseconds(tree.cpu_leader),
            cpu_tools_ms: milliseconds(tree.cpu_tools),
            rss_kib: tree.rss_kib,
        };
        Some((liveness, judgement.verdict == LiveVerdict::Hung))
    }

    fn annotate(&self, evidence: String) -> String {
        let mut evidence = evidence;
        let asleep = time_asleep().saturating_sub(self.asleep_before);
        if asleep >= Duration::from_secs(1) {
            evidence
                .push_str(&format!(", machine asleep for {} s (not counted)", asleep.as_secs()));
        }
        let unanswered = self.beat_sent.saturating_sub(self.beat_answered);
        if unanswered > 1 {
            evidence.push_str(&format!(", {unanswered} requests to the keeper are unanswered"));
        }
        evidence
    }
}

/// How long this machine has been suspended since boot. Timers and limits do not count it.
#[cfg(target_os = "linux")]
fn time_asleep() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    let read = |clock| clock_gettime(clock).map(Duration::from).unwrap_or_default();
    read(ClockId::CLOCK_BOOTTIME).saturating_sub(read(ClockId::CLOCK_MONOTONIC))
}

#[cfg(not(target_os = "linux"))]
fn time_asleep() -> Duration {
    Duration::ZERO
}
