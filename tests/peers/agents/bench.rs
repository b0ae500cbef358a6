//! One agent of a kind with a code base, a supervisor and a provider on loopback.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use heartbeat::analyze;
use heartbeat::app::selftest::{EventRecorder, FolderLedger, Rig};
use heartbeat::config::DEFAULT_TOML;
use heartbeat::event::Event;
use heartbeat::model::{Background, RunId, SessionEnd, SessionId, SessionRef, Stage};
use heartbeat::prompt::Prompts;
use heartbeat::session::agent::kept_folder;
use heartbeat::session::{Job, Sessions, StopHandle, SupervisedSessions};
use heartbeat::settings::{
    AgentAuth, AgentKind, Config, Containment, CopilotProvider, Environment, Price,
};
use serde_json::{Value, json};
use support::agent_items::{fence, item, verdict};
use support::messages_api::{MessagesApi, Reply};
use support::real_cli::installed_at;
use uuid::Uuid;

/// The provider's key, which must not appear anywhere.
pub const KEY: &str = "key-of-the-provider-0123456789";

/// A model in Codex's own catalogue.
pub const MODEL: &str = "gpt-5.6-sol";

/// The kinds other than Claude.
pub const KINDS: [AgentKind; 2] = [AgentKind::Codex, AgentKind::Copilot];

/// The test environment.
pub struct Bench {
    pub folder: tempfile::TempDir,
    pub ledger: Arc<FolderLedger>,
    pub events: Arc<EventRecorder>,
    pub stop: StopHandle,
    sessions: SupervisedSessions,
    config: Config,
}

/// The CLI of a kind; `None`, with a message, if it is not installed.
pub fn cli(kind: AgentKind) -> Option<PathBuf> {
    installed_at(match kind {
        AgentKind::Claude => "HEARTBEAT_REAL_CLAUDE",
        AgentKind::Codex => "HEARTBEAT_REAL_CODEX",
        AgentKind::Copilot => "HEARTBEAT_REAL_COPILOT",
    })
}

/// Shares Copilot's unpacked files, a quarter of a gigabyte, among all states of the tests.
pub fn share_cache(state: &Path, copilot: &Path) {
    let shared = copilot.parent().unwrap().join("unpacked");
    let kept = kept_folder(state);
    std::fs::create_dir_all(&shared).unwrap();
    std::fs::create_dir_all(&kept).unwrap();
    std::os::unix::fs::symlink(shared, kept.join("copilot-cache")).unwrap();
}

impl Bench {
    /// `None` without the CLI.
    pub fn new(kind: AgentKind, url: &str, change: impl Fn(&mut Config)) -> Option<Self> {
        Self::with_environment(kind, url, change, &[])
    }

    /// The same with additional variables in heartbeat's environment.
    pub fn with_environment(
        kind: AgentKind,
        url: &str,
        change: impl Fn(&mut Config),
        more: &[(&str, &str)],
    ) -> Option<Self> {
        let program = cli(kind)?;
        let folder = tempfile::tempdir().unwrap();
        let code = folder.path().join("code");
        std::fs::create_dir_all(code.join("src")).unwrap();
        std::fs::write(code.join("src/total.rs"), "// MARK-OF-THE-CODE\nfn total() {}\n").unwrap();
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
        config.agent.kind = kind;
        config.agent.max_retries = 0;
        (config.triage.model, config.analyze.model) = (MODEL.into(), MODEL.into());
        let price = Price { input: 1.0, cached_input: None, cache_write: None, output: 10.0 };
        config.agent.price.insert(MODEL.into(), price);
        config.timeouts.init = Duration::from_secs(60);
        config.timeouts.liveness = Duration::from_millis(500);
        let command = vec![program.display().to_string()];
        config.agent.command.clone_from(&command);
        config.agent.pass_env.push("ANTHROPIC_BASE_URL".into());
        config.codex.command.clone_from(&command);
        config.codex.base_url = format!("{url}/v1");
        config.copilot.command = command;
        config.copilot.provider = CopilotProvider::Openai;
        config.copilot.base_url = format!("{url}/v1");
        config.codex.credential_env = "PROVIDER_KEY".into();
        config.copilot.credential_env = "PROVIDER_KEY".into();
        change(&mut config);
        if kind == AgentKind::Copilot {
            share_cache(&state, &program);
        }
        let own = [
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/nonexistent"),
            ("PROVIDER_KEY", KEY),
            ("ANTHROPIC_API_KEY", KEY),
            ("ANTHROPIC_BASE_URL", url),
        ];
        let environment = Environment::new(own.iter().chain(more).copied());
        let heartbeat = Path::new(env!("CARGO_BIN_EXE_heartbeat"));
        let rig = Rig::new(heartbeat, folder.path(), Containment::Auto).unwrap();
        let shared = Arc::new(config.clone());
        Some(Self {
            sessions: SupervisedSessions::new(rig.supervisor, &shared, &environment, &state),
            ledger: rig.ledger,
            events: rig.events,
            stop: StopHandle::new(),
            folder,
            config,
        })
    }

