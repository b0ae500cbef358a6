//! Evidence with each real agent: what is true is confirmed, what is not is asked about once, and
//! what was read is what the supervisor saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use heartbeat::settings::AgentKind;
use serde_json::{Value, json};
use support::answers::{finding, verdicts};
use support::git;
use support::messages_api::{Reply, Request};

use super::whole_run::keep;
use super::world::{World, asked_about, is_triage};
use crate::agents::bench::{answer, read};

/// Read in part, and from another folder where an agent has one to go to.
const PART: &str = "src/deep/part.rs";
const TRUE: &str = "pub fn total() -> u64 { 0 }";
/// A question about claims that failed begins with it.
const QUESTION: &str = "could not be confirmed";

fn cited(quotes: &[(u32, &str)]) -> Value {
    let mut found = finding(&["src/total.rs", PART, "src/unread.rs"]);
    let entry = |(line, quote): &(u32, &str)| {
        json!({ "path": "src/total.rs", "line": line, "last_line": line, "quote": quote,
                "shows": "It is always zero." })
    };
    found["evidence"] = quotes.iter().map(entry).collect();
    found["likely_causes"] = json!(["`total` is always zero [1]."]);
    found
}

/// A file as a whole, lines of one in a folder below, and what is not there or no file. A search over
/// folders shows lines of files, but does not count as reading them.
fn reads(kind: AgentKind) -> Vec<(&'static str, Value)> {
    let mut all = vec![read(kind, "src/total.rs")];
    all.extend(match kind {
        AgentKind::Claude => vec![
            ("Read", json!({ "file_path": PART, "offset": 2, "limit": 1 })),
            read(kind, "src/missing.rs"),
        ],
        AgentKind::Copilot => vec![
            ("view", json!({ "path": PART, "view_range": [2, 2] })),
            read(kind, "src/missing.rs"),
            read(kind, "src"),
        ],
        AgentKind::Codex => [
            "cd src/deep && sed -n '2,2p' part.rs | head -n 1",
            "cat src/missing.rs",
            "grep -rn unread src",
            "ls src/unread.rs",
        ]
        .map(|command| ("exec_command", json!({ "cmd": command })))
        .into(),
    });
    all
}

/// Reads files, cites one with an invented quote beside, and leaves that out when asked.
fn deep_reply(kind: AgentKind, questions: &AtomicUsize, request: &Request) -> Reply {
    let words = request.body.to_string();
    let signs = ["tool_result", "function_call_output", "\"role\":\"tool\""];
    if !signs.iter().any(|sign| words.contains(sign)) {
        return Reply::Tools(reads(kind));
    }
    let found = match words.contains(QUESTION) {
        true => {
            questions.fetch_add(1, Ordering::SeqCst);
            cited(&[(1, TRUE)])
        }
        false => cited(&[(1, TRUE), (1, "pub fn frobnicate_ledger() -> u64 { 1 }")]),
    };
    match kind {
        AgentKind::Claude => Reply::structured(found),
        _ => answer(&found),
    }
}

async fn evidence_of(kind: AgentKind) {
    let questions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&questions);
    let script = move |request: &Request| match (is_triage(request), kind) {
        (true, AgentKind::Claude) => Reply::structured(verdicts(asked_about(request), 1)),
        (true, _) => answer(&verdicts(asked_about(request), 1)),
        (false, kind) => deep_reply(kind, &counted, request),
    };
    let world = match kind {
        AgentKind::Claude => World::new(script).await,
        kind => World::of_kinds([kind; 2], script).await,
    };
    let Some(world) = world else { return };
    std::fs::write(world.code().join("src/unread.rs"), "pub fn unread() {}\n").unwrap();
    std::fs::create_dir(world.code().join("src/deep")).unwrap();
    std::fs::write(world.code().join(PART), "// A part.\npub fn part() {}\n").unwrap();
    git(&world.code(), &["init", "-q"]);
    git(&world.code(), &["add", "-A"]);
    git(&world.code(), &["commit", "-qm", "all"]);
    keep(&world, 3).await;
    let said = world.once().await;
    assert_eq!(said.code, Some(0), "{kind:?} {:#}\n{}", said.json, said.stderr);
    assert_eq!(said.json["summary"]["analysed"], 1, "{kind:?} {:#}", said.json);
    let found = &said.json["findings"][0]["finding"];
    let evidence = found["evidence"].as_array().unwrap();
    assert_eq!(evidence.len(), 1, "{kind:?} {found:#}");
    assert!(evidence[0]["standing"].to_string().contains("confirmed"), "{kind:?} {found:#}");
    assert_eq!(found["proof"]["doubts"], Value::Null, "{kind:?} {found:#}");
    assert_eq!(found["likely_causes"].as_array().unwrap().len(), 1, "{kind:?} {found:#}");
    let read: Vec<(&str, &Value)> = found["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), &file["read"]))
        .collect();
    assert_eq!(
        read,
        [("src/total.rs", &json!(true)), (PART, &json!(true)), ("src/unread.rs", &json!(false))],
        "{kind:?}: what the agent read, whatever it names"
    );
    assert_eq!(questions.load(Ordering::SeqCst), 1, "{kind:?}: asked once");
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_and_what_was_read_with_claude() {
    evidence_of(AgentKind::Claude).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_and_what_was_read_with_codex() {
    evidence_of(AgentKind::Codex).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_and_what_was_read_with_copilot() {
    evidence_of(AgentKind::Copilot).await;
}
