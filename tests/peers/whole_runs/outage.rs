//! The provider is down, or refuses the key: the real CLI fails, no attempt is counted, and the
//! first run afterwards does all the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::world::{World, asked_about, attempts, is_triage};
use support::answers::{finding, verdicts};
use support::messages_api::{Fault, Reply, Request};

const DEEP: usize = 2;

fn is_probe(request: &Request) -> bool {
    request.user_texts().concat().contains("Does the connection work?")
}

fn well(request: &Request) -> Reply {
    match (is_probe(request), is_triage(request)) {
        (true, _) => Reply::structured(json!({ "ok": true })),
        (_, true) => Reply::structured(verdicts(asked_about(request), DEEP)),
        _ => Reply::structured(finding(&["src/total.rs"])),
    }
}

/// Nothing is counted, parked or skipped, and only reported costs are booked.
fn nobody_paid(world: &World) {
    for (sql, what) in [
        ("SELECT coalesce(sum(attempts), 0) FROM heartbeat_state", "attempts"),
        ("SELECT coalesce(sum(triage_failures), 0) FROM heartbeat_state", "failures of triage"),
        ("SELECT count(*) FROM heartbeat_state WHERE phase = 'parked'", "parked items"),
        ("SELECT count(*) FROM events WHERE event = 'item_waiting'", "items that wait"),
    ] {
        assert_eq!(world.figure(sql), 0, "{what}");
    }
    booked_is_reported(world);
}

fn booked_is_reported(world: &World) {
    let reported =
        "SELECT coalesce(sum(CAST(round(json_extract(usage, '$.cost') * 1e6) AS INTEGER)), 0)
                    FROM sessions";
    let booked = "SELECT coalesce(sum(spent), 0) FROM budget";
    assert_eq!(world.figure(booked), world.figure(reported));
}

fn all_done(world: &World) {
    let open = "SELECT count(*) FROM heartbeat_state WHERE phase NOT IN ('done', 'vanished')";
    assert_eq!(world.figure(open), 0);
    assert_eq!(world.figure("SELECT count(*) FROM findings"), DEEP as i64);
    assert_eq!(world.figure("SELECT sum(attempts) FROM heartbeat_state"), DEEP as i64);
    booked_is_reported(world);
    assert_eq!(world.processes(), Vec::<std::path::PathBuf>::new());
}

async fn replay(failing: fn(&Request) -> Option<Reply>) {
    replay_with("", failing).await;
}

async fn replay_with(more: &str, failing: fn(&Request) -> Option<Reply>) {
    let down = Arc::new(AtomicBool::new(true));
    let outage = Arc::clone(&down);
    let world = World::new(move |request| {
        let failure = outage.load(Ordering::SeqCst).then(|| failing(request)).flatten();
        failure.unwrap_or_else(|| well(request))
    });
    let Some(world) = world.await else { return };
    world.configure(more);
    for _ in 0..4 {
        let said = world.once().await;
        assert_eq!(attempts(&said.json), [0], "{:#}\n{}", said.json, said.stderr);
        nobody_paid(&world);
    }
    let status = world.status().await;
    assert_eq!(status["provider"]["kind"], "outage", "{status:#}");

    down.store(false, Ordering::SeqCst);
    let said = world.once().await;
    assert_eq!(said.code, Some(0), "{:#}\n{}", said.json, said.stderr);
    all_done(&world);
    assert!(world.status().await["provider"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_provider_counts_no_attempt_and_no_cost() {
    replay(|_| Some(Reply::status(529, "Overloaded"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_connections_count_no_attempt_and_no_cost() {
    replay(|_| Some(Reply::Fault(Fault::DropEarly))).await;
}

/// We end such sessions: by the stall limit, or by the hard limit.
const IMPATIENT: &str = "stall = \"3s\"\nliveness = \"1s\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_accepts_and_never_answers_counts_no_attempt_and_no_cost() {
    replay_with(IMPATIENT, |_| Some(Reply::Fault(Fault::Hang))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deep_model_that_falls_silent_counts_no_attempt_and_no_cost() {
    replay_with(IMPATIENT, |request| {
        (!is_triage(request)).then_some(Reply::Fault(Fault::HangAfterHeaders))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deep_model_that_is_down_counts_no_attempt_and_no_cost() {
    replay(|request| (!is_triage(request)).then(|| Reply::status(529, "Overloaded"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrected_key_is_used_at_once() {
    let world = World::new(|request| match request.header("x-api-key") {
        Some("sk-ant-corrected") => well(request),
        _ => Reply::status(401, "invalid x-api-key"),
    });
    let Some(world) = world.await else { return };
    let said = world.once().await;
    assert_eq!(said.code, Some(77), "{:#}\n{}", said.json, said.stderr);
    assert!(said.stderr.contains("ANTHROPIC_API_KEY"), "{}", said.stderr);
    nobody_paid(&world);
    let status = world.status().await;
    assert_eq!(status["provider"]["kind"], "credential", "{status:#}");
    let record = rusqlite::Connection::open(world.state().join("heartbeat.db"))
        .unwrap()
        .query_row("SELECT record FROM provider_record", [], |row| row.get::<_, String>(0))
        .unwrap();
    assert!(record.contains("refused_credential\":\"") && !record.contains("sk-ant"), "{record}");

    let mut command = world.command(&["--once", "--json"]);
    let output = command.env("ANTHROPIC_API_KEY", "sk-ant-corrected").output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    all_done(&world);
}
