//! One whole run of the real binary: simulated tracker, real agent CLI, loopback Messages API.
//!
//! Needs the CLI at `$HEARTBEAT_REAL_CLAUDE`; says so and passes when it is not there.

#![expect(clippy::unwrap_used, reason = "a test helper that fails is a failed test")]

#[path = "support/messages_api.rs"]
#[expect(dead_code, reason = "shared with tests that use the rest")]
mod messages_api;
#[path = "support/real_cli.rs"]
#[expect(dead_code, reason = "shared with tests that start the CLI themselves")]
mod real_cli;

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use heartbeat::simulate::ado::{PROJECT, Simulator, SimulatorOptions};
use messages_api::{MessagesApi, Reply, Request};
use real_cli::installed;
use serde_json::{Value, json};

/// How many items triage sends on.
const DEEP: usize = 5;

/// The ids that a triage prompt asks about.
fn asked_about(request: &Request) -> Vec<i64> {
    let prompt = request.user_texts().concat();
    let parts = prompt.split(" item=\"").skip(1);
    parts.filter_map(|part| part.split('"').next()?.parse().ok()).collect()
}

fn is_triage(request: &Request) -> bool {
    request.tools() == ["StructuredOutput"]
}

fn verdicts(ids: &[i64]) -> Value {
    let entry = |(index, id): (usize, &i64)| {
        json!({
            "id": id, "complexity": "moderate", "needs_deep_analysis": index < DEEP,
            "modules": [], "reason": format!("Item {id} was judged by the script."), "related": [],
        })
    };
    json!({ "verdicts": ids.iter().enumerate().map(entry).collect::<Vec<_>>() })
}

/// Reads one file, then answers.
fn deep_reply(request: &Request) -> Reply {
    let has_read = request.body["messages"].to_string().contains("tool_result");
    match has_read {
        false => Reply::Tools(vec![("Read", json!({ "file_path": "src/total.rs" }))]),
        true => Reply::structured(json!({
            "summary": "The total is rounded twice.", "likely_causes": ["Rounding per line."],
            "files": [{ "path": "src/total.rs", "reason": "sums up" },
                      { "path": "src/invented.rs", "reason": "does not exist" }],
            "suggested_change": "Round once.", "risk": "low", "effort": "small",
            "confidence": "high", "open_questions": [],
        })),
    }
}

