//! The test environment: one tracker, one code base, one configuration, and the binary.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use heartbeat::settings::AgentKind;
use heartbeat::simulate::ado::{PROJECT, Simulator, SimulatorOptions};
use serde_json::Value;
use tokio::process::{Child, Command};

use support::messages_api::{MessagesApi, Reply, Request};
pub use support::messages_api::{asked_about, is_triage};
use support::real_cli::installed;

use crate::agents::bench::{cli, share_cache};

pub struct World {
    pub folder: tempfile::TempDir,
    pub simulator: Simulator,
    pub api: MessagesApi,
    claude: PathBuf,
}

/// The model of agents other than Claude.
pub const OTHER_MODEL: &str = "gpt-5.6-sol";

/// Result of a command.
pub struct Said {
    pub code: Option<i32>,
    pub json: Value,
    pub stderr: String,
}

impl World {
    /// The provider follows the script; `None` without the CLI.
    pub async fn new(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Option<Self> {
        Self::with_claude(installed()?, script).await
    }

    /// The same for agents of other kinds: for triage and for analyses.
    pub async fn of_kinds(
        kinds: [AgentKind; 2],
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Option<Self> {
        let programs = [cli(kinds[0])?, cli(kinds[1])?];
        let world = Self::with_claude(PathBuf::from("claude"), script).await?;
        world.configure_kinds(kinds, &programs);
        Some(world)
    }

    fn configure_kinds(&self, kinds: [AgentKind; 2], programs: &[PathBuf; 2]) {
        let base_url = format!("{}/v1", self.api.url());
        let mut claude = String::new();
        let mut sections = String::new();
        for (kind, program) in kinds.iter().zip(programs) {
            let command = format!("command = [{:?}]\n", program.display().to_string());
            let provider = if *kind == AgentKind::Copilot { "provider = \"openai\"\n" } else { "" };
            if *kind == AgentKind::Claude {
                claude = format!("{command}pass_env = [\"ANTHROPIC_BASE_URL\"]\n");
            } else if !sections.contains(&format!("[{}]", kind.section())) {
                sections.push_str(&format!(
                    "[{}]\n{command}{provider}base_url = {base_url:?}\n\
                     credential_env = \"PROVIDER_KEY\"\n",
                    kind.section()
                ));
            }
            if *kind == AgentKind::Copilot && !self.state().join("agents").exists() {
                share_cache(&self.state(), program);
            }
        }
        let model = |kind: AgentKind, claude: &str| match kind {
            AgentKind::Claude => claude.to_owned(),
            _ => OTHER_MODEL.to_owned(),
        };
        let [triage, deep] = kinds;
        let config = format!(
            "[source]\nbase_url = {:?}\nproject = {PROJECT:?}\ntoken_env = \"TRACKER_TOKEN\"\n\
             [repository]\npath = {:?}\n\
             [agent]\nkind = {:?}\nmax_retries = 0\n{claude}\
             [agent.price.{OTHER_MODEL:?}]\ninput = 1.0\noutput = 10.0\n{sections}\
             [triage]\nagent = {:?}\nmodel = {:?}\n[analyze]\nmodel = {:?}\n\
             [limits]\nslots_dir = \"slots\"\nmax_load_per_core = 1000.0\n\
             max_memory_pressure = 100.0\nmin_free_memory = \"1 MiB\"\nrun_deadline = \"30m\"\n\
             [timeouts]\ninit = \"60s\"\n",
            self.simulator.base_url(),
            self.code().display().to_string(),
            deep.into_str(),
            triage.into_str(),
            model(triage, "haiku"),
            model(deep, "sonnet"),
        );
        std::fs::write(self.folder.path().join("heartbeat.toml"), config).unwrap();
    }

    async fn with_claude(
        claude: PathBuf,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Option<Self> {
        let options = SimulatorOptions {
            token: Some("of-the-tracker".to_owned()),
            ..SimulatorOptions::default()
        };
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
            simulator: Simulator::start(options).await.unwrap(),
            api: MessagesApi::start(script),
            claude,
        };
        let source = world.code().join("src");
        std::fs::create_dir_all(&source).unwrap();
        std::fs::write(source.join("total.rs"), "pub fn total() -> u64 { 0 }\n").unwrap();
        world.configure("");
        Some(world)
    }

    pub fn code(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Writes the configuration, with more lines at its end, which may start new sections.
    pub fn configure(&self, more: &str) {
        let claude = self.claude.display().to_string();
        self.configure_agent(&[&claude], "", more);
    }

    /// The same with another command for the agent, and more lines in its section.
    pub fn configure_agent(&self, command: &[&str], agent: &str, more: &str) {
        let config = format!(
            "[source]\nbase_url = {:?}\nproject = {PROJECT:?}\ntoken_env = \"TRACKER_TOKEN\"\n\
             [repository]\npath = {:?}\n\
             [agent]\ncommand = {command:?}\npass_env = [\"ANTHROPIC_BASE_URL\"]\n\
             max_retries = 0\n{agent}\n\
             [limits]\nslots_dir = \"slots\"\nmax_load_per_core = 1000.0\nmax_memory_pressure = 100.0\nmin_free_memory = \"1 MiB\"\n\
             run_deadline = \"30m\"\n[timeouts]\ninit = \"60s\"\n{more}",
            self.simulator.base_url(),
            self.code().display().to_string(),
        );
        std::fs::write(self.folder.path().join("heartbeat.toml"), config).unwrap();
    }

    /// The agent with a login instead of a key.
    pub fn configure_login(&self, more: &str) {
        let claude = self.claude.display().to_string();
        let login = "auth = \"login\"\ncredential_env = \"CLAUDE_CODE_OAUTH_TOKEN\"";
        self.configure_agent(&[&claude], login, more);
    }

    pub fn claude(&self) -> &Path {
        &self.claude
    }

    /// `heartbeat ARGS` in this test environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heartbeat"));
        command
            .args(args)
            .arg("--config")
            .arg(self.folder.path().join("heartbeat.toml"))
            .arg("--state-dir")
            .arg(self.state())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("TRACKER_TOKEN", "of-the-tracker")
            .env("ANTHROPIC_API_KEY", "sk-ant-of-the-agent")
            .env("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-of-the-agent")
            .env("ANTHROPIC_BASE_URL", self.api.url())
            .env("PROVIDER_KEY", "key-of-the-provider-0123456789")
            .env("COPILOT_ALLOW_ALL", "true")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs it to its end; parses standard output if it is JSON.
    pub async fn run(&self, args: &[&str]) -> Said {
        let output = self.command(args).output().await.unwrap();
        Said {
            code: output.status.code(),
            json: serde_json::from_slice(&output.stdout).unwrap_or_default(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// One run with its report.
    pub async fn once(&self) -> Said {
        self.run(&["--once", "--json"]).await
    }

    /// `heartbeat status --json`.
    pub async fn status(&self) -> Value {
        self.run(&["status", "--json"]).await.json
    }

    /// The service, firing every second, and the address of its pages.
    pub fn serve(&self) -> (Child, String) {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = format!("http.listen=127.0.0.1:{port}");
        let args =
            ["--set", "schedule.cron=* * * * * *", "--set", "schedule.first_run=process", "--set"];
        let mut command = self.command(&[&args[..], &[listen.as_str()]].concat());
        let service = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        (service, format!("http://127.0.0.1:{port}"))
    }

    /// Ends the service as a user would.
    pub async fn stop(&self, service: &mut Child) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(service.id().unwrap()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM).unwrap();
        assert_eq!(service.wait().await.unwrap().code(), Some(143));
    }

    /// A figure from the state.
    pub fn figure(&self, sql: &str) -> i64 {
        let database = rusqlite::Connection::open(self.state().join("heartbeat.db")).unwrap();
        database.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Processes that have the state's folder in their environment or command line.
    pub fn processes(&self) -> Vec<PathBuf> {
        let state = self.state().display().to_string();
        let entries = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let holds = |path: &PathBuf| {
            ["environ", "cmdline"].iter().any(|file| {
                let text = std::fs::read(path.join(file)).unwrap_or_default();
                String::from_utf8_lossy(&text).contains(&state)
            })
        };
        entries.filter(holds).collect()
    }
}

/// A page of the service; `None` while it does not answer.
pub async fn body(url: String) -> Option<String> {
    // The first caller installs it; the others find it installed.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::get(url).await.ok()?.text().await.ok()
}

/// The same as JSON.
pub async fn page(url: String) -> Option<Value> {
    serde_json::from_str(&body(url).await?).ok()
}

/// The distinct numbers of attempts that open items have used.
pub fn attempts(report: &Value) -> Vec<u64> {
    let open = report["open"]["first"].as_array().unwrap();
    let mut attempts: Vec<u64> = open.iter().filter_map(|item| item["attempts"].as_u64()).collect();
    attempts.sort_unstable();
    attempts.dedup();
    attempts
}
