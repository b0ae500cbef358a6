//! Every recorded session of Codex and Copilot, replayed through decoder and classifier, and
//! compared with its recorded outcome.

use std::path::{Path, PathBuf};

use heartbeat::model::{FailureKind, Outcome, SessionId, Stage, Untrusted, Usage};
use heartbeat::session::agent::codex::{self, stream::CodexDecoder};
use heartbeat::session::agent::copilot::{self, stream::CopilotDecoder};
use heartbeat::session::agent::{
    AgentEvent, AgentResult, Decoder, Ending, Exit, Expected, StreamNotes, Task, Transcript,
    outcome,
};
use heartbeat::settings::AgentKind;
use proptest::prelude::*;
use serde_json::{Value, json};

const KINDS: [AgentKind; 2] = [AgentKind::Codex, AgentKind::Copilot];

fn folder(kind: AgentKind) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/agent-transcripts");
    data.join(kind.into_str())
}

fn names(kind: AgentKind) -> Vec<String> {
    let entries = std::fs::read_dir(folder(kind)).unwrap();
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".ndjson").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// The task of the recorded sessions.
fn task() -> Task {
    let one = json!({
        "type": "object", "required": ["id", "severity"],
        "properties": { "id": { "type": "integer" }, "severity": { "type": "string" } },
    });
    let schema = json!({
        "type": "object", "required": ["items"],
        "properties": { "items": { "type": "array", "items": one } },
    });
    let session = SessionId(uuid::Uuid::from_u128(7));
    Task { schema, cwd: "/repo".into(), ..Task::silent(session, Stage::Deep, "/scratch".into()) }
}

fn decoder(kind: AgentKind) -> Box<dyn Decoder> {
    match kind {
        AgentKind::Codex => Box::new(CodexDecoder::new(&task(), "fake-model")),
        _ => Box::new(CopilotDecoder::new(&task())),
    }
}

struct Replay {
    transcript: Transcript,
    events: Vec<AgentEvent>,
    notes: StreamNotes,
    reads: u32,
    meta: Value,
}

impl Replay {
    fn result(&self) -> &AgentResult {
        self.transcript.result.as_ref().unwrap()
    }
}

