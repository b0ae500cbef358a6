//! Search terms reach the ranking, from triage or from a user.

use std::path::Path;
use std::process::Command;

use heartbeat::simulate::sample;
use serde_json::{Value, json};

/// The paths that `heartbeat context` prints for a work item.
fn context(folder: &Path, item: &Value, more: &[&str]) -> Vec<String> {
    let (code, file) = (folder.join("code"), folder.join("item.json"));
    if !code.exists() {
        sample::write_to(&code).unwrap();
    }
    std::fs::write(&file, item.to_string()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_heartbeat"))
        .args(["context", "--top", "3", "--repo"])
        .arg(&code)
        .arg("--item")
        .arg(&file)
        .arg("--index-dir")
        .arg(folder.join("index"))
        .args(more)
        .env("HOME", folder)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn item(title: &str, description: &str) -> Value {
    json!({ "id": 7, "fields": {
        "System.Title": title, "System.WorkItemType": "Bug", "System.State": "Active",
        "System.AreaPath": "Parcel", "System.Description": description,
    } })
}

#[test]
fn an_item_in_german_finds_what_its_english_twin_finds() {
    let folder = tempfile::tempdir().unwrap();
    let english = item(
        "Messages that wait for a retry are lost when the worker stops",
        "<p>After a restart the queue of retries is empty.</p>",
    );
    let german = item(
        "Wartende Nachrichten gehen beim Anhalten des Dienstes verloren",
        "<p>Nach einem Neustart ist die Warteschlange leer.</p>",
    );
    let file = "worker/Parcel.Worker/RetryQueue.cs";
    assert_eq!(context(folder.path(), &english, &[])[0], file);
    assert_ne!(context(folder.path(), &german, &[]).first().map(String::as_str), Some(file));
    let terms = ["--terms", "retry queue,waiting message,worker stop"];
    assert_eq!(context(folder.path(), &german, &terms)[0], file);
    // Terms that do not occur in the code cost nothing.
    let more = ["--terms", "retry queue,waiting message,worker stop,Xyzzyplugh,frobnicate"];
    assert_eq!(context(folder.path(), &german, &more), context(folder.path(), &german, &terms));
    std::fs::write(folder.path().join("terms.txt"), "retry queue\nwaiting message\n").unwrap();
    let from_file = context(folder.path(), &german, &["--terms-file", "terms.txt"]);
    assert_eq!(from_file[0], file);
}

#[test]
fn what_is_no_work_item_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.json"), "[1]").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_heartbeat"))
        .args(["context", "--repo", ".", "--item", "bad.json", "--index-dir", "/tmp/none"])
        .env("HOME", folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("bad.json"), "{said}");
}
