//! Limits that these CLIs do not have and the supervisor enforces.

use std::path::Path;
use std::time::Duration;

use heartbeat::model::{FailureKind, Outcome, Stage};
use heartbeat::prompt::Rendered;
use heartbeat::settings::{AgentKind, Config, CopilotProvider};
use serde_json::json;
use support::answers::finding;
use support::messages_api::{Fault, MessagesApi, Reply};

use super::bench::{Bench, KEY, KINDS, answer, read, sent};

/// The provider failed; no item caused it.
const OUTAGE: Outcome = Outcome::AgentError { why: FailureKind::ApiError };

fn question() -> Rendered {
    let schema = json!({
        "type": "object", "properties": { "verdicts": { "type": "array", "items": {} } },
        "required": ["verdicts"],
    });
    Rendered { system: "Judge.".into(), user: "These items.".into(), schema }
}

/// With a model of Codex's own catalogue, which would add a tool that runs code; and with the list
/// of tools that must not be empty for Copilot.
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
        // It asks a user; without one it is refused when called.
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
        let why = FailureKind::MaxTurns;
        assert_eq!(end.outcome, Outcome::AgentError { why }, "{kind:?} {end:?}");
        assert_eq!(api.requests().len(), 3, "{kind:?}: the gateway counts for every agent");
        assert!(!end.usage.estimated && !end.outcome.counts_at_worst(&end.usage), "{end:?}");
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
async fn refusals_of_the_provider_are_distinguished() {
    let limit = |why| Outcome::ProviderLimit { why };
    for (status, message, expected) in [
        (401, "Incorrect API key provided", limit(FailureKind::Authentication)),
        (429, "Rate limit reached", limit(FailureKind::RateLimit)),
        (404, "The model does not exist", Outcome::AgentError { why: FailureKind::ModelNotFound }),
        (500, "scripted", OUTAGE),
    ] {
        for kind in KINDS {
            let api = MessagesApi::start(move |_| Reply::status(status, message));
            let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
            let end = bench.analyse().await;
            assert_eq!(end.outcome, expected, "{kind:?} {status} {end:?}");
            assert!(!end.outcome.counts_at_worst(&end.usage), "{kind:?} {status}: no answer");
        }
    }
}

/// As Azure OpenAI is addressed: its path, its version, its key header.
#[tokio::test(flavor = "multi_thread")]
async fn azure_openai_is_asked_at_its_own_address() {
    for kind in KINDS {
        let api = MessagesApi::start(move |_| answer(&finding(&["src/total.rs"])));
        let url = api.url();
        let azure = |config: &mut Config| {
            config.codex.base_url = format!("{url}/openai");
            config.codex.api_version = "2025-04-01-preview".into();
            config.codex.credential_header = "api-key".into();
            config.copilot.provider = CopilotProvider::Azure;
            config.copilot.base_url.clone_from(&url);
        };
        let Some(bench) = Bench::new(kind, &url, azure) else { continue };
        let end = bench.analyse().await;
        assert_eq!(end.outcome, Outcome::Completed, "{kind:?} {end:?}");
        let requests = api.requests();
        let (path, query) = match kind {
            AgentKind::Codex => ("/openai/responses", "api-version=2025-04-01-preview"),
            _ => ("/openai/v1/chat/completions", ""),
        };
        assert_eq!((requests[0].path.as_str(), requests[0].query.as_str()), (path, query));
        assert_eq!(requests[0].header("api-key"), Some(KEY), "{kind:?}");
        assert_eq!(requests[0].header("authorization"), None, "{kind:?}");
    }
}

/// Codex without user namespaces, so that its sandbox cannot start; `says` is its output when the
/// sandbox is tried.
fn without_namespaces(folder: &Path, codex: &str, says: &str) -> String {
    let script = folder.join("codex");
    // The kernel nests user namespaces 32 deep: in the innermost there is none to be had.
    let text = format!(
        "#!/bin/sh\n[ \"$1\" != sandbox ] || {{ {says}; }}\n\
         ! unshare --user --map-current-user true 2>/dev/null || \
         exec unshare --user --map-current-user \"$0\" \"$@\"\nexec {codex} \"$@\"\n"
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    script.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_without_a_working_sandbox_does_not_start_and_asks_nobody() {
    let api = MessagesApi::start(|_| Reply::Tools(vec![read(AgentKind::Codex, "src/total.rs")]));
    let folder = tempfile::tempdir().unwrap();
    let broken = |config: &mut Config| {
        let codex = config.codex.command[0].clone();
        let command = without_namespaces(folder.path(), &codex, "echo bwrap: no >&2; exit 1");
        config.codex.command = vec![command];
    };
    let Some(bench) = Bench::new(AgentKind::Codex, &api.url(), broken) else { return };
    for _ in 0..2 {
        let end = bench.analyse().await;
        assert_eq!(end.outcome, Outcome::SpawnFailed { why: FailureKind::SandboxFailed });
        let said = end.stderr_tail.last_line(1_000);
        assert!(said.contains("user namespaces") && said.contains("bwrap: no"), "{said}");
    }
    assert_eq!((api.requests().len(), bench.spawned()), (0, 0), "nothing was paid for");
}

/// The trial succeeds, and then every command fails: the model keeps calling tools.
#[tokio::test(flavor = "multi_thread")]
async fn codex_whose_commands_all_fail_is_ended_by_our_limit() {
    let api = MessagesApi::start(|_| Reply::Tools(vec![read(AgentKind::Codex, "src/total.rs")]));
    let folder = tempfile::tempdir().unwrap();
    let broken = |config: &mut Config| {
        let codex = config.codex.command[0].clone();
        let command = without_namespaces(folder.path(), &codex, "echo sandboxed; exit 0");
        config.codex.command = vec![command];
        // What a script starts elsewhere is named, or its session does not find it.
        config.agent.read_paths =
            std::path::Path::new(&codex).ancestors().skip(2).take(1).map(Into::into).collect();
        config.analyze.max_turns = 3;
    };
    let Some(bench) = Bench::new(AgentKind::Codex, &api.url(), broken) else { return };
    let end = bench.analyse().await;
    let why = FailureKind::MaxTurns;
    assert_eq!(end.outcome, Outcome::AgentError { why }, "{end:?}");
    assert!(!sent(&api).contains("MARK-OF-THE-CODE"), "the sandbox was to be broken");
    assert!(api.requests().len() < 400, "{} requests", api.requests().len());
}