fn replay(kind: AgentKind, name: &str) -> Replay {
    let meta = std::fs::read(folder(kind).join(format!("{name}.meta.json"))).unwrap();
    let meta: Value = serde_json::from_slice(&meta).unwrap();
    let stdout = std::fs::read(folder(kind).join(format!("{name}.ndjson"))).unwrap();
    let mut decoder = decoder(kind);
    let events: Vec<AgentEvent> =
        stdout.split(|byte| *byte == b'\n').flat_map(|line| decoder.line(line)).collect();
    let result = events.iter().rev().find_map(|event| match event {
        AgentEvent::Result(result) => Some((**result).clone()),
        _ => None,
    });
    let number = |key: &str| meta[key].as_i64().map(|number| i32::try_from(number).unwrap());
    let stderr: Vec<&str> =
        meta["stderr"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let transcript = Transcript {
        // Sessions that were still running were killed.
        exit: number("exit_code")
            .map_or_else(|| Exit::Signal(number("exit_signal").unwrap_or(9)), Exit::Code),
        result,
        json_lines: events.iter().filter(|event| **event != AgentEvent::NotJson).count() as u64,
        last_error: decoder.last_error(),
        stderr_tail: Untrusted::new(stderr.join("\n")),
    };
    Replay { transcript, events, notes: decoder.notes(), reads: decoder.reads(), meta }
}

fn classify(kind: AgentKind, transcript: &Transcript, expected: Expected) -> Outcome {
    match kind {
        AgentKind::Codex => outcome::classify(&codex::outcome::CodexDialect, transcript, expected),
        _ => outcome::classify(&copilot::outcome::CopilotDialect, transcript, expected),
    }
}

/// Sessions that ended before the first line; standard error has the cause.
const TOLD_BY_STDERR: &[(&str, Outcome)] = &[
    ("39_bad_flag", Outcome::SpawnFailed { why: FailureKind::CommandLine }),
    ("44_bad_schema", Outcome::SpawnFailed { why: FailureKind::CommandLine }),
    ("46_strict_bad_config", Outcome::SpawnFailed { why: FailureKind::CommandLine }),
    ("38b_no_model", Outcome::SpawnFailed { why: FailureKind::CommandLine }),
    ("38c_no_provider_offline", Outcome::SpawnFailed { why: FailureKind::CommandLine }),
    ("52_credits", Outcome::SpawnFailed { why: FailureKind::CommandLine }),
    ("38d_no_auth_online", Outcome::ProviderLimit { why: FailureKind::Authentication }),
    ("13_token_no_network", Outcome::AgentError { why: FailureKind::ApiError }),
];

/// The recorded outcome.
fn written_down(name: &str, words: &str) -> Outcome {
    let inner = |prefix: &str| {
        let rest = words.strip_prefix(prefix)?.trim_end_matches(')');
        let word = rest.split([':', ' ']).next().unwrap();
        Some(serde_json::from_value::<FailureKind>(json!(word)).unwrap())
    };
    if let Some((_, outcome)) = TOLD_BY_STDERR.iter().find(|(known, _)| *known == name) {
        assert!(words.starts_with("no result; exit code"), "{name}: {words}");
        outcome.clone()
    } else if let Some(why) = inner("provider_limit(") {
        Outcome::ProviderLimit { why }
    } else if let Some(why) = inner("agent_error(") {
        Outcome::AgentError { why }
    } else if let Some(why) = inner("bad_output(") {
        Outcome::BadOutput { why }
    } else if let Some(signal) = words.strip_prefix("signal ") {
        Outcome::Signal { signal: signal.parse().unwrap() }
    } else if let Some(code) = words.strip_prefix("no result; exit code ") {
        Outcome::ExitCode { code: code.parse().unwrap() }
    } else if words.starts_with("interrupted") {
        Outcome::AgentError { why: FailureKind::Interrupted }
    } else if words.starts_with("cut by the harness") {
        Outcome::Signal { signal: 9 }
    } else {
        assert_eq!(words, "completed", "{name}");
        Outcome::Completed
    }
}

#[test]
fn each_transcript_replays_to_its_outcome() {
    let mut replayed = 0;
    for kind in KINDS {
        for name in names(kind) {
            let replay = replay(kind, &name);
            let expected = written_down(&name, replay.meta["outcome"].as_str().unwrap());
            let found = classify(kind, &replay.transcript, Expected::Structured);
            // Some were asked for text and not for an object: those are complete but not an answer.
            let only_words = expected.is_success()
                && replay.result().structured_output.is_none()
                && replay.result().misfit.is_some();
            if only_words {
                assert!(matches!(found, Outcome::BadOutput { .. }), "{kind:?} {name}: {found:?}");
                let found = classify(kind, &replay.transcript, Expected::Text);
                assert_eq!(found, expected, "{kind:?} {name}");
            } else {
                assert_eq!(found, expected, "{kind:?} {name}");
            }
            assert!(!replay.events.contains(&AgentEvent::NotJson), "{kind:?} {name}");
            let mut unknown = replay.notes.unknown.clone();
            // The recording's replacement for a long line.
            unknown.retain(|name, _| name != "item/" && name != "_cut_for_storage");
            assert_eq!(unknown.len(), 0, "{kind:?} {name}: {unknown:?}");
            replayed += 1;
        }
    }
    assert_eq!(replayed, 190);
}

#[test]
fn tokens_are_reported_without_those_of_the_cache_and_never_a_cost() {
    let codex = replay(AgentKind::Codex, "A1_catalog_triage");
    let told =
        Usage { input_tokens: 400, cache_read_tokens: 800, output_tokens: 40, ..Usage::default() };
    assert_eq!(codex.result().usage, told);
    let copilot = replay(AgentKind::Copilot, "95_recommended_triage");
    assert_eq!(copilot.result().usage, Usage::default(), "they are in a file");
    let file = copilot.meta["usage"].to_string();
    assert_eq!(copilot::stream::usage(&file), Some(told));
    for nothing in ["", "{}", "[]", r#"{"modelMetrics":{}}"#, r#"{"modelMetrics":{"m":{}}}"#] {
        assert_eq!(copilot::stream::usage(nothing), None, "{nothing}");
    }
    // A failed session of Codex reports no tokens, but an answer was seen.
    let failed = replay(AgentKind::Codex, "35_content_filter");
    assert_eq!(failed.result().usage.tokens(), 0);
    assert!(failed.notes.tokens_seen.tokens() > 0, "budgets must not take it for free");
}

#[test]
fn reads_denials_turns_and_retries_are_seen() {
    let deep = replay(AgentKind::Copilot, "96_recommended_deep");
    assert_eq!(deep.reads, 1, "a search is no file read");
    let count = |replay: &Replay, wanted: fn(&AgentEvent) -> bool| {
        replay.events.iter().filter(|event| wanted(event)).count()
    };
    assert_eq!(count(&deep, |event| *event == AgentEvent::Turn), 2);
    assert!(replay(AgentKind::Copilot, "06_view_only").notes.denied_tools > 0);
    assert_eq!(replay(AgentKind::Codex, "A2_catalog_deep").reads, 2, "commands");
    let retrying =
        |event: &AgentEvent| matches!(event, AgentEvent::Retrying { delay_ms: None, .. });
    assert_eq!(count(&replay(AgentKind::Codex, "22_429_retry_after"), retrying), 1);
    let refused = replay(AgentKind::Copilot, "21_429");
    assert!(count(&refused, retrying) >= 5);
    assert_eq!(count(&refused, |event| *event == AgentEvent::Answered), 0, "nobody answered");
    let endless = replay(AgentKind::Codex, "93_endless_tools");
    let started = |event: &AgentEvent| matches!(event, AgentEvent::ToolStarted { .. });
    assert!(count(&endless, started) > 100, "which is what ends it");
}

#[test]
fn an_interruption_is_never_a_success_even_with_a_good_result_line() {
    let hangup = replay(AgentKind::Copilot, "65_hup_pid");
    assert_eq!(hangup.transcript.exit, Exit::Code(0));
    assert_eq!(hangup.result().ending, Ending::Interrupted);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        for kind in KINDS {
            let mut decoder = decoder(kind);
            for line in bytes.split(|byte| *byte == b'\n') {
                decoder.line(line);
            }
            prop_assert!(decoder.last_error().is_none_or(|error| error.len() < 1_000));
        }
    }

    /// A real transcript truncated anywhere, with bytes flipped.
    #[test]
    fn damaged_transcripts_are_survived(
        codex in any::<bool>(),
        which in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let kind = if codex { AgentKind::Codex } else { AgentKind::Copilot };
        let names = names(kind);
        let name = &names[which.index(names.len())];
        let mut stdout = std::fs::read(folder(kind).join(format!("{name}.ndjson"))).unwrap();
        stdout.push(b'\n');
        for (position, byte) in flips {
            let position = position.index(stdout.len());
            stdout[position] = byte;
        }
        stdout.truncate(cut.index(stdout.len()));
        let mut decoder = decoder(kind);
        let lines = stdout.split(|byte| *byte == b'\n').map(|line| decoder.line(line)).count();
        prop_assert!(decoder.reads() as usize <= lines);
    }
}
