//! Command line and environment of one session.
//!
//! Purpose of the flags:
//! - `--bare` (API key) or `--restricted --setting-sources "" --strict-mcp-config` (both modes):
//!   nothing in the repository is executed or injected: no hooks, no `apiKeyHelper`, no MCP
//!   server, no `CLAUDE.md`.
//! - `--tools ""` (triage) and `--tools Read` (deep): an allow-list; a deny-list would add others.
//! - `--permission-mode dontAsk --permission-prompts none`: nothing ever waits for an answer.
//! - the prompt goes by standard input, the system prompt by a file, the schema by argument.

use std::ffi::OsString;

use super::super::passed::bearer;
use super::super::{AgentCommand, Passed, TMP_DIR, Task};
use super::login::Login;
use crate::gateway::Provider;
use crate::model::{Stage, Usd};
use crate::settings::{AgentAuth, Config};

/// Name of the system prompt's file in the scratch folder.
pub const SYSTEM_PROMPT_FILE: &str = "system-prompt.md";

const API_KEY: &str = "ANTHROPIC_API_KEY";
const BEARER: &str = "ANTHROPIC_AUTH_TOKEN";
const ADDRESS: &str = "ANTHROPIC_BASE_URL";
const DEFAULT_ADDRESS: &str = "https://api.anthropic.com";
const PATH: &str = "/v1/messages";
/// Select a cloud's own way to the model: `CLAUDE_CODE_USE_BEDROCK` and others.
const OTHER_WAYS: &str = "CLAUDE_CODE_USE_";

/// Names the folder of its login.
pub(super) const LOGIN_FOLDER: &str = "CLAUDE_CONFIG_DIR";

/// Switches that keep the CLI from talking to anyone but the provider, from updating itself and
/// from leaving background tasks behind.
const SWITCHES: [(&str, &str); 6] = [
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    // Bounds only the wait for response headers; the supervisor handles a hang after them.
    ("API_TIMEOUT_MS", "120000"),
];

/// Variables of heartbeat's environment that are passed to the CLI.
pub fn passed(config: &Config, lookup: &impl Fn(&str) -> Option<OsString>) -> Passed {
    let credential = &config.agent.credential_env;
    // The CLI prefers a key to a login. A session has its own folder of settings.
    let withheld: &[&str] = match config.agent.auth {
        AgentAuth::Login => &[API_KEY, LOGIN_FOLDER],
        AgentAuth::ApiKey => &[LOGIN_FOLDER],
    };
    Passed::collect(config, credential, withheld, lookup)
}

/// The provider behind a key. A login is the CLI's own: it renews itself and is not lent to us.
pub fn provider(config: &Config, passed: &Passed) -> Option<Provider> {
    if config.agent.auth == AgentAuth::Login || passed.has_prefix(OTHER_WAYS) {
        return None;
    }
    let secret = passed.credential()?;
    let credential = match config.agent.credential_env.as_str() {
        API_KEY => ("x-api-key", secret),
        BEARER => ("authorization", bearer(&secret)),
        _ => return None,
    };
    let base = passed.get(ADDRESS).and_then(|base| base.to_str()).unwrap_or(DEFAULT_ADDRESS);
    Some(Provider {
        address: format!("{}{PATH}", base.trim_end_matches('/')),
        path: PATH,
        credential: Some(credential),
        headers: passed.own_headers(),
        authorities: passed.authorities(),
    })
}

/// How the CLI is started for a task.
pub fn command(
    config: &Config,
    passed: &Passed,
    login: Option<&Login>,
    task: &Task,
) -> AgentCommand {
    let mut env = env(config, passed, task);
    let system_prompt = task.system_prompt.clone().into_bytes();
    let mut files = vec![(task.scratch.join(SYSTEM_PROMPT_FILE), system_prompt)];
    if let Some(login) = login {
        env.push((LOGIN_FOLDER.into(), login.folder_for(task).into_os_string()));
        files.extend(login.lend(task));
    }
    let (args, stdin) = (args(config, task), task.prompt.clone().into_bytes());
    AgentCommand { args, stdin, files, env, links: Vec::new() }
}

