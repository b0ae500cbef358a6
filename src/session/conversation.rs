//! The agent's output: split into lines, decoded, and kept as facts.

use std::time::Duration;

use tokio::time::Instant;

use super::agent::{AgentEvent, AgentResult, Decoder};
use super::machine::Cause;
use super::provider_wait::ProviderWait;
use super::spec::SessionLimits;
use crate::model::{SessionTranscript, TranscriptKind, Usage, milliseconds};

/// A session is ended above this total; ten times the output of a long one.
pub const MAX_OUTPUT: u64 = 64 << 20;
/// A session is ended above this total; with every token as a line a long one has 100,000.
pub const MAX_LINES: u64 = 500_000;

/// Open tool calls kept; more are far beyond every limit.
pub const MAX_OPEN_TOOLS: usize = 256;
/// Memory of a conversation besides its longest line.
const MEMORY_BESIDE_LINES: usize = 16 << 20;

/// Upper bound of the memory for reading an agent's output: the line as it grows, its strings
/// without their escapes, and what is kept of it.
pub const fn memory_bound(max_line: usize) -> usize {
    6 * max_line + MEMORY_BESIDE_LINES
}

/// What the supervisor has to know about some output.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// The first decodable line.
    FirstLine,
    /// The agent has started.
    Initialised { model: Option<String>, version: Option<String> },
    /// The agent made progress; the value names its kind.
    Progress(&'static str),
    /// The agent waits before a retry.
    Retrying {
        attempt: u32,
        /// `None` if the agent does not state it.
        delay_ms: Option<u64>,
        /// HTTP status, if there was a response.
        status: Option<u16>,
    },
    /// The agent switched its model.
    FellBack { model: String },
    /// The final line.
    Result,
    /// A line beyond the limit, or too much output in total.
    Flood,
}

pub struct Conversation {
    decoder: Box<dyn Decoder>,
    max_line: usize,
    line: Vec<u8>,
    /// The first decodable line was seen.
    pub initialised: bool,
    /// The final line.
    pub result: Option<AgentResult>,
    /// Id and name of each open tool call.
    pub open_tools: Vec<(String, String)>,
    /// Time of the last progress.
    pub last_progress: Instant,
    /// Time of the last byte.
    pub last_output: Instant,
    /// Bytes so far.
    pub bytes: u64,
    pub lines: u64,
    pub json_lines: u64,
    /// Turns of the model so far.
    pub turns: u32,
    /// Tool calls so far.
    pub tool_calls: u32,
    /// Those that the transcript names, and those of them that failed.
    pub tried_calls: u32,
    pub failed_calls: u32,
    /// End of an announced wait.
    pub retry_until: Option<Instant>,
    /// How long the provider has kept the agent waiting.
    pub provider_wait: ProviderWait,
    /// Type of the last line.
    pub last_kind: String,
    /// Summary of what was read and said.
    pub transcript: SessionTranscript,
    began: Instant,
}

impl Conversation {
    pub fn new(decoder: Box<dyn Decoder>, max_line: usize, now: Instant) -> Self {
        Self {
            decoder,
            max_line,
            line: Vec::new(),
            initialised: false,
            result: None,
            open_tools: Vec::new(),
            last_progress: now,
            last_output: now,
            bytes: 0,
            lines: 0,
            json_lines: 0,
            turns: 0,
            tool_calls: 0,
            tried_calls: 0,
            failed_calls: 0,
            retry_until: None,
            provider_wait: ProviderWait::default(),
            last_kind: String::new(),
            transcript: SessionTranscript::default(),
            began: now,
        }
    }

    /// Distinct files read so far.
    pub fn reads(&self) -> u32 {
        self.decoder.reads()
    }

    pub fn files_read(&self) -> Vec<String> {
        self.decoder.files_read()
    }

    /// The last error named in the stream.
    pub fn last_error(&self) -> Option<String> {
        self.decoder.last_error()
    }

    /// Usage as the agent reported it, or else the tokens seen so far.
    ///
    /// An interrupted agent does not count its unfinished answer; the tokens seen include it.
    pub fn usage(&self) -> Usage {
        let seen = self.decoder.notes().tokens_seen;
        let Some(result) = &self.result else { return seen };
        let reported = result.usage;
        Usage {
            input_tokens: reported.input_tokens.max(seen.input_tokens),
            output_tokens: reported.output_tokens.max(seen.output_tokens),
            cache_read_tokens: reported.cache_read_tokens.max(seen.cache_read_tokens),
            cache_creation_tokens: reported.cache_creation_tokens.max(seen.cache_creation_tokens),
            ..reported
        }
    }

    /// When the provider accepts requests again, if it stated a limit.
    pub fn suspended_until(&self) -> Option<jiff::Timestamp> {
        self.decoder.notes().suspended_until
    }

    /// The model that the agent switched to, if it did.
    pub fn fell_back_to(&self) -> Option<String> {
        self.decoder.notes().fallback_model.clone()
    }

