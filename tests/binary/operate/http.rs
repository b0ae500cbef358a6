//! The service over HTTP, with the real binary: its responses when it cannot do what is requested.

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::process::Child;

use super::world::{World, finish, lines, signal};

/// A service with its dashboard on a free port, on a schedule that never fires.
pub(super) struct Service {
    pub(super) address: String,
    pub(super) token: String,
    daemon: Child,
}

impl Service {
    pub(super) async fn start(world: &World, more: &[&str]) -> Self {
        let log = world.path("service.log");
        let file = format!("log.file={}", log.display());
        let set = ["--quiet", "--set", "http.listen=127.0.0.1:0", "--set", &file];
        let args = [&set[..], &["--set", "log.format=json"], more].concat();
        let daemon = world.start(&args);
        let served = || async {
            let lines = if log.exists() { lines(&log) } else { Vec::new() };
            let line = lines.iter().find(|line| line["message"] == "dashboard listening")?;
            line["address"].as_str().map(str::to_owned)
        };
        let address = support::until("dashboard", served).await;
        let token = std::fs::read_to_string(world.path("state/dashboard-token")).unwrap();
        Self { address: format!("http://{address}"), token: token.trim().into(), daemon }
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        told(client().get(format!("{}{path}", self.address)).bearer_auth(&self.token)).await
    }

    async fn post(&self, path: &str) -> (u16, Value) {
        told(client().post(format!("{}{path}", self.address)).bearer_auth(&self.token)).await
    }

    pub(super) async fn stop(self) {
        signal(&self.daemon, Signal::SIGTERM);
        finish(self.daemon).await;
    }
}

pub(super) fn client() -> reqwest::Client {
    // Fails if another test has installed it, which then serves as well.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn told(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn run_now_during_another_run_is_refused_and_names_its_holder() {
    let world = World::new().await;
    world.agent("echo ready > \"$(dirname \"$0\")/ready\"; exec sleep 1000");
    let service = Service::start(&world, &[]).await;
    let other = world.start(&["--once", "--quiet", "--set", "timeouts.init=100s"]);
    support::until("foreign run", || async { world.path("ready").exists().then_some(()) }).await;
    let (status, answer) = service.post("/api/run").await;
    assert_eq!(status, 409, "{answer:#}");
    let message = answer["error"]["message"].as_str().unwrap();
    let holder = format!("process {} (--once)", other.id().unwrap());
    assert!(message.contains(&holder), "{message}");
    let (_, runs) = service.get("/api/runs").await;
    assert_eq!(runs.as_array().unwrap().len(), 1, "only the foreign one: {runs:#}");

    signal(&other, Signal::SIGTERM);
    finish(other).await;
    world.agent("exec \"$AGENT\" simulate agent \"$@\"");
    let (status, answer) = service.post("/api/run").await;
    assert_eq!(status, 200, "{answer:#}");
    let id = answer["run"].as_str().unwrap().to_owned();
    let begun = || async {
        let (_, runs) = service.get("/api/runs").await;
        runs.as_array().unwrap().iter().any(|run| run["run"] == *id).then_some(())
    };
    support::until("wished run", begun).await;
    service.stop().await;
}

#[tokio::test]
async fn a_service_without_its_agent_is_not_ready_and_says_why() {
    let world = World::new().await;
    let agent = world.script("late-agent", "exit 0");
    let command = format!("agent.command=[{:?}]", agent.to_str().unwrap());
    let service = Service::start(&world, &["--set", &command]).await;
    let (status, ready) = service.get("/readyz").await;
    assert_eq!((status, &ready["ready"]), (200, &true.into()), "{ready:#}");
    std::fs::remove_file(&agent).unwrap();
    let missing = || async {
        let (status, ready) = service.get("/readyz").await;
        (status == 503).then_some(ready)
    };
    let ready = support::until("doubt", missing).await;
    let reason = &ready["reasons"][0];
    assert_eq!((&ready["ready"], &reason["code"]), (&false.into(), &"agent".into()), "{ready:#}");
    let message = reason["message"].as_str().unwrap();
    assert!(message.contains("late-agent") && message.contains("[agent] command"), "{message}");
    let (status, health) = service.get("/health").await;
    assert_eq!((status, &health["reasons"][0]["code"]), (503, &"agent".into()), "{health:#}");
    world.script("late-agent", "exit 0");
    let back = || async { (service.get("/readyz").await.0 == 200).then_some(()) };
    support::until("readiness", back).await;
    service.stop().await;
}

