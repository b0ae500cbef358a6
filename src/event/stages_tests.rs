//! Stored runs and the reported state of each stage.

use jiff::Timestamp;

use super::*;
use crate::event::{Event, Reason, Recorded};
use crate::model::{ItemId, ItemKey, Outcome, SessionId, Stage, Usage};

fn view_of(events: Vec<Event>) -> RunView {
    let mut view = RunView::default();
    for (seq, event) in (1..).zip(events) {
        view.apply(&Recorded { seq, at: Timestamp::UNIX_EPOCH, run: None, event });
    }
    view
}

fn ended(outcome: RunOutcome, events: Vec<Event>) -> Stages {
    Stages::of(&view_of(events), Reached::Ended(outcome))
}

fn states(stages: &Stages) -> [StageState; 4] {
    [stages.fetch.state, stages.triage.state, stages.analyse.state, stages.result.state]
}

fn why(report: &StageReport) -> &str {
    report.why.as_deref().unwrap_or_default()
}

fn planned(work: u64) -> Vec<Event> {
    vec![Event::FetchStarted, Event::PlanMade { work, deferred: 0, unchanged: 3 }]
}

fn triaged(items: u64, deep: u64, failed: u64) -> Vec<Event> {
    let mut events = planned(items);
    events.push(Event::TriageStarted { items, sessions: 1 });
    for id in 0..items - failed {
        events.push(Event::ItemTriaged {
            item: ItemKey::new("ado", ItemId(i64::try_from(id).unwrap())),
            complexity: crate::model::Complexity::Simple,
            deep: id < deep,
            from_model: true,
            reason: String::new(),
        });
    }
    events.push(Event::TriageEnded { triaged: items - failed, deep, failed });
    if deep > 0 {
        events.push(Event::AnalysisStarted { items: deep });
    }
    events
}

fn found() -> Event {
    let session = SessionId(uuid::Uuid::nil());
    Event::FindingStored { item: ItemKey::new("ado", ItemId(1)), session }
}

fn analysis_failed() -> Event {
    Event::SessionEnded {
        session: SessionId(uuid::Uuid::nil()),
        stage: Stage::Deep,
        item: None,
        outcome: Outcome::TimedOut,
        usage: Usage::default(),
        duration_ms: 1,
        files_read: 0,
        swept: 0,
        survivors: 0,
        host: None,
        words: String::new(),
        answered_by: None,
    }
}

use StageState::{Ahead, Done, Failed, Running, Skipped};

#[test]
fn a_tracker_that_is_down_fails_the_fetch_and_skips_the_rest() {
    let message = "no answer from the tracker";
    let failure = Event::FetchFailed {
        source: String::new(),
        class: "network".into(),
        message: message.into(),
    };
    let stages = ended(RunOutcome::SourceUnavailable, vec![Event::FetchStarted, failure]);
    assert_eq!(states(&stages), [Failed, Skipped, Skipped, Failed]);
    assert_eq!(why(&stages.fetch), message);
    assert_eq!((why(&stages.triage), why(&stages.analyse)), (NOT_READ, NOT_READ));
    assert_eq!(why(&stages.result), "source unavailable");
}

#[test]
fn a_refused_first_run_says_so_in_the_words_of_the_log() {
    let message = "this is the first scheduled run; set [schedule] first_run";
    let refusal = vec![Event::RunFailed { message: message.into() }];
    let stages = ended(RunOutcome::NotNow, refusal);
    assert_eq!(states(&stages), [Failed, Skipped, Skipped, Skipped]);
    assert_eq!(why(&stages.fetch), message);
    assert_eq!(why(&stages.result), "not now");
}

#[test]
fn a_run_without_news_did_only_the_fetch() {
    let mut events = planned(0);
    events.push(Event::TriageEnded { triaged: 0, deep: 0, failed: 0 });
    let stages = ended(RunOutcome::NothingNew, events);
    assert_eq!(states(&stages), [Done, Skipped, Skipped, Done]);
    assert_eq!((why(&stages.triage), why(&stages.analyse)), (NOTHING_NEW, NOTHING_NEW));
    // The same by the outcome alone, after the events are deleted.
    assert_eq!(states(&ended(RunOutcome::NothingNew, vec![])), [Done, Skipped, Skipped, Done]);
}

#[test]
fn a_complete_run_is_done_in_all_its_stages() {
    let mut events = triaged(3, 1, 0);
    events.push(found());
    assert_eq!(states(&ended(RunOutcome::Completed, events)), [Done; 4]);
    assert_eq!(states(&ended(RunOutcome::Completed, vec![])), [Done; 4]);
}

