//! The simulated GitHub, verified with two third-party clients.

use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use ring::signature::{KeyPair as _, RsaKeyPair};
use rustls::pki_types::PrivatePkcs1KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use simulators::github::{LIBRARY, REPOSITORY, Simulator, SimulatorOptions};

const TOKEN: &str = "a-token-of-the-test";

fn in_tests(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)
}

/// A backlog with a deleted issue and a renamed repository.
async fn simulator() -> Simulator {
    let key = PrivatePkcs1KeyDer::from_pem_file(in_tests("data/github/app_key.pem")).unwrap();
    let key = RsaKeyPair::from_der(key.secret_pkcs1_der()).unwrap();
    let public = key.public_key().as_ref().to_vec();
    let app = Some(("Iv1.test".to_owned(), public, SignedDuration::from_hours(1)));
    let options =
        SimulatorOptions { token: Some(TOKEN.into()), app, ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.unwrap();
    simulator.delete(REPOSITORY, 2);
    simulator.rename(LIBRARY, "parcel/old-name");
    simulator.rename("parcel/old-name", LIBRARY);
    simulator
}

/// Runs a client and returns the JSON object it printed.
async fn run(mut command: assert_cmd::Command) -> Value {
    let run = move || command.timeout(std::time::Duration::from_secs(120)).output();
    let output = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn pygithub_gets_what_it_expects() {
    let Some(python) = std::env::var_os("HEARTBEAT_TEST_PYGITHUB") else {
        eprintln!("SKIPPED: HEARTBEAT_TEST_PYGITHUB is not set, so PyGithub was not run");
        return;
    };
    let simulator = simulator().await;
    let mut command = assert_cmd::Command::new(python);
    command.arg(in_tests("peers/github_proof.py")).args([&simulator.base_url(), TOKEN]);
    let got = run(command).await;
    // Twenty-four issues minus the deleted one, and two pull requests.
    assert_eq!((&got["listed"], &got["issues"]), (&json!(25), &json!(23)));
    assert_eq!(got["in_order"], true);
    assert_eq!(got["user"], "heartbeat-bot");
    assert_eq!(got["comments"], json!(["from **PyGithub**"]));
    let labels = got["labels"].as_array().unwrap();
    assert_eq!(labels.iter().filter(|label| **label == "seen-by-pygithub").count(), 1);
    assert_eq!(got["closed"], "closed");
    assert_eq!(got["missing"][0], 404);
    assert_eq!(got["deleted"], json!([410, "This issue was deleted"]));
    assert_eq!(got["stranger"], json!([401, "Bad credentials"]));
    assert_eq!(got["limit"], 5000);
    assert_eq!(got["repositories"], json!([LIBRARY, REPOSITORY]));
    assert_eq!(got["renamed"], LIBRARY, "a redirect is followed");
    assert_eq!(simulator.comments(REPOSITORY, 1), ["from **PyGithub**"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn octokit_gets_what_it_expects() {
    let Some(modules) = std::env::var_os("HEARTBEAT_TEST_OCTOKIT") else {
        eprintln!("SKIPPED: HEARTBEAT_TEST_OCTOKIT is not set, so Octokit was not run");
        return;
    };
    let simulator = simulator().await;
    let mut command = assert_cmd::Command::new("node");
    command.env("NODE_PATH", modules).arg(in_tests("peers/octokit/proof.mjs"));
    command.args([&simulator.base_url(), TOKEN]).arg(in_tests("data/github/app_key.pem"));
    let got = run(command).await;
    assert_eq!((&got["listed"], &got["issues"]), (&json!(25), &json!(23)));
    assert_eq!(got["numbers"], 25, "each once over all pages");
    assert_eq!(got["same"][0], 304);
    assert_eq!(got["waited"], json!([["secondary", 1]]), "the throttling plugin understood");
    assert_eq!(got["comment"], json!([201, "from **Octokit**"]));
    assert!(got["labels"].as_array().unwrap().contains(&json!("seen-by-octokit")));
    assert_eq!(got["deleted"][0], 410);
    assert_eq!(got["app"], 3, "signed in as an App");
    assert_eq!(simulator.tokens_given(), 1);
}
