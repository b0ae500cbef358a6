//! Codex and Copilot without their CLIs: their command lines, the scripted agent in their formats,
//! and rejected configurations.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser;
use heartbeat::analyze;
use heartbeat::config::DEFAULT_TOML;
use heartbeat::model::{Background, FailureKind, Outcome, SessionId, Stage, Untrusted, Usage};
use heartbeat::prompt::{Prompts, Rendered, schema};
use heartbeat::session::agent::{Agent, AgentEvent, Exit, Task, Transcript, of_kind};
use heartbeat::settings::{AgentAuth, AgentKind, Config, CopilotProvider};
use heartbeat::simulate::agent::{self, SimulateAgentArgs};
use serde_json::json;
use support::agent_items::{fence, item, verdict};

use super::config_load::Place;

const KINDS: [AgentKind; 2] = [AgentKind::Codex, AgentKind::Copilot];

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    agent: SimulateAgentArgs,
}

fn config(kind: AgentKind) -> Config {
    let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
    config.agent.kind = kind;
    (config.triage.model, config.analyze.model) = ("cheap".into(), "good".into());
    config.copilot.provider = CopilotProvider::Openai;
    config.copilot.base_url = "http://127.0.0.1:9/v1".into();
    config
}

fn adapter(config: &Config) -> Box<dyn Agent> {
    let own = |name: &str| match name {
        "OPENAI_API_KEY" | "COPILOT_GITHUB_TOKEN" => Some("the-key".into()),
        "COPILOT_ALLOW_ALL" | "GH_TOKEN" | "CODEX_HOME" | "HTTPS_PROXY" => Some("x".into()),
        "PATH" => Some("/usr/bin:/bin".into()),
        _ => None,
    };
    of_kind(config.agent.kind, config, Path::new("/kept"), own)
}

fn task(stage: Stage, rendered: &Rendered, scratch: &Path) -> Task {
    let session = SessionId("0199a000-0000-7000-8000-00000000000a".parse().unwrap());
    Task {
        system_prompt: rendered.system.clone(),
        prompt: rendered.user.clone(),
        schema: rendered.schema.clone(),
        program: "/opt/agent/bin/program".into(),
        ..Task::silent(session, stage, scratch.to_owned())
    }
}

fn deep_prompt() -> Rendered {
    let item = item(42, "Decoder panics", "A race in the decoder.");
    let request = analyze::Request {
        item: &item,
        verdict: &verdict(42),
        background: &Background::default(),
        code_bases: &[],
        overview: "",
        context: "src/session/agent/mod.rs (score 9)\nsrc/gone.rs\n",
    };
    let prompts = Prompts::built_in(AgentAuth::ApiKey).unwrap();
    analyze::render(&prompts, request, &config(AgentKind::Codex).analyze, &fence()).unwrap()
}

