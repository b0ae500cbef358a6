//! Complete runs with the other agents: sixteen items, one triage, three concurrent analyses, no
//! process left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use heartbeat::model::Usd;
use heartbeat::settings::AgentKind;
use support::answers::{finding, verdicts};
use support::messages_api::{Reply, Request};

use super::whole_run::keep;
use super::world::{World, asked_about, is_triage};
use crate::agents::bench::{answer, read};

const ITEMS: usize = 16;
const DEEP: usize = 3;

/// Reads one file, then answers.
fn deep_reply(kind: AgentKind, request: &Request) -> Reply {
    let words = request.body.to_string();
    let has_read = ["tool_result", "function_call_output", "\"role\":\"tool\""];
    let found = finding(&["src/total.rs", "src/invented.rs"]);
    match (has_read.iter().any(|sign| words.contains(sign)), kind) {
        (false, kind) => Reply::Tools(vec![read(kind, "src/total.rs")]),
        (true, AgentKind::Claude) => Reply::structured(found),
        (true, _) => answer(&found),
    }
}

async fn run_of(kinds: [AgentKind; 2]) {
    let triages = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&triages);
    let script = move |request: &Request| match is_triage(request) {
        true => {
            counted.fetch_add(1, Ordering::SeqCst);
            answer(&verdicts(asked_about(request), DEEP))
        }
        false => deep_reply(kinds[1], request),
    };
    let Some(world) = World::of_kinds(kinds, script).await else { return };
    keep(&world, ITEMS).await;
    let said = world.once().await;
    let (report, summary) = (&said.json, &said.json["summary"]);
    assert_eq!(said.code, Some(0), "{kinds:?} {report:#}\n{}", said.stderr);
    assert_eq!(triages.load(Ordering::SeqCst), 1, "{kinds:?}: all items in one request");
    assert_eq!(summary["triaged"], ITEMS, "{kinds:?} {report:#}");
    assert_eq!(summary["analysed"], DEEP, "{kinds:?} {report:#}");
    assert_eq!(
        (&summary["sessions"], &summary["failed_sessions"]),
        (&(DEEP + 1).into(), &0.into())
    );
    assert!(world.api.most_in_flight() <= DEEP);
    // Each finding names no evidence: its session is asked about it once more, with another look.
    assert_eq!(world.api.requests().len(), 4 * DEEP + 1, "{kinds:?}");
    assert_eq!(world.figure("SELECT count(*) FROM findings"), DEEP as i64);
    // The cost of the run is the sum of its sessions, and equals what is booked. heartbeat counts
    // the provider's own tokens, so nothing is estimated.
    let each =
        "SELECT sum(CAST(round(json_extract(usage, '$.cost') * 1e6) AS INTEGER)) FROM sessions";
    let millionths = |key: &str| Usd::from_dollars(summary[key].as_f64().unwrap()).micros();
    assert!(millionths("cost") > 0, "{summary:#}");
    assert_eq!(millionths("cost"), world.figure(each));
    assert_eq!(millionths("cost"), world.figure("SELECT sum(spent) FROM budget"));
    let estimated = "SELECT coalesce(sum(spent), 0) FROM budget WHERE estimated = 1";
    assert_eq!(millionths("cost_estimated"), world.figure(estimated));
    assert_eq!(millionths("cost_estimated"), 0, "{summary:#}");
    assert_eq!(world.processes(), Vec::<std::path::PathBuf>::new(), "something stayed alive");
    let left = std::fs::read_dir(world.state().join("scratch")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "private folders are removed");
    for request in world.api.requests() {
        let body = request.body.to_string();
        assert!(!body.contains("of-the-tracker") && !body.contains("key-of-the-provider"));
    }

    // Nothing changed, so no request is made.
    let before = world.api.requests().len();
    assert_eq!(world.once().await.code, Some(0));
    assert_eq!(world.api.requests().len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_run_with_codex() {
    run_of([AgentKind::Codex; 2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_run_with_copilot() {
    run_of([AgentKind::Copilot; 2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_run_with_copilot_for_triage_and_claude_for_analyses() {
    run_of([AgentKind::Copilot, AgentKind::Claude]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_each_kind_for_real() {
    for kind in [AgentKind::Codex, AgentKind::Copilot] {
        let Some(world) = World::of_kinds([kind; 2], |_| Reply::status(500, "unused")).await else {
            continue;
        };
        let said = world.run(&["doctor", "--json"]).await;
        let checks = said.json["checks"].as_array().unwrap().clone();
        let about = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap().clone();
        assert_eq!(about("agent")["status"], "ok", "{kind:?} {:#}", said.json);
        assert_eq!(about("agent login")["status"], "ok", "{kind:?}");
        let mut keyless = world.command(&["doctor", "--json"]);
        let output = keyless.env_remove("PROVIDER_KEY").output().await.unwrap();
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let login = said["checks"].as_array().unwrap().iter().find(|c| c["name"] == "agent login");
        assert_eq!(login.unwrap()["status"], "failed", "{kind:?} {said:#}");
        assert!(world.api.requests().is_empty(), "{kind:?}: doctor starts no session");
    }
}
