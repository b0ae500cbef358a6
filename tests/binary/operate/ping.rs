//! The pings of a monitor: a receiver with the protocol of healthchecks.io hears about good runs,
//! failed ones, killed ones, and a heartbeat that cannot run at all.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use axum::http::{StatusCode, Uri};

use super::world::{World, finish, signal};

/// What arrived: the path after the secret, the run, the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ping {
    what: String,
    run: Option<String>,
    text: String,
}

#[derive(Clone, Default)]
struct Monitor {
    heard: Arc<Mutex<Vec<Ping>>>,
}

const SECRET: &str = "5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278";

impl Monitor {
    /// As the documentation describes it: `/UUID`, `/UUID/start`, `/UUID/EXITCODE`, `?rid=`.
    async fn start() -> (Self, String) {
        let monitor = Self::default();
        let heard = monitor.clone();
        let receive = move |uri: Uri, body: String| {
            let heard = heard.clone();
            async move { heard.receive(&uri, body) }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/{SECRET}", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(receive);
        tokio::spawn(async move { axum::serve(listener, router).await });
        (monitor, address)
    }

    fn receive(&self, uri: &Uri, text: String) -> (StatusCode, &'static str) {
        let Some(what) = uri.path().strip_prefix(&format!("/{SECRET}")) else {
            return (StatusCode::OK, "OK (not found)");
        };
        let is_known =
            matches!(what, "" | "/start" | "/fail" | "/log") || what[1..].parse::<u8>().is_ok();
        if !is_known {
            return (StatusCode::BAD_REQUEST, "invalid url format");
        }
        let run = uri.query().and_then(|query| query.strip_prefix("rid=")).map(str::to_owned);
        self.heard.lock().unwrap().push(Ping { what: what.to_owned(), run, text });
        (StatusCode::OK, "OK")
    }

    fn pings(&self) -> Vec<Ping> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }

    fn whats(&self) -> Vec<String> {
        self.heard.lock().unwrap().iter().map(|ping| ping.what.clone()).collect()
    }
}

async fn world() -> (World, Monitor) {
    let (monitor, address) = Monitor::start().await;
    let world = World::new().await.with("PING", &address);
    add(&world, "[monitor]\nping_env = \"PING\"\n");
    (world, monitor)
}

fn add(world: &World, text: &str) {
    let file = world.path("heartbeat.toml");
    let old = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, format!("{old}{text}")).unwrap();
}

#[tokio::test]
async fn a_good_run_says_that_it_starts_and_how_it_ended() {
    let (world, monitor) = world().await;
    let said = world.run(&["--once", "--quiet", "--json"]).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    let run = said.json()["run"].as_str().map(str::to_owned);
    let [start, end] = &monitor.pings()[..] else { panic!("two pings") };
    assert_eq!((start.what.as_str(), &start.run), ("/start", &run));
    assert_eq!((end.what.as_str(), &end.run), ("", &run));
    assert!(end.text.contains("2 analysed, 0 sessions failed"), "{}", end.text);

    let said = world.run(&["doctor"]).await;
    assert!(said.stdout.contains("the monitor named by PING answers"), "{}", said.stdout);
    assert_eq!(monitor.whats(), ["/log"], "a check of the setup changes no state");
    let address = world.env[0].1.replace(SECRET, "another");
    let said = world.with("PING", &address).run(&["doctor"]).await;
    assert!(said.stdout.contains("knows no check"), "{}", said.stdout);
    assert!(!said.stdout.contains(SECRET) && !said.stderr.contains(SECRET));
}

#[tokio::test]
async fn a_failed_run_sends_its_exit_code_and_the_reason() {
    let (world, monitor) = world().await;
    let said = world.with("TRACKER_TOKEN", "wrong").run(&["--once", "--quiet"]).await;
    assert_eq!(said.code(), 77, "{}", said.stderr);
    let pings = monitor.pings();
    assert_eq!(pings.last().unwrap().what, "/77", "{pings:?}");
    assert_eq!(pings.len(), 2, "{pings:?}");
    assert!(pings[1].text.contains("credential"), "{pings:?}");
}

#[tokio::test]
async fn a_killed_run_is_a_start_without_an_end() {
    let (world, monitor) = world().await;
    world.agent("sleep 600");
    add(&world, "[monitor]\nping_env = \"PING\"\n");
    let mut run = world.start(&["--once", "--quiet"]);
    let started = || async { monitor.whats().contains(&"/start".to_owned()).then_some(()) };
    support::until("the start", started).await;
    signal(&run, nix::sys::signal::Signal::SIGKILL);
    run.wait().await.unwrap();
    assert_eq!(monitor.whats(), ["/start"]);
}

#[tokio::test]
async fn a_heartbeat_that_cannot_run_says_why() {
    let (world, monitor) = world().await;
    let good = std::fs::read_to_string(world.path("heartbeat.toml")).unwrap();
    for (broken, reason) in [
        (format!("{good}[limits]\nmax_attempts = 0\n"), "duplicate"),
        (good.replace("[limits]", "[limits]\nmax_attempts = 0"), "limits.max_attempts"),
        (format!("{good}this is not TOML\n"), "heartbeat.toml"),
        (good.replace("[repository]", "[repositry]"), "repositry"),
    ] {
        std::fs::write(world.path("heartbeat.toml"), &broken).unwrap();
        for args in [&["--once"][..], &[]] {
            assert_eq!(world.run(args).await.code(), 78);
            let [ping] = &monitor.pings()[..] else { panic!("one ping: {reason}") };
            assert_eq!(ping.what, "/78");
            assert!(ping.text.contains(reason), "{}", ping.text);
        }
    }
    std::fs::write(world.path("heartbeat.toml"), &good).unwrap();

    // A state that is a file: like a disk that takes nothing, it cannot be opened.
    std::fs::write(world.path("state"), "no folder").unwrap();
    for args in [&["--once"][..], &[]] {
        assert_eq!(world.run(args).await.code(), 74);
        let [ping] = &monitor.pings()[..] else { panic!("one ping") };
        assert_eq!(ping.what, "/74");
        assert!(ping.text.contains("cannot run"), "{}", ping.text);
    }
    // Without an address for it, nothing is said.
    std::fs::write(world.path("heartbeat.toml"), good.replace("ping_env", "#")).unwrap();
    assert_eq!(world.run(&["--once"]).await.code(), 74);
    assert!(monitor.pings().is_empty());
}

