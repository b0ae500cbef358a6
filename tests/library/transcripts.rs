//! Every recorded transcript of the real CLI, replayed through decoder and classifier.

use std::path::{Path, PathBuf};

use heartbeat::model::{FailureKind, Outcome, Untrusted, Usd};
use heartbeat::session::agent::claude::{outcome::ClaudeDialect, stream::ClaudeDecoder};
use heartbeat::session::agent::{
    AgentEvent, AgentResult, Decoder, Exit, Expected, StreamNotes, Transcript, outcome::classify,
};
use proptest::prelude::*;
use serde_json::Value;

const fn bad(why: FailureKind) -> Outcome {
    Outcome::BadOutput { why }
}

const fn error(why: FailureKind) -> Outcome {
    Outcome::AgentError { why }
}

const fn limit(why: FailureKind) -> Outcome {
    Outcome::ProviderLimit { why }
}

/// Transcript, outcome, files read.
const TABLE: &[(&str, Outcome, u32)] = &[
    ("c21_sid_again", Outcome::ExitCode { code: 1 }, 0),
    ("e11_429_ra90", limit(FailureKind::RateLimit), 0),
    ("f01_429_ra1", limit(FailureKind::RateLimit), 0),
    ("f02_429_ra30", limit(FailureKind::RateLimit), 0),
    ("f05_529_fallback", Outcome::Completed, 0),
    ("f08_hang_headers", Outcome::Signal { signal: 9 }, 0),
    ("f15_sse_error", error(FailureKind::ApiError), 0),
    ("f17_400", error(FailureKind::InvalidRequest), 0),
    ("f28_drop_once", Outcome::Completed, 0),
    ("h1_usage_limit_login", limit(FailureKind::UsageLimit), 0),
    ("h2_refusal", error(FailureKind::Refused), 0),
    ("h3_max_tokens", error(FailureKind::MaxOutputTokens), 0),
    ("h4_over_budget_schema", Outcome::BudgetReached, 0),
    ("h5_401", limit(FailureKind::Authentication), 0),
    ("h6_403", limit(FailureKind::Authentication), 0),
    ("h7_429", limit(FailureKind::RateLimit), 0),
    ("h8_400_credit", limit(FailureKind::Billing), 0),
    ("h9_400", error(FailureKind::InvalidRequest), 0),
    ("h10_404", error(FailureKind::ModelNotFound), 0),
    ("h11_500", error(FailureKind::ApiError), 0),
    ("h12_529", error(FailureKind::ApiError), 0),
    ("k10_sigterm_api_hang", Outcome::Signal { signal: 15 }, 0),
    ("k1_sigterm_pid", Outcome::Signal { signal: 15 }, 0),
    ("k3_sigint_pid", error(FailureKind::Interrupted), 0),
    ("k5_sigkill_group", Outcome::Signal { signal: 9 }, 0),
    ("k9_sigterm_child_traps", Outcome::Signal { signal: 15 }, 0),
    ("r1_triage_recommended", Outcome::Completed, 0),
    ("r2_deep_recommended", Outcome::Completed, 1),
    ("t21c_read_outside_restricted", Outcome::Completed, 0),
    ("t22_disallowed_bash", Outcome::Completed, 0),
    ("t30_structured_bad_then_good", Outcome::Completed, 0),
    ("t31_structured_always_bad", error(FailureKind::SchemaExhausted), 0),
    ("t32_structured_text_only", bad(FailureKind::SchemaIgnored), 0),
    ("t34_structured_maxturns1", Outcome::Completed, 0),
    ("t36_schema_array_root", error(FailureKind::SchemaExhausted), 0),
    ("t40_max_turns", error(FailureKind::MaxTurns), 1),
    ("t41b_budget_tiny_single", Outcome::BudgetReached, 0),
    ("t44_prompt_slash", bad(FailureKind::NotSent), 0),
    ("t48_nokey", limit(FailureKind::Authentication), 0),
    ("t50b_at_nobare", Outcome::Completed, 0),
    ("t60_evil_bare", Outcome::Completed, 1),
    ("t60_evil_bare_full", Outcome::Completed, 1),
    ("t60_evil_plain", Outcome::Completed, 1),
    ("t70_partial", Outcome::Completed, 0),
    ("t80_symlink", Outcome::Completed, 1),
    ("t81_maxturns_parallel", Outcome::Completed, 1),
    ("t90_bash_heartbeats", Outcome::Completed, 0),
    ("t96_authtoken_bare", Outcome::Completed, 0),
    ("t96_oauth_bare", limit(FailureKind::Authentication), 0),
    ("t96_oauth_nobare", Outcome::Completed, 0),
    ("x1_parallel_bash_ro", Outcome::Completed, 0),
    ("x2_parallel_grep_tool", Outcome::Completed, 0),
    ("x3_bg_bash", Outcome::Signal { signal: 9 }, 0),
    ("x5_bash_leaves_daemon", Outcome::Completed, 0),
];

