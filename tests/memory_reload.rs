//! A configuration that is read again in the middle of a run changes nothing in that run: the
//! service, the simulated tracker and the scripted agent as real processes.

#![expect(clippy::unwrap_used, reason = "a test helper that fails is a failed test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[path = "support/eventually.rs"]
mod eventually;
use eventually::eventually;

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");

/// A process that does not outlive its test.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[expect(clippy::disallowed_methods, reason = "the real binary is what is tested")]
fn heartbeat() -> Command {
    Command::new(BINARY)
}

fn write_config(folder: &Path, address: &str, max_deep: u32) {
    let text = format!(
        "[source]\nbase_url = \"{address}\"\nproject = \"Parcel\"\nlook_back = \"3650d\"\n\
         token_env = \"HEARTBEAT_TEST_TOKEN\"\nwhere = \"[System.Id] <= 4112\"\n\
         [schedule]\ncron = \"* * * * * *\"\nfirst_run = \"process\"\n\
         [repository]\npath = \"{0}\"\n\
         [agent]\ncommand = [\"{BINARY}\", \"simulate\", \"agent\", \"--pace\", \"2500\"]\n\
         [limits]\nmax_deep_per_run = {max_deep}\nmax_load_per_core = 100.0\nrun_deadline = \"1h\"\n\
         [state]\ndir = \"{0}/state\"\n",
        folder.display()
    );
    std::fs::write(folder.join("heartbeat.toml"), text).unwrap();
}

/// Asks until the answer is as wanted.
fn wait_for(folder: &Path, sql: &str, wanted: impl Fn(i64) -> bool) -> i64 {
    let mut answer = None;
    eventually(sql, || {
        let database = rusqlite::Connection::open(folder.join("state/heartbeat.db"));
        answer = database.and_then(|database| database.query_row(sql, [], |row| row.get(0))).ok();
        answer.is_some_and(&wanted)
    });
    answer.unwrap()
}

#[test]
fn a_configuration_read_again_between_fetch_and_analysis_waits_for_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let simulator = heartbeat().args(["simulate", "ado"]).stdout(Stdio::piped()).spawn();
    let mut simulator = Guarded(simulator.unwrap());
    let mut address = String::new();
    BufReader::new(simulator.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    write_config(folder, address.trim(), 2);
    let service = heartbeat()
        .arg("--config")
        .arg(folder.join("heartbeat.toml"))
        .env("HEARTBEAT_TEST_TOKEN", "any")
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("log")).unwrap())
        .spawn();
    let _service = Guarded(service.unwrap());
    wait_for(folder, "SELECT count(*) FROM sessions WHERE stage = 'triage'", |n| n == 1);
    // Between fetch and analysis: triage is still talking.
    write_config(folder, address.trim(), 0);
    wait_for(folder, "SELECT count(*) FROM events WHERE event = 'config_reloaded'", |n| n == 1);
    let first = "SELECT run FROM runs ORDER BY started_at LIMIT 1";
    let deep = format!("SELECT count(*) FROM sessions WHERE stage = 'deep' AND run = ({first})");
    let ended = format!("SELECT ended_at IS NOT NULL FROM runs WHERE run = ({first})");
    wait_for(folder, &ended, |ended| ended == 1);
    assert_eq!(wait_for(folder, &deep, |_| true), 2, "the run kept its configuration");
    let reloaded = "SELECT seq FROM events WHERE event = 'config_reloaded'";
    let began =
        "SELECT min(seq) FROM events WHERE event = 'session_registered' AND item IS NOT NULL";
    let (reloaded, began) =
        (wait_for(folder, reloaded, |_| true), wait_for(folder, began, |_| true));
    assert!(reloaded < began, "it was read again before the first analysis");
    // The next run has the new one: nothing is analysed.
    wait_for(folder, "SELECT count(*) FROM runs WHERE ended_at IS NOT NULL", |n| n >= 2);
    let all = wait_for(folder, "SELECT count(*) FROM sessions WHERE stage = 'deep'", |_| true);
    assert_eq!(all, 2);
}
