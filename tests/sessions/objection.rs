//! A session whose answer claims what the code does not have is asked once more, and once only.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use heartbeat::analyze;
use heartbeat::app::selftest::Rig;
use heartbeat::config::DEFAULT_TOML;
use heartbeat::context::CommitCode;
use heartbeat::evidence::{self, Seen};
use heartbeat::model::{BoxFuture, RunId, SessionId, SessionRef, Stage, Usd};
use heartbeat::prompt::Rendered;
use heartbeat::session::{Examiner, Job, Sessions, StopHandle, SupervisedSessions};
use heartbeat::settings::{Config, Containment, Environment};
use heartbeat::simulate::sample;
use serde_json::Value;
use uuid::Uuid;

/// Checks like a run, on the sample code base.
#[derive(Debug)]
struct Checks {
    root: PathBuf,
    asked: AtomicUsize,
}

impl Examiner for Checks {
    fn objection(&self, answer: Value, read: Option<Vec<String>>) -> BoxFuture<'_, Option<String>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let seen = Seen { read, item: String::new() };
        let code = CommitCode::new(&self.root, None, None);
        let finding = analyze::check(&answer).unwrap();
        let question = evidence::question(&evidence::doubts(&finding, &code, &seen));
        Box::pin(async move { question })
    }
}

async fn play(max_cost: f64) -> (usize, heartbeat::model::SessionEnd) {
    let folder = tempfile::tempdir().unwrap();
    let heartbeat = Path::new(env!("CARGO_BIN_EXE_heartbeat"));
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/findings");
    let recording = data.join("invented_finding.jsonl").display().to_string();
    let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
    config.agent.read_paths = vec![data];
    config.analyze.max_cost = Usd::from_dollars(max_cost);
    let words = [heartbeat.to_str().unwrap(), "simulate", "agent", "--kind", "claude", "--play"];
    config.agent.command = words.into_iter().map(str::to_owned).chain([recording]).collect();
    let rig = Rig::new(heartbeat, folder.path(), Containment::Auto).unwrap();
    let environment = Environment::new([("PATH", "/usr/bin:/bin"), ("HOME", "/nonexistent")]);
    let (state, root) = (folder.path().join("state"), folder.path().join("repo"));
    std::fs::create_dir(&state).unwrap();
    sample::write_to(&root).unwrap();
    let checks = Arc::new(Checks { root: root.clone(), asked: AtomicUsize::new(0) });
    let sessions = SupervisedSessions::new(rig.supervisor, &Arc::new(config), &environment, &state);
    let (id, run) = (SessionId(Uuid::now_v7()), RunId(Uuid::now_v7()));
    let schema = serde_json::from_str(heartbeat::prompt::DEEP_SCHEMA).unwrap();
    let job = Job {
        session: SessionRef { id, run, stage: Stage::Deep, item: None, attempt: 1 },
        prompt: Rendered { system: "Analyse.".into(), user: "This item.".into(), schema },
        repository: Some(root),
        beside: Vec::new(),
        triage: None,
        analyze: None,
        attached: None,
        examiner: Some(Arc::clone(&checks) as Arc<dyn Examiner>),
    };
    let end = sessions.perform(job, StopHandle::new().signal()).await.unwrap();
    assert_eq!(end.survivors, 0, "{end:?}");
    (checks.asked.load(Ordering::SeqCst), end)
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_the_code_does_not_confirm_are_asked_about_once() {
    let (examined, end) = play(0.5).await;
    assert!(end.outcome.is_success(), "{end:?}");
    assert_eq!(examined, 1);
    // The transcript was played twice: the reads and the cost of both count.
    assert_eq!(end.usage.cost, Some(Usd::from_dollars(0.04)), "{end:?}");
    assert_eq!(end.usage.output_tokens, 880);
    let reads = end.files_read.clone().unwrap_or_default();
    assert_eq!(reads.len(), 2, "{reads:?}");
    assert_eq!(end.output.unwrap()["confidence"], "high");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_money_for_another_answer_nothing_is_asked() {
    let (examined, end) = play(0.03).await;
    assert_eq!((examined, end.usage.cost), (1, Some(Usd::from_dollars(0.02))), "{end:?}");
}