struct Replay {
    outcome: Outcome,
    result: Option<AgentResult>,
    events: Vec<AgentEvent>,
    reads: u32,
    notes: StreamNotes,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/transcripts")
}

fn replay(name: &str) -> Replay {
    let meta = std::fs::read(folder().join(format!("{name}.meta.json"))).unwrap();
    let meta: Value = serde_json::from_slice(&meta).unwrap();
    let stdout = std::fs::read(folder().join(format!("{name}.jsonl"))).unwrap();
    let mut decoder = ClaudeDecoder::default();
    let events: Vec<AgentEvent> =
        stdout.split(|byte| *byte == b'\n').flat_map(|line| decoder.line(line)).collect();
    let result = events.iter().rev().find_map(|event| match event {
        AgentEvent::Result(result) => Some((**result).clone()),
        _ => None,
    });
    let exit = match i32::try_from(meta["rc"].as_i64().unwrap()).unwrap() {
        code if code < 0 => Exit::Signal(-code),
        code => Exit::Code(code),
    };
    let asked_for_schema =
        meta["args"].as_array().unwrap().iter().any(|argument| argument == "--json-schema");
    let expected = if asked_for_schema { Expected::Structured } else { Expected::Text };
    let transcript = Transcript {
        exit,
        result: result.clone(),
        json_lines: events.iter().filter(|event| **event != AgentEvent::NotJson).count() as u64,
        last_error: decoder.last_error(),
        stderr_tail: Untrusted::new(meta["stderr"].to_string()),
    };
    Replay {
        outcome: classify(&ClaudeDialect, &transcript, expected),
        result,
        reads: decoder.reads(),
        notes: decoder.notes(),
        events,
    }
}

#[test]
fn each_transcript_has_its_outcome_and_its_reads() {
    for (name, outcome, reads) in TABLE {
        let replay = replay(name);
        assert_eq!((&replay.outcome, replay.reads), (outcome, *reads), "{name}");
        assert!(!replay.events.contains(&AgentEvent::NotJson), "{name}");
        assert_eq!(replay.notes.unknown.len(), 0, "{name}: {:?}", replay.notes.unknown);
    }
}