#[tokio::test]
async fn a_full_disk_is_told_by_a_run_and_by_the_service() {
    let (world, monitor) = world().await;
    assert_eq!(world.run(&["--once", "--quiet"]).await.code(), 0);
    monitor.pings();
    // A write beyond the limit fails as on a full disk.
    let program = format!(
        "trap '' XFSZ; ulimit -f 64; exec {} --config {} \"$@\"",
        env!("CARGO_BIN_EXE_heartbeat"),
        world.path("heartbeat.toml").display()
    );
    let limited = world.script("limited", &program);
    let run = |args: &[&str]| {
        let mut command = world.command(args);
        let mut limited = tokio::process::Command::new(&limited);
        limited.args(args).env_clear().current_dir(world.folder.path());
        let inherited = command.as_std_mut().get_envs();
        limited
            .envs(inherited.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))));
        limited.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        limited.kill_on_drop(true).spawn().unwrap()
    };
    let said = finish(run(&["--once", "--quiet"])).await;
    assert_eq!(said.code(), 74, "{}", said.stderr);
    let pings = monitor.pings();
    assert_eq!(pings.last().unwrap().what, "/74", "{pings:?}");
    // The service either cannot start or goes on trying; both are told.
    let mut service = run(&["--set", "schedule.cron=* * * * * *"]);
    let told = || async { monitor.whats().contains(&"/74".to_owned()).then_some(()) };
    support::until("the service's failure", told).await;
    service.kill().await.unwrap();
}

#[tokio::test]
async fn a_run_beside_another_is_silent() {
    let (world, monitor) = world().await;
    world.agent("sleep 600");
    add(&world, "[monitor]\nping_env = \"PING\"\n");
    let mut first = world.start(&["--once", "--quiet"]);
    let started = || async { monitor.whats().contains(&"/start".to_owned()).then_some(()) };
    support::until("the start", started).await;
    assert_eq!(world.run(&["--once", "--quiet"]).await.code(), 75);
    assert_eq!(monitor.whats(), ["/start"], "it would look like a start without an end");
    first.kill().await.unwrap();
}

#[tokio::test]
async fn an_unwritable_state_is_told() {
    let (world, monitor) = world().await;
    if nix::unistd::geteuid().is_root() {
        // Root may write everywhere, so the folder's parent is a file instead.
        std::fs::write(world.path("blocked"), "").unwrap();
        let said = world.run(&["--once", "--state-dir", "blocked/state"]).await;
        assert_eq!(said.code(), 74, "{}", said.stderr);
    } else {
        std::fs::create_dir(world.path("state")).unwrap();
        let closed = std::fs::Permissions::from_mode(0o500);
        std::fs::set_permissions(world.path("state"), closed).unwrap();
        assert_eq!(world.run(&["--once"]).await.code(), 74);
    }
    assert_eq!(monitor.whats(), ["/74"]);
}

/// A chat, and what it heard.
async fn chat() -> (String, Arc<Mutex<Vec<String>>>) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&heard);
    let receive = move |body: String| {
        log.lock().unwrap().push(body);
        async { "ok" }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/hook", listener.local_addr().unwrap());
    let router = axum::Router::new().route("/hook", axum::routing::post(receive));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, heard)
}

#[tokio::test]
async fn a_long_pause_and_weeks_without_a_finding_are_told_once() {
    let (address, heard) = chat().await;
    let world = World::new().await.with("CHAT", &address);
    let quiet = ["--set", "report.webhook_env=CHAT", "--set", "report.webhook_when=trouble"];
    assert_eq!(world.run(&["--once", "--quiet"]).await.code(), 0);
    let database = rusqlite::Connection::open(world.path("state/heartbeat.db")).unwrap();
    let past = 86_400_000_i64 * 20;
    database.execute("UPDATE findings SET created_at = created_at - ?1", [past]).unwrap();
    let now = "UPDATE heartbeat_state SET last_changed = unixepoch() * 1000";
    database.execute(now, []).unwrap();
    let args = [&["--once", "--quiet", "--set", "limits.max_deep_per_run=0"][..], &quiet].concat();
    for _ in 0..2 {
        let said = world.run(&args).await;
        assert!(matches!(said.code(), 0 | 75), "{}", said.stderr);
    }
    let notices: Vec<String> = std::mem::take(&mut *heard.lock().unwrap());
    assert_eq!(notices.len(), 1, "{notices:#?}");
    assert!(notices[0].contains("no finding for 14d"), "{notices:#?}");

    assert_eq!(world.run(&["pause", "--note", "release"]).await.code(), 0);
    let pause = r#"UPDATE facts SET value = '{"since":"2026-01-01T00:00:00Z","note":"release"}'
                   WHERE name = 'paused'"#;
    assert_eq!(database.execute(pause, []).unwrap(), 1);
    let mut service = world.start(&quiet);
    let told = || async {
        heard.lock().unwrap().iter().any(|text| text.contains("has been paused")).then_some(())
    };
    support::until("the notice", told).await;
    service.kill().await.unwrap();
    assert!(heard.lock().unwrap()[0].contains("release"));
}