/// The complete environment of one session.
fn env(config: &Config, passed: &Passed, task: &Task) -> Vec<(OsString, OsString)> {
    let mut own: Vec<(OsString, OsString)> = vec![
        ("CLAUDE_CODE_TMPDIR".into(), task.scratch.join(TMP_DIR).into_os_string()),
        ("CLAUDE_CODE_MAX_RETRIES".into(), config.agent.max_retries.to_string().into()),
    ];
    own.extend(SWITCHES.iter().map(|(name, value)| (name.into(), value.into())));
    let at_the_door = task.door.iter().flat_map(|door| {
        let credential = &config.agent.credential_env;
        [(ADDRESS.into(), door.address().into()), (credential.into(), door.token.clone().into())]
    });
    passed.environment(task, own, at_the_door.collect())
}

/// The arguments of one session, after the configured command.
fn args(config: &Config, task: &Task) -> Vec<OsString> {
    let mut args = Arguments::default();
    // Partial messages show whether the provider is answering.
    args.add(["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]);
    if config.agent.auth == AgentAuth::ApiKey {
        args.add(["--bare"]);
    }
    args.add(["--restricted", "--strict-mcp-config", "--setting-sources", ""]);
    args.add(["--disable-slash-commands", "--no-session-persistence"]);
    args.add(["--permission-mode", "dontAsk", "--permission-prompts", "none"]);
    args.add(["--session-id", &task.session.to_string()]);
    match task.stage {
        Stage::Triage | Stage::Locate => {
            args.add(["--model", &config.triage.model]);
            args.add_unless_empty("--effort", &config.triage.effort);
            args.add(["--tools", ""]);
            args.bounds(config.triage.max_turns, config.triage.max_cost, task);
        }
        Stage::Deep => {
            args.add(["--model", &config.analyze.model]);
            if config.analyze.fallback_model != config.analyze.model {
                args.add_unless_empty("--fallback-model", &config.analyze.fallback_model);
            }
            args.add_unless_empty("--effort", &config.analyze.effort);
            args.add(["--tools", "Read"]);
            for folder in task.attached.iter().chain(&task.beside) {
                args.0.extend(["--add-dir".into(), folder.into()]);
            }
            args.bounds(config.analyze.max_turns, config.analyze.max_cost, task);
        }
    }
    args.0.push("--system-prompt-file".into());
    args.0.push(task.scratch.join(SYSTEM_PROMPT_FILE).into_os_string());
    args.add(["--json-schema", &crate::prompt::schema::in_order(&task.schema)]);
    args.0
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn add_unless_empty(&mut self, flag: &str, value: &str) {
        if !value.is_empty() {
            self.add([flag, value]);
        }
    }

    /// A gateway enforces the budget while the answer comes; the CLI would throw away a complete
    /// answer that costs more.
    fn bounds(&mut self, max_turns: u32, max_cost: Usd, task: &Task) {
        self.add(["--max-turns", &max_turns.to_string()]);
        if task.door.is_none() {
            let left = (max_cost - task.spent).max(Usd::ZERO);
            self.add(["--max-budget-usd", &left.dollars().to_string()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::SessionId;

    fn config() -> Config {
        toml::from_str(crate::config::DEFAULT_TOML).unwrap()
    }

    fn task(stage: Stage) -> Task {
        let session = SessionId("0b5b9f3e-6c1b-7a53-9d6e-0c6c0d0f0001".parse().unwrap());
        Task {
            system_prompt: "You are careful.".into(),
            schema: serde_json::json!({"type": "object"}),
            ..Task::silent(session, stage, "/scratch/s1".into())
        }
    }

    fn words(config: &Config, stage: Stage) -> String {
        let args = args(config, &task(stage));
        let quoted = |arg: &OsString| match arg.to_str().unwrap() {
            "" => "''".to_owned(),
            text => text.to_owned(),
        };
        args.iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    fn environment(config: &Config, variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own: BTreeMap<&str, &str> = variables.iter().copied().collect();
        let lookup = |name: &str| own.get(name).map(OsString::from);
        let (collected, login) = (passed(config, &lookup), Login::of(config, &lookup));
        command(config, &collected, login.as_ref(), &task(Stage::Triage))
            .env
            .into_iter()
            .map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()))
            .collect()
    }

    #[test]
    fn triage_has_no_tools_and_runs_bare() {
        let expected = "-p --output-format stream-json --verbose --include-partial-messages --bare --restricted \
            --strict-mcp-config --setting-sources '' --disable-slash-commands \
            --no-session-persistence --permission-mode dontAsk --permission-prompts none \
            --session-id 0b5b9f3e-6c1b-7a53-9d6e-0c6c0d0f0001 --model haiku --effort low \
            --tools '' --max-turns 3 --max-budget-usd 0.25 \
            --system-prompt-file /scratch/s1/system-prompt.md --json-schema {\"type\":\"object\"}";
        assert_eq!(words(&config(), Stage::Triage), expected);
    }

    #[test]
    fn deep_reads_only() {
        let expected = "-p --output-format stream-json --verbose --include-partial-messages --bare --restricted \
            --strict-mcp-config --setting-sources '' --disable-slash-commands \
            --no-session-persistence --permission-mode dontAsk --permission-prompts none \
            --session-id 0b5b9f3e-6c1b-7a53-9d6e-0c6c0d0f0001 --model sonnet \
            --fallback-model haiku --tools Read --max-turns 12 \
            --max-budget-usd 0.5 --system-prompt-file /scratch/s1/system-prompt.md \
            --json-schema {\"type\":\"object\"}";
        assert_eq!(words(&config(), Stage::Deep), expected);
    }

    #[test]
    fn a_login_keeps_everything_but_bare() {
        let mut config = config();
        let bare = words(&config, Stage::Deep);
        config.agent.auth = AgentAuth::Login;
        assert_eq!(words(&config, Stage::Deep), bare.replace(" --bare", ""));
    }

    #[test]
    fn empty_choices_leave_their_flags_out() {
        let mut config = config();
        config.triage.effort.clear();
        config.analyze.fallback_model = config.analyze.model.clone();
        assert!(!words(&config, Stage::Triage).contains("--effort"));
        assert!(!words(&config, Stage::Deep).contains("--fallback-model"));
    }

    #[test]
    fn permissions_are_never_skipped() {
        for stage in [Stage::Triage, Stage::Deep] {
            assert!(!words(&config(), stage).contains("dangerously"));
        }
    }

    #[test]
    fn the_environment_is_complete_and_nothing_leaks_in() {
        let mut config = config();
        config.agent.pass_env = vec!["HTTPS_PROXY".into(), "AZURE_DEVOPS_PAT".into()];
        let own = [
            ("PATH", "/opt/bin:/bin"),
            ("HOME", "/home/me"),
            ("ANTHROPIC_API_KEY", "k"),
            ("HTTPS_PROXY", "http://p"),
            ("AZURE_DEVOPS_PAT", "tracker"),
            ("LD_PRELOAD", "x.so"),
        ];
        let env = environment(&config, &own);
        let expected = [
            ("ANTHROPIC_API_KEY", "k"),
            ("API_TIMEOUT_MS", "120000"),
            ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "3"),
            ("CLAUDE_CODE_TMPDIR", "/scratch/s1/tmp"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("HOME", "/scratch/s1/home"),
            ("HTTPS_PROXY", "http://p"),
            ("LANG", "C.UTF-8"),
            ("PATH", "/opt/bin:/bin"),
            ("TMPDIR", "/scratch/s1/tmp"),
        ];
        let found: Vec<(&str, &str)> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_login_on_disk_is_found_without_lending_the_home() {
        let mut config = config();
        config.agent.auth = AgentAuth::Login;
        let env = environment(&config, &[("HOME", "/home/me"), (API_KEY, "k")]);
        assert!(!env.contains_key(API_KEY), "a key would win over the login");
        assert_eq!(env["CLAUDE_CONFIG_DIR"], "/scratch/s1/login");
        assert_eq!(env["HOME"], "/scratch/s1/home");
        config.agent.credential_env = "CLAUDE_CODE_OAUTH_TOKEN".into();
        let env = environment(&config, &[("HOME", "/h"), ("CLAUDE_CODE_OAUTH_TOKEN", "t")]);
        assert!(!env.contains_key("CLAUDE_CONFIG_DIR"));
        assert_eq!(env["CLAUDE_CODE_OAUTH_TOKEN"], "t");
    }
}
