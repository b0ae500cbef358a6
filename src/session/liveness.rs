//! Judges from evidence whether a live session is working, quiet or stuck (pure).
//!
//! Output alone proves nothing: an agent forwards pings of a dead stream and reports "tool still
//! running" for a tool that hangs. What counts is *progress* (content, a tool call, its result, the
//! final result) and whether the tools below the agent use the machine. The agent's own process
//! does not count as a tool: it uses some processor time even while it waits.
//!
//! # The floor for "tools use the machine"
//!
//! Below [`CPU_FLOOR`] tools count as idle. It was set from a measurement that the test
//! `session_calibration` repeats: trees of sleeping, waiting and polling tools stay below a tenth
//! of it, trees that search or compile are above it by an order of magnitude. One percent of one
//! core lies between the two groups on machines of very different speed.

use std::time::Duration;

use crate::event::LiveVerdict;

/// Share of one core below which tools count as idle.
pub const CPU_FLOOR: f64 = 0.01;

/// Consecutive samples that turn `suspect` into `hung`.
pub const SAMPLES_TO_HUNG: u32 = 3;

/// Measurements at one point in time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Time since the last sample.
    pub interval: Duration,
    /// The agent has written its init line.
    pub initialised: bool,
    /// The result line is there.
    pub has_result: bool,
    /// Since content, tool use, tool result or result.
    pub since_progress: Duration,
    /// Since any byte.
    pub since_output: Duration,
    /// Remaining time of an announced wait.
    pub retrying_for: Option<Duration>,
    /// A request to the model is open.
    pub requesting: bool,
    pub open_tool: Option<String>,
    pub processes: u32,
    /// Since the last sample.
    pub new_processes: u32,
    pub stopped: u32,
    /// Processor time of everything below the agent since the last sample.
    pub cpu_tools: Duration,
    /// Type of the last line, for the evidence.
    pub last_kind: String,
}

/// Time limits of the judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Suspect after this time without progress, if tools are idle.
    pub stall: Duration,
    /// Quiet after this time without progress.
    pub quiet: Duration,
}

impl Rule {
    /// The rule for a stall limit. A session is quiet after a minute, or less if the limit is
    /// short.
    pub fn for_stall(stall: Duration) -> Self {
        Self { stall, quiet: Duration::from_secs(60).min(stall / 4) }
    }
}

/// A verdict with its evidence, and the number of suspicious samples in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: LiveVerdict,
    pub evidence: String,
    /// Pass it to the next call.
    pub streak: u32,
}

/// Whether the tools use the machine.
pub fn tools_are_busy(sample: &Sample) -> bool {
    sample.cpu_tools.as_secs_f64() >= sample.interval.as_secs_f64() * CPU_FLOOR
        && !sample.cpu_tools.is_zero()
}

pub fn judge(rule: &Rule, sample: &Sample, streak: u32) -> Judgement {
    let seconds = |duration: Duration| duration.as_secs_f64().round();
    let silent = seconds(sample.since_progress);
    let calm = |verdict, evidence| Judgement { verdict, evidence, streak: 0 };
    if sample.has_result {
        let since = format!("result {silent} s ago, {} processes left", sample.processes);
        return calm(LiveVerdict::FinishedNotExiting, since);
    }
    if !sample.initialised {
        let evidence = format!("no init line, {} processes", sample.processes);
        return calm(LiveVerdict::Starting, evidence);
    }
    if let Some(left) = sample.retrying_for {
        // An announced wait is neither progress nor suspicious; the hard limit bounds it.
        let evidence = format!("retries in {} s", seconds(left));
        return calm(LiveVerdict::Retrying, evidence);
    }
    if tools_are_busy(sample) {
        let used = sample.cpu_tools.as_millis();
        let evidence = format!("tools used {used} ms, last progress {silent} s ago");
        return calm(LiveVerdict::Working, evidence);
    }
    if sample.new_processes > 0 {
        let evidence = format!("{} new processes", sample.new_processes);
        return calm(LiveVerdict::Working, evidence);
    }
    if sample.since_progress >= rule.stall {
        return suspicious(sample, streak + 1);
    }
    if sample.since_progress < rule.quiet {
        return calm(LiveVerdict::Working, format!("last progress {silent} s ago"));
    }
    match &sample.open_tool {
        None if sample.requesting => {
            let evidence = format!("request open, no progress for {silent} s");
            calm(LiveVerdict::WaitingForModel, evidence)
        }
        Some(tool) => {
            let evidence = format!("{tool} is idle, no progress for {silent} s");
            calm(LiveVerdict::Quiet, evidence)
        }
        None => calm(LiveVerdict::Quiet, format!("no progress for {silent} s")),
    }
}

