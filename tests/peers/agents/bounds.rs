//! Bounds that these CLIs do not have: they are the supervisor's.

use std::time::Duration;

use heartbeat::model::{FailureKind, Outcome, Stage};
use heartbeat::prompt::Rendered;
use heartbeat::settings::{AgentKind, Config};
use serde_json::json;
use support::messages_api::{Fault, MessagesApi, Reply};

use super::bench::{Bench, KEY, KINDS, answer, read, sent};

/// The provider failed; no item is to blame.
const OUTAGE: Outcome = Outcome::AgentError { why: FailureKind::ApiError };

fn question() -> Rendered {
    let schema = json!({
        "type": "object", "properties": { "verdicts": { "type": "array", "items": {} } },
        "required": ["verdicts"],
    });
    Rendered { system: "Judge.".into(), user: "These items.".into(), schema }
}

/// With a model of Codex's own catalogue, which would bring a tool that runs code; and with the list
/// of tools that Copilot must not get empty.
#[tokio::test(flavor = "multi_thread")]
async fn triage_has_no_tool() {
    for kind in KINDS {
        let api = MessagesApi::start(|_| answer(&json!({ "verdicts": [] })));
        let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
        let end = bench.perform(Stage::Triage, question(), None).await;
        assert_eq!(end.outcome, Outcome::Completed, "{kind:?} {end:?}");
        let requests = api.requests();
        assert_eq!(requests.len(), 1, "{kind:?}");
        let mut tools = requests[0].tools();
        // It asks a person, whom there is none: refused when it is called.
        tools.retain(|name| *name != "request_user_input");
        assert_eq!(tools, Vec::<&str>::new(), "{kind:?}");
        assert!(requests[0].bytes < 20_000, "{kind:?}: {} bytes", requests[0].bytes);
        assert!(!sent(&api).contains(KEY), "{kind:?}: the key is in the request");
    }
}

fn impatient(config: &mut Config) {
    config.timeouts.stall = Duration::from_secs(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_headers_for_ever_end_by_our_rule_and_are_the_providers_fault() {
    for fault in [Fault::Hang, Fault::HangAfterHeaders, Fault::SilentMidStream] {
        for kind in KINDS {
            let api = MessagesApi::start(move |_| Reply::Fault(fault));
            let Some(bench) = Bench::new(kind, &api.url(), impatient) else { continue };
            let end = bench.analyse().await;
            assert_eq!(end.outcome, OUTAGE, "{kind:?} {fault:?} {end:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_tool_calls_are_ended_by_our_limit() {
    for kind in KINDS {
        let api = MessagesApi::start(move |_| Reply::Tools(vec![read(kind, "src/total.rs")]));
        let few = |config: &mut Config| config.analyze.max_turns = 3;
        let Some(bench) = Bench::new(kind, &api.url(), few) else { continue };
        let end = bench.analyse().await;
        let why = match kind {
            AgentKind::Codex => FailureKind::MaxToolCalls,
            _ => FailureKind::MaxTurns,
        };
        assert_eq!(end.outcome, Outcome::AgentError { why }, "{kind:?} {end:?}");
        // What was asked while the agent was being ended, and no more.
        assert!(api.requests().len() < 400, "{kind:?}: {} requests", api.requests().len());
        assert!(end.outcome.counts_at_worst(&end.usage) || end.usage.estimated, "{end:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_an_outage_and_ends() {
    for kind in KINDS {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let Some(bench) = Bench::new(kind, &url, |_| {}) else { continue };
        let end = bench.analyse().await;
        assert_eq!(end.outcome, OUTAGE, "{kind:?} {end:?}");
        assert!(!end.outcome.counts_at_worst(&end.usage), "{kind:?}: nothing was answered");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_provider_refuses_is_told_apart() {
    let limit = |why| Outcome::ProviderLimit { why };
    for (status, message, expected) in [
        (401, "Incorrect API key provided", limit(FailureKind::Authentication)),
        (429, "Rate limit reached", limit(FailureKind::RateLimit)),
        (404, "The model does not exist", Outcome::AgentError { why: FailureKind::ModelNotFound }),
        (500, "scripted", OUTAGE),
    ] {
        for kind in KINDS {
            // Copilot waits for a minute before it gives up on these.
            if kind == AgentKind::Copilot && matches!(status, 429 | 500) {
                continue;
            }
            let api = MessagesApi::start(move |_| Reply::status(status, message));
            let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
            let end = bench.analyse().await;
            assert_eq!(end.outcome, expected, "{kind:?} {status} {end:?}");
        }
    }
}