    /// The limit that the agent has exceeded, independent of its CLI's limits.
    pub fn beyond(&self, limits: &SessionLimits) -> Option<Cause> {
        let counted = [
            (limits.max_reads, self.reads(), Cause::TooManyReads),
            (limits.max_turns, self.turns, Cause::TooManyTurns),
            (limits.max_tool_calls, self.tool_calls, Cause::TooManyToolCalls),
        ];
        let beyond = counted.iter().find(|(max, count, _)| max.is_some_and(|max| *count > max));
        beyond.map(|(.., cause)| *cause)
    }

    /// Nothing happened for this long because nothing could: no limit counts it.
    pub fn pass_over(&mut self, lost: Duration, now: Instant) {
        let moved = |at: Instant| (at + lost).min(now);
        self.last_progress = moved(self.last_progress);
        self.last_output = moved(self.last_output);
        self.retry_until = self.retry_until.map(|at| at + lost);
        self.provider_wait.pass_over(lost, now);
    }

    /// Memory is bounded by the longest line.
    pub fn feed(&mut self, bytes: &[u8], now: Instant) -> Vec<Notice> {
        let mut notices = Vec::new();
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.last_output = now;
        if self.bytes > MAX_OUTPUT || self.lines > MAX_LINES {
            notices.push(Notice::Flood);
            return notices;
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + part.len() > self.max_line {
                self.line = Vec::new();
                notices.push(Notice::Flood);
                return notices;
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.decode(line.trim_ascii_end(), now, &mut notices);
            }
        }
        notices
    }

    /// End of stream; the remaining bytes are a line too.
    pub fn finish(&mut self, now: Instant) -> Vec<Notice> {
        let mut notices = Vec::new();
        let line = std::mem::take(&mut self.line);
        self.decode(line.trim_ascii_end(), now, &mut notices);
        notices
    }

    fn decode(&mut self, line: &[u8], now: Instant, notices: &mut Vec<Notice>) {
        if line.is_empty() {
            return;
        }
        self.lines += 1;
        let events = self.decoder.line(line);
        let after_ms = milliseconds(now - self.began);
        for (kind, text) in self.decoder.take_transcript() {
            match kind {
                TranscriptKind::Read | TranscriptKind::Tool => {
                    self.tried_calls = self.tried_calls.saturating_add(1);
                }
                TranscriptKind::Failed => {
                    self.failed_calls = self.failed_calls.saturating_add(1);
                }
                TranscriptKind::Said => {}
            }
            self.transcript.push(after_ms, kind, &text);
        }
        let is_json = !events.contains(&AgentEvent::NotJson);
        self.json_lines += u64::from(is_json);
        if is_json && !self.initialised {
            self.initialised = true;
            notices.push(Notice::FirstLine);
        }
        for event in events {
            self.take(event, now, notices);
        }
    }

    fn take(&mut self, event: AgentEvent, now: Instant, notices: &mut Vec<Notice>) {
        let mut progress = |this: &mut Self, what: &'static str| {
            this.last_progress = now;
            this.retry_until = None;
            what.clone_into(&mut this.last_kind);
            notices.push(Notice::Progress(what));
        };
        match event {
            AgentEvent::Initialised { model, version } => {
                // Progress is measured from here; the time before has its own limit.
                self.last_progress = now;
                "init".clone_into(&mut self.last_kind);
                notices.push(Notice::Initialised { model, version });
            }
            AgentEvent::Content => {
                progress(self, "content");
                self.provider_wait.answering(now);
            }
            AgentEvent::Turn => self.turns = self.turns.saturating_add(1),
            AgentEvent::ToolStarted { id, name } => {
                progress(self, "tool_use");
                self.tool_calls = self.tool_calls.saturating_add(1);
                self.provider_wait.answered(now);
                if self.open_tools.len() < MAX_OPEN_TOOLS {
                    self.open_tools.push((id, name));
                }
            }
            AgentEvent::ToolFinished { id } => {
                progress(self, "tool_result");
                self.open_tools.retain(|(open, _)| *open != id);
            }
            AgentEvent::Requesting => {
                self.provider_wait.asked(now);
                "requesting".clone_into(&mut self.last_kind);
            }
            AgentEvent::Answered => {
                self.provider_wait.answered(now);
                "answered".clone_into(&mut self.last_kind);
            }
            AgentEvent::Retrying { attempt, delay_ms, status } => {
                // A wait of unknown length is bounded by the stall limit.
                self.retry_until = delay_ms.map(|delay| now + Duration::from_millis(delay));
                self.provider_wait.failed(now);
                "retry".clone_into(&mut self.last_kind);
                notices.push(Notice::Retrying { attempt, delay_ms, status });
            }
            AgentEvent::FellBack { model } => {
                "model_fallback".clone_into(&mut self.last_kind);
                notices.push(Notice::FellBack { model });
            }
            AgentEvent::Alive { kind } => self.last_kind = kind,
            AgentEvent::Result(result) => {
                progress(self, "result");
                self.provider_wait.answered(now);
                // Money that was once reported is spent, whatever a later line says.
                let reported = self.result.take().and_then(|earlier| earlier.usage.cost);
                let mut result = *result;
                result.usage.cost = result.usage.cost.max(reported);
                self.result = Some(result);
                notices.push(Notice::Result);
            }
            AgentEvent::NotJson => "not JSON".clone_into(&mut self.last_kind),
        }
    }
}

