//! Whether what is written for Codex and Copilot makes sense.

use super::error::Origin;
use super::source;
use super::validate::{Rules, is_variable_name_or_empty};
use crate::model::Stage;
use crate::settings::{AgentKind, Config, Containment, CopilotProvider};

/// Codex and Copilot, as far as a stage uses them.
pub(super) fn other_agents(rules: &mut Rules<'_>, config: &Config) {
    for (command, key) in
        [(&config.codex.command, "codex.command"), (&config.copilot.command, "copilot.command")]
    {
        let named = command.first().is_some_and(|program| !program.trim().is_empty());
        rules.require(named, key, "write the agent's program first");
    }
    for (variable, key) in [
        (&config.codex.credential_env, "codex.credential_env"),
        (&config.copilot.credential_env, "copilot.credential_env"),
    ] {
        let holds = is_variable_name_or_empty(variable);
        rules.require(holds, key, "write the name of a variable, not its value");
    }
    let used = config.agents();
    let address = "write an http or https address, such as https://api.openai.com/v1";
    rules.require(source::is_collection_address(&config.codex.base_url), "codex.base_url", address);
    let copilot = &config.copilot;
    let own = used.contains(&AgentKind::Copilot) && copilot.provider != CopilotProvider::Github;
    rules.agree(
        !own || source::is_collection_address(&copilot.base_url),
        ["copilot.base_url", "copilot.provider"],
        "a provider of your own needs its http or https address",
    );
    rules.agree(
        copilot.provider != CopilotProvider::Github || copilot.base_url.is_empty(),
        ["copilot.base_url", "copilot.provider"],
        "GitHub is asked at its own address; choose another provider, or leave base_url empty",
    );
    azure(rules, config);
    for key in ["agent.command", "agent.credential_env", "agent.auth"] {
        // Whoever writes it down means it for the agent that runs.
        let meant = used.contains(&AgentKind::Claude) || rules.place(key) == Origin::Default;
        let other = used.first().copied().unwrap_or(AgentKind::Claude).section();
        rules.agree(
            meant,
            [key, "agent.kind"],
            &format!("this key is Claude's, which no stage uses; the agent's own are in [{other}]"),
        );
    }
    for (stage, model, kind) in [
        (Stage::Triage, "triage.model", "triage.agent"),
        (Stage::Deep, "analyze.model", "analyze.agent"),
    ] {
        let agent = config.agent_of(stage);
        rules.require(
            agent == AgentKind::Claude || rules.place(model) != Origin::Default,
            model,
            &format!("this is a model of Claude; write one that {} has ({kind})", agent.title()),
        );
    }
    only_claude_has(rules, config);
}

fn only_claude_has(rules: &mut Rules<'_>, config: &Config) {
    let written = |rules: &Rules<'_>, key: &str| rules.place(key) != Origin::Default;
    let fallback =
        !config.analyze.fallback_model.is_empty() && written(rules, "analyze.fallback_model");
    rules.agree(
        !fallback || config.agent_of(Stage::Deep) == AgentKind::Claude,
        ["analyze.fallback_model", "analyze.agent"],
        "this agent cannot change its model; set it to \"\"",
    );
    let effort = !config.triage.effort.is_empty() && written(rules, "triage.effort");
    rules.agree(
        !effort || config.agent_of(Stage::Triage) != AgentKind::Copilot,
        ["triage.effort", "triage.agent"],
        "Copilot is not told an effort; set it to \"\"",
    );
    rules.agree(
        config.state.containment != Containment::Strict
            || config.agent_of(Stage::Deep) != AgentKind::Codex,
        ["state.containment", "analyze.agent"],
        "Codex confines its commands itself, which \"strict\" does not trust; use \"auto\", or \
         another agent for analyses",
    );
}

/// Where Azure OpenAI answers.
const AZURE_HOSTS: [&str; 2] = [".openai.azure.com", ".cognitiveservices.azure.com"];

/// Host and path of an address, without a slash at the end.
fn parts(address: &str) -> (&str, &str) {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest).trim_end_matches('/');
    rest.find('/').map_or((rest, ""), |at| rest.split_at(at))
}

/// The two ways in which Azure OpenAI is addressed. It answers an address that it does not know with
/// "resource not found", which names no setting.
fn azure(rules: &mut Rules<'_>, config: &Config) {
    let (codex, copilot) = (&config.codex, &config.copilot);
    let (host, path) = parts(&codex.base_url);
    if AZURE_HOSTS.iter().any(|end| host.ends_with(end)) {
        rules.require(
            path == "/openai" || path == "/openai/v1",
            "codex.base_url",
            "Azure OpenAI is asked at https://NAME.openai.azure.com/openai/v1, or at /openai with \
             codex.api_version",
        );
        rules.agree(
            path != "/openai" || !codex.api_version.is_empty(),
            ["codex.api_version", "codex.base_url"],
            "Azure OpenAI needs a version at /openai, such as \"2025-04-01-preview\"; or write \
             /openai/v1, which needs none",
        );
    }
    if copilot.provider == CopilotProvider::Azure {
        rules.agree(
            parts(&copilot.base_url).1.is_empty(),
            ["copilot.base_url", "copilot.provider"],
            "Copilot adds the path itself: write only https://NAME.openai.azure.com",
        );
    }
}
