//! Tests of the state on real SQLite files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use uuid::Uuid;

use super::*;
use crate::clock::Clock;
use crate::dedupe::{Planned, Write};
use crate::event::{Decision, Event, Reason, RunOutcome, RunSummary, Sink, Trigger};
use crate::model::{
    Complexity, Confidence, Effort, Finding, ItemId, ItemKey, MadeWith, Outcome, Phase,
    ProcessIdentity, Risk, RunId, SessionEnd, SessionId, SessionRef, Stage, Usage, Usd, Verdict,
};
use crate::ports::{Ledger, LedgerError, LedgerRow};

pub(super) struct State {
    folder: tempfile::TempDir,
    pub(super) journal: Journal,
    pub(super) run: RunId,
}

pub(super) async fn state() -> State {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::manual("2026-11-16T08:00:00Z".parse().unwrap());
    let run = RunId(Uuid::now_v7());
    let store = Store::open(&folder.path().join("state")).unwrap();
    let journal = Journal::open(store, clock, Some(run)).unwrap();
    journal.runs().begin(run, Trigger::Manual, 3).await.unwrap();
    State { folder, journal, run }
}

pub(super) fn key(id: i64) -> ItemKey {
    ItemKey::new("ado", ItemId(id))
}

pub(super) fn planned(id: i64, fingerprint: &str, decision: Decision) -> Planned {
    Planned {
        key: key(id),
        id: ItemId(id),
        title: format!("Item {id}"),
        item_type: "Bug".into(),
        url: String::new(),
        area_path: String::new(),
        assigned_to: None,
        priority: Some(2),
        revision: 1,
        changed_at: "2026-11-16T07:00:00Z".parse().unwrap(),
        fingerprint: fingerprint.into(),
        decision,
        reason: Reason::FirstSeen,
        attempts: 0,
        write: Write::Row,
        words: None,
        fields: None,
        created_at: None,
    }
}

pub(super) fn page(planned: Vec<Planned>) -> PageRecord {
    PageRecord { planned, ..PageRecord::default() }
}

fn verdict(id: i64, deep: bool) -> Verdict {
    Verdict { needs_deep_analysis: deep, ..Verdict::new(ItemId(id), Complexity::Simple, "because") }
}

fn finding() -> Finding {
    Finding {
        summary: "s".into(),
        likely_causes: Vec::new(),
        files: Vec::new(),
        suggested_change: "c".into(),
        risk: Risk::Low,
        effort: Effort::Small,
        confidence: Confidence::High,
        open_questions: Vec::new(),
        tests: Vec::new(),
        pitfalls: Vec::new(),
        not_checked: Vec::new(),
        evidence: Vec::new(),
        patch: String::new(),
        patch_test: String::new(),
        proof: None,
    }
}

pub(super) fn caps(run: f64, day: f64) -> BudgetCaps {
    let (per_run, per_day) = (Usd::from_dollars(run), Usd::from_dollars(day));
    BudgetCaps { per_run, per_day, ..BudgetCaps::NONE }
}

pub(super) fn claim(state: &State, id: i64, caps: BudgetCaps) -> Claim {
    Claim {
        session: SessionId(Uuid::now_v7()),
        run: state.run,
        stage: Stage::Deep,
        subject: vec![(key(id), "f1".into())],
        worst_case: Usd::from_dollars(0.5),
        day: "2026-11-16".into(),
        caps,
        max_attempts: 3,
    }
}

pub(super) fn ledger_row(claim: &Claim) -> LedgerRow {
    LedgerRow {
        session: SessionRef {
            id: claim.session,
            run: claim.run,
            stage: claim.stage,
            item: Some(claim.subject[0].0.clone()),
            attempt: 1,
        },
        keeper: ProcessIdentity {
            pid: 1,
            start_time: u64::MAX,
            pidfd_inode: Some(3),
            boot_id: "b".into(),
        },
        tier: "subreaper".into(),
        cgroup: None,
        scratch: "/nowhere".into(),
        started_at: "2026-11-16T08:00:00Z".parse().unwrap(),
        deadline_at: "2026-11-16T08:10:00Z".parse().unwrap(),
        host: None,
        in_force: None,
    }
}

pub(super) fn ended(outcome: Outcome, cost: f64) -> SessionEnd {
    SessionEnd {
        outcome,
        output: Some(serde_json::json!({"answer": 1})),
        usage: Usage { cost: (cost > 0.0).then(|| Usd::from_dollars(cost)), ..Usage::default() },
        suspended_until: None,
        duration: Duration::from_secs(1),
        reads: 0,
        files_read: None,
        swept: 0,
        survivors: 0,
        stderr_tail: crate::model::Untrusted::default(),
        transcript: crate::model::SessionTranscript::default(),
        fell_back_to: None,
    }
}

