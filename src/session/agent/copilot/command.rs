//! Command line and environment of one session.
//!
//! Purpose of the flags:
//! - `--available-tools` is an allow-list; an empty one means all tools, so triage names one that
//!   does not exist. Nothing is pre-approved: reading below the working directory needs no
//!   approval, and everything else is refused at once.
//! - the folder is never trusted, so hooks and MCP servers of a repository do not run;
//!   `--no-custom-instructions` excludes its instructions, `--disable-builtin-mcps` GitHub's
//!   servers.
//! - system prompt, schema and question are sent together on standard input: it has no flags for
//!   them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::super::answer::combined_prompt;
use super::super::passed::bearer;
use super::super::{AgentCommand, Passed, Task};
use crate::gateway::{Door, Provider};
use crate::model::Stage;
use crate::settings::{Config, CopilotProvider, CopilotWire};

/// Token usage, in the scratch folder; written also after an error.
pub const USAGE_FILE: &str = "usage.json";

/// Replaces `~/.copilot`; below the scratch folder.
const COPILOT_HOME: &str = "copilot";

/// Never passed on, even if configured: the first would run code of a repository, the next ones are
/// used as a login, the rest would select another home, provider or model than the configured ones.
pub const WITHHELD: [&str; 12] = [
    "COPILOT_ALLOW_ALL",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "COPILOT_HOME",
    "COPILOT_MODEL",
    "COPILOT_OFFLINE",
    "COPILOT_PROVIDER_BASE_URL",
    "COPILOT_PROVIDER_TYPE",
    "COPILOT_PROVIDER_WIRE_API",
    "COPILOT_PROVIDER_API_KEY_COMMAND",
    "XDG_CACHE_HOME",
    "NODE_OPTIONS",
];

const COMMON: [&str; 14] = [
    "--output-format",
    "json",
    "--stream",
    "on",
    "--no-auto-update",
    "--no-color",
    "--disable-client-telemetry",
    "--no-custom-instructions",
    "--disable-builtin-mcps",
    "--no-ask-user",
    "--no-remote",
    "--disallow-temp-dir",
    "--log-level",
    "error",
];

/// The folder into which it unpacks itself.
pub fn cache(kept: &Path) -> PathBuf {
    kept.join("copilot-cache")
}

/// The variable from which the CLI reads the credential.
fn credential_name(provider: CopilotProvider) -> &'static str {
    match provider {
        CopilotProvider::Github => "COPILOT_GITHUB_TOKEN",
        _ => "COPILOT_PROVIDER_API_KEY",
    }
}

/// Variables of heartbeat's environment that are passed to the CLI, the credential under the name
/// that the CLI reads.
pub fn passed(config: &Config, lookup: &impl Fn(&str) -> Option<OsString>) -> Passed {
    let configured = &config.copilot.credential_env;
    let mut passed = Passed::collect(config, configured, &WITHHELD, lookup);
    passed.rename_credential(credential_name(config.copilot.provider));
    passed
}

/// The paths after which the CLI asks for the model, by provider and wire.
fn path(provider: CopilotProvider, wire: CopilotWire) -> Option<&'static str> {
    use CopilotProvider::{Anthropic, Azure, Github, Openai};
    use CopilotWire::{Completions, Responses};
    match (provider, wire) {
        (Github, _) => None,
        (Anthropic, _) => Some("/v1/messages"),
        (Openai, Completions) => Some("/v1/chat/completions"),
        (Openai, Responses) => Some("/v1/responses"),
        (Azure, Completions) => Some("/openai/v1/chat/completions"),
        (Azure, Responses) => Some("/openai/v1/responses"),
    }
}

/// The user's own provider. GitHub's is reached with the CLI's own login.
pub fn gateway_provider(config: &Config, passed: &Passed) -> Option<Provider> {
    let copilot = &config.copilot;
    let path = path(copilot.provider, copilot.wire)?;
    let credential = passed.credential().map(|secret| match copilot.provider {
        CopilotProvider::Anthropic => ("x-api-key", secret),
        CopilotProvider::Azure => ("api-key", secret),
        CopilotProvider::Openai | CopilotProvider::Github => ("authorization", bearer(&secret)),
    });
    let base = copilot.base_url.trim_end_matches('/');
    // The address of an OpenAI provider ends with its version.
    let rest = match copilot.provider {
        CopilotProvider::Openai => path.trim_start_matches("/v1"),
        _ => path,
    };
    let (address, authorities) = (format!("{base}{rest}"), passed.authorities());
    Some(Provider { address, path, credential, headers: Vec::new(), authorities })
}

/// How the CLI is started for a task.
pub fn command(config: &Config, passed: &Passed, cache: &Path, task: &Task) -> AgentCommand {
    AgentCommand {
        args: args(config, task),
        env: env(config, passed, cache, task),
        stdin: combined_prompt(task).into_bytes(),
        ..AgentCommand::default()
    }
}

/// The arguments of one session, after the configured command.
fn args(config: &Config, task: &Task) -> Vec<OsString> {
    let mut args: Vec<OsString> = COMMON.iter().map(OsString::from).collect();
    let session = task.session.to_string();
    args.extend(["--session-id", &session, "--usage-output-file"].map(OsString::from));
    args.push(task.scratch.join(USAGE_FILE).into_os_string());
    if config.copilot.provider == CopilotProvider::Github {
        args.extend(["--model", config.model_of(task.stage)].map(OsString::from));
    }
    let tools = match (task.stage, config.analyze.search) {
        (Stage::Triage | Stage::Locate, _) => "none",
        (Stage::Deep, false) => "view",
        (Stage::Deep, true) => "view,grep,glob",
    };
    args.push(format!("--available-tools={tools}").into());
    args
}

/// The complete environment of one session.
fn env(config: &Config, passed: &Passed, cache: &Path, task: &Task) -> Vec<(OsString, OsString)> {
    let copilot = &config.copilot;
    let mut own: Vec<(OsString, OsString)> = vec![
        ("COPILOT_HOME".into(), task.scratch.join(COPILOT_HOME).into_os_string()),
        ("XDG_CACHE_HOME".into(), cache.into()),
        ("COPILOT_AUTO_UPDATE".into(), "false".into()),
    ];
    let version = if copilot.provider == CopilotProvider::Openai { "/v1" } else { "" };
    let base_url = match &task.door {
        Some(door) => format!("{}{version}", door.address()),
        None => copilot.base_url.clone(),
    };
    let token = |door: &Door| (credential_name(copilot.provider).into(), door.token.clone().into());
    let at_the_door = task.door.iter().map(token);
    let mut set = |name: &str, value: &str| own.push((name.into(), value.into()));
    if copilot.provider != CopilotProvider::Github {
        set("COPILOT_OFFLINE", "true");
        set("COPILOT_MODEL", config.model_of(task.stage));
        set("COPILOT_PROVIDER_BASE_URL", &base_url);
        set("COPILOT_PROVIDER_TYPE", copilot.provider.into_str());
        set("COPILOT_PROVIDER_WIRE_API", copilot.wire.into_str());
    }
    passed.environment(task, own, at_the_door.collect())
}
