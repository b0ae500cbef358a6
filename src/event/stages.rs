//! The stages of a run, each with its state and the reason. Pure.

use serde::Serialize;

use super::RunOutcome;
use super::fold::{RunView, Step};
use crate::model::text::in_words;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// Not started yet.
    Ahead,
    Running,
    Done,
    Failed,
    /// Nothing to do, or not allowed to start.
    Skipped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageReport {
    pub state: StageState,
    /// As text; always set if failed or skipped.
    pub why: Option<String>,
}

/// In order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stages {
    pub fetch: StageReport,
    pub triage: StageReport,
    pub analyse: StageReport,
    pub result: StageReport,
}

/// How far a run got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Still running.
    Live,
    /// The run has no end and no process works on it.
    Lost,
    Ended(RunOutcome),
}

impl StageReport {
    const fn new(state: StageState, why: Option<String>) -> Self {
        Self { state, why }
    }

    const fn plain(state: StageState) -> Self {
        Self::new(state, None)
    }

    fn failed(why: &str) -> Self {
        Self::new(StageState::Failed, Some(why.into()))
    }

    fn skipped(why: &str) -> Self {
        Self::new(StageState::Skipped, Some(why.into()))
    }
}

const CRASHED: &str = "the run crashed; the next one cleans up";
const STOPPED: &str = "the run was stopped";
const NOT_READ: &str = "the work items could not be read";
const NOTHING_NEW: &str = "nothing new";

impl Stages {
    /// The stages of a run. An ended run without events is judged by its outcome.
    pub fn of(view: &RunView, reached: Reached) -> Self {
        let fetch = fetch(view, reached);
        let triage = triage(view, reached, fetch.state);
        let analyse = analyse(view, reached, fetch.state, triage.state);
        Self { fetch, triage, analyse, result: result(reached) }
    }
}

fn fetch(view: &RunView, reached: Reached) -> StageReport {
    if let Some(message) = &view.fetch_failed {
        return StageReport::failed(message);
    }
    if view.planned {
        return StageReport::plain(StageState::Done);
    }
    match reached {
        Reached::Live if view.step == Step::Starting => StageReport::plain(StageState::Ahead),
        Reached::Live => StageReport::plain(StageState::Running),
        reached => unfinished(view, reached),
    }
}

/// A stage that did not end although its run did.
fn unfinished(view: &RunView, reached: Reached) -> StageReport {
    if let Some(problem) = &view.error {
        return StageReport::failed(problem);
    }
    match reached {
        Reached::Ended(RunOutcome::Interrupted) => StageReport::skipped(STOPPED),
        Reached::Lost | Reached::Ended(RunOutcome::Crashed) => StageReport::failed(CRASHED),
        // The run ended without a known failure, and its events are deleted.
        Reached::Live
        | Reached::Ended(
            RunOutcome::Completed
            | RunOutcome::NothingNew
            | RunOutcome::SomeFailed
            | RunOutcome::SourcesFailed
            | RunOutcome::TriageFailed
            | RunOutcome::NotNow,
        ) => StageReport::plain(StageState::Done),
        Reached::Ended(outcome) => StageReport::failed(&in_words(outcome)),
    }
}

fn triage(view: &RunView, reached: Reached, fetch: StageState) -> StageReport {
    match fetch {
        StageState::Failed | StageState::Skipped => return StageReport::skipped(NOT_READ),
        StageState::Ahead | StageState::Running => return StageReport::plain(StageState::Ahead),
        StageState::Done => {}
    }
    if !view.triage_ended {
        return match reached {
            Reached::Live if view.step == Step::Triaging => StageReport::plain(StageState::Running),
            Reached::Live => StageReport::plain(StageState::Ahead),
            Reached::Ended(RunOutcome::NothingNew) => StageReport::skipped(NOTHING_NEW),
            Reached::Ended(RunOutcome::TriageFailed) => StageReport::failed("triage failed"),
            reached => unfinished(view, reached),
        };
    }
    if view.triage_failed {
        let lost = view.to_triage.saturating_sub(view.triaged);
        return StageReport::failed(&format!(
            "no verdict on {lost} of {} items because their session failed; they stay queued",
            view.to_triage
        ));
    }
    match (&view.error, &view.refused) {
        _ if view.triaged > 0 => StageReport::plain(StageState::Done),
        _ if view.work == 0 => StageReport::skipped(NOTHING_NEW),
        _ if view.to_triage == 0 => {
            StageReport::skipped("every item already has a verdict from an earlier run")
        }
        (Some(problem), _) => StageReport::failed(problem),
        (None, Some(refused)) => StageReport::skipped(refused),
        (None, None) => unfinished(view, reached),
    }
}

fn analyse(view: &RunView, reached: Reached, fetch: StageState, triage: StageState) -> StageReport {
    if matches!(fetch, StageState::Failed | StageState::Skipped) {
        return StageReport::skipped(NOT_READ);
    }
    if matches!(triage, StageState::Ahead | StageState::Running) {
        return StageReport::plain(StageState::Ahead);
    }
    if !view.triage_ended {
        return match (triage, reached) {
            (StageState::Failed, _) => StageReport::skipped("triage failed"),
            (_, Reached::Ended(RunOutcome::NothingNew)) => StageReport::skipped(NOTHING_NEW),
            (_, reached) => unfinished(view, reached),
        };
    }
    match reached {
        _ if view.to_analyse == 0 && triage == StageState::Failed => {
            StageReport::skipped("triage failed")
        }
        Reached::Live if view.to_analyse == 0 => StageReport::plain(StageState::Ahead),
        _ if view.work == 0 => StageReport::skipped(NOTHING_NEW),
        _ if view.to_analyse == 0 => StageReport::skipped("no item needs deep analysis"),
        Reached::Live => StageReport::plain(StageState::Running),
        reached => analysed(view, reached),
    }
}

/// Result of an analysis stage that had items.
fn analysed(view: &RunView, reached: Reached) -> StageReport {
    let missing = view.to_analyse.saturating_sub(view.analysed);
    if let Some(problem) = &view.error {
        return StageReport::failed(problem);
    }
    if view.failed_analyses > 0 {
        return StageReport::failed(&format!(
            "{} of {} analyses failed; their items wait for a retry or are parked",
            view.failed_analyses, view.to_analyse
        ));
    }
    match (missing, &view.refused) {
        (0, _) => StageReport::plain(StageState::Done),
        (_, Some(refused)) if view.analysed == 0 => StageReport::skipped(refused),
        _ if !matches!(reached, Reached::Ended(RunOutcome::Completed)) => unfinished(view, reached),
        (missing, _) => {
            let why = format!("{missing} of {} left for a later run", view.to_analyse);
            StageReport::new(StageState::Done, Some(why))
        }
    }
}

fn result(reached: Reached) -> StageReport {
    let Reached::Ended(outcome) = reached else {
        return match reached {
            Reached::Lost => StageReport::failed(CRASHED),
            _ => StageReport::plain(StageState::Ahead),
        };
    };
    let state = match outcome {
        RunOutcome::Completed | RunOutcome::NothingNew => StageState::Done,
        RunOutcome::Interrupted | RunOutcome::NotNow => StageState::Skipped,
        _ => StageState::Failed,
    };
    StageReport::new(state, Some(in_words(outcome)))
}

#[cfg(test)]
#[path = "stages_tests.rs"]
mod tests;
