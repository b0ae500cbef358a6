//! A configuration that is reloaded during a run does not affect that run: the service, the
//! simulated tracker and the scripted agent as real processes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::eventually;

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");

/// A process that is killed with its test.
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
    write_config_with(folder, address, max_deep, folder, "");
}

fn write_config_with(folder: &Path, address: &str, max_deep: u32, repository: &Path, more: &str) {
    let text = format!(
        "[source]\nbase_url = \"{address}\"\nproject = \"Parcel\"\nlook_back = \"3650d\"\n\
         token_env = \"HEARTBEAT_TEST_TOKEN\"\nwhere = \"[System.Id] <= 4112\"\n\
         [schedule]\ncron = \"* * * * * *\"\nfirst_run = \"process\"\n\
         [repository]\npath = \"{repository}\"\n\
         [agent]\ncommand = [\"{BINARY}\", \"simulate\", \"agent\", \"--pace\", \"2500\"]\n\
         [limits]\nslots_dir = \"slots\"\nmax_deep_per_run = {max_deep}\nmax_load_per_core = 100.0\nmax_memory_pressure = 100.0\nrun_deadline = \"1h\"\n\
         [state]\ndir = \"{0}/state\"\n{more}",
        folder.display(),
        repository = repository.display(),
    );
    std::fs::write(folder.join("heartbeat.toml"), text).unwrap();
}

/// Queries until the result is as wanted.
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
    let (_simulator, address) = simulator();
    write_config(folder, &address, 2);
    let _service = service(folder);
    wait_for(folder, "SELECT count(*) FROM sessions WHERE stage = 'triage'", |n| n == 1);
    // Between fetch and analysis: triage is still running.
    write_config(folder, &address, 0);
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

/// The service with this folder's configuration.
fn service(folder: &Path) -> Guarded {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log"));
    let service = heartbeat()
        .arg("--config")
        .arg(folder.join("heartbeat.toml"))
        .env("HEARTBEAT_TEST_TOKEN", "any")
        .stdout(Stdio::null())
        .stderr(log.unwrap())
        .spawn();
    Guarded(service.unwrap())
}

fn stop(mut service: Guarded) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(service.0.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    service.0.wait().unwrap();
}

fn status(folder: &Path) -> serde_json::Value {
    let output = heartbeat()
        .args(["status", "--json", "--config"])
        .arg(folder.join("heartbeat.toml"))
        .arg("--state-dir")
        .arg(folder.join("state"))
        .env("HEARTBEAT_TEST_TOKEN", "any")
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn simulator() -> (Guarded, String) {
    let simulator = heartbeat().args(["simulate", "ado"]).stdout(Stdio::piped()).spawn();
    let mut simulator = Guarded(simulator.unwrap());
    let mut address = String::new();
    BufReader::new(simulator.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    (simulator, address.trim().to_owned())
}

const FIRED: &str = "SELECT count(*) FROM ticks WHERE decision = 'fired'";
const BROKEN: &str = "SELECT count(*) FROM events WHERE event = 'config_broken'";
const RELOADED: &str = "SELECT count(*) FROM events WHERE event = 'config_reloaded'";

#[test]
fn a_configuration_that_cannot_be_used_stays_broken_until_it_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_simulator, address) = simulator();
    write_config(folder, &address, 0);
    let running = service(folder);
    wait_for(folder, FIRED, |n| n >= 1);
    // Valid syntax, but the folder it names does not exist.
    write_config_with(folder, &address, 0, Path::new("/nonexistent"), "");
    wait_for(folder, BROKEN, |n| n == 1);
    let fired = wait_for(folder, FIRED, |_| true);
    // It is reloaded before each of these.
    wait_for(folder, FIRED, |n| n >= fired + 2);
    assert_eq!(wait_for(folder, RELOADED, |_| true), 0, "the file is still broken");
    assert_eq!(wait_for(folder, BROKEN, |_| true), 1, "and it is told once");
    assert!(status(folder)["config_fault"].is_string());
    // Stopped, fixed, restarted: the earlier problem no longer exists.
    stop(running);
    write_config(folder, &address, 0);
    let _running = service(folder);
    wait_for(folder, RELOADED, |n| n == 1);
    assert!(status(folder)["config_fault"].is_null());
}

#[test]
fn a_key_that_waits_for_a_restart_is_reported_until_the_restart() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_simulator, address) = simulator();
    write_config(folder, &address, 0);
    let running = service(folder);
    wait_for(folder, FIRED, |n| n >= 1);
    let more = "[http]\nlisten = \"127.0.0.1:0\"\n";
    write_config_with(folder, &address, 0, folder, more);
    wait_for(folder, RELOADED, |n| n == 1);
    assert_eq!(status(folder)["config_waiting"], serde_json::json!(["http.listen"]));
    // A later change does not clear it.
    write_config_with(folder, &address, 1, folder, more);
    wait_for(folder, RELOADED, |n| n == 2);
    assert_eq!(status(folder)["config_waiting"], serde_json::json!(["http.listen"]));
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    assert!(log.contains("take effect after a restart"), "{log}");
    stop(running);
    let _running = service(folder);
    eventually("nothing to wait", || status(folder)["config_waiting"] == serde_json::json!([]));
}
