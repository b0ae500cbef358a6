//! The pages of a run and a session, figures, reports, and bulk actions.

use heartbeat::event::{Decision, Event, Reason, RunOutcome, RunSummary, Sink as _, Trigger};
use heartbeat::model::{ItemId, ItemKey, RunId, SessionId};
use heartbeat::store::{DATABASE, Digest, Journal};
use support::web::{Served, serve};

async fn post(served: &Served, path: &str, body: &str) -> (u16, serde_json::Value) {
    let more = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let answer = served.ask("POST", path, &more).await;
    (answer.status, answer.json())
}

fn sql(served: &Served, text: &str) {
    let file = served.folder.path().join("state").join(DATABASE);
    rusqlite::Connection::open(file).unwrap().execute_batch(text).unwrap();
}

/// A run that refused to work, as in its journal.
async fn refused_run(served: &Served) -> RunId {
    let run = RunId(uuid::Uuid::now_v7());
    let clock = heartbeat::clock::Clock::system();
    let journal = Journal::open(served.journal.store().clone(), clock, Some(run)).unwrap();
    journal.runs().begin(run, Trigger::Schedule, 3).await.unwrap();
    journal.emit(Event::ItemDecided {
        item: ItemKey::new("ado", ItemId(7)),
        rev: 1,
        title: "Cart <b>is</b> empty".into(),
        decision: Decision::New,
        reason: Reason::FirstSeen,
    });
    journal.emit(Event::RunFailed { message: "327 items exist: say what to do".into() });
    let summary = RunSummary::default();
    journal.runs().end(run, RunOutcome::NotNow, summary, Digest::None).await.unwrap();
    journal.flush().await.unwrap();
    run
}

#[tokio::test]
async fn the_page_of_a_run_has_its_stages_with_reasons_its_items_and_its_log() {
    let served = serve(None).await;
    let run = refused_run(&served).await;
    let page = served.get(&format!("/api/runs/{run}")).await.json();
    assert_eq!(page["run"]["outcome"], "not_now");
    let stages = &page["run"]["stages"];
    assert_eq!(stages["fetch"]["state"], "failed", "{page}");
    assert_eq!(stages["fetch"]["why"], "327 items exist: say what to do");
    for stage in ["triage", "analyse"] {
        assert_eq!(stages[stage]["state"], "skipped", "{page}");
        assert!(stages[stage]["why"].is_string(), "{stage}: {page}");
    }
    assert_eq!(page["items"]["total"], 1);
    assert_eq!(page["items"]["listed"][0]["title"], "Cart <b>is</b> empty");
    let log = page["lines"].as_array().unwrap();
    assert!(log.iter().any(|line| line["line"].as_str().unwrap().contains("327 items")), "{log:?}");
    let by_prefix = served.get(&format!("/api/runs/{}", &run.to_string()[..18])).await;
    assert_eq!(by_prefix.json()["run"]["run"], run.to_string());
    for unknown in ["nothing", "%25", "f"] {
        assert_eq!(served.get(&format!("/api/runs/{unknown}")).await.status, 404, "{unknown}");
    }
}

#[tokio::test]
async fn the_page_of_a_session_has_its_life_and_an_unknown_one_none() {
    let served = serve(None).await;
    let run = refused_run(&served).await;
    let session = SessionId(uuid::Uuid::now_v7());
    sql(
        &served,
        &format!(
            "INSERT INTO sessions (session, run, stage, item, attempt, tier, keeper_pid, started_at)
             VALUES ('{session}', '{run}', 'deep', 'ado/7', 2, 'pidns', 1, 0)"
        ),
    );
    let clock = heartbeat::clock::Clock::system();
    let journal = Journal::open(served.journal.store().clone(), clock, Some(run)).unwrap();
    journal.emit(Event::SessionSpawned { session, pid: 42, host: None });
    for what in ["tool_use", "tool_result", "tool_use"] {
        journal.emit(Event::SessionProgressed { session, what: what.into() });
    }
    let why = None;
    journal.emit(Event::SessionStopping { session, reason: "stalled".into(), why });
    journal.flush().await.unwrap();
    let page = served.get(&format!("/api/sessions/{session}")).await.json();
    assert_eq!((&page["session"]["attempt"], &page["life"]["pid"]), (&2.into(), &42.into()));
    assert_eq!(page["life"]["steps"]["tool_use"], 2);
    assert_eq!(page["life"]["changes"][0]["verdict"], "stopping");
    let other = SessionId(uuid::Uuid::now_v7());
    assert_eq!(served.get(&format!("/api/sessions/{other}")).await.status, 404);
    assert_eq!(served.get("/api/sessions/x").await.status, 400);
}

