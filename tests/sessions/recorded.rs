//! Recorded sessions of each kind, replayed by the simulator under the real supervisor: they end
//! with the recorded outcome, whatever their exit code is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use heartbeat::app::selftest::Rig;
use heartbeat::config::DEFAULT_TOML;
use heartbeat::model::{FailureKind, Outcome, RunId, SessionEnd, SessionId, SessionRef, Stage};
use heartbeat::prompt::Rendered;
use heartbeat::session::{Job, Sessions, StopHandle, SupervisedSessions};
use heartbeat::settings::{AgentKind, Config, Containment, Environment};
use serde_json::json;
use uuid::Uuid;

fn recordings(kind: AgentKind) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    match kind {
        AgentKind::Claude => data.join("transcripts"),
        kind => data.join("agent-transcripts").join(kind.into_str()),
    }
}

/// The prompt of the recorded sessions.
fn question() -> Rendered {
    let one = json!({
        "type": "object", "required": ["id", "severity"],
        "properties": { "id": { "type": "integer" }, "severity": { "type": "string" } },
    });
    let schema = json!({
        "type": "object", "required": ["items"],
        "properties": { "items": { "type": "array", "items": one } },
    });
    Rendered { system: "Judge.".into(), user: "These items.".into(), schema }
}

async fn play(kind: AgentKind, name: &str, more: &[&str]) -> SessionEnd {
    let folder = tempfile::tempdir().unwrap();
    let heartbeat = Path::new(env!("CARGO_BIN_EXE_heartbeat"));
    let file = recordings(kind).join(match kind {
        AgentKind::Claude => format!("{name}.jsonl"),
        _ => format!("{name}.ndjson"),
    });
    assert!(file.is_file(), "{}", file.display());
    let mut command: Vec<String> =
        [heartbeat.to_str().unwrap(), "simulate", "agent", "--kind", kind.into_str(), "--play"]
            .map(str::to_owned)
            .to_vec();
    command.push(file.display().to_string());
    command.extend(more.iter().map(|word| (*word).to_owned()));
    let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
    config.agent.kind = kind;
    config.agent.read_paths = vec![recordings(kind)];
    config.agent.command.clone_from(&command);
    config.codex.command.clone_from(&command);
    config.copilot.command = command;
    config.timeouts.stall = Duration::from_secs(2);
    config.timeouts.liveness = Duration::from_millis(500);
    let rig = Rig::new(heartbeat, folder.path(), Containment::Auto).unwrap();
    let own = [("PATH", "/usr/bin:/bin"), ("HOME", "/nonexistent")];
    let environment = Environment::new(own);
    let (config, state) = (Arc::new(config), folder.path().join("state"));
    std::fs::create_dir(&state).unwrap();
    let sessions = SupervisedSessions::new(rig.supervisor, &config, &environment, &state);
    let (id, run) = (SessionId(Uuid::now_v7()), RunId(Uuid::now_v7()));
    let job = Job {
        session: SessionRef { id, run, stage: Stage::Triage, item: None, attempt: 1 },
        prompt: question(),
        repository: None,
        beside: Vec::new(),
        triage: None,
        analyze: None,
        attached: None,
        examiner: None,
    };
    let end = sessions.perform(job, StopHandle::new().signal()).await.unwrap();
    assert_eq!(end.survivors, 0, "{kind:?} {name} {end:?}");
    end
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_sessions_end_as_they_ended() {
    use AgentKind::{Codex, Copilot};
    let error = |why| Outcome::AgentError { why };
    let limit = |why| Outcome::ProviderLimit { why };
    for (kind, name, expected) in [
        (Codex, "95_recommended_triage", Outcome::Completed),
        (Codex, "20_401", limit(FailureKind::Authentication)),
        (Codex, "21_429", limit(FailureKind::RateLimit)),
        (Codex, "24_500", error(FailureKind::ApiError)),
        (Codex, "26_404_model", error(FailureKind::ModelNotFound)),
        (Codex, "34_incomplete_max", error(FailureKind::MaxOutputTokens)),
        (Codex, "39_bad_flag", Outcome::SpawnFailed { why: FailureKind::CommandLine }),
        (Codex, "60_term_pid", Outcome::Signal { signal: 15 }),
        // Never any headers: the provider's fault.
        (Codex, "82_hang_idle5", error(FailureKind::ApiError)),
        (Copilot, "95_recommended_triage", Outcome::Completed),
        (Copilot, "20_401", limit(FailureKind::Authentication)),
        (Copilot, "21_429", limit(FailureKind::RateLimit)),
        (Copilot, "24_500", error(FailureKind::ApiError)),
        (Copilot, "38d_no_auth_online", limit(FailureKind::Authentication)),
        // Exit code 0.
        (Copilot, "60_term_pid", error(FailureKind::Interrupted)),
        (Copilot, "63_kill_pid", Outcome::Signal { signal: 9 }),
        (Copilot, "80_hang", error(FailureKind::ApiError)),
    ] {
        let end = play(kind, name, &[]).await;
        assert_eq!(end.outcome, expected, "{kind:?} {name} {end:?}");
        if expected.is_success() {
            assert!(end.output.unwrap()["items"].is_array(), "{kind:?} {name}");
            assert!(end.usage.input_tokens > 0, "{kind:?} {name}: {:?}", end.usage);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_takes_the_place_of_the_recorded_one_and_a_missing_file_is_reported() {
    // A complete answer is paid for: it counts however the program ends after it.
    let kept = play(AgentKind::Codex, "95_recommended_triage", &["--exit", "3"]).await;
    assert!(kept.outcome.is_success() && kept.output.is_some(), "{kept:?}");
    let recording = recordings(AgentKind::Codex).join("95_recommended_triage.ndjson");
    let failed = std::process::Command::new(env!("CARGO_BIN_EXE_heartbeat"))
        .args(["simulate", "agent", "--kind", "codex", "--exit", "3", "--play"])
        .args([recording.as_os_str(), "exec".as_ref(), "-".as_ref()])
        .stdin(std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap())
        .output()
        .unwrap();
    assert!(!failed.status.success(), "{failed:?}");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_heartbeat"))
        .args(["simulate", "agent", "--play", "/no/such/recording.ndjson", "-p"])
        .stdin(std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/no/such/recording.ndjson"), "{said}");
}
