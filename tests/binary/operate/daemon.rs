//! The service: notifications to its manager, and its log.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::world::{TOKEN, World, finish, lines, signal};

struct Manager {
    socket: UnixDatagram,
    heard: Vec<String>,
}

impl Manager {
    fn new(world: &World) -> Self {
        let socket = UnixDatagram::bind(world.path("notify")).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, heard: Vec::new() }
    }

    /// Reads what has arrived.
    fn listen(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            self.heard.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
    }

    fn count(&self, word: &str) -> usize {
        self.heard.iter().filter(|said| said.starts_with(word)).count()
    }

    /// Waits until a message has arrived this often.
    async fn hears(&mut self, word: &str, times: usize) {
        let heard = std::sync::Mutex::new(self);
        support::until(word, || async {
            let mut heard = heard.lock().unwrap();
            heard.listen();
            (heard.count(word) >= times).then_some(())
        })
        .await;
    }
}

async fn watched_world(watchdog_micros: &str) -> World {
    let world = World::new().await;
    let socket = world.path("notify");
    let socket = socket.to_str().unwrap().to_owned();
    world.with("NOTIFY_SOCKET", &socket).with("WATCHDOG_USEC", watchdog_micros)
}

#[tokio::test]
async fn a_renewed_token_file_is_used_by_the_next_run_of_the_service() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new().await;
    let file = world.path("token");
    std::fs::write(&file, "expired").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let token_file = format!("source.token_file={file:?}");
    let daemon = world.start(&[
        "--quiet",
        "--set",
        &token_file,
        "--set",
        "source.token_env=NOT_SET",
        "--set",
        "schedule.cron=* * * * * *",
    ]);
    let ended = |outcome: &'static str| {
        let database = world.path("state/heartbeat.db");
        move || {
            let sql = format!("SELECT count(*) FROM runs WHERE outcome LIKE '%{outcome}%'");
            let count = rusqlite::Connection::open(&database)
                .and_then(|open| open.query_row(&sql, [], |row| row.get::<_, i64>(0)));
            let found = count.is_ok_and(|count| count > 0).then_some(());
            async move { found }
        }
    };
    support::until("a refused run", ended("credential")).await;
    std::fs::write(&file, TOKEN).unwrap();
    support::until("a run with the new token", ended("completed")).await;
    signal(&daemon, Signal::SIGTERM);
    assert_eq!(finish(daemon).await.code(), 143);
}

#[tokio::test]
async fn the_manager_hears_ready_watchdog_status_and_stopping() {
    let world = watched_world("1500000").await;
    let mut manager = Manager::new(&world);
    let daemon = world.start(&["--quiet"]);
    manager.hears("READY=1", 1).await;
    assert_eq!(manager.heard[0], format!("READY=1\nMAINPID={}", daemon.id().unwrap()));
    assert!(world.path("state/heartbeat.db").exists(), "ready before the state was");
    manager.hears("WATCHDOG=1", 3).await;
    manager.hears("STATUS=0/3 sessions, next ", 1).await;
    signal(&daemon, Signal::SIGTERM);
    let said = finish(daemon).await;
    assert_eq!(said.code(), 143, "{}", said.stderr);
    manager.hears("STOPPING=1", 1).await;
}

