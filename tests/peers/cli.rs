//! The real agent CLI on a loopback Messages API: checks the adapter, the decoder and the prompts
//! by the requests that arrive.
//!
//! Needs the CLI at `$HEARTBEAT_REAL_CLAUDE` (`tests/peers/install_claude.sh` fetches it); prints a
//! message and passes if it is missing.

use std::collections::HashMap;
use std::path::Path;

use heartbeat::analyze;
use heartbeat::config::DEFAULT_TOML;
use heartbeat::model::{Background, CleanItem, FailureKind, ItemId, Outcome, Stage, Usd};
use heartbeat::prompt::{Prompts, Rendered};
use heartbeat::session::agent::capability::Findings;
use heartbeat::session::agent::claude::capability;
use heartbeat::session::agent::{AgentEvent, Exit};
use heartbeat::settings::{AgentAuth, Config};
use heartbeat::triage::{self, RequestRound};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::agent_items::{fence, item, verdict};
use support::answers;
use support::messages_api::{Fault, MessagesApi, Reply, Request};
use support::real_cli::{Ended, Running, installed, start};

/// A configuration that uses the loopback API and gives up at once.
pub(super) fn config() -> Config {
    let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
    config.agent.pass_env = vec!["ANTHROPIC_BASE_URL".to_owned()];
    config.agent.max_retries = 0;
    config
}

pub(super) fn login() -> Config {
    let mut config = config();
    config.agent.auth = AgentAuth::Login;
    config.agent.credential_env = "CLAUDE_CODE_OAUTH_TOKEN".to_owned();
    config
}

fn variables(api: &MessagesApi) -> Vec<(&'static str, String)> {
    vec![
        ("PATH", "/usr/bin:/bin".to_owned()),
        ("ANTHROPIC_BASE_URL", api.url()),
        ("ANTHROPIC_API_KEY", "sk-ant-of-the-agent".to_owned()),
        ("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-of-the-agent".to_owned()),
        ("AZURE_DEVOPS_PAT", "of-the-tracker".to_owned()),
    ]
}

pub(super) fn triage_prompt(config: &Config, items: &[CleanItem]) -> Rendered {
    let batch = triage::plan_batches(items, &HashMap::new(), "", &config.triage).remove(0);
    let prompts = Prompts::built_in(config.agent.auth).unwrap();
    triage::render(&prompts, &batch, &fence(), RequestRound::First).unwrap()
}

fn deep_prompt(config: &Config, item: &CleanItem, context: &str) -> Rendered {
    let verdict = verdict(item.facts.id.0);
    let request = analyze::Request {
        item,
        verdict: &verdict,
        background: &Background::default(),
        code_bases: &[],
        overview: "",
        context,
    };
    let prompts = Prompts::built_in(config.agent.auth).unwrap();
    analyze::render(&prompts, request, &config.analyze, &fence()).unwrap()
}

pub(super) fn triage_session(config: &Config, api: &MessagesApi, rendered: &Rendered) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    start(config, &variables(api), Stage::Triage, rendered, folder.path()).end()
}

pub(super) fn deep_session(config: &Config, api: &MessagesApi, folder: &Path) -> Ended {
    let rendered = deep_prompt(config, &item(42, "Total is wrong", "By a cent."), "src/total.rs");
    start(config, &variables(api), Stage::Deep, &rendered, folder).end()
}

/// One triage session of one item with this script.
fn one_item(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Ended {
    let api = MessagesApi::start(script);
    triage_session(&config(), &api, &triage_prompt(&config(), &[item(1, "Title", "Text")]))
}

pub(super) fn verdicts(ids: impl IntoIterator<Item = i64>) -> Value {
    answers::verdicts(ids, 0)
}

pub(super) fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("src/total.rs"), "fn total() {} // ALPHA\n").unwrap();
    folder
}