#[tokio::test]
async fn many_items_are_requeued_only_if_they_are_as_many_as_was_agreed_to() {
    let served = serve(None).await;
    sql(
        &served,
        "INSERT INTO heartbeat_state (key, item_id, title, item_type, url, revision, last_changed,
             fingerprint, phase, reason, first_seen, last_seen) VALUES
         ('ado/1', 1, 'A', 'Bug', '', 1, 10, '', 'parked', 'attempts_exhausted', 0, 0),
         ('ado/2', 2, 'B', 'Bug', '', 1, 20, '', 'parked', 'stopped_by_operator', 0, 0),
         ('ado/3', 3, 'C', 'Bug', '', 1, 30, '', 'pending', 'load', 0, 0);",
    );
    let retry = async |body: &str| post(&served, "/api/retry", body).await;
    let (status, why) = retry(r#"{"state":"parked","count":1}"#).await;
    assert_eq!(status, 409);
    assert!(why["error"]["message"].as_str().unwrap().contains("2 items match now"), "{why}");
    for refused in [r#"{"state":"queued","count":1}"#, r#"{"count":3}"#, "", r#"{"state":"x"}"#] {
        assert_eq!(retry(refused).await.0, 400, "{refused}");
    }
    assert!(served.hands.0.lock().unwrap().is_empty(), "nothing was done");
    let (status, done) = retry(r#"{"state":"parked","count":2}"#).await;
    assert_eq!((status, &done["queued"]), (200, &2.into()));
    let one = r#"{"state":"parked","reason":"attempts_exhausted","count":1}"#;
    assert_eq!(retry(one).await.0, 200);
    let hands = served.hands.0.lock().unwrap().clone();
    assert_eq!(hands, ["retry ado/2 ado/1", "retry ado/1"]);
}

#[tokio::test]
async fn the_schedule_is_paused_with_a_note_and_shown_as_paused() {
    let served = serve(None).await;
    assert_eq!(post(&served, "/api/pause", r#"{"note":" release "}"#).await.0, 200);
    assert_eq!(post(&served, "/api/pause", "").await.0, 200);
    assert_eq!(post(&served, "/api/pause", "[").await.0, 400);
    assert_eq!(post(&served, "/api/resume", "").await.0, 200);
    let hands = served.hands.0.lock().unwrap().clone();
    assert_eq!(hands, ["pause release", "pause ", "resume"]);
    assert!(served.get("/api/state").await.json()["schedule"]["next_run"].is_string());
    served.journal.ticks().pause("release".into()).await.unwrap();
    let shown = async {
        loop {
            let state = served.get("/api/state").await.json();
            if state["schedule"]["paused"]["note"] == "release" {
                return state;
            }
        }
    };
    let state = tokio::time::timeout(std::time::Duration::from_secs(30), shown).await.unwrap();
    assert!(state["schedule"]["next_run"].is_null(), "no run is promised");
    let metrics = served.get("/metrics").await.body;
    assert!(metrics.contains("heartbeat_schedule_paused 1\n"), "{metrics}");
}

#[tokio::test]
async fn a_report_comes_as_a_file_of_the_chosen_form() {
    let served = serve(None).await;
    let run = refused_run(&served).await;
    for (query, media_type, name) in [
        (format!("?run={run}"), "text/html; charset=utf-8", ".html\""),
        (format!("?run={run}&format=md"), "text/markdown; charset=utf-8", ".md\""),
        ("?days=30&format=json".into(), "application/json", ".json\""),
    ] {
        let answer = served.get(&format!("/api/report{query}")).await;
        assert_eq!((answer.status, &*answer.body), (200, "the report"), "{query}");
        assert_eq!(answer.header("content-type"), Some(media_type));
        let file = answer.header("content-disposition").unwrap();
        assert!(
            file.starts_with("attachment; filename=\"heartbeat-") && file.ends_with(name),
            "{file}"
        );
    }
    assert_eq!(served.get("/api/report?run=nothing").await.status, 404);
    assert_eq!(served.get("/api/report?format=exe").await.status, 400);
    let hands = served.hands.0.lock().unwrap().clone();
    assert!(hands[2].starts_with("report Period") && hands.len() == 3, "{hands:?}");
}

#[tokio::test]
async fn money_and_findings_are_summed_by_day() {
    let served = serve(None).await;
    let now = jiff::Timestamp::now();
    let (ms, day) = (now.as_millisecond(), now.strftime("%F").to_string());
    sql(
        &served,
        &format!(
            "INSERT INTO budget (session, run, stage, day, reserved, spent) VALUES
             ('a', 'r', 'triage', '{day}', 0, 20000), ('b', 'r', 'deep', '{day}', 0, 310000),
             ('c', 'r', 'deep', '{day}', 0, 90000), ('d', 'r', 'deep', '2001-01-01', 0, 90000);
             INSERT INTO findings (key, revision, fingerprint, session, run, created_at, finding)
             VALUES ('ado/1', 1, '', 'b', 'r', {ms}, '{{}}'), ('ado/2', 1, '', 'c', 'r', 0, '{{}}');"
        ),
    );
    let figures = served.get("/api/figures").await.json();
    assert_eq!(figures["days"].as_array().unwrap().len(), 1, "nothing older: {figures}");
    let today = &figures["days"][0];
    assert_eq!((&today["findings"], &today["sessions"]), (&1.into(), &3.into()));
    assert!((today["deep"].as_f64().unwrap() - 0.4).abs() < 1e-9, "{today}");
    assert!((today["triage"].as_f64().unwrap() - 0.02).abs() < 1e-9, "{today}");
}