fn suspicious(sample: &Sample, streak: u32) -> Judgement {
    let mut evidence = format!(
        "no progress for {} s, tools used {} ms, no new process, {streak} samples in a row",
        sample.since_progress.as_secs_f64().round(),
        sample.cpu_tools.as_millis(),
    );
    if sample.stopped > 0 {
        evidence.push_str(&format!(", {} stopped", sample.stopped));
    }
    if !sample.last_kind.is_empty() {
        evidence.push_str(&format!(", last line {}", sample.last_kind));
    }
    let verdict = if streak >= SAMPLES_TO_HUNG { LiveVerdict::Hung } else { LiveVerdict::Suspect };
    Judgement { verdict, evidence, streak }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(15);

    fn rule() -> Rule {
        Rule::for_stall(Duration::from_secs(420))
    }

    fn running(since_progress: u64) -> Sample {
        Sample {
            interval: INTERVAL,
            initialised: true,
            since_progress: Duration::from_secs(since_progress),
            processes: 1,
            ..Sample::default()
        }
    }

    /// Feeds samples of a silent session and returns the time of `hung`.
    fn hung_after(mut sample_at: impl FnMut(u64) -> Sample, until: u64) -> Option<u64> {
        let mut streak = 0;
        for at in (15..=until).step_by(15) {
            let judgement = judge(&rule(), &sample_at(at), streak);
            streak = judgement.streak;
            if judgement.verdict == LiveVerdict::Hung {
                return Some(at);
            }
        }
        None
    }

    #[test]
    fn a_dead_stream_is_hung_within_the_stall_limit_and_three_intervals() {
        let at = hung_after(running, 3_600).unwrap();
        assert!((420..=420 + 45).contains(&at), "{at}");
    }

    #[test]
    fn a_stuck_tool_is_hung_although_it_says_it_runs() {
        let at = hung_after(
            |at| Sample {
                open_tool: Some("Bash".to_owned()),
                since_output: Duration::ZERO,
                last_kind: "tool_progress".to_owned(),
                processes: 3,
                cpu_tools: Duration::from_millis(10),
                ..running(at)
            },
            3_600,
        );
        assert!(at.is_some_and(|at| at <= 465), "{at:?}");
    }

    #[test]
    fn a_healthy_silent_gap_of_405_seconds_is_not_hung() {
        assert_eq!(hung_after(running, 405), None);
    }

    #[test]
    fn a_busy_silent_tool_is_never_hung() {
        let busy = |at| Sample { cpu_tools: Duration::from_millis(200), ..running(at) };
        assert_eq!(hung_after(busy, 36_000), None);
    }

    #[test]
    fn new_processes_are_a_sign_of_work() {
        let forking = |at| Sample { new_processes: 1, ..running(at) };
        assert_eq!(hung_after(forking, 36_000), None);
    }

    #[test]
    fn one_busy_sample_starts_the_count_again() {
        let at = hung_after(
            |at| Sample {
                cpu_tools: Duration::from_millis(if at == 450 { 900 } else { 0 }),
                ..running(at)
            },
            3_600,
        );
        assert_eq!(at, Some(495));
    }

    #[test]
    fn an_announced_wait_is_not_suspicious() {
        let waiting = |at| Sample { retrying_for: Some(INTERVAL), ..running(at) };
        assert_eq!(judge(&rule(), &waiting(500), 2).verdict, LiveVerdict::Retrying);
    }

    #[test]
    fn the_other_verdicts() {
        let verdict = |sample: &Sample| judge(&rule(), sample, 0).verdict;
        assert_eq!(verdict(&Sample { initialised: false, ..running(5) }), LiveVerdict::Starting);
        assert_eq!(verdict(&running(5)), LiveVerdict::Working);
        assert_eq!(verdict(&running(100)), LiveVerdict::Quiet);
        let waiting = Sample { requesting: true, ..running(100) };
        assert_eq!(verdict(&waiting), LiveVerdict::WaitingForModel);
        let finished = Sample { has_result: true, ..running(1) };
        assert_eq!(verdict(&finished), LiveVerdict::FinishedNotExiting);
    }

    proptest! {
        #[test]
        fn hung_needs_all_of_its_evidence(
            progress in 0_u64..2_000, cpu in 0_u64..2_000, new in 0_u32..3, streak in 0_u32..5,
            initialised: bool, has_result: bool,
        ) {
            let sample = Sample {
                cpu_tools: Duration::from_millis(cpu),
                new_processes: new,
                initialised,
                has_result,
                ..running(progress)
            };
            let judgement = judge(&rule(), &sample, streak);
            if judgement.verdict == LiveVerdict::Hung {
                prop_assert!(progress >= 420 && cpu < 150 && new == 0);
                prop_assert!(streak + 1 >= SAMPLES_TO_HUNG && initialised && !has_result);
            }
        }
    }
}