#[test]
fn sixteen_items_are_one_request_with_little_around_them() {
    let Some(_) = installed() else { return };
    let config = config();
    let items: Vec<CleanItem> = (100..116)
        .map(|id| item(id, "Total is wrong", &"Some words about it. ".repeat(25)))
        .collect();
    let rendered = triage_prompt(&config, &items);
    let api = MessagesApi::start(|_| Reply::structured(verdicts(100..116)));
    let ended = triage_session(&config, &api, &rendered);
    assert_eq!(ended.outcome, Outcome::Completed, "{}", ended.stderr);

    let requests = api.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].tools(), ["StructuredOutput"]);
    assert_eq!(requests[0].user_texts(), [rendered.user.as_str()], "nothing was added or expanded");
    assert!(requests[0].body["system"].to_string().contains("Sort a team's work items"));
    assert_eq!(requests[0].header("x-api-key"), Some("sk-ant-of-the-agent"));
    let around = requests[0].bytes - json!(rendered.user).to_string().len();
    println!(
        "request {} bytes, prompt {}, around it {around}",
        requests[0].bytes,
        rendered.user.len()
    );
    // Two thirds of it are triage's own text and its schema.
    assert!(around < 3_000, "{around} bytes beside the items");

    let result = ended.result.unwrap();
    let ids: Vec<ItemId> = (100..116).map(ItemId).collect();
    let checked = triage::check(&ids, &[], &result.structured_output.unwrap().into_plain());
    assert_eq!((checked.verdicts.len(), checked.failed()), (16, vec![]));
    assert!(result.usage.cost > Some(Usd::ZERO) && result.usage.input_tokens > 0);
}

