//! Traces and logs at a collector: what is sent, and that a bad collector blocks nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::Output;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::{Value, json};

#[derive(Default)]
struct Heard {
    traces: Vec<Value>,
    logs: Vec<Value>,
    media: Vec<String>,
}

type Ear = State<Arc<Mutex<Heard>>>;

async fn hear_traces(State(heard): Ear, headers: HeaderMap, body: axum::body::Bytes) -> String {
    note(&heard, &headers, &body, |heard| &mut heard.traces)
}

async fn hear_logs(State(heard): Ear, headers: HeaderMap, body: axum::body::Bytes) -> String {
    note(&heard, &headers, &body, |heard| &mut heard.logs)
}

fn note(
    heard: &Mutex<Heard>,
    headers: &HeaderMap,
    body: &[u8],
    of: fn(&mut Heard) -> &mut Vec<Value>,
) -> String {
    let mut heard = heard.lock().unwrap();
    let media = headers["content-type"].to_str().unwrap().to_owned();
    if media == "application/json" {
        of(&mut heard).push(serde_json::from_slice(body).unwrap());
    }
    heard.media.push(media);
    "{}".into()
}

/// A collector on loopback; its address and what it received.
async fn collector() -> (String, Arc<Mutex<Heard>>) {
    let heard: Arc<Mutex<Heard>> = Arc::default();
    let router = axum::Router::new()
        .route("/v1/traces", axum::routing::post(hear_traces))
        .route("/v1/logs", axum::routing::post(hear_logs))
        .with_state(Arc::clone(&heard));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, heard)
}

/// One demo run with this collector.
async fn run(state: &std::path::Path, collector: Option<&str>, more: &[(&str, &str)]) -> Output {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_heartbeat"));
    command.args(["--once", "--demo", "--quiet", "--json", "--state-dir"]).arg(state);
    command.args(["--set", "limits.max_deep_per_run=2", "--set", "http.listen=\"\""]);
    for name in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"] {
        command.env_remove(name);
    }
    if let Some(address) = collector {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", address);
    }
    command.envs(more.iter().copied());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Everything under these names, however it was batched.
fn flat<'a>(batches: &'a [Value], resource: &str, scope: &str, leaf: &str) -> Vec<&'a Value> {
    let mut found = Vec::new();
    for batch in batches {
        for one in batch[resource].as_array().unwrap() {
            for inner in one[scope].as_array().unwrap() {
                found.extend(inner[leaf].as_array().unwrap());
            }
        }
    }
    found
}

fn attributes(of: &Value) -> BTreeMap<&str, String> {
    let pairs = of["attributes"].as_array().unwrap();
    let text = |value: &Value| {
        let inner = value.as_object().unwrap().values().next().unwrap();
        inner.as_str().map_or_else(|| inner.to_string(), str::to_owned)
    };
    pairs.iter().map(|pair| (pair["key"].as_str().unwrap(), text(&pair["value"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_one_trace_of_stages_and_sessions_with_its_log() {
    let (address, heard) = collector().await;
    let folder = tempfile::tempdir().unwrap();
    let json = [("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")];
    let report = report(&run(folder.path(), Some(&address), &json).await);
    let id = report["run"].as_str().unwrap();
    let trace = id.replace('-', "");
    let heard = heard.lock().unwrap();
    let spans = flat(&heard.traces, "resourceSpans", "scopeSpans", "spans");
    assert!(spans.iter().all(|span| span["traceId"] == *trace), "{spans:#?}");
    let named =
        |name: &str| -> Vec<&&Value> { spans.iter().filter(|span| span["name"] == name).collect() };
    let root = named("run")[0];
    assert_eq!(attributes(root)["heartbeat.run.outcome"], "completed");
    assert_eq!(attributes(root)["heartbeat.run.id"], id);
    assert_eq!(attributes(root)["heartbeat.run.analysed"], "2");
    for stage in ["fetch", "triage", "analyse"] {
        assert_eq!(named(stage).len(), 1, "{stage}");
        assert_eq!(named(stage)[0]["parentSpanId"], root["spanId"], "{stage}");
    }
    assert_eq!(named("invoke_agent triage")[0]["parentSpanId"], named("triage")[0]["spanId"]);
    let deep = named("invoke_agent deep");
    assert_eq!(deep.len(), 2);
    for session in &deep {
        assert_eq!(session["parentSpanId"], named("analyse")[0]["spanId"]);
        let told = attributes(session);
        assert!(told["heartbeat.work_item.id"].starts_with("ado/"), "{told:?}");
        assert_eq!(told["gen_ai.operation.name"], "invoke_agent");
        assert_eq!(told["heartbeat.session.outcome"], "completed");
        assert_eq!(told["heartbeat.session.survivors"], "0");
        assert!(told["gen_ai.usage.output_tokens"].parse::<u64>().unwrap() > 0, "{told:?}");
        let time = |key: &str| session[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("endTimeUnixNano") > time("startTimeUnixNano"), "{session:#}");
    }
    let resource = attributes(&heard.traces[0]["resourceSpans"][0]["resource"]);
    assert_eq!(resource["service.name"], "heartbeat", "{resource:?}");

    let lines = flat(&heard.logs, "resourceLogs", "scopeLogs", "logRecords");
    let spawned = |session: &Value| {
        lines.iter().any(|line| {
            line["body"] == json!({ "stringValue": "spawn" })
                && line["traceId"] == *trace
                && line["spanId"] == session["spanId"]
        })
    };
    assert!(deep.iter().all(|session| spawned(session)), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usual_protocol_is_protobuf() {
    let (address, heard) = collector().await;
    let folder = tempfile::tempdir().unwrap();
    report(&run(folder.path(), Some(&address), &[]).await);
    let heard = heard.lock().unwrap();
    assert!(heard.media.len() >= 2, "{:?}", heard.media);
    assert!(heard.media.iter().all(|media| media == "application/x-protobuf"), "{:?}", heard.media);
}

/// Duration of the only run of a state in milliseconds, as stored.
fn duration(state: &std::path::Path) -> u64 {
    let run = std::fs::read_dir(state.join("runs")).unwrap().next().unwrap().unwrap();
    let events = std::fs::read_to_string(run.path().join("events.ndjson")).unwrap();
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "run_ended");
    last["duration_ms"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_or_is_gone_slows_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let state = |name: &str| folder.path().join(name);
    report(&run(&state("alone"), None, &[]).await);
    let alone = duration(&state("alone"));

    // Accepts every connection and sends nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let held = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok(connection) = silent.accept().await {
            held.push(connection);
        }
    });
    report(&run(&state("silent"), Some(&address), &[]).await);
    held.abort();

    let gone = run(&state("gone"), Some("http://127.0.0.1:9"), &[]).await;
    report(&gone);
    let said = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert_eq!(said.matches("OTLP export failed").count(), 1, "once: {said}");
    for name in ["silent", "gone"] {
        let took = duration(&state(name));
        // Waiting for a batch would take seconds; the demo takes a few.
        assert!(took < 3 * alone + 1000, "{name}: {took} ms, alone {alone} ms");
    }
}
