//! The simulated tracker, verified with a third-party client.

use std::path::PathBuf;

use heartbeat::simulate::ado::{Simulator, SimulatorOptions};
use serde_json::{Value, json};

const TOKEN: &str = "a-token-of-the-test";

/// The Python with the SDK that the test runner names, or `None`.
fn python() -> Option<PathBuf> {
    std::env::var_os("HEARTBEAT_TEST_PYTHON").map(PathBuf::from)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_from_pypi_gets_what_it_expects() {
    let Some(python) = python() else {
        eprintln!("SKIPPED: HEARTBEAT_TEST_PYTHON is not set, so the azure-devops SDK was not run");
        return;
    };
    let options = SimulatorOptions { token: Some(TOKEN.into()), ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.unwrap();
    let base_url = simulator.base_url();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/peers/sdk_proof.py");
    let run = move || {
        assert_cmd::Command::new(python)
            .arg(script)
            .args([base_url.as_str(), TOKEN])
            .timeout(std::time::Duration::from_secs(120))
            .output()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let got: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");

    let ids: Vec<i64> = got["ids"].as_array().unwrap().iter().filter_map(Value::as_i64).collect();
    assert_eq!(ids.len(), 12);
    assert_eq!(got["query_type"], "flat");
    assert_eq!(got["columns"], json!(["System.Id", "System.Title"]));
    let precision = got["without_precision"]["message"].as_str().unwrap();
    assert!(precision.contains("date precision"), "{precision}");
    let titles = got["titles"].as_array().unwrap();
    assert_eq!(titles.len(), 13);
    assert_eq!(titles[12], Value::Null, "an id that is not there is null");
    assert!(titles[..12].iter().all(|title| !title.as_str().unwrap().is_empty()));
    assert!(got["assigned"].as_array().unwrap().contains(&json!("Tomasz Wrona")));
    assert_eq!(got["missing"]["type"], "WorkItemUnauthorizedAccessException");
    assert!(got["too_many"]["message"].as_str().unwrap().contains("VS403474"));
    assert_eq!(got["listed"], json!([1, 1]));
    assert_eq!(got["comment"][0], "<b>from the SDK</b>");
    // Each comment and the patch change the revision; a dry run and a link do not.
    assert_eq!(got["revisions"], json!([1, 3, 4, 4, 4]));
    assert!(got["tags"].as_str().unwrap().ends_with("; seen-by-sdk"));
    assert_eq!(got["stale"]["type"], "TestPatchOperationFailedException");
    assert_eq!(got["relations"], 1);
    assert_eq!(got["created"], json!([1, "Task"]));
    assert_eq!(got["saved"], 12);
    assert_eq!(got["has_title_field"], true);

    // What the SDK wrote is there.
    assert_eq!(simulator.revision(ids[0]), Some(4));
    let comments = simulator.comments(ids[0]);
    assert!(comments.ends_with(&[
        "<b>from the SDK</b>".into(),
        "**again**".into(),
        "patched".into()
    ]));
    simulator.stop().await;
}