#[tokio::test]
async fn a_state_that_cannot_be_written_starves_the_watchdog() {
    let world = watched_world("1500000").await;
    let mut manager = Manager::new(&world);
    let log = world.path("daemon.log");
    let file = format!("log.file={}", log.display());
    let daemon = world.start(&["--quiet", "--set", &file, "--set", "log.format=json"]);
    manager.hears("WATCHDOG=1", 1).await;
    let other = rusqlite::Connection::open(world.path("state/heartbeat.db")).unwrap();
    other.busy_timeout(Duration::from_secs(30)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    manager.listen();
    let before = manager.count("WATCHDOG=1");
    let starved = || async {
        lines(&log)
            .iter()
            .any(|line| line.to_string().contains("watchdog not notified"))
            .then_some(())
    };
    support::until("word of the starved watchdog", starved).await;
    manager.listen();
    // One notification may have been in transit when the lock was taken.
    assert!(manager.count("WATCHDOG=1") <= before + 1, "{:?}", manager.heard);
    other.execute_batch("ROLLBACK").unwrap();
    manager.hears("WATCHDOG=1", before + 3).await;
    signal(&daemon, Signal::SIGTERM);
    finish(daemon).await;
}

#[tokio::test]
async fn the_log_tells_each_session_with_its_ids() {
    let world = World::new().await;
    let log = world.path("logs/heartbeat.log");
    let file = format!("log.file={}", log.display());
    let every_second = "schedule.cron=* * * * * *";
    // A run may take longer than a second on a busy machine.
    let deadline = "limits.run_deadline=30m";
    let args =
        ["--set", &file, "--set", "log.format=json", "--set", every_second, "--set", deadline];
    let daemon = world.start(&args);
    let ended = || async {
        let lines = if log.exists() { lines(&log) } else { Vec::new() };
        lines.iter().any(|line| line["message"] == "end").then_some(lines)
    };
    let lines = support::until("end of a run", ended).await;
    signal(&daemon, Signal::SIGTERM);
    let said = finish(daemon).await;
    let of = |message: &str| -> Vec<&serde_json::Value> {
        lines.iter().filter(|line| line["message"] == message).collect()
    };
    let run = of("start")[0]["run_id"].as_str().unwrap().to_owned();
    assert!(of("start")[0]["work_items"].as_u64().unwrap() > 0, "{lines:#?}");
    assert!(of("start")[0]["sessions_to_create"].as_u64().unwrap() > 0, "{lines:#?}");
    let (spawned, completed) = (of("spawn"), of("complete"));
    assert!(spawned.len() >= 2 && spawned.len() == completed.len(), "{lines:#?}");
    for line in spawned.iter().chain(&completed) {
        assert_eq!(line["run_id"], run.as_str(), "{line:#}");
        assert_eq!(line["session_id"].as_str().unwrap().len(), 36, "{line:#}");
    }
    for line in &spawned {
        assert!(line["pid"].as_u64().unwrap() > 1, "{line:#}");
        let is_deep = line["stage"] == "deep";
        assert_eq!(line["work_item_id"].as_str().unwrap().starts_with("ado/"), is_deep, "{line:#}");
    }
    for line in &completed {
        assert_eq!((&line["exit_code"], &line["survivors"]), (&0.into(), &0.into()), "{line:#}");
        assert!(line["duration_ms"].is_u64(), "{line:#}");
    }
    assert!(of("triage")[0]["sessions_to_create"].is_u64());
    // Standard error is the same log, one object per line and nothing else.
    for line in said.stderr.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["timestamp"].is_string(), "{line}");
    }
    assert!(said.stderr.contains("\"spawn\""), "{}", said.stderr);
}

/// `--once` at level info logs the same lines, and its file has the configured format.
#[tokio::test]
async fn a_single_run_logs_each_session_with_its_ids() {
    let world = World::new().await;
    let log = world.path("logs/once.log");
    let file = format!("log.file={}", log.display());
    let args = ["--once", "--log-level", "info", "--set", &file, "--set", "log.format=json"];
    let said = world.run(&args).await;
    assert!(said.status.success(), "{}", said.stderr);
    let logged = |line: &str| line.contains("spawn") && line.contains("session_id=");
    assert!(said.stderr.lines().any(logged), "{}", said.stderr);
    let completed: Vec<_> =
        lines(&log).into_iter().filter(|line| line["message"] == "complete").collect();
    assert!(!completed.is_empty(), "{:?}", std::fs::read_to_string(&log));
    for line in completed {
        for field in ["run_id", "session_id", "work_item_id"] {
            assert!(line[field].is_string(), "{field}: {line:#}");
        }
        for field in ["pid", "exit_code", "duration_ms"] {
            assert!(line[field].is_i64(), "{field}: {line:#}");
        }
    }
}
