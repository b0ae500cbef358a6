//! Command line, environment and files of one session.
//!
//! Purpose of the flags:
//! - `--ignore-user-config --ignore-rules`, a private `CODEX_HOME`, `project_doc_max_bytes=0` and the
//!   disabled features: nothing in the repository or in the user's home is executed or injected: no
//!   hooks, no MCP server, no `AGENTS.md`, no skill.
//! - a custom provider: the built-in one tries WebSockets first and sends requests beyond those to
//!   the model.
//! - a custom model catalogue: a model that Codex knows adds a tool that runs code, and sub-agents.
//! - triage has no tool; deep analysis has the shell in a permission profile that allows only the
//!   code base and the system's software, without a network and without our variables.
//! - the prompt goes by standard input, the system prompt, the schema and the catalogue by files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::super::passed::bearer;
use super::super::{AgentCommand, Passed, Task};
use crate::gateway::{Door, Provider};
use crate::model::Stage;
use crate::settings::Config;

/// Replaces `~/.codex`; below the scratch folder.
pub(super) const CODEX_HOME: &str = "codex";
const SYSTEM_PROMPT_FILE: &str = "system-prompt.md";
const SCHEMA_FILE: &str = "schema.json";
const CATALOGUE_FILE: &str = "models.json";

/// Holds the token of a session behind a gateway.
const SESSION_TOKEN: &str = "HEARTBEAT_SESSION_TOKEN";

/// Never passed on: they would select another provider, home or configuration.
pub const WITHHELD: [&str; 3] = ["CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"];

/// A silent stream is given up after this, in milliseconds. No setting bounds the wait for headers;
/// the supervisor does.
const STREAM_IDLE_MS: u32 = 120_000;

/// Settings that limit requests, disk and network to what a session needs.
const LEAN: [&str; 15] = [
    "approval_policy=\"never\"",
    "web_search=\"disabled\"",
    "otel.metrics_exporter=\"none\"",
    "analytics.enabled=false",
    "feedback.enabled=false",
    "check_for_update_on_startup=false",
    "project_doc_max_bytes=0",
    "history.persistence=\"none\"",
    "skills.include_instructions=false",
    "skills.bundled.enabled=false",
    "include_environment_context=false",
    "include_permissions_instructions=false",
    "include_apps_instructions=false",
    "include_collaboration_mode_instructions=false",
    "allow_login_shell=false",
];

/// Features that are switched off. The CLI rejects unknown ones, so `doctor` compares them with
/// those of the installed version.
pub const DISABLED: [&str; 19] = [
    "unbounded_connection_retries",
    "plugins",
    "apps",
    "multi_agent",
    "goals",
    "hooks",
    "skill_search",
    "shell_snapshot",
    "tool_suggest",
    "view_image",
    "sleep_tool",
    "image_generation",
    "code_mode_host",
    "daemon_auto_start",
    "remote_plugin",
    "browser_use",
    "computer_use",
    "workspace_dependencies",
    "plugin_discovery_prefetch",
];

/// Also disabled in triage: every tool.
pub const DISABLED_IN_TRIAGE: [&str; 2] = ["shell_tool", "unified_exec"];

/// The provider, if its credential is known or it needs none.
pub fn gateway_provider(config: &Config, passed: &Passed) -> Option<Provider> {
    let codex = &config.codex;
    let credential = match codex.credential_env.as_str() {
        "" => None,
        _ => {
            let secret = passed.credential()?;
            let header = codex.credential_header.to_ascii_lowercase();
            Some(match header.as_str() {
                "" => ("authorization", bearer(&secret)),
                "api-key" => ("api-key", secret),
                "x-api-key" => ("x-api-key", secret),
                _ => return None,
            })
        }
    };
    Some(Provider {
        address: format!("{}/responses", codex.base_url.trim_end_matches('/')),
        path: "/v1/responses",
        credential,
        headers: Vec::new(),
        authorities: passed.authorities(),
    })
}

