//! The test environment: a private state folder, the real binary, and a view of `/proc`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

pub const HEARTBEAT: &str = env!("CARGO_BIN_EXE_heartbeat");

const USUAL: [&str; 3] =
    ["limits.max_deep_per_run=10", "timeouts.stall=\"7m\"", "dedupe.retry_delay=\"15m\""];

/// A temporary folder with the state in it.
pub struct World {
    folder: tempfile::TempDir,
    pace_ms: u32,
}

impl World {
    /// Sessions of the scripted agent take `pace_ms`.
    pub fn new(pace_ms: u32) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), pace_ms }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// `heartbeat ARGS` in a clean environment, on this test's state.
    pub fn heartbeat(&self, args: &[&str]) -> Command {
        let mut command = self.plain(args);
        command.arg("--state-dir").arg(self.state());
        command
    }

    /// The same, on the state it finds by default.
    pub fn plain(&self, args: &[&str]) -> Command {
        let mut command = Command::new(HEARTBEAT);
        command.env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path()).env("TMPDIR", self.path());
        command.current_dir(self.path());
        command.args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The same with the simulators, at this test's pace.
    pub fn demo(&self, args: &[&str]) -> Command {
        let agent = format!(
            "agent.command=[\"{HEARTBEAT}\", \"simulate\", \"agent\", \"--pace\", \"{}\"]",
            self.pace_ms
        );
        // The default limits instead of the demo's. Settings of a test come later and win.
        let mut all = vec!["--demo", "--set", &agent];
        for usual in USUAL {
            all.extend(["--set", usual]);
        }
        all.extend(args);
        self.heartbeat(&all)
    }

    /// The tracker's simulator as a separate process; its first line is its address.
    pub fn simulator(&self, args: &[&str]) -> Command {
        let mut all = vec!["simulate", "ado", "--port", "0"];
        all.extend(args);
        self.heartbeat(&all)
    }

    /// One complete demo run with its JSON report.
    pub fn run_once(&self, args: &[&str]) -> (i32, Value) {
        let mut all = vec!["--once", "--json"];
        all.extend(args);
        let output = self.demo(&all).output().unwrap();
        let report = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
        (code(&output), report)
    }

    /// The database, for reading.
    pub fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.state().join("heartbeat.db")).unwrap()
    }

    /// A single figure from the database.
    pub fn figure(&self, sql: &str) -> i64 {
        self.database().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Every process started by a session of this test, agents and keepers, recognised by
    /// environment and command line.
    pub fn session_processes(&self) -> Vec<u32> {
        let mut marks: BTreeSet<String> = BTreeSet::new();
        marks.insert(format!("{}/scratch/", self.state().display()));
        if self.state().join("heartbeat.db").exists() {
            let database = self.database();
            // A run that is just starting has no tables yet.
            if let Ok(mut rows) = database.prepare("SELECT session FROM sessions") {
                let ids = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
                marks.extend(ids.map(Result::unwrap));
            }
        }
        processes(|words| marks.iter().any(|mark| contains(words, mark.as_bytes())))
    }

    /// Live agents: the processes whose own command is the scripted agent.
    pub fn live_agents(&self) -> Vec<u32> {
        let home = format!("HOME={}/scratch/", self.state().display());
        processes(|words| contains(words, home.as_bytes()) && contains(words, b"simulate\0agent\0"))
    }
}

/// Process ids whose command line and environment satisfy `wanted`. Dead ones have neither.
fn processes(wanted: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if pid == std::process::id() {
            continue;
        }
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let mut words = read("cmdline");
        words.extend(read("environ"));
        if wanted(&words) {
            found.push(pid);
        }
    }
    found
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// The exit code; a signal as its negative number.
pub fn code(output: &Output) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    output.status.code().unwrap_or_else(|| -output.status.signal().unwrap_or(0))
}

/// All output of a process.
pub fn text(output: &Output) -> String {
    format!(
        "--- stdout\n{}\n--- stderr\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A child that is killed if the test fails.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(mut command: Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    pub fn pid(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    /// The first line it prints.
    pub fn first_line(&self) -> String {
        use std::io::BufRead;
        let stdout = self.0.as_ref().unwrap().stdout.as_ref().unwrap();
        let stdout = std::os::fd::AsFd::as_fd(stdout).try_clone_to_owned().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(std::fs::File::from(stdout)).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Whether it has exited.
    pub fn ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.pid()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may have exited.
            drop(child.kill());
            drop(child.wait());
        }
    }
}