#[tokio::test]
async fn a_crashed_run_is_ended_by_the_next_start_for_every_reader() {
    let world = World::new().await;
    world.agent("echo ready > \"$(dirname \"$0\")/ready\"; exec sleep 1000");
    let run = world.start(&["--once", "--quiet", "--set", "timeouts.init=100s"]);
    support::until("session", || async { world.path("ready").exists().then_some(()) }).await;
    signal(&run, Signal::SIGKILL);
    finish(run).await;
    assert!(!world.events().iter().any(|event| event["event"] == "run_ended"));

    let service = Service::start(&world, &[]).await;
    let live = || async {
        let text = std::fs::read(world.path("state/live.json")).ok()?;
        let live: Value = serde_json::from_slice(&text).unwrap();
        (live["step"] == "ended").then_some(live)
    };
    let live = support::until("word in live.json", live).await;
    assert_eq!(live["outcome"], "crashed", "{live:#}");
    assert_eq!(live["sessions"], serde_json::json!({}));

    let events = world.events();
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["outcome"]), (&"run_ended".into(), &"crashed".into()));
    assert_eq!(last["run"], events[0]["run"], "told in the run that crashed");
    assert!(last["summary"]["fetched"].as_u64().unwrap() > 0, "{last:#}");
    assert_eq!(last["summary"]["sessions"], 1, "{last:#}");
    let ended: Vec<&Value> = events.iter().filter(|event| event["event"] == "run_ended").collect();
    assert_eq!(ended.len(), 1, "once");

    let (_, runs) = service.get("/api/runs").await;
    assert_eq!(runs[0]["outcome"], "crashed", "{runs:#}");
    assert_eq!(runs[0]["summary"], last["summary"]);
    let seconds = |at: &Value| at.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second();
    let lived = seconds(&runs[0]["ended_at"]) - seconds(&runs[0]["started_at"]);
    let told = last["duration_ms"].as_i64().unwrap() / 1000;
    assert!((lived - told).abs() <= 1, "it ended when it was last heard of: {lived} {told}");
    let (_, state) = service.get("/api/state").await;
    assert_eq!(state["run"]["outcome"], "crashed", "{:#}", state["run"]);
    service.stop().await;
}

/// A token in a log, in a process list or in a world-readable file would be public.
#[tokio::test]
async fn the_dashboard_command_signs_in_and_keeps_the_token_to_itself() {
    let world = World::new().await;
    let off = world.run(&["dashboard"]).await;
    assert_eq!(off.code(), 1);
    assert!(off.stderr.contains("[http] listen"), "{}", off.stderr);
    let service = Service::start(&world, &[]).await;
    let shown = world.run(&["dashboard", "--json"]).await.json();
    assert_eq!(shown["address"], format!("{}/", service.address));
    let address = shown["sign_in"].as_str().unwrap().to_owned();
    let jar = client().get(&address).send().await.unwrap();
    assert_eq!(jar.status(), 401, "without a cookie jar the redirect leads to the sign-in page");
    let log = std::fs::read_to_string(world.path("service.log")).unwrap();
    assert!(!log.contains(&service.token), "{log}");

    let rotated = world.run(&["dashboard", "--rotate"]).await.stdout;
    assert!(
        rotated.starts_with(&service.address) && !rotated.contains(&service.token),
        "{rotated}"
    );
    assert_eq!(service.get("/api/state").await.0, 401, "the running service knows the new token");
    service.stop().await;
    let gone = world.run(&["dashboard"]).await;
    assert_eq!(
        (gone.code(), gone.stdout.as_str()),
        (1, ""),
        "nobody else's port is shown the token"
    );
}
