//! The scripted agent, checked with the same decoder and validation as the real one.

use std::collections::HashMap;
use std::ffi::OsString;

use clap::Parser;
use heartbeat::analyze;
use heartbeat::config::DEFAULT_TOML;
use heartbeat::context::{Choice, CommitCode};
use heartbeat::evidence::{self, Seen};
use heartbeat::locate::{self, Question};
use heartbeat::model::{
    Background, CleanItem, FailureKind, Outcome, Rung, SessionId, Stage, Untrusted, Usd,
};
use heartbeat::prompt::{Prompts, Rendered};
use heartbeat::session::agent::claude::Claude;
use heartbeat::session::agent::{
    Agent, AgentEvent, AgentResult, Exit, StreamNotes, Task, Transcript,
};
use heartbeat::settings::{AgentAuth, Config};
use heartbeat::simulate::agent::{self, SimulateAgentArgs};
use heartbeat::triage::{self, RequestRound};
use support::agent_items::{fence, item, verdict};

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    agent: SimulateAgentArgs,
}

fn config() -> Config {
    toml::from_str(DEFAULT_TOML).unwrap()
}

struct Played {
    outcome: Outcome,
    result: AgentResult,
    events: Vec<AgentEvent>,
    reads: u32,
    notes: StreamNotes,
}

/// Runs a session as heartbeat starts it: own arguments, then those of the real adapter.
fn play(own: &[&str], stage: Stage, rendered: &Rendered) -> Played {
    let claude = Claude::new(&config(), |_| None);
    let session = SessionId("0199a000-0000-7000-8000-00000000000a".parse().unwrap());
    let task = Task {
        system_prompt: rendered.system.clone(),
        schema: rendered.schema.clone(),
        ..Task::silent(session, stage, "/scratch".into())
    };
    let own = std::iter::once("agent").chain(own.iter().copied()).map(OsString::from);
    let line = CommandLine::try_parse_from(own.chain(claude.command(&task).args)).unwrap();
    let session = agent::session(&line.agent, &rendered.user);
    let mut decoder = claude.decoder(&task);
    let events: Vec<AgentEvent> =
        session.lines.iter().flat_map(|line| decoder.line(line.to_string().as_bytes())).collect();
    let result = events.iter().find_map(|event| match event {
        AgentEvent::Result(result) => Some((**result).clone()),
        _ => None,
    });
    let transcript = Transcript {
        exit: Exit::Code(i32::from(!session.succeeded)),
        result: result.clone(),
        json_lines: events.len() as u64,
        last_error: decoder.last_error(),
        stderr_tail: Untrusted::default(),
    };
    Played {
        outcome: claude.classify(&transcript),
        result: result.unwrap(),
        reads: decoder.reads(),
        notes: decoder.notes(),
        events,
    }
}

fn triage_prompt() -> Rendered {
    let mut wish = item(11, "Add a dark mode", "It would be nice to have.");
    wish.facts.item_type = "User Story".to_owned();
    wish.facts.priority = Some(4);
    let items = [
        item(10, "Total is wrong", "A race between two workers leads to a deadlock."),
        wish,
        item(12, "total is wrong", "Same again."),
    ];
    let batch = triage::plan_batches(&items, &HashMap::new(), "", &config().triage).remove(0);
    let prompts = Prompts::built_in(AgentAuth::ApiKey).unwrap();
    triage::render(&prompts, &batch, &fence(), RequestRound::First).unwrap()
}

fn deep_prompt() -> Rendered {
    let item = item(42, "Decoder panics", "A race in the decoder.");
    let request = analyze::Request {
        item: &item,
        verdict: &verdict(42),
        background: &Background::default(),
        code_bases: &[],
        overview: "",
        context: "src/session/agent/mod.rs (score 9)\nsrc/gone.rs\n  fn nothing()\n/etc/passwd ../x.rs",
    };
    let prompts = Prompts::built_in(AgentAuth::ApiKey).unwrap();
    analyze::render(&prompts, request, &config().analyze, &fence()).unwrap()
}