/// The last part of a text of any length.
#[derive(Debug, Default)]
pub struct Tail(Vec<u8>);

impl Tail {
    const KEEP: usize = 4096;

    /// Appends bytes and drops the oldest ones.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        if self.0.len() > 4 * Self::KEEP {
            self.0.drain(..self.0.len() - Self::KEEP);
        }
    }

    pub fn text(&self) -> String {
        let from = self.0.len().saturating_sub(Self::KEEP);
        String::from_utf8_lossy(&self.0[from..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::session::agent::claude::stream::ClaudeDecoder;

    const MAX_LINE: usize = 4096;

    fn conversation(now: Instant) -> Conversation {
        Conversation::new(Box::new(ClaudeDecoder::default()), MAX_LINE, now)
    }

    /// Parts of a stream: whole lines, cut or doubled ones, or other bytes.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let line = |text: &str| Just([text.as_bytes(), b"\n"].concat());
        prop_oneof![
            line(r#"{"type":"system","subtype":"init","model":"m","claude_code_version":"2"}"#),
            line(r#"{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":5}"#),
            line(r#"{"type":"result","is_error":false,"subtype":"success"}"#),
            line(r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"}]}}"#),
            Just(vec![b'x'; MAX_LINE / 2]),
            prop::collection::vec(any::<u8>(), 0..80),
        ]
    }

    #[test]
    fn a_transcript_says_what_was_read_in_vain_or_not_and_what_was_said() {
        let stream = [
            r#"{"type":"system","subtype":"init","model":"m","claude_code_version":"2","cwd":"/code"}"#,
            r#"{"type":"assistant","message":{"id":"1","content":[{"type":"text","text":"I look at the total."},{"type":"tool_use","id":"a","name":"Read","input":{"file_path":"/code/src/total.ts"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a","content":"1: the content of the file"}]}}"#,
            r#"{"type":"assistant","message":{"id":"2","content":[{"type":"tool_use","id":"b","name":"Read","input":{"file_path":"/etc/shadow"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"b","is_error":true,"content":"denied"}]}}"#,
            r#"{"type":"assistant","message":{"id":"3","content":[{"type":"tool_use","id":"c","name":"StructuredOutput","input":{"summary":"x"}}]}}"#,
        ];
        let began = Instant::now();
        let mut conversation = conversation(began);
        for (second, line) in (1..).zip(stream) {
            conversation.feed(format!("{line}\n").as_bytes(), began + Duration::from_secs(second));
        }
        let lines: Vec<(u64, TranscriptKind, &str)> = conversation
            .transcript
            .lines
            .iter()
            .map(|line| (line.after_ms, line.kind, line.text.as_str()))
            .collect();
        assert_eq!(
            lines,
            [
                (2_000, TranscriptKind::Said, "I look at the total."),
                (2_000, TranscriptKind::Read, "src/total.ts"),
                (4_000, TranscriptKind::Read, "/etc/shadow"),
                (5_000, TranscriptKind::Failed, "/etc/shadow"),
                (6_000, TranscriptKind::Tool, "StructuredOutput"),
            ],
            "what a tool returned is not kept"
        );
    }

    #[test]
    fn reported_money_is_spent_whatever_a_later_line_says_and_negative_money_is_unknown() {
        let cost_after = |costs: &[f64]| {
            let now = Instant::now();
            let mut conversation = conversation(now);
            for cost in costs {
                let line =
                    format!(r#"{{"type":"result","subtype":"success","total_cost_usd":{cost}}}"#);
                conversation.feed(format!("{line}\n").as_bytes(), now);
            }
            conversation.usage().cost
        };
        let three = Some(crate::model::Usd::from_dollars(3.0));
        assert_eq!(cost_after(&[3.0]), three);
        assert_eq!(cost_after(&[3.0, 0.0]), three);
        assert_eq!(cost_after(&[-1.0]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_split_mean_the_same_and_stay_bounded(
            pieces in prop::collection::vec(piece(), 0..12),
            cuts in prop::collection::vec(1_usize..200, 1..40),
        ) {
            let now = Instant::now();
            let stream = pieces.concat();
            let mut whole = conversation(now);
            let expected = whole.feed(&stream, now);
            let mut split = conversation(now);
            let mut found = Vec::new();
            let (mut rest, mut sizes) = (stream.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() && !found.contains(&Notice::Flood) {
                let size = sizes.next().map_or(1, |size| (*size).min(rest.len()));
                let (now_given, later) = rest.split_at(size);
                found.extend(split.feed(now_given, now));
                prop_assert!(split.line.len() <= MAX_LINE);
                rest = later;
            }
            prop_assert_eq!(found, expected);
            if rest.is_empty() {
                prop_assert_eq!(split.finish(now), whole.finish(now));
                prop_assert_eq!((split.lines, split.json_lines), (whole.lines, whole.json_lines));
            }
        }
    }
}