fn write_config(folder: &Path, simulator: &Simulator, claude: &Path, auth: &str) {
    let repository = folder.join("repository");
    std::fs::create_dir_all(repository.join("src")).unwrap();
    std::fs::write(repository.join("src/total.rs"), "pub fn total() -> u64 { 0 }\n").unwrap();
    let config = format!(
        "[source]\nbase_url = {:?}\nproject = {PROJECT:?}\ntoken_env = \"TRACKER_TOKEN\"\n\
         [repository]\npath = {:?}\n\
         [agent]\ncommand = [{:?}]\npass_env = [\"ANTHROPIC_BASE_URL\"]\nmax_retries = 0\n{auth}\n\
         [limits]\nmax_load_per_core = 1000.0\nmin_free_memory = \"1 MiB\"\n\
         [timeouts]\ninit = \"60s\"\n",
        simulator.base_url(),
        repository.display().to_string(),
        claude.display().to_string(),
    );
    std::fs::write(folder.join("heartbeat.toml"), config).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the test is heartbeat's caller")]
async fn once(folder: &Path, api: &MessagesApi) -> (Option<i32>, Value, String) {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_heartbeat"))
        .args(["--once", "--json", "--config"])
        .arg(folder.join("heartbeat.toml"))
        .arg("--state-dir")
        .arg(folder.join("state"))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", folder)
        .env("TRACKER_TOKEN", "of-the-tracker")
        .env("ANTHROPIC_API_KEY", "sk-ant-of-the-agent")
        .env("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-of-the-agent")
        .env("ANTHROPIC_BASE_URL", api.url())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), report, stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_run_on_the_real_agent() {
    let Some(claude) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions {
        token: Some("of-the-tracker".to_owned()),
        ..SimulatorOptions::default()
    };
    let simulator = Simulator::start(options).await.unwrap();
    write_config(folder.path(), &simulator, &claude, "");
    let triages = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&triages);
    let api = MessagesApi::start(move |request| match is_triage(request) {
        true => {
            counted.fetch_add(1, Ordering::SeqCst);
            Reply::structured(verdicts(&asked_about(request)))
        }
        false => deep_reply(request),
    });

    let (code, report, stderr) = once(folder.path(), &api).await;
    assert_eq!(code, Some(0), "{report:#}\n{stderr}");
    assert_eq!(triages.load(Ordering::SeqCst), 1, "all items in one request");
    let summary = &report["summary"];
    assert!(summary["triaged"].as_u64().unwrap() >= 12, "{report:#}");
    assert_eq!(summary["analysed"], DEEP, "{report:#}");
    assert_eq!(summary["sessions"], DEEP + 1);
    assert_eq!(summary["failed_sessions"], 0);
    assert!(summary["cost"].as_f64().unwrap() > 0.0);
    assert!(api.most_in_flight() <= 3, "{} at once", api.most_in_flight());
    // Two requests for each analysis and one for triage.
    assert_eq!(api.requests().len(), 2 * DEEP + 1);
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), DEEP);
    let text = report["findings"].to_string();
    assert!(text.contains("\"exists\":false") && text.contains("\"exists\":true"), "{text}");
    assert_eq!(holders(&api.url()), Vec::<String>::new(), "something stayed alive");
    let left = std::fs::read_dir(folder.path().join("state/scratch")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "private folders are removed");
    for request in api.requests() {
        assert!(!request.body.to_string().contains("of-the-tracker"));
    }

    // Nothing changed, so nothing is asked.
    let before = api.requests().len();
    let (code, report, stderr) = once(folder.path(), &api).await;
    assert_eq!(code, Some(0), "{report:#}\n{stderr}");
    assert_eq!(api.requests().len(), before);
    simulator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reached_plan_limit_suspends_the_work_without_costing_attempts() {
    let Some(claude) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let login = "auth = \"login\"\ncredential_env = \"CLAUDE_CODE_OAUTH_TOKEN\"";
    write_config(folder.path(), &simulator, &claude, login);
    let api = MessagesApi::start(|_| Reply::Status {
        status: 429,
        message: "limit",
        headers: [
            ("anthropic-ratelimit-unified-status", "rejected"),
            ("anthropic-ratelimit-unified-reset", "1999999999"),
            ("retry-after", "7200"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .to_vec(),
    });
    let (_, report, stderr) = once(folder.path(), &api).await;
    assert_eq!(attempts(&report), [0], "{report:#}\n{stderr}");
    assert_eq!(api.requests().len(), 1);

    let (code, report, stderr) = once(folder.path(), &api).await;
    assert_eq!(code, Some(75), "{report:#}\n{stderr}");
    assert_eq!(attempts(&report), [0], "no item pays for it");
    assert_eq!(report["summary"]["sessions"], 0);
    assert_eq!(api.requests().len(), 1, "nothing is asked before the reset");
    simulator.stop().await;
}

/// The different numbers of attempts that open items have used.
fn attempts(report: &Value) -> Vec<u64> {
    let open = report["open"].as_array().unwrap();
    let mut attempts: Vec<u64> = open.iter().filter_map(|item| item["attempts"].as_u64()).collect();
    attempts.sort_unstable();
    attempts.dedup();
    attempts
}

/// Processes that have the API's address in their environment.
fn holders(url: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let holds = |path: &std::path::PathBuf| {
        std::fs::read(path.join("environ"))
            .is_ok_and(|variables| String::from_utf8_lossy(&variables).contains(url))
    };
    entries.filter(holds).map(|path| path.display().to_string()).collect()
}
