//! Validates the settings of Codex and Copilot.

use super::error::Origin;
use super::source;
use super::validate::ConfigChecker;
use crate::model::Stage;
use crate::settings::{AgentKind, Config, Containment, CopilotProvider};

/// Checks only agents that a stage uses.
pub(super) fn other_agents(checker: &mut ConfigChecker<'_>, config: &Config) {
    for (command, key) in
        [(&config.codex.command, "codex.command"), (&config.copilot.command, "copilot.command")]
    {
        let named = command.first().is_some_and(|program| !program.trim().is_empty());
        checker.require(named, key, "put the agent's program first");
    }
    let used = config.agents();
    let address = "write an http or https address, such as https://api.openai.com/v1";
    checker.require(
        source::is_collection_address(&config.codex.base_url),
        "codex.base_url",
        address,
    );
    let copilot = &config.copilot;
    let own = used.contains(&AgentKind::Copilot) && copilot.provider != CopilotProvider::Github;
    checker.require_consistent(
        !own || source::is_collection_address(&copilot.base_url),
        ["copilot.base_url", "copilot.provider"],
        "a custom provider needs an http or https address",
    );
    checker.require_consistent(
        copilot.provider != CopilotProvider::Github || copilot.base_url.is_empty(),
        ["copilot.base_url", "copilot.provider"],
        "base_url is not used with GitHub; choose another provider, or leave base_url empty",
    );
    azure(checker, config);
    for key in ["agent.command", "agent.credential_env", "agent.auth"] {
        // A key set by the user is meant for an agent that runs.
        let meant = used.contains(&AgentKind::Claude) || checker.place(key) == Origin::Default;
        let other = used.first().copied().unwrap_or(AgentKind::Claude).section();
        checker.require_consistent(
            meant,
            [key, "agent.kind"],
            &format!("this key configures Claude, which no stage uses; the keys of this agent are in [{other}]"),
        );
    }
    for (stage, model, kind) in [
        (Stage::Triage, "triage.model", "triage.agent"),
        (Stage::Deep, "analyze.model", "analyze.agent"),
    ] {
        let agent = config.agent_of(stage);
        checker.require(
            agent == AgentKind::Claude || checker.place(model) != Origin::Default,
            model,
            &format!("this is a Claude model; write one that {} supports ({kind})", agent.title()),
        );
    }
    only_claude_has(checker, config);
}

fn only_claude_has(checker: &mut ConfigChecker<'_>, config: &Config) {
    let written = |checker: &ConfigChecker<'_>, key: &str| checker.place(key) != Origin::Default;
    let fallback =
        !config.analyze.fallback_model.is_empty() && written(checker, "analyze.fallback_model");
    checker.require_consistent(
        !fallback || config.agent_of(Stage::Deep) == AgentKind::Claude,
        ["analyze.fallback_model", "analyze.agent"],
        "this agent has no fallback model; set this to \"\"",
    );
    let effort = !config.triage.effort.is_empty() && written(checker, "triage.effort");
    checker.require_consistent(
        !effort || config.agent_of(Stage::Triage) != AgentKind::Copilot,
        ["triage.effort", "triage.agent"],
        "Copilot has no effort setting; set this to \"\"",
    );
    checker.require_consistent(
        config.state.containment != Containment::Strict
            || config.agent_of(Stage::Deep) != AgentKind::Codex,
        ["state.containment", "analyze.agent"],
        "\"strict\" does not accept the sandbox that Codex uses for its commands; use \"auto\", or \
         another agent for analyses",
    );
}

/// Host suffixes of Azure OpenAI.
const AZURE_HOSTS: [&str; 2] = [".openai.azure.com", ".cognitiveservices.azure.com"];

/// Host and path of an address, without a trailing slash.
fn parts(address: &str) -> (&str, &str) {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest).trim_end_matches('/');
    rest.find('/').map_or((rest, ""), |at| rest.split_at(at))
}

/// Checks the two address forms of Azure OpenAI. The service answers a wrong address with "resource
/// not found", which does not name the setting.
fn azure(checker: &mut ConfigChecker<'_>, config: &Config) {
    let (codex, copilot) = (&config.codex, &config.copilot);
    let (host, path) = parts(&codex.base_url);
    if AZURE_HOSTS.iter().any(|end| host.ends_with(end)) {
        checker.require(
            path == "/openai" || path == "/openai/v1",
            "codex.base_url",
            "write https://NAME.openai.azure.com/openai/v1, or /openai with \
             codex.api_version",
        );
        checker.require_consistent(
            path != "/openai" || !codex.api_version.is_empty(),
            ["codex.api_version", "codex.base_url"],
            "Azure OpenAI needs a version at /openai, such as \"2025-04-01-preview\"; or write \
             /openai/v1, which needs none",
        );
    }
    if copilot.provider == CopilotProvider::Azure {
        checker.require_consistent(
            parts(&copilot.base_url).1.is_empty(),
            ["copilot.base_url", "copilot.provider"],
            "Copilot adds the path itself: write only https://NAME.openai.azure.com",
        );
    }
}