/// How the CLI is started for a task.
pub fn command(config: &Config, passed: &Passed, task: &Task) -> AgentCommand {
    let home = task.scratch.join(CODEX_HOME).into_os_string();
    let token = |door: &Door| (SESSION_TOKEN.into(), door.token.clone().into());
    let at_the_door = task.door.iter().map(token);
    AgentCommand {
        args: args(config, task),
        env: passed.environment(task, vec![("CODEX_HOME".into(), home)], at_the_door.collect()),
        stdin: task.prompt.clone().into_bytes(),
        files: files(config, task),
        links: links(task),
    }
}

/// The arguments of one session, after the configured command.
fn args(config: &Config, task: &Task) -> Vec<OsString> {
    let mut args = Arguments(Vec::new());
    args.add(["exec", "--json", "--ephemeral", "--ignore-user-config", "--ignore-rules"]);
    args.add(["--skip-git-repo-check", "--color", "never"]);
    args.add(["-m", config.model_of(task.stage)]);
    args.set(&provider(config, task));
    args.set("model_provider=\"heartbeat\"");
    let file = |name: &str| quoted(&task.scratch.join(name));
    args.set(&format!("model_catalog_json={}", file(CATALOGUE_FILE)));
    args.set(&format!("model_instructions_file={}", file(SYSTEM_PROMPT_FILE)));
    LEAN.iter().for_each(|setting| args.set(setting));
    DISABLED.iter().for_each(|feature| args.add(["--disable", feature]));
    match task.stage {
        Stage::Triage | Stage::Locate => {
            args.add(["-s", "read-only"]);
            DISABLED_IN_TRIAGE.iter().for_each(|feature| args.add(["--disable", feature]));
            if !config.triage.effort.is_empty() {
                let effort = toml::Value::from(config.triage.effort.as_str());
                args.set(&format!("model_reasoning_effort={effort}"));
            }
        }
        // Without `-s`, which would override the profile.
        Stage::Deep => permissions(task).iter().for_each(|setting| args.set(setting)),
    }
    args.add(["--output-schema"]);
    args.0.push(task.scratch.join(SCHEMA_FILE).into_os_string());
    args.add(["-"]);
    args.0
}

/// The only provider: address, credential, retries.
fn provider(config: &Config, task: &Task) -> String {
    let codex = &config.codex;
    let text = |text: &str| toml::Value::from(text).to_string();
    let base_url = match &task.door {
        Some(door) => format!("{}/v1", door.address()),
        None => codex.base_url.clone(),
    };
    let mut table = format!(
        "model_providers.heartbeat={{name=\"heartbeat\",base_url={},wire_api=\"responses\",\
         request_max_retries={},stream_max_retries={},stream_idle_timeout_ms={STREAM_IDLE_MS}",
        text(&base_url),
        config.agent.max_retries,
        config.agent.max_retries.min(1),
    );
    if !codex.api_version.is_empty() {
        table.push_str(&format!(",query_params={{api-version={}}}", text(&codex.api_version)));
    }
    let variable = text(&codex.credential_env);
    match codex.credential_header.as_str() {
        _ if task.door.is_some() => {
            table.push_str(&format!(",env_key={}", text(SESSION_TOKEN)));
        }
        _ if codex.credential_env.is_empty() => {}
        "" => table.push_str(&format!(",env_key={variable}")),
        header => {
            table.push_str(&format!(",env_http_headers={{{}={variable}}}", text(header)));
        }
    }
    table.push('}');
    table
}

/// Programs for commands in the sandbox, below the scratch folder.
const PROGRAMS: &str = "bin";

/// The name under which the CLI starts its sandbox. Found in `PATH`, it is preferred to the system's
/// bubblewrap, which lacks a needed option before version 0.9.
const SANDBOX: &str = "codex-linux-sandbox";

/// Only commands of an analysis run in the sandbox.
fn links(task: &Task) -> Vec<(PathBuf, PathBuf)> {
    let link = (task.scratch.join(PROGRAMS).join(SANDBOX), real(&task.program));
    if task.stage == Stage::Deep { vec![link] } else { Vec::new() }
}