#[test]
fn triage_alone_can_be_enough() {
    let stages = ended(RunOutcome::Completed, triaged(3, 0, 0));
    assert_eq!(states(&stages), [Done, Done, Skipped, Done]);
    assert_eq!(why(&stages.analyse), "no item needs deep analysis");
}

#[test]
fn work_of_an_earlier_triage_is_analysed_without_another() {
    let mut events = planned(1);
    let analysis = Event::AnalysisStarted { items: 1 };
    events.extend([Event::TriageEnded { triaged: 0, deep: 1, failed: 0 }, analysis, found()]);
    let stages = ended(RunOutcome::Completed, events);
    assert_eq!(states(&stages), [Done, Skipped, Done, Done]);
}

#[test]
fn a_failed_triage_session_is_not_a_success() {
    let stages = ended(RunOutcome::TriageFailed, triaged(4, 0, 4));
    assert_eq!(states(&stages), [Done, Failed, Skipped, Failed]);
    assert!(why(&stages.triage).starts_with("no verdict on 4 of 4 items"));
    assert_eq!(why(&stages.analyse), "triage failed");
}

#[test]
fn failed_analyses_are_counted() {
    let mut events = triaged(3, 2, 0);
    events.extend([found(), analysis_failed()]);
    let stages = ended(RunOutcome::SomeFailed, events);
    assert_eq!(states(&stages), [Done, Done, Failed, Failed]);
    assert!(why(&stages.analyse).starts_with("1 of 2 analyses failed"));
}

#[test]
fn a_gate_that_lets_nothing_start_is_the_reason() {
    let refused = Event::AdmissionRefused {
        item: None,
        reason: Reason::Load,
        detail: "3.1 per core, limit 1.5".into(),
        until: None,
    };
    let mut events = planned(2);
    events.push(Event::TriageStarted { items: 2, sessions: 1 });
    events.extend([refused.clone(), Event::TriageEnded { triaged: 0, deep: 0, failed: 0 }]);
    let stages = ended(RunOutcome::NotNow, events);
    assert_eq!(states(&stages), [Done, Skipped, Skipped, Skipped]);
    assert_eq!(why(&stages.triage), "load: 3.1 per core, limit 1.5");
    let mut events = triaged(2, 2, 0);
    events.push(refused);
    let stages = ended(RunOutcome::Completed, events);
    assert_eq!(states(&stages), [Done, Done, Skipped, Done]);
    assert_eq!(why(&stages.analyse), "load: 3.1 per core, limit 1.5");
}

#[test]
fn a_problem_belongs_to_the_stage_it_kept_from_working() {
    let problem = || Event::RunFailed { message: "the code base is missing".into() };
    let mut events = triaged(2, 2, 0);
    events.push(problem());
    let stages = ended(RunOutcome::ConfigRefused, events);
    assert_eq!(states(&stages), [Done, Done, Failed, Failed]);
    assert_eq!(why(&stages.analyse), "the code base is missing");
    let mut events = planned(2);
    events.push(problem());
    let stages = ended(RunOutcome::ConfigRefused, events);
    assert_eq!(states(&stages), [Done, Failed, Skipped, Failed]);
}

#[test]
fn a_live_run_is_running_in_one_stage() {
    let at = |events| states(&Stages::of(&view_of(events), Reached::Live));
    assert_eq!(at(vec![]), [Ahead; 4]);
    assert_eq!(at(vec![Event::FetchStarted]), [Running, Ahead, Ahead, Ahead]);
    assert_eq!(at(planned(2)), [Done, Ahead, Ahead, Ahead]);
    assert_eq!(at(triaged(2, 1, 0)), [Done, Done, Running, Ahead]);
}

#[test]
fn a_lost_run_failed_where_it_was() {
    let stages = Stages::of(&view_of(triaged(2, 1, 0)), Reached::Lost);
    assert_eq!(states(&stages), [Done, Done, Failed, Failed]);
    assert_eq!(why(&stages.analyse), CRASHED);
    let stages = Stages::of(&view_of(vec![Event::FetchStarted]), Reached::Lost);
    assert_eq!(states(&stages), [Failed, Skipped, Skipped, Failed]);
}

#[test]
fn a_stopped_run_says_so() {
    let stages = ended(RunOutcome::Interrupted, triaged(2, 1, 0));
    assert_eq!(states(&stages), [Done, Done, Skipped, Skipped]);
    assert_eq!(why(&stages.analyse), STOPPED);
}
