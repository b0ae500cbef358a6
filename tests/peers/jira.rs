//! The simulated Jira, verified with third-party clients: `jira` from PyPI against both kinds of
//! it, jira.js against Cloud.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use simulators::jira::{Simulator, SimulatorOptions};

const TOKEN: &str = "a-token-of-the-test";

async fn start(is_cloud: bool) -> Simulator {
    let token = Some(TOKEN.to_owned());
    // A zone without clock changes: times are compared as text.
    let zone = "Asia/Kathmandu".to_owned();
    let options =
        SimulatorOptions { token, is_cloud, zone, items: 130, ..SimulatorOptions::default() };
    Simulator::start(options).await.unwrap()
}

/// Runs a client and parses the JSON object that it prints.
async fn run(program: PathBuf, arguments: Vec<String>) -> Value {
    let run = move || {
        assert_cmd::Command::new(program)
            .args(arguments)
            .timeout(std::time::Duration::from_secs(120))
            .output()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let said = serde_json::from_slice(&output.stdout);
    assert!(said.is_ok(), "{errors}");
    said.unwrap()
}

fn script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(name).display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_from_pypi_gets_what_it_expects() {
    let Some(python) = std::env::var_os("HEARTBEAT_TEST_JIRA_PYTHON").map(PathBuf::from) else {
        eprintln!("SKIPPED: HEARTBEAT_TEST_JIRA_PYTHON is not set, so jira from PyPI was not run");
        return;
    };
    for is_cloud in [true, false] {
        let simulator = start(is_cloud).await;
        let kind = if is_cloud { "cloud" } else { "server" };
        let arguments =
            vec![script("jira_proof.py"), simulator.base_url(), TOKEN.to_owned(), kind.to_owned()];
        let got = run(python.clone(), arguments).await;
        assert_eq!(got["deployment"], if is_cloud { "Cloud" } else { "Server" });
        assert_eq!(got["me"], "Parcel Build Service");
        assert_eq!(got["keys"].as_array().unwrap().len(), 130, "over several pages");
        let updated: Vec<&str> =
            got["updated"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(updated.is_sorted() && updated[0].ends_with("+0545"), "{updated:?}");
        assert_eq!(got["categories"], json!(["done", "indeterminate", "new"]));
        assert!(
            got["descriptions"]
                .as_array()
                .unwrap()
                .iter()
                .all(|kind| kind == "str" || kind == "NoneType")
        );
        assert_eq!(got["some"], 5);
        for (refusal, status, words) in [
            ("bad_field", 400, "Field 'sevrity' does not exist"),
            ("bad_project", 400, "does not exist for the field 'project'"),
            ("missing", 404, "Issue does not exist"),
            ("spaced", 400, "spaces"),
        ] {
            assert_eq!(got[refusal][0], status, "{refusal}: {got}");
            assert!(got[refusal][1].as_str().unwrap().contains(words), "{refusal}: {got}");
        }
        assert_eq!(got["comments"], json!(["from the *client*"]));
        assert!(got["labels"].as_array().unwrap().contains(&json!("seen-by-client")));
        assert_eq!(got["summary"], "Changed by the client");
        assert_eq!(got["priorities"], json!(["Highest", "High", "Medium", "Low", "Lowest"]));
        assert_eq!((&got["gone"], &got["project"]), (&json!(404), &json!("Parcel Tracking")));
        let first = simulator.ids()[0];
        assert_eq!(simulator.comments(first), ["from the *client*"], "what it wrote is there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_from_npm_gets_what_it_expects() {
    let Some(modules) = std::env::var_os("HEARTBEAT_TEST_JIRA_NODE_MODULES").map(PathBuf::from)
    else {
        eprintln!("SKIPPED: HEARTBEAT_TEST_JIRA_NODE_MODULES is not set, so jira.js was not run");
        return;
    };
    let simulator = start(true).await;
    let arguments = vec![
        script("jira_proof.mjs"),
        modules.display().to_string(),
        simulator.base_url(),
        TOKEN.to_owned(),
    ];
    let got = run(PathBuf::from("node"), arguments).await;
    assert_eq!((got["keys"].as_array().unwrap().len(), &got["pages"]), (130, &json!(13)));
    assert!(got["types"].as_array().unwrap().contains(&json!("doc")));
    assert_eq!(got["unbounded"][0], 400, "{got}");
    assert!(got["badToken"][1].as_str().unwrap().contains("nextPageToken"), "{got}");
    assert_eq!(got["bulk"], json!(["PARCEL-1", "PARCEL-2"]));
    assert_eq!((&got["missing"], &got["total"]), (&json!(1), &json!(1)));
    assert_eq!(got["comment"], "from jira.js");
    assert!(got["labels"].as_array().unwrap().contains(&json!("seen-by-js")));
    assert_eq!(got["me"], "Parcel Build Service");
    assert_eq!(simulator.comments(simulator.ids()[1]), ["from jira.js"]);
}
