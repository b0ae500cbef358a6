//! The real binary is killed with SIGKILL at every fault point of a run that writes its finding
//! back, or its disk is full: in the end the finding is on its item exactly once.

use std::path::Path;
use std::process::Output;

use heartbeat::simulate::ado::{PROJECT, Simulator, SimulatorOptions};
use tokio::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");
/// Number of the last item; some of them need analysis.
const LAST_ITEM: i64 = 4103;
/// More points than a run of this size has; the test fails if it is not enough.
const FAR: u32 = 200;

/// A tracker with a few items, and a configuration.
struct Team {
    folder: tempfile::TempDir,
    tracker: Simulator,
}

impl Team {
    async fn new() -> Self {
        let options =
            SimulatorOptions { token: Some("right".to_owned()), ..SimulatorOptions::default() };
        let tracker = Simulator::start(options).await.unwrap();
        for other in tracker.item_ids().into_iter().filter(|id| *id > LAST_ITEM) {
            tracker.delete_item(other);
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("code")).unwrap();
        std::fs::write(folder.path().join("code/total.rs"), "fn total() {}\n").unwrap();
        let config = format!(
            "[source]\nbase_url = {:?}\nproject = {PROJECT:?}\nlook_back = \"3650d\"\n\
             comments = 5\nwrite_back = true\n\
             [repository]\npath = {:?}\n\
             [agent]\ncommand = [{BINARY:?}, \"simulate\", \"agent\"]\n\
             pass_env = [\"ANTHROPIC_BASE_URL\"]\n\
             [verify]\nwrite_back_unproven = true\n\
             [limits]\nmax_load_per_core = 1000.0\nmax_memory_pressure = 100.0\n\
             [dedupe]\nretry_delay = \"0s\"\n",
            tracker.base_url(),
            folder.path().join("code").display().to_string(),
        );
        std::fs::write(folder.path().join("heartbeat.toml"), config).unwrap();
        Self { folder, tracker }
    }

    fn state(&self) -> std::path::PathBuf {
        self.folder.path().join("state")
    }

    async fn once(&self, fault_point: Option<u32>) -> Output {
        let mut command = self.prepare(Command::new(BINARY));
        if let Some(point) = fault_point {
            command.env("HEARTBEAT_TEST_FAULT_POINT", point.to_string());
        }
        command.output().await.unwrap()
    }

    /// A run in which no file may grow beyond this many KiB.
    async fn once_within(&self, limit: u32) -> Output {
        let mut command = Command::new("bash");
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, BINARY]);
        self.prepare(command).output().await.unwrap()
    }

    fn prepare(&self, mut command: Command) -> Command {
        command
            .args(["--once", "--json", "--quiet", "--config"])
            .arg(self.folder.path().join("heartbeat.toml"))
            .arg("--state-dir")
            .arg(self.state())
            .env("AZURE_DEVOPS_PAT", "right")
            .env("ANTHROPIC_API_KEY", "of-the-agent")
            .env("ANTHROPIC_BASE_URL", support::messages_api::reachable());
        command
    }

    /// Number of our comments per item.
    fn own_comments(&self) -> Vec<usize> {
        let ours = |id| {
            let all = self.tracker.comments(id);
            all.iter().filter(|comment| comment.contains("heartbeat ref")).count()
        };
        self.tracker.item_ids().into_iter().map(ours).filter(|count| *count > 0).collect()
    }
}

fn figure(state: &Path, sql: &str) -> i64 {
    let database = rusqlite::Connection::open(state.join("heartbeat.db")).unwrap();
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Kills at one point and runs again. `None` if the run ended before it; else whether the point was
/// after the finding was stored.
async fn crash_at(point: u32) -> Option<bool> {
    let team = Team::new().await;
    let output = team.once(Some(point)).await;
    if output.status.code().is_some() {
        return None;
    }
    let stored = team.has_stored_a_comment();
    team.publishes_each_finding_once(&format!("killed at point {point}")).await;
    Some(stored)
}

impl Team {
    fn has_stored_a_comment(&self) -> bool {
        let state = self.state();
        state.join("heartbeat.db").exists()
            && figure(&state, "SELECT count(*) FROM sqlite_schema WHERE name = 'outbox'") == 1
            && figure(&state, "SELECT count(*) FROM outbox WHERE state = 'pending'") > 0
    }

    /// The next runs deliver the rest, and our own comments create no work.
    async fn publishes_each_finding_once(&self, after: &str) {
        for _ in 0..3 {
            let output = self.once(None).await;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(matches!(output.status.code(), Some(0 | 10)), "{after}: {said}");
        }
        let state = self.state();
        let findings = figure(&state, "SELECT count(*) FROM findings");
        assert!(findings > 0, "{after}");
        let once = vec![1; usize::try_from(findings).unwrap()];
        assert_eq!(self.own_comments(), once, "{after}");
        for (sql, expected) in [
            ("SELECT count(DISTINCT key) FROM findings", findings),
            ("SELECT count(*) FROM outbox WHERE state = 'delivered'", findings),
            ("SELECT count(*) FROM outbox WHERE state <> 'delivered'", 0),
        ] {
            assert_eq!(figure(&state, sql), expected, "{after}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_a_finding_is_published_exactly_once() {
    let (mut failed, mut with_comment) = (0, 0);
    for limit in (240..=440).step_by(20) {
        let team = Team::new().await;
        let output = team.once_within(limit).await;
        if matches!(output.status.code(), Some(0 | 10)) {
            break;
        }
        failed += 1;
        with_comment += u32::from(team.has_stored_a_comment() || !team.own_comments().is_empty());
        team.publishes_each_finding_once(&format!("files of at most {limit} KiB")).await;
    }
    println!("{failed} full disks, {with_comment} of them after a comment was stored");
    assert!(failed >= 2, "only {failed} limits were met");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_point_a_finding_is_published_exactly_once() {
    let (mut points, mut after_storing) = (0, 0);
    for point in 1..FAR {
        let Some(stored) = crash_at(point).await else { break };
        points = point;
        after_storing += u32::from(stored);
    }
    assert!((20..FAR - 1).contains(&points), "killed at {points} points");
    assert!(after_storing >= 4, "only {after_storing} points between storing and the end");
    println!(
        "killed at each of {points} points, {after_storing} of them with a comment in the outbox"
    );
}