/// The folder of the CLI and the programs that come with it; only the program's own folder if the
/// one above holds other things too.
pub fn package(program: &Path) -> PathBuf {
    let own = real(program);
    let folder = own.parent().unwrap_or(&own);
    // A native package, or one of a package manager for scripts.
    let is_package = |above: &&Path| {
        let script = || crate::private::read_own(&above.join("package.json"), 1 << 20).ok();
        above.join("codex-package.json").is_file()
            || script().is_some_and(|text| String::from_utf8_lossy(&text).contains("@openai/codex"))
    };
    match folder.parent().filter(is_package) {
        Some(package) => package.to_owned(),
        None => folder.to_owned(),
    }
}

fn real(program: &Path) -> PathBuf {
    std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned())
}

/// The permission profile of deep analysis. The CLI itself is executed again inside the sandbox.
pub fn permissions(task: &Task) -> [String; 4] {
    let own = package(&task.program);
    let programs = task.scratch.join(PROGRAMS);
    let beside: String =
        task.beside.iter().map(|folder| format!(",{}=\"read\"", quoted(folder))).collect();
    let files = format!(
        "{{\":root\"=\"deny\",\":minimal\"=\"read\",\":workspace_roots\"={{\".\"=\"read\"}},{}=\"read\",{}=\"read\"{beside}}}",
        quoted(&own),
        quoted(&programs)
    );
    let path = format!("{}:/usr/bin:/bin", programs.display());
    [
        "default_permissions=\"heartbeat\"".to_owned(),
        format!("permissions.heartbeat={{filesystem={files},network={{enabled=false}}}}"),
        "shell_environment_policy.inherit=\"none\"".to_owned(),
        // With SHLVL set, bash does not act as a login shell and sources nothing.
        format!(
            "shell_environment_policy.set={{PATH={},LANG=\"C.UTF-8\",HOME=\"/nonexistent\",\
             SHLVL=\"1\"}}",
            toml::Value::from(path)
        ),
    ]
}

fn quoted(path: &Path) -> String {
    toml::Value::from(path.to_string_lossy().into_owned()).to_string()
}

/// Files named on the command line.
fn files(config: &Config, task: &Task) -> Vec<(PathBuf, Vec<u8>)> {
    let schema = crate::prompt::schema::in_order(&crate::prompt::schema::strict(&task.schema));
    let model = config.model_of(task.stage);
    let catalogue = catalogue(model).to_string();
    let texts = [
        (SYSTEM_PROMPT_FILE, task.system_prompt.clone()),
        (SCHEMA_FILE, schema),
        (CATALOGUE_FILE, catalogue),
        // Creates the folder, which must exist.
        ("codex/.keep", String::new()),
    ];
    texts.map(|(name, text)| (task.scratch.join(name), text.into_bytes())).to_vec()
}

/// The only model in this session's catalogue, with features that every model of the Responses API
/// has.
fn catalogue(model: &str) -> serde_json::Value {
    let levels = ["low", "medium", "high"].map(|e| json!({ "effort": e, "description": e }));
    json!({ "models": [{
        "slug": model,
        "display_name": model,
        "description": "",
        "default_reasoning_level": "low",
        "supported_reasoning_levels": levels,
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": true,
        "priority": 1,
        "base_instructions": "",
        "default_reasoning_summary": "none",
        "support_verbosity": false,
        "default_verbosity": null,
        "apply_patch_tool_type": null,
        "truncation_policy": { "mode": "tokens", "limit": 10_000 },
        "supports_parallel_tool_calls": true,
        "supports_search_tool": false,
        "use_responses_lite": false,
        "context_window": 272_000,
        "effective_context_window_percent": 95,
        "experimental_supported_tools": [],
        "input_modalities": ["text"],
    }] })
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn set(&mut self, setting: &str) {
        self.add(["-c", setting]);
    }
}