    pub fn code(&self) -> PathBuf {
        self.folder.path().join("code")
    }

    /// One deep session; nothing of it is kept.
    pub async fn analyse(&self) -> SessionEnd {
        let (item, verdict) = (item(42, "Total is wrong", "By a cent."), verdict(42));
        let request = analyze::Request {
            item: &item,
            verdict: &verdict,
            background: &Background::default(),
            code_bases: &[],
            overview: "",
            context: "src/total.rs",
        };
        let prompts = Prompts::built_in(AgentAuth::ApiKey).unwrap();
        let prompt = analyze::render(&prompts, request, &self.config.analyze, &fence()).unwrap();
        self.perform(Stage::Deep, prompt, Some(self.code())).await
    }

    pub async fn perform(
        &self,
        stage: Stage,
        prompt: heartbeat::prompt::Rendered,
        repository: Option<PathBuf>,
    ) -> SessionEnd {
        let (id, run) = (SessionId(Uuid::now_v7()), RunId(Uuid::now_v7()));
        let session = SessionRef { id, run, stage, item: None, attempt: 1 };
        let job = Job {
            session,
            prompt,
            repository,
            beside: Vec::new(),
            triage: None,
            analyze: None,
            attached: None,
            examiner: None,
        };
        let end = self.sessions.perform(job, self.stop.signal()).await.unwrap();
        assert_eq!(end.survivors, 0, "{end:?}");
        assert!(self.ledger.rows().unwrap().is_empty(), "a row stayed open: {end:?}");
        assert_eq!(self.processes(), Vec::<u32>::new(), "{end:?}");
        let left = std::fs::read_dir(self.folder.path().join("state/scratch")).unwrap().count();
        assert_eq!(left, 0, "the private folder stayed");
        end
    }

    /// Processes that know this test's folder, which only its agents do.
    pub fn processes(&self) -> Vec<u32> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let own = std::process::id();
        let folder = self.folder.path().display().to_string();
        let knows = |pid: &u32| {
            ["cmdline", "environ"].iter().any(|file| {
                let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                *pid != own && String::from_utf8_lossy(&text).contains(&folder)
            })
        };
        pids.filter(knows).collect()
    }

    /// Maximum number of tool calls of the sessions.
    pub fn spawned(&self) -> usize {
        let spawned = |event: &Event| matches!(event, Event::SessionSpawned { .. });
        self.events.events().iter().filter(|event| spawned(event)).count()
    }
}

/// A call that reads a file.
pub fn read(kind: AgentKind, path: &str) -> (&'static str, Value) {
    match kind {
        AgentKind::Codex => ("exec_command", json!({ "cmd": format!("cat {path}") })),
        AgentKind::Copilot => ("view", json!({ "path": path })),
        AgentKind::Claude => ("Read", json!({ "file_path": path })),
    }
}

/// The structured answer of a kind that has no tool for it.
pub fn answer(value: &Value) -> Reply {
    Reply::Text(value.to_string())
}

/// Everything sent to the provider.
pub fn sent(api: &MessagesApi) -> String {
    api.requests().iter().map(|request| request.body.to_string()).collect()
}
