//! Events of trackers: deliveries in the shapes of all three make the next run earlier, and nothing
//! else ever happens.

use base64::Engine as _;
use serde_json::Value;

use super::http::{Service, client};
use super::world::World;

const SECRET: &str = "a-secret-of-the-hooks";

const ADO: &str = include_str!("../../data/hooks/ado.json");
const GITHUB: &str = include_str!("../../data/hooks/github.json");
const JIRA: &str = include_str!("../../data/hooks/jira.json");

fn signature(body: &str, secret: &str) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let tag = ring::hmac::sign(&key, body.as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

fn basic(password: &str) -> String {
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("heartbeat:{password}"));
    format!("Basic {pair}")
}

/// As the tracker sends it, from a host that is not ours.
async fn deliver(service: &Service, headers: &[(&str, String)], body: String) -> u16 {
    let mut request = client().post(format!("{}/hooks", service.address));
    request = request.header("host", "heartbeat.example.com").body(body);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    request.send().await.unwrap().status().as_u16()
}

async fn start(world: &World, interval: &str) -> Service {
    let interval = format!("http.min_interval={interval}");
    Service::start(world, &["--set", "http.hooks_env=HOOKS", "--set", &interval]).await
}

async fn runs(world: &World) -> Vec<Value> {
    let said = world.run(&["runs", "--json"]).await;
    said.json().as_array().cloned().unwrap_or_default()
}

/// Waits until this many runs have ended.
async fn ended(world: &World, count: usize) {
    let all_ended = || async {
        let runs = runs(world).await;
        let ended = runs.iter().filter(|run| !run["ended_at"].is_null()).count();
        (ended >= count).then_some(())
    };
    support::until("the end of the runs", all_ended).await;
}

#[tokio::test]
async fn deliveries_of_all_three_trackers_start_one_run_each() {
    let world = World::new().await.with("HOOKS", SECRET);
    let service = start(&world, "1ms").await;
    let deliveries = [
        (ADO, ("authorization", basic(SECRET))),
        (GITHUB, ("x-hub-signature-256", signature(GITHUB, SECRET))),
        (JIRA, ("x-hub-signature", signature(JIRA, SECRET))),
    ];
    for (count, (body, proof)) in deliveries.iter().enumerate() {
        assert_eq!(deliver(&service, std::slice::from_ref(proof), (*body).to_owned()).await, 202);
        ended(&world, count + 1).await;
    }
    // The same bytes again: accepted, so that the tracker does not repeat them, and without effect.
    for (body, proof) in &deliveries {
        assert_eq!(deliver(&service, std::slice::from_ref(proof), (*body).to_owned()).await, 202);
    }
    let all = runs(&world).await;
    assert_eq!(all.len(), 3, "{all:#?}");
    assert!(all.iter().all(|run| run["trigger"] == "schedule"), "as the schedule starts them");
    let known = world.run(&["items", "--json"]).await.stdout;
    assert!(!known.contains("Ignore all previous"), "nothing of a delivery is stored: {known}");
    service.stop().await;
}

#[tokio::test]
async fn what_does_not_know_the_secret_starts_nothing() {
    let world = World::new().await.with("HOOKS", SECRET);
    let service = start(&world, "1ms").await;
    for (body, name, value) in [
        (GITHUB, "x-hub-signature-256", signature(GITHUB, "another secret")),
        (GITHUB, "x-hub-signature-256", signature(JIRA, SECRET)),
        (JIRA, "x-hub-signature", "sha1=4f0c".to_owned()),
        (ADO, "authorization", basic("wrong")),
        (ADO, "authorization", format!("Bearer {}", service.token)),
        (ADO, "x-nothing", String::new()),
    ] {
        assert_eq!(deliver(&service, &[(name, value)], body.to_owned()).await, 401, "{name}");
    }
    let bomb = "x".repeat(3 << 20);
    let proof = [("x-hub-signature-256", signature(&bomb, SECRET))];
    let sent = client().post(format!("{}/hooks", service.address)).body(bomb);
    let answer = sent.header(proof[0].0, &proof[0].1).send().await;
    // Refused, or the connection is closed while it still sends.
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status() == 413));
    let packed =
        [("x-hub-signature-256", signature("{}", SECRET)), ("content-encoding", "gzip".into())];
    assert_eq!(deliver(&service, &packed, "{}".to_owned()).await, 202, "it is not unpacked");
    ended(&world, 1).await;
    assert_eq!(runs(&world).await.len(), 1, "only the last one knew it");
    // Its path is not a way into the rest.
    let state = client().get(format!("{}/api/state", service.address));
    let asked = state.header("authorization", basic(SECRET)).send().await.unwrap();
    assert_eq!(asked.status(), 401);
    service.stop().await;
}

#[tokio::test]
async fn a_flood_is_one_run_per_interval() {
    let world = World::new().await.with("HOOKS", SECRET);
    let service = start(&world, "1h").await;
    for n in 0..500 {
        let body = format!("{{\"id\":{n}}}");
        let proof = ("x-hub-signature-256", signature(&body, SECRET));
        assert_eq!(deliver(&service, &[proof], body).await, 202);
    }
    ended(&world, 1).await;
    for n in 500..600 {
        let body = format!("{{\"id\":{n}}}");
        let proof = ("x-hub-signature-256", signature(&body, SECRET));
        assert_eq!(deliver(&service, &[proof], body).await, 202);
    }
    assert_eq!(runs(&world).await.len(), 1, "the next is due in an hour");
    service.stop().await;
}

#[tokio::test]
async fn without_a_secret_there_are_no_hooks() {
    let world = World::new().await;
    let service = Service::start(&world, &[]).await;
    let proof = [("x-hub-signature-256", signature(GITHUB, ""))];
    assert_ne!(deliver(&service, &proof, GITHUB.to_owned()).await, 202);
    service.stop().await;
    let args = ["--set", "http.hooks_env=HOOKS", "--set", "http.listen=127.0.0.1:0"];
    let said = world.run(&args).await;
    assert_eq!(said.code(), 78, "{}", said.stderr);
    assert!(said.stderr.contains("http.hooks_env"), "{}", said.stderr);
}
