//! Rows of an earlier heartbeat process whose pids were reused: no other process is touched.
//!
//! Runs itself again in a private PID namespace, where pids can be chosen.

use std::collections::HashSet;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use heartbeat::app::selftest::{EventRecorder, FolderLedger};
use heartbeat::model::{ProcessIdentity, RunId, SessionId, SessionRef, Stage};
use heartbeat::ports::LedgerRow;
use heartbeat::process;
use heartbeat::session::orphans;
use jiff::Timestamp;
use uuid::Uuid;

const INSIDE: &str = "HEARTBEAT_TEST_INSIDE";
const ROWS: usize = 200;

#[test]
fn reused_pids_are_never_killed() {
    if std::env::var_os(INSIDE).is_some() {
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--"]);
    if !Command::new("unshare")
        .args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("SKIPPED: no private PID namespace can be made here");
        return;
    }
    let output = command
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "reuse::inside", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    if text.contains("SKIPPED") {
        println!("SKIPPED: numbers cannot be forced here");
        return;
    }
    assert!(text.contains("200 of 200 alive"), "{text}");
    println!("{}", text.lines().find(|line| line.contains("alive")).unwrap());
}

/// Not a test: what runs in the namespace.
#[test]
fn inside() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ledger = FolderLedger::open(folder.path()).unwrap();
    let mut innocents = Vec::new();
    for _ in 0..ROWS {
        // The keeper of an earlier process, of which a row is left.
        let mut keeper = sleeper();
        let identity = process::identity(keeper.id()).unwrap();
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        let Some(innocent) = take_number(identity.pid) else {
            println!("SKIPPED");
            return;
        };
        assert_eq!(innocent.id(), identity.pid, "the number is not reused");
        ledger.insert(&row(identity)).unwrap();
        innocents.push(innocent);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sink = EventRecorder::default();
    let resolved = runtime
        .block_on(orphans::resolve(&ledger, &sink, &HashSet::new(), Duration::from_secs(20)))
        .unwrap();
    assert_eq!(resolved.closed.len(), ROWS);
    assert!(ledger.rows().unwrap().is_empty());
    let alive = innocents.iter_mut().filter_map(|one| one.try_wait().unwrap()).count();
    println!("{} of {ROWS} alive, every row closed", ROWS - alive);
    for mut innocent in innocents {
        innocent.kill().unwrap();
        innocent.wait().unwrap();
    }
}

fn sleeper() -> Child {
    Command::new("sleep").arg("600").process_group_zero().spawn().unwrap()
}

trait OwnGroup {
    fn process_group_zero(&mut self) -> &mut Self;
}

impl OwnGroup for Command {
    /// As the group's leader: killing a recorded group would hit it too.
    fn process_group_zero(&mut self) -> &mut Self {
        use std::os::unix::process::CommandExt;
        self.process_group(0)
    }
}

/// Starts an unrelated process that gets exactly this pid.
fn take_number(pid: u32) -> Option<Child> {
    for _ in 0..50 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let mut child = sleeper();
        if child.id() == pid {
            return Some(child);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    None
}

fn row(keeper: ProcessIdentity) -> LedgerRow {
    LedgerRow {
        session: SessionRef {
            id: SessionId(Uuid::now_v7()),
            run: RunId(Uuid::now_v7()),
            stage: Stage::Deep,
            item: None,
            attempt: 1,
        },
        keeper,
        tier: "subreaper".to_owned(),
        cgroup: None,
        scratch: "/nonexistent/heartbeat-test".into(),
        started_at: Timestamp::UNIX_EPOCH,
        deadline_at: Timestamp::UNIX_EPOCH,
        host: None,
        in_force: None,
    }
}