#[test]
fn a_deep_session_reads_inside_the_repository_and_nowhere_else() {
    let Some(_) = installed() else { return };
    let folder = repository();
    let api = MessagesApi::start(|request| match request.number {
        0 => Reply::Tools(vec![
            ("Read", json!({ "file_path": "src/total.rs" })),
            ("Read", json!({ "file_path": "/etc/hostname" })),
            ("Read", json!({ "file_path": "../../../../etc/hostname" })),
            ("Bash", json!({ "command": "id" })),
        ]),
        _ => Reply::structured(answers::finding(&["src/total.rs"])),
    });
    let ended = deep_session(&config(), &api, folder.path());
    assert_eq!(ended.outcome, Outcome::Completed, "{}", ended.stderr);
    // Only files that were actually read count: the file inside.
    assert_eq!((ended.reads, ended.notes.denied_tools), (1, 2));
    let requests = api.requests();
    assert_eq!(requests[0].tools(), ["Read", "StructuredOutput"]);
    let results = requests[1].body["messages"].to_string();
    assert!(results.contains("ALPHA"), "the file inside was read");
    assert!(results.contains("No such tool available: Bash"));
    assert!(ended.events.contains(&AgentEvent::Requesting), "partial messages are on");
    let mut found =
        analyze::check(&ended.result.unwrap().structured_output.unwrap().into_plain()).unwrap();
    let code = heartbeat::context::CommitCode::new(folder.path(), None, None);
    let seen = heartbeat::evidence::Seen { read: None, ..Default::default() };
    heartbeat::evidence::check(&mut found, &code, &seen, jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(found.files[0].exists, Some(true));
}

#[test]
fn an_answer_without_the_schema_is_not_a_success() {
    let Some(_) = installed() else { return };
    let ended = one_item(|_| Reply::Text("I would rather not.".to_owned()));
    assert_eq!(ended.exit, Exit::Code(0));
    assert_eq!(ended.outcome, Outcome::BadOutput { why: FailureKind::SchemaIgnored });
}

#[test]
fn an_answer_that_never_fits_the_schema_ends_the_session() {
    let Some(_) = installed() else { return };
    let ended = one_item(|_| Reply::structured(json!({ "answers": [] })));
    // Three turns are not enough for five tries.
    assert_eq!(ended.outcome, Outcome::AgentError { why: FailureKind::MaxTurns });
    let ended = one_item(|request| match request.number {
        0 => Reply::structured(json!({ "answers": [] })),
        _ => Reply::structured(verdicts([1])),
    });
    assert_eq!(ended.outcome, Outcome::Completed, "one repair is possible");
}

#[test]
fn a_prompt_that_begins_with_a_slash_is_never_sent_and_ours_never_does() {
    let Some(_) = installed() else { return };
    let api = MessagesApi::start(|_| Reply::structured(verdicts([1])));
    let mut rendered = triage_prompt(&config(), &[item(1, "/help", "/help")]);
    assert!(!rendered.user.starts_with('/'));
    rendered.user = "/help".to_owned();
    let ended = triage_session(&config(), &api, &rendered);
    assert_eq!(ended.exit, Exit::Code(0));
    assert_eq!(ended.outcome, Outcome::BadOutput { why: FailureKind::NotSent });
    assert_eq!(api.requests().len(), 0);
}

#[test]
fn errors_of_the_provider_have_their_names() {
    let Some(_) = installed() else { return };
    let limit = |why| Outcome::ProviderLimit { why };
    let error = |why| Outcome::AgentError { why };
    for (status, message, expected) in [
        (401, "invalid x-api-key", limit(FailureKind::Authentication)),
        (403, "forbidden", limit(FailureKind::Authentication)),
        (429, "too many", limit(FailureKind::RateLimit)),
        (400, "Your credit balance is too low to access the API", limit(FailureKind::Billing)),
        (400, "messages: bad", error(FailureKind::InvalidRequest)),
        (404, "model: no-such-model", error(FailureKind::ModelNotFound)),
        (500, "internal", error(FailureKind::ApiError)),
        (529, "overloaded", error(FailureKind::ApiError)),
    ] {
        let ended = one_item(move |_| Reply::status(status, message));
        assert_eq!(ended.outcome, expected, "{status} {message}\n{}", ended.stdout);
    }
}

#[test]
fn a_refusal_and_a_cut_answer_are_not_successes() {
    let Some(_) = installed() else { return };
    for (reason, expected) in
        [("refusal", FailureKind::Refused), ("max_tokens", FailureKind::MaxOutputTokens)]
    {
        let ended = one_item(move |_| Reply::Stopped { text: "No.".to_owned(), reason });
        assert_eq!(ended.outcome, Outcome::AgentError { why: expected }, "{}", ended.stdout);
    }
}

#[test]
fn faults_of_the_network_end_in_typed_outcomes() {
    let Some(_) = installed() else { return };
    for fault in
        [Fault::DropEarly, Fault::Html, Fault::Malformed, Fault::ErrorEvent, Fault::Truncated]
    {
        let ended = one_item(move |_| Reply::Fault(fault));
        assert_eq!(
            ended.outcome,
            Outcome::AgentError { why: FailureKind::ApiError },
            "{fault:?}\n{}",
            ended.stdout
        );
    }
}

#[test]
fn a_lost_connection_is_retried_and_the_retry_is_seen() {
    let Some(_) = installed() else { return };
    let mut config = config();
    config.agent.max_retries = 2;
    let api = MessagesApi::start(|request| match request.number {
        0 => Reply::Fault(Fault::DropMidStream),
        _ => Reply::structured(verdicts([1])),
    });
    let rendered = triage_prompt(&config, &[item(1, "Title", "Text")]);
    let ended = triage_session(&config, &api, &rendered);
    assert_eq!(ended.outcome, Outcome::Completed, "{}", ended.stdout);
    assert!(ended.notes.retries >= 1);
    assert!(ended.events.iter().any(|event| matches!(event, AgentEvent::Retrying { .. })));
}

#[test]
fn an_overspent_budget_is_seen_with_its_true_cost() {
    let Some(_) = installed() else { return };
    let answer = || Box::new(Reply::structured(verdicts([1])));
    let ended = one_item(move |_| Reply::Billed(answer(), 9_000_000, 10));
    let result = ended.result.unwrap();
    assert!(result.usage.cost > Some(config().triage.max_cost), "{:?}", result.usage.cost);
    assert_eq!(ended.outcome, Outcome::BudgetReached, "{}", ended.stdout);
}

#[test]
fn a_session_that_only_reads_ends_at_its_turn_limit() {
    let Some(_) = installed() else { return };
    let mut config = config();
    config.analyze.max_turns = 3;
    let folder = repository();
    let api = MessagesApi::start(|_| {
        Reply::Tools(vec![("Read", json!({ "file_path": "src/total.rs" }))])
    });
    let ended = deep_session(&config, &api, folder.path());
    assert_eq!(ended.outcome, Outcome::AgentError { why: FailureKind::MaxTurns });
    assert!(api.requests().len() >= 3);
    assert_eq!(ended.reads, 1, "the same file again and again");
}

/// A session whose request hangs, ended by a signal once the request has arrived.
fn ended_by(signal: Signal, fault: Fault) -> Ended {
    let api = MessagesApi::start(move |_| Reply::Fault(fault));
    let folder = tempfile::tempdir().unwrap();
    let rendered = triage_prompt(&config(), &[item(1, "Title", "Text")]);
    let running: Running =
        start(&config(), &variables(&api), Stage::Triage, &rendered, folder.path());
    assert!(api.wait_for(1), "the request arrives");
    kill(Pid::from_raw(i32::try_from(running.pid()).unwrap()), signal).unwrap();
    running.end()
}

#[test]
fn a_signal_from_outside_is_not_a_success_whatever_the_exit_code() {
    let Some(_) = installed() else { return };
    let interrupted = ended_by(Signal::SIGINT, Fault::HangAfterHeaders);
    assert_eq!(interrupted.exit, Exit::Code(0));
    assert_eq!(interrupted.outcome, Outcome::AgentError { why: FailureKind::Interrupted });
    let killed = ended_by(Signal::SIGKILL, Fault::HangAfterHeaders);
    assert_eq!(killed.outcome, Outcome::Signal { signal: 9 });
}

/// However a provider hangs, the agent itself only reports that it is running: detecting the hang
/// is up to the supervisor.
#[test]
fn a_provider_that_hangs_leaves_an_agent_that_is_up_and_says_no_more() {
    let Some(_) = installed() else { return };
    for fault in
        [Fault::Hang, Fault::HangAfterHeaders, Fault::SilentMidStream, Fault::PingsMidStream]
    {
        let ended = ended_by(Signal::SIGTERM, fault);
        assert_eq!(ended.exit, Exit::Code(143), "{fault:?}");
        assert_eq!(ended.outcome, Outcome::Signal { signal: 15 });
        let is_up = |event: &AgentEvent| matches!(event, AgentEvent::Initialised { .. });
        assert!(ended.events.iter().any(is_up), "{fault:?}");
        // Partial messages show that an answer has begun, but not that it stopped.
        let begun = matches!(fault, Fault::SilentMidStream | Fault::PingsMidStream);
        assert!(begun || !ended.events.contains(&AgentEvent::Content), "{fault:?}");
    }
}

#[test]
fn three_sessions_at_once_do_not_disturb_one_another() {
    let Some(_) = installed() else { return };
    let all_there = std::sync::Barrier::new(3);
    let api = MessagesApi::start(move |_| {
        all_there.wait();
        Reply::structured(verdicts([1]))
    });
    let rendered = triage_prompt(&config(), &[item(1, "Title", "Text")]);
    let folder = tempfile::tempdir().unwrap();
    let running: Vec<Running> = (0..3)
        .map(|_| start(&config(), &variables(&api), Stage::Triage, &rendered, folder.path()))
        .collect();
    for session in running {
        assert_eq!(session.end().outcome, Outcome::Completed);
    }
    assert_eq!((api.most_in_flight(), api.requests().len()), (3, 3));
}

#[test]
fn on_a_login_a_mentioned_file_is_never_read() {
    let Some(_) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret.txt");
    std::fs::write(&secret, "THE-CONTENT-OF-THE-FILE").unwrap();
    let text = format!("see @{0} and\n@{0} or \"@{0}\"", secret.display());
    let hostile = [item(1, &text, &text)];
    let sent = |rendered: &Rendered| {
        let api = MessagesApi::start(|_| Reply::structured(verdicts([1])));
        let ended = triage_session(&login(), &api, rendered);
        assert_eq!(ended.outcome, Outcome::Completed, "{}", ended.stdout);
        api.requests()[0].body.to_string()
    };
    let mut rendered = triage_prompt(&login(), &hostile);
    let body = sent(&rendered);
    assert!(body.contains("secret.txt") && !body.contains("THE-CONTENT"), "{body}");

    // The same text unescaped: the test can fail. For that the file has to be in the session's
    // folder, so it is named from there.
    rendered.user = rendered.user.replace('\u{ff20}', "@");
    let api = MessagesApi::start(|_| Reply::structured(verdicts([1])));
    start(&login(), &variables(&api), Stage::Triage, &rendered, folder.path()).end();
    assert!(api.requests()[0].body.to_string().contains("THE-CONTENT"));
}

#[test]
fn a_reached_plan_limit_suspends_until_the_stated_reset() {
    let Some(_) = installed() else { return };
    let api = MessagesApi::start(|_| Reply::Status {
        status: 429,
        message: "This request would exceed your account's rate limit.",
        headers: [
            ("anthropic-ratelimit-unified-status", "rejected"),
            ("anthropic-ratelimit-unified-reset", "1999999999"),
            ("anthropic-ratelimit-unified-representative-claim", "five_hour"),
            ("retry-after", "7200"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .to_vec(),
    });
    let rendered = triage_prompt(&login(), &[item(1, "Title", "Text")]);
    let ended = triage_session(&login(), &api, &rendered);
    assert_eq!(
        ended.outcome,
        Outcome::ProviderLimit { why: FailureKind::UsageLimit },
        "{}",
        ended.stdout
    );
    assert_eq!(
        ended.notes.suspended_until.map(jiff::Timestamp::as_second),
        Some(1_999_999_999),
        "{}",
        ended.stdout
    );
}

#[test]
fn the_pinned_version_knows_every_flag_that_is_checked() {
    let Some(program) = installed() else { return };
    let version = support::real_cli::output_of(&program, "--version");
    let help = support::real_cli::output_of(&program, "--help");
    let said = [Ok(version.clone()), Ok(help)];
    let findings = Findings { answers: &said, has_credential: true, has_login: false };
    assert_eq!(capability::version_of(&version), Some(capability::MEASURED_VERSION));
    for config in [config(), login()] {
        assert_eq!(capability::problems(&config, findings), []);
    }
}

#[test]
fn the_trackers_credential_is_nowhere() {
    let Some(_) = installed() else { return };
    let mut config = config();
    // Even if it is configured.
    config.agent.pass_env.push("AZURE_DEVOPS_PAT".to_owned());
    let api = MessagesApi::start(|_| Reply::Fault(Fault::HangAfterHeaders));
    let folder = tempfile::tempdir().unwrap();
    let rendered = triage_prompt(&config, &[item(1, "Title", "Text")]);
    let running = start(&config, &variables(&api), Stage::Triage, &rendered, folder.path());
    assert!(api.wait_for(1));
    let environment = std::fs::read(format!("/proc/{}/environ", running.pid())).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    kill(Pid::from_raw(i32::try_from(running.pid()).unwrap()), Signal::SIGKILL).unwrap();
    running.end();
    assert!(environment.contains("of-the-agent"));
    assert!(!environment.contains("of-the-tracker"));
    assert!(!api.requests()[0].body.to_string().contains("of-the-tracker"));
}