#[test]
fn triage_answers_for_every_id_and_by_its_rules() {
    let played = play(&[], Stage::Triage, &triage_prompt());
    assert_eq!(played.outcome, Outcome::Completed);
    let ids: Vec<_> = [10, 11, 12].map(heartbeat::model::ItemId).to_vec();
    let checked = triage::check(&ids, &[], &played.result.structured_output.unwrap().into_plain());
    assert_eq!(checked.failed(), []);
    let deep: Vec<bool> =
        checked.verdicts.iter().map(|verdict| verdict.needs_deep_analysis).collect();
    assert_eq!(deep, [true, false, true]);
    assert_eq!(checked.verdicts[0].duplicates[0].id, ids[2]);
    assert!(played.result.usage.cost > Some(Usd::ZERO) && played.result.usage.input_tokens > 300);
    assert!(
        matches!(&played.events[1], AgentEvent::Initialised { model: Some(model), .. } if model == "claude-haiku-5-5")
    );
}

#[test]
fn the_locate_step_is_answered_for_every_item_with_its_own_files() {
    let (total, mode) =
        (item(10, "Total is wrong", "Rounding."), item(11, "No dark mode", "Wish."));
    let file = |path: &str| Choice { path: path.into(), about: "9 lines; add".into() };
    let files = || ["src/cart.rs", "src/total.rs", "src/mode.rs"].map(file).to_vec();
    let questions =
        [&total, &mode].map(|item| Question::of(item, &verdict(item.facts.id.0), files()));
    let batch = locate::plan_batches(questions.into(), &config().triage).remove(0);
    let prompts = Prompts::built_in(AgentAuth::ApiKey).unwrap();
    let played = play(&[], Stage::Locate, &locate::render(&prompts, &batch, &fence()).unwrap());
    assert_eq!(played.outcome, Outcome::Completed);
    let answer = played.result.structured_output.unwrap().into_plain();
    let answer = locate::check_answer(&batch, &answer);
    let first = |item: &CleanItem| answer[&item.facts.key][0].path.clone();
    assert_eq!((first(&total), first(&mode)), ("src/total.rs".into(), "src/mode.rs".into()));
}

#[test]
fn deep_analysis_names_files_of_its_context_and_reads_those_that_exist() {
    let played = play(&["--pace", "0"], Stage::Deep, &deep_prompt());
    assert_eq!(played.outcome, Outcome::Completed);
    let mut finding =
        analyze::check(&played.result.structured_output.unwrap().into_plain()).unwrap();
    let here = CommitCode::new(std::path::Path::new("."), None, None);
    evidence::check(&mut finding, &here, &Seen::default(), jiff::Timestamp::UNIX_EPOCH);
    let files: Vec<&str> = finding.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["src/session/agent/mod.rs"], "the other one is not there");
    assert_eq!(finding.rung(), Some(Rung::Cited));
    assert_eq!(played.reads, 1, "the other one does not exist");
    assert!(played.events.contains(&AgentEvent::Requesting));
    assert_eq!(played.notes.tokens_seen.input_tokens, played.result.usage.input_tokens);
    assert_eq!(played.notes.tokens_seen.output_tokens, played.result.usage.output_tokens);
}

#[test]
fn failures_are_as_scripted() {
    let failing = play(&["--fail-item", "42"], Stage::Deep, &deep_prompt());
    assert!(matches!(failing.outcome, Outcome::BadOutput { .. }), "{:?}", failing.outcome);
    let never = play(&["--fail-rate", "0"], Stage::Deep, &deep_prompt());
    assert_eq!(never.outcome, Outcome::Completed);
    let always = play(&["--fail-rate", "1"], Stage::Deep, &deep_prompt());
    assert!(matches!(always.outcome, Outcome::BadOutput { .. }), "{:?}", always.outcome);
    let down = play(&["--provider-down"], Stage::Deep, &deep_prompt());
    assert_eq!(down.outcome, Outcome::AgentError { why: FailureKind::ApiError });
    let silent = play(&["--fail-item", "11"], Stage::Triage, &triage_prompt());
    assert_eq!(silent.outcome, Outcome::Completed);
    let ids = [10, 11, 12].map(heartbeat::model::ItemId);
    let checked = triage::check(&ids, &[], &silent.result.structured_output.unwrap().into_plain());
    assert_eq!(checked.missing, [ids[1]]);
}

#[test]
fn a_provider_limit_states_its_reset() {
    let played = play(&["--provider-limit", "3600"], Stage::Triage, &triage_prompt());
    assert_eq!(played.outcome, Outcome::ProviderLimit { why: FailureKind::UsageLimit });
    assert!(played.notes.suspended_until.is_some());
}

#[test]
fn the_same_prompt_has_the_same_answer() {
    let prompt = triage_prompt();
    let first = play(&[], Stage::Triage, &prompt);
    assert_eq!(first.result, play(&[], Stage::Triage, &prompt).result);
}