#[tokio::test]
async fn folder_and_files_are_private() {
    let state = state().await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = state.folder.path().join("state");
    assert_eq!(mode(&folder), 0o700);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

#[tokio::test]
async fn a_newer_database_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path()).unwrap());
    let database = folder.path().join(DATABASE);
    let connection = Connection::open(&database).unwrap();
    connection.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(connection);
    let before = fs::read(&database).unwrap();
    let error = Store::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    assert_eq!(fs::read(&database).unwrap(), before);
}

#[tokio::test]
async fn rubbish_is_reported_as_damage_and_never_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join(DATABASE);
    fs::write(&database, vec![7_u8; 8192]).unwrap();
    let error = Store::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert_eq!(fs::read(&database).unwrap(), vec![7_u8; 8192]);
}

#[tokio::test]
async fn a_fact_and_its_events_come_together_and_in_order() {
    let state = state().await;
    state.journal.emit(Event::FetchStarted);
    state
        .journal
        .items()
        .record_page("ado", page(vec![planned(1, "f1", Decision::New)]))
        .await
        .unwrap();
    state.journal.emit(Event::ConfigReloaded);
    state.journal.flush().await.unwrap();
    let events = state.journal.store().events().in_run(state.run).await.unwrap();
    let names: Vec<_> = events.iter().map(|e| std::mem::discriminant(&e.event)).collect();
    assert_eq!(names.len(), 4);
    assert_eq!(names[1], std::mem::discriminant(&Event::FetchStarted));
    assert!(matches!(events[2].event, Event::ItemDecided { .. }));
    assert_eq!(events.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let folder = journal::run_folder(&state.folder.path().join("state"), state.run);
    let lines = fs::read_to_string(folder.join("events.ndjson")).unwrap();
    let copied: Vec<crate::event::Recorded> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(copied, events);
}

#[tokio::test]
async fn a_deep_item_goes_from_pending_to_done_once() {
    let state = state().await;
    let (journal, store) = (&state.journal, state.journal.store());
    journal.items().record_page("ado", page(vec![planned(1, "f1", Decision::New)])).await.unwrap();
    let verdict = TriageResult {
        key: key(1),
        fingerprint: "f1".into(),
        verdict: verdict(1, true),
        from_model: true,
        park: None,
        triage_only: false,
        parts: None,
        suggestions: Vec::new(),
    };
    journal.results().apply_triage(None, vec![verdict]).await.unwrap();
    let first = claim(&state, 1, caps(5.0, 20.0));
    assert_eq!(journal.claims().take(first.clone()).await.unwrap(), Ok(1));
    let second = claim(&state, 1, caps(5.0, 20.0));
    assert_eq!(journal.claims().take(second).await.unwrap(), Err(ClaimRefusal::Taken(key(1))));
    journal.register(ledger_row(&first), 3).await.unwrap();
    assert_eq!(journal.open_rows().await.unwrap(), [ledger_row(&first)]);
    journal.close(first.session, ended(Outcome::Completed, 0.1)).await.unwrap();
    let unapplied = store.results().unapplied().await.unwrap();
    assert_eq!(unapplied.len(), 1, "a crash here would lose nothing");
    assert_eq!(unapplied[0].output, Some(serde_json::json!({"answer": 1})));
    let result = DeepResult::Finished {
        finding: Box::new(finding()),
        made_with: MadeWith { model: "m".into(), prompt: "p".into() },
        comment: None,
    };
    journal
        .results()
        .apply_deep(first.session, state.run, key(1), "f1".into(), result)
        .await
        .unwrap();
    assert!(store.results().unapplied().await.unwrap().is_empty());
    let item = store.items().get(key(1)).await.unwrap().unwrap();
    assert_eq!((item.phase, item.attempts), (Phase::Done, 1));
    assert_eq!(store.findings().of_item(key(1)).await.unwrap().len(), 1);
    assert_eq!(store.budget().in_run(state.run).await.unwrap().spent, Usd::from_dollars(0.1));
}

#[tokio::test]
async fn the_ledger_refuses_one_more_than_allowed() {
    let state = state().await;
    let claims: Vec<_> = (1..=3).map(|id| claim(&state, id, caps(9.0, 9.0))).collect();
    for claim in &claims[..2] {
        state.journal.register(ledger_row(claim), 2).await.unwrap();
    }
    let refused = state.journal.register(ledger_row(&claims[2]), 2).await.unwrap_err();
    assert!(matches!(refused, LedgerError::Full { live: 2, max: 2 }));
    assert_eq!(state.journal.open_rows().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_claim_without_a_row_is_given_back_whole_after_a_crash() {
    let state = state().await;
    let journal = &state.journal;
    journal.items().record_page("ado", page(vec![planned(1, "f1", Decision::New)])).await.unwrap();
    journal.claims().take(claim(&state, 1, caps(5.0, 5.0))).await.unwrap().unwrap();
    assert!(journal.results().recover().await.unwrap().is_empty());
    let item = journal.store().items().get(key(1)).await.unwrap().unwrap();
    assert_eq!((item.phase, item.attempts), (Phase::Pending, 0));
    assert_eq!(journal.store().budget().in_run(state.run).await.unwrap(), Spending::default());
}

#[tokio::test]
async fn new_text_starts_with_all_attempts_and_without_the_old_verdict() {
    let state = state().await;
    let journal = &state.journal;
    journal.items().record_page("ado", page(vec![planned(1, "f1", Decision::New)])).await.unwrap();
    let first = claim(&state, 1, caps(5.0, 5.0));
    journal.claims().take(first.clone()).await.unwrap().unwrap();
    let next = "2026-11-16T08:15:00Z".parse().unwrap();
    let failed = DeepResult::TryAgain(Outcome::TimedOut, next);
    journal
        .results()
        .apply_deep(first.session, state.run, key(1), "f1".into(), failed)
        .await
        .unwrap();
    let item = journal.store().items().get(key(1)).await.unwrap().unwrap();
    assert_eq!((item.phase, item.attempts, item.next_attempt), (Phase::Waiting, 1, Some(next)));
    journal
        .items()
        .record_page("ado", page(vec![planned(1, "f2", Decision::Changed)]))
        .await
        .unwrap();
    let item = journal.store().items().get(key(1)).await.unwrap().unwrap();
    assert_eq!((item.phase, item.attempts, item.verdict), (Phase::Pending, 0, None));
}

#[tokio::test]
async fn the_cursor_moves_with_the_page_and_only_forward() {
    let state = state().await;
    let journal = &state.journal;
    let at = |text: &str| Some(text.parse().unwrap());
    let until = "2026-11-18T08:00:00Z".parse::<jiff::Timestamp>().unwrap();
    let ahead = until.duration_since(journal.clock().now());
    journal.clock().advance_ms(ahead.as_secs() * 1000);
    // A tracker whose clock is ahead.
    let record = PageRecord { cursor: at("2026-12-24T08:00:00Z"), ..PageRecord::default() };
    journal.items().record_page("ahead", record).await.unwrap();
    let cursor = journal.store().sources().cursor("ahead".into()).await.unwrap();
    assert_eq!(cursor, at("2026-11-18T08:00:00Z"));
    for (to, expected) in [
        ("2026-11-16T08:00:00Z", "2026-11-16T08:00:00Z"),
        ("2026-11-15T08:00:00Z", "2026-11-16T08:00:00Z"),
        ("2026-11-17T08:00:00Z", "2026-11-17T08:00:00Z"),
    ] {
        let record = PageRecord { cursor: at(to), ..PageRecord::default() };
        journal.items().record_page("ado", record).await.unwrap();
        assert_eq!(journal.store().sources().cursor("ado".into()).await.unwrap(), at(expected));
    }
}

#[tokio::test]
async fn a_scheduled_time_is_used_once() {
    let state = state().await;
    let tick = TickRow {
        schedule: "* * * * * UTC".into(),
        nominal: "2026-11-16T08:00:00Z".parse().unwrap(),
        run: Some(state.run),
        missed: 0,
    };
    assert!(state.journal.ticks().take(tick.clone()).await.unwrap());
    assert!(!state.journal.ticks().take(tick.clone()).await.unwrap());
    let last = state.journal.store().ticks().last(tick.schedule).await.unwrap();
    assert_eq!(last, Some(tick.nominal));
}

#[tokio::test]
async fn an_unfinished_run_is_closed_as_crashed_by_the_next() {
    let state = state().await;
    let next = RunId(Uuid::now_v7());
    state.journal.runs().begin(next, Trigger::Schedule, 3).await.unwrap();
    let summary = RunSummary { fetched: 3, ..RunSummary::default() };
    state.journal.runs().end(next, RunOutcome::Completed, summary, Digest::None).await.unwrap();
    let runs = state.journal.store().runs().newest(10).await.unwrap();
    let crashed = runs.iter().find(|run| run.run == state.run).unwrap();
    let completed = runs.iter().find(|run| run.run == next).unwrap();
    assert_eq!(crashed.outcome, Some(RunOutcome::Crashed));
    assert_eq!(completed.summary, Some(summary));
    assert_eq!(state.journal.store().runs().current().await.unwrap(), None);
}

#[tokio::test]
async fn a_dry_run_on_a_copy_leaves_the_original_alone() {
    let state = state().await;
    state
        .journal
        .items()
        .record_page("ado", page(vec![planned(1, "f1", Decision::New)]))
        .await
        .unwrap();
    let original = state.folder.path().join("state");
    let before = (
        fs::read(original.join(DATABASE)).unwrap(),
        fs::read(original.join("heartbeat.db-wal")).unwrap(),
    );
    let copy = tempfile::tempdir().unwrap();
    scratch_copy(&original, copy.path()).unwrap();
    let store = Store::open(copy.path()).unwrap();
    assert!(store.items().get(key(1)).await.unwrap().is_some(), "the log is part of the copy");
    let journal = Journal::open(store, Clock::system(), None).unwrap();
    journal.items().requeue(key(1)).await.unwrap();
    let after = (
        fs::read(original.join(DATABASE)).unwrap(),
        fs::read(original.join("heartbeat.db-wal")).unwrap(),
    );
    assert_eq!(before, after);
}

/// Stores an item with a long title, which needs pages.
async fn store_much(state: &State, id: i64) -> Result<(), StoreError> {
    let planned = Planned { title: "x".repeat(60_000), ..planned(id, "f1", Decision::New) };
    state.journal.items().record_page("ado", page(vec![planned])).await
}

#[tokio::test]
async fn a_full_disk_is_reported_and_loses_neither_facts_nor_observations() {
    let state = state().await;
    store_much(&state, 1).await.unwrap();
    let limit = |pages: i64| {
        let sql = format!("PRAGMA max_page_count = {pages}");
        state.journal.store().inner.with(|c| c.query_row(&sql, [], |_| Ok(()))).unwrap();
    };
    limit(1);
    state.journal.emit(Event::FetchStarted);
    let error = store_much(&state, 2).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("free some space and run again"), "{error}");
    let store = state.journal.store();
    assert!(store.items().get(key(1)).await.unwrap().is_some());
    assert!(store.items().get(key(2)).await.unwrap().is_none(), "all of it or nothing");
    limit(1 << 30);
    store_much(&state, 2).await.unwrap();
    let events = store.events().in_run(state.run).await.unwrap();
    let fetches = events.iter().filter(|e| matches!(e.event, Event::FetchStarted)).count();
    assert_eq!(fetches, 1, "the observation was kept for the next transaction");
}

#[tokio::test]
async fn a_busy_database_is_reported_and_nothing_is_lost() {
    let state = state().await;
    let store = state.journal.store();
    store.inner.with(|c| c.busy_timeout(Duration::from_millis(20))).unwrap();
    let other = Connection::open(store.folder().join(DATABASE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store_much(&state, 1).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
    other.execute_batch("COMMIT").unwrap();
    store_much(&state, 1).await.unwrap();
    assert!(store.items().get(key(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_caller_that_stops_waiting_parts_nothing() {
    let state = state().await;
    let mut follower = state.journal.follow();
    state.journal.emit(Event::FetchStarted);
    // Polled once, then dropped: the transaction continues without its caller.
    let mut flush = Box::pin(state.journal.flush());
    let polled = std::future::poll_fn(|context| {
        std::task::Poll::Ready(flush.as_mut().poll(context).is_ready())
    });
    assert!(!polled.await);
    drop(flush);
    let view = state.journal.settled_view().await.unwrap();
    assert_eq!(view.step, crate::event::fold::Step::Fetching);
    let published = follower.recv().await.unwrap();
    assert!(matches!(published.event, Event::FetchStarted));
}

#[tokio::test]
async fn events_go_by_age_but_findings_and_the_newest_runs_stay() {
    let state = state().await;
    let store = state.journal.store();
    store_much(&state, 1).await.unwrap();
    let summary = RunSummary::default();
    state
        .journal
        .runs()
        .end(state.run, RunOutcome::Completed, summary, Digest::None)
        .await
        .unwrap();
    let month = Duration::from_secs(30 * 86_400);
    let clock = state.journal.clock();
    clock.advance_ms(365 * 86_400_000);
    let kept = store.prune(clock.now(), month).await.unwrap();
    assert_eq!(kept, Pruned::default(), "a clock that jumped must not empty the history");
    for _ in 0..60 {
        let run = RunId(Uuid::now_v7());
        clock.advance_ms(1000);
        let journal = Journal::open(store.clone(), clock.clone(), Some(run)).unwrap();
        journal.runs().begin(run, Trigger::Manual, 3).await.unwrap();
        journal.runs().end(run, RunOutcome::NothingNew, summary, Digest::None).await.unwrap();
    }
    let pruned = store.prune(clock.now(), month).await.unwrap();
    assert_eq!((pruned.events, pruned.folders), (3, 1), "the first run's");
    assert!(store.events().in_run(state.run).await.unwrap().is_empty());
    assert!(store.items().get(key(1)).await.unwrap().is_some());
    assert_eq!(store.prune(clock.now(), month).await.unwrap().events, 0);
}