#[test]
fn no_transcript_is_forgotten() {
    let mut found: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    found.sort();
    let mut expected: Vec<&str> = TABLE.iter().map(|(name, ..)| *name).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn cost_and_usage_come_from_the_result_also_when_it_failed() {
    let overspent = replay("t41b_budget_tiny_single").result.unwrap();
    assert_eq!(overspent.usage.cost, Some(Usd::from_dollars(3.03)));
    let triage = replay("r1_triage_recommended").result.unwrap();
    assert_eq!((triage.usage.input_tokens, triage.usage.output_tokens), (2827, 386));
    assert_eq!(triage.usage.cost, Some(Usd::from_micros(476)));
}

#[test]
fn tokens_are_known_before_the_result_line() {
    let deep = replay("r2_deep_recommended");
    let total = deep.result.unwrap().usage;
    assert_eq!(deep.notes.tokens_seen.input_tokens, total.input_tokens);
    assert_eq!(deep.notes.tokens_seen.output_tokens, total.output_tokens);
}

#[test]
fn every_session_says_hello_and_every_tool_call_is_closed() {
    for (name, outcome, _) in TABLE.iter().filter(|(_, outcome, _)| outcome.is_success()) {
        let replay = replay(name);
        let hello = replay.events.iter().position(|event| {
            matches!(event, AgentEvent::Initialised { version: Some(version), .. } if version == "2.1.325")
        });
        assert!(hello.is_some_and(|position| position < 4), "{name} {outcome}");
        let count = |wanted: fn(&AgentEvent) -> bool| {
            replay.events.iter().filter(|event| wanted(event)).count()
        };
        let started = count(|event| matches!(event, AgentEvent::ToolStarted { .. }));
        let finished = count(|event| matches!(event, AgentEvent::ToolFinished { .. }));
        assert_eq!(started, finished, "{name}");
    }
}

#[test]
fn retries_fallbacks_and_denials_are_surfaced() {
    let fallback = replay("f05_529_fallback");
    assert_eq!(fallback.notes.fallback_model.as_deref(), Some("claude-sonnet-4-5"));
    let model = "claude-sonnet-4-5".to_owned();
    assert!(fallback.events.contains(&AgentEvent::FellBack { model }));
    assert_eq!(fallback.notes.retries, 2);
    assert!(fallback.events.contains(&AgentEvent::Retrying {
        attempt: 1,
        delay_ms: Some(552),
        status: Some(529)
    }));
    assert_eq!(replay("t80_symlink").notes.denied_tools, 2);
}

#[test]
fn a_rejected_plan_limit_states_its_reset() {
    let until = replay("h1_usage_limit_login").notes.suspended_until.unwrap();
    assert_eq!(until.as_second(), 1_999_999_999);
    let mut decoder = ClaudeDecoder::default();
    decoder.line(br#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed"}}"#);
    assert_eq!(decoder.notes().suspended_until, None);
    decoder.line(
        br#"{"rate_limit_info":{"resetsAt":1794800000,"status":"rejected"},"type":"rate_limit_event"}"#,
    );
    assert_eq!(decoder.notes().suspended_until.unwrap().as_second(), 1_794_800_000);
    assert_eq!(decoder.last_error().as_deref(), Some("usage_limit"));
}

#[test]
fn the_order_of_keys_is_free_and_unknown_types_are_counted() {
    let mut decoder = ClaudeDecoder::default();
    let init = decoder
        .line(br#"{"model":"m","claude_code_version":"9","subtype":"init","type":"system"}"#);
    assert_eq!(
        init,
        [AgentEvent::Initialised { model: Some("m".into()), version: Some("9".into()) }]
    );
    for _ in 0..3 {
        assert_eq!(
            decoder.line(br#"{"type":"brand_new"}"#),
            [AgentEvent::Alive { kind: "brand_new".into() }]
        );
    }
    assert_eq!(decoder.notes().unknown["brand_new"], 3);
}

#[test]
fn what_is_kept_is_bounded_whatever_is_written() {
    let mut decoder = ClaudeDecoder::default();
    let long = "x".repeat(100_000);
    for number in 0..5_000 {
        decoder.line(format!(r#"{{"type":"t{number}{long}"}}"#).as_bytes());
        let block = format!(
            r#"{{"type":"tool_use","id":"{number}","name":"Read","input":{{"file_path":"{number}"}}}}"#
        );
        let line = format!(r#"{{"type":"assistant","message":{{"content":[{block}]}}}}"#);
        decoder.line(line.as_bytes());
    }
    assert!((250..=300).contains(&decoder.reads()), "{}", decoder.reads());
    let notes = decoder.notes();
    assert!(notes.unknown.len() <= StreamNotes::MAX_UNKNOWN_KINDS + 1);
    assert!(notes.unknown.keys().all(|name| name.len() <= 130));
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        let mut decoder = ClaudeDecoder::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            decoder.line(line);
        }
        prop_assert!(decoder.last_error().is_none_or(|error| error.len() < 1_000));
    }

    /// A real transcript truncated anywhere, with bytes flipped.
    #[test]
    fn damaged_transcripts_are_survived(
        which in 0..TABLE.len(),
        cut in any::<prop::sample::Index>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let name = TABLE[which].0;
        let mut stdout = std::fs::read(folder().join(format!("{name}.jsonl"))).unwrap();
        stdout.push(b'\n');
        for (position, byte) in flips {
            let position = position.index(stdout.len());
            stdout[position] = byte;
        }
        stdout.truncate(cut.index(stdout.len()));
        let mut decoder = ClaudeDecoder::default();
        let mut lines = 0_usize;
        for line in stdout.split(|byte| *byte == b'\n') {
            lines += 1;
            decoder.line(line);
        }
        prop_assert!(decoder.reads() as usize <= lines * 32);
    }
}
