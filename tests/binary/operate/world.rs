//! The test environment of the binary: a simulated tracker, a code base, an agent, a configuration.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use heartbeat::simulate::ado::{Simulator, SimulatorOptions};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

pub const TOKEN: &str = "a-good-token";
const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");

pub struct World {
    pub simulator: Simulator,
    pub folder: TempDir,
    /// Additional variables.
    pub env: Vec<(String, String)>,
}

/// Result of a command.
#[derive(Debug)]
pub struct Said {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }

    pub fn code(&self) -> i32 {
        self.status.code().unwrap()
    }
}

impl World {
    pub async fn new() -> Self {
        let options = SimulatorOptions { token: Some(TOKEN.into()), ..SimulatorOptions::default() };
        let simulator = Simulator::start(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let world = Self { simulator, folder, env: Vec::new() };
        std::fs::create_dir(world.path("code")).unwrap();
        std::fs::write(world.path("code/total.rs"), "fn total() -> u32 { 1 }\n").unwrap();
        std::fs::create_dir(world.path("home")).unwrap();
        world.write_config(&[BINARY, "simulate", "agent"]);
        world
    }

    fn write_config(&self, agent: &[&str]) {
        let text = format!(
            "[source]\nbase_url = {:?}\nproject = {:?}\ntoken_env = \"TRACKER_TOKEN\"\n\
             look_back = \"3650d\"\n[schedule]\ncron = \"0 0 1 1 *\"\nfirst_run = \"process\"\n\
             [repository]\npath = {:?}\n[agent]\ncommand = {agent:?}\nread_paths = [{BINARY:?}]\npass_env = [\"ANTHROPIC_BASE_URL\"]\nwrite_paths = [{:?}]\n[limits]\n\
             max_load_per_core = 1000.0\nmax_memory_pressure = 100.0\nmin_free_memory = \"1 MiB\"\nmax_deep_per_run = 2\n\
             slots_dir = {:?}\n[state]\ndir = {:?}\n[timeouts]\ngrace = \"1s\"\n",
            self.simulator.base_url(),
            self.simulator.project(),
            self.path("code"),
            self.path("."),
            self.path("slots"),
            self.path("state"),
        );
        std::fs::write(self.path("heartbeat.toml"), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Makes a script the agent; `$AGENT` in it is the scripted agent.
    pub fn agent(&self, text: &str) {
        let agent = format!("AGENT={BINARY:?}\n{text}");
        let path = self.script("agent", &agent);
        self.write_config(&[path.to_str().unwrap()]);
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    #[expect(clippy::disallowed_methods, reason = "the tests start the program they test")]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(["--config", self.path("heartbeat.toml").to_str().unwrap()])
            .args(args)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("TRACKER_TOKEN", TOKEN)
            .env("ANTHROPIC_API_KEY", "not-a-key")
            .env("ANTHROPIC_BASE_URL", support::messages_api::reachable())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for (name, value) in &self.env {
            command.env(name, value);
        }
        command
    }

    pub fn start(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    pub async fn run(&self, args: &[&str]) -> Said {
        finish(self.start(args)).await
    }

    /// Every line of every `events.ndjson`, in order.
    pub fn events(&self) -> Vec<Value> {
        let Ok(runs) = std::fs::read_dir(self.path("state/runs")) else { return Vec::new() };
        let mut folders: Vec<PathBuf> = runs.map(|run| run.unwrap().path()).collect();
        folders.sort();
        folders.iter().flat_map(|folder| lines(&folder.join("events.ndjson"))).collect()
    }
}

pub fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub async fn finish(child: Child) -> Said {
    let output = tokio::time::timeout(support::EVENTUALLY_TIMEOUT, child.wait_with_output()).await;
    let output = output.expect("it ends").unwrap();
    Said {
        status: output.status,
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

pub fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}