fn words(kind: AgentKind, stage: Stage, change: impl Fn(&mut Config)) -> String {
    let mut config = config(kind);
    change(&mut config);
    let task = task(stage, &deep_prompt(), Path::new("/scratch/s1"));
    let args = adapter(&config).command(&task).args;
    args.iter().map(|arg| arg.to_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn neither_is_given_more_than_reading_and_no_secret_is_on_the_command_line() {
    for kind in KINDS {
        for stage in [Stage::Triage, Stage::Deep] {
            let line = words(kind, stage, |_| {});
            for never in
                ["dangerous", "allow-all", "yolo", "trust-folder", "the-key", "full-access"]
            {
                assert!(!line.contains(never), "{kind:?} {stage}: {line}");
            }
        }
    }
    let triage = words(AgentKind::Copilot, Stage::Triage, |_| {});
    assert!(triage.ends_with("--available-tools=none"), "an empty list means all: {triage}");
    assert!(words(AgentKind::Copilot, Stage::Deep, |_| {}).ends_with("--available-tools=view"));
    let searching = words(AgentKind::Copilot, Stage::Deep, |config| config.analyze.search = true);
    assert!(searching.ends_with("--available-tools=view,grep,glob"));
    let triage = words(AgentKind::Codex, Stage::Triage, |_| {});
    assert!(
        triage.contains("-s read-only --disable shell_tool --disable unified_exec"),
        "{triage}"
    );
    let deep = words(AgentKind::Codex, Stage::Deep, |_| {});
    assert!(
        deep.contains("\":root\"=\"deny\"") && deep.contains("network={enabled=false}"),
        "{deep}"
    );
    assert!(deep.contains("\"/opt/agent/bin\"=\"read\"") && !deep.contains(" -s "), "{deep}");
    let azure = words(AgentKind::Codex, Stage::Deep, |config| {
        config.codex.api_version = "2025-04-01-preview".into();
        config.codex.credential_header = "api-key".into();
    });
    assert!(azure.contains("query_params={api-version=\"2025-04-01-preview\"}"), "{azure}");
    assert!(azure.contains("env_http_headers={\"api-key\"=\"OPENAI_API_KEY\"}"), "{azure}");
}

#[test]
fn the_environment_is_complete_and_what_would_trust_a_repository_is_withheld() {
    for kind in KINDS {
        let mut config = config(kind);
        config.agent.pass_env = ["COPILOT_ALLOW_ALL", "GH_TOKEN", "CODEX_HOME", "HTTPS_PROXY"]
            .map(str::to_owned)
            .into();
        let task = task(Stage::Deep, &deep_prompt(), Path::new("/scratch/s1"));
        let env = adapter(&config).command(&task).env;
        let value = |name: &str| {
            let found = env.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.to_str().unwrap().to_owned())
        };
        let trusts = value("COPILOT_ALLOW_ALL").is_some();
        assert!(kind != AgentKind::Copilot || !trusts, "{kind:?}");
        assert_eq!(value("HTTPS_PROXY").as_deref(), Some("x"), "{kind:?}");
        let (key, home) = match kind {
            AgentKind::Codex => ("OPENAI_API_KEY", "CODEX_HOME"),
            _ => ("COPILOT_PROVIDER_API_KEY", "COPILOT_HOME"),
        };
        assert_eq!(value(key).as_deref(), Some("the-key"), "{kind:?}");
        assert!(value(home).unwrap().starts_with("/scratch/s1/"), "{kind:?}");
        assert!(kind != AgentKind::Copilot || value("GH_TOKEN").is_none());
    }
}

#[test]
fn strict_schemas_are_closed_complete_and_without_bounds() {
    let loose = json!({
        "type": "object",
        "properties": {
            "list": { "type": "array", "minItems": 1, "maxItems": 2, "items": {
                "type": "object", "properties": { "word": { "enum": ["a"] }, "n": { "type": "integer" } },
                "required": ["n"],
            } },
            "text": { "type": "string", "minLength": 3 },
        },
    });
    let strict = schema::strict(&loose);
    let item = &strict["properties"]["list"]["items"];
    assert_eq!(item["required"], json!(["n", "word"]));
    assert_eq!(
        (&item["additionalProperties"], &strict["additionalProperties"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(item["properties"]["word"]["type"], "string");
    for bound in ["minItems", "maxItems", "minLength"] {
        assert!(!strict.to_string().contains(bound), "{strict}");
    }
    let deep = deep_prompt().schema;
    assert_eq!(schema::strict(&deep), deep, "ours is strict already");
}

/// The scripted agent, started as heartbeat starts the real one.
fn play(kind: AgentKind, own: &[&str]) -> (Outcome, Vec<AgentEvent>, Option<Usage>) {
    let scratch = tempfile::tempdir().unwrap();
    let adapter = adapter(&config(kind));
    let task = task(Stage::Deep, &deep_prompt(), scratch.path());
    let command = adapter.command(&task);
    for (path, content) in command.files {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let first = ["agent", "--kind", kind.into_str()];
    let own = first.iter().chain(own).map(OsString::from);
    let line = CommandLine::try_parse_from(own.chain(command.args)).unwrap();
    let session = agent::session(&line.agent, std::str::from_utf8(&command.stdin).unwrap());
    let mut decoder = adapter.decoder(&task);
    let lines = session.lines.iter().map(ToString::to_string);
    let events: Vec<_> = lines.flat_map(|line| decoder.line(line.as_bytes())).collect();
    let result = events.iter().find_map(|event| match event {
        AgentEvent::Result(result) => Some((**result).clone()),
        _ => None,
    });
    let told = adapter.collect(&task).or(result.as_ref().map(|result| result.usage));
    let transcript = Transcript {
        exit: Exit::Code(i32::from(!session.succeeded)),
        result,
        json_lines: events.len() as u64,
        last_error: decoder.last_error(),
        stderr_tail: Untrusted::default(),
    };
    assert_eq!(decoder.notes().unknown.len(), 0, "{kind:?}: {:?}", decoder.notes().unknown);
    (adapter.classify(&transcript), events, told)
}

#[test]
fn the_scripted_agent_speaks_like_each_kind() {
    for kind in KINDS {
        let (outcome, events, told) = play(kind, &[]);
        assert_eq!(outcome, Outcome::Completed, "{kind:?} {events:?}");
        assert!(told.unwrap().input_tokens > 300, "{kind:?} {told:?}");
        let started = |event: &&AgentEvent| matches!(event, AgentEvent::ToolStarted { .. });
        assert!(events.iter().filter(started).count() >= 1, "{kind:?}");
        let (down, ..) = play(kind, &["--provider-down"]);
        assert_eq!(down, Outcome::AgentError { why: FailureKind::ApiError }, "{kind:?}");
        let (limited, ..) = play(kind, &["--provider-limit", "60"]);
        let why = FailureKind::RateLimit;
        let plan = Outcome::ProviderLimit { why: FailureKind::UsageLimit };
        let is_limit = limited == plan || limited == Outcome::ProviderLimit { why };
        assert!(is_limit, "{kind:?} {limited:?}");
        let (prose, ..) = play(kind, &["--fail-item", "42"]);
        assert!(matches!(prose, Outcome::BadOutput { .. }), "{kind:?} {prose:?}");
    }
}

fn complaints(text: &str) -> String {
    Place::with_file(text).load().map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn configurations_that_would_not_work_are_refused_with_the_key() {
    let models = "[triage]\nmodel = \"m\"\n[analyze]\nmodel = \"m\"\n";
    for (text, part) in [
        ("[agent]\nkind = \"codex\"\n".to_owned(), "triage.model"),
        (format!("[agent]\nkind = \"gemini\"\n{models}"), "codex"),
        (format!("[agent]\nkind = \"codex\"\ncommand = [\"x\"]\n{models}"), "[codex]"),
        (format!("[agent]\nkind = \"codex\"\n{models}fallback_model = \"n\"\n"), "fallback_model"),
        (
            format!("[agent]\nkind = \"copilot\"\n[copilot]\nprovider = \"azure\"\n{models}"),
            "copilot.base_url",
        ),
        (
            format!(
                "[agent]\nkind = \"codex\"\n{models}[codex]\nbase_url = \
                 \"https://x.openai.azure.com\"\n"
            ),
            "/openai/v1",
        ),
        (
            format!(
                "[agent]\nkind = \"codex\"\n{models}[codex]\nbase_url = \
                 \"https://x.openai.azure.com/openai/\"\n"
            ),
            "codex.api_version",
        ),
        (
            format!(
                "[agent]\nkind = \"copilot\"\n{models}[copilot]\nprovider = \"azure\"\n\
                 base_url = \"https://x.openai.azure.com/openai\"\n"
            ),
            "copilot.base_url",
        ),
        (
            format!("[agent]\nkind = \"codex\"\n{models}[state]\ncontainment = \"strict\"\n"),
            "strict",
        ),
        ("[agent]\npass_env = [\"COPILOT_ALLOW_ALL\"]\n".to_owned(), "COPILOT_ALLOW_ALL"),
        ("[agent.price.\"m\"]\ninput = -1.0\noutput = 2.0\n".to_owned(), "agent.price"),
        ("[agent.price.\"m\"]\ninput = 1.0\n".to_owned(), "agent.price"),
        ("[codex]\ncredential_env = \"AZURE_DEVOPS_PAT\"\n".to_owned(), "codex.credential_env"),
    ] {
        let said = complaints(&text);
        assert!(said.contains(part), "{text}\n-> {said:?}");
    }
    for fine in [
        format!(
            "[agent]\nkind = \"codex\"\n[agent.price.\"m\"]\ninput = 1.0\noutput = 2.0\n{models}"
        ),
        "[triage]\nagent = \"copilot\"\nmodel = \"m\"\neffort = \"\"\n".to_owned(),
        format!(
            "[agent]\nkind = \"codex\"\n{models}[codex]\nbase_url = \
             \"https://x.openai.azure.com/openai/v1\"\ncredential_header = \"api-key\"\n"
        ),
        format!(
            "[agent]\nkind = \"codex\"\n{models}[codex]\nbase_url = \
             \"https://x.openai.azure.com/openai\"\napi_version = \"2025-04-01-preview\"\n"
        ),
        format!("[agent]\nkind = \"copilot\"\n{models}search = true\n"),
    ] {
        assert_eq!(complaints(&fine), "", "{fine}");
    }
}
