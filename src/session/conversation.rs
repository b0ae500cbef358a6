//! What the agent says: lines cut from its output, decoded, and kept as facts.

use std::time::Duration;

use tokio::time::Instant;

use super::agent::{AgentEvent, AgentResult, Decoder};
use super::machine::Cause;
use super::provider_wait::ProviderWait;
use super::spec::SessionLimits;
use crate::model::{SessionTranscript, Usage};

/// Output in all beyond which a session is ended: ten times what a long one writes.
pub const MAX_OUTPUT: u64 = 64 << 20;
/// Lines in all beyond which a session is ended; with every token as a line a long one has 100,000.
pub const MAX_LINES: u64 = 500_000;

/// Tool calls that are remembered as open; a session beyond that is far over every limit anyway.
pub const MAX_OPEN_TOOLS: usize = 256;
/// What a conversation may need beside its longest line.
const MEMORY_BESIDE_LINES: usize = 16 << 20;

/// The most memory that reading an agent's output takes, whatever it writes: the line as it grows,
/// its strings without their escapes, and what is kept of it.
pub const fn memory_bound(max_line: usize) -> usize {
    6 * max_line + MEMORY_BESIDE_LINES
}

/// What the supervisor should know about some bytes of output.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// The first line that could be decoded.
    FirstLine,
    /// The agent said hello.
    Initialised {
        /// Model in use.
        model: Option<String>,
        /// Version of the CLI.
        version: Option<String>,
    },
    /// Something was achieved.
    Progress(&'static str),
    /// An announced wait.
    Retrying {
        /// Which try.
        attempt: u32,
        /// How long, where the agent says so.
        delay_ms: Option<u64>,
        /// HTTP status, if there was one.
        status: Option<u16>,
    },
    /// The agent changed its model.
    FellBack {
        /// To which.
        model: String,
    },
    /// The final line.
    Result,
    /// A line beyond the limit, or too much in all.
    Flood,
}

/// The conversation so far.
pub struct Conversation {
    decoder: Box<dyn Decoder>,
    max_line: usize,
    line: Vec<u8>,
    /// The first decodable line was seen.
    pub initialised: bool,
    /// The final line.
    pub result: Option<AgentResult>,
    /// Open tool calls: id and name.
    pub open_tools: Vec<(String, String)>,
    /// When something was last achieved.
    pub last_progress: Instant,
    /// When the last byte came.
    pub last_output: Instant,
    /// Bytes so far.
    pub bytes: u64,
    /// Lines so far.
    pub lines: u64,
    /// Lines that were JSON.
    pub json_lines: u64,
    /// Turns of the model so far.
    pub turns: u32,
    /// Tool calls so far.
    pub tool_calls: u32,
    /// End of an announced wait.
    pub retry_until: Option<Instant>,
    /// What the provider owes the agent.
    pub provider_wait: ProviderWait,
    /// Type of the last line.
    pub last_kind: String,
    /// What was read and said, in short.
    pub transcript: SessionTranscript,
    began: Instant,
}

impl Conversation {
    /// Begins now.
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

    /// Name of the last error in the stream.
    pub fn last_error(&self) -> Option<String> {
        self.decoder.last_error()
    }

    /// What was used: the agent's own account, or the tokens seen so far where it gave none.
    ///
    /// An agent that is interrupted leaves the answer that was open out of its account; its tokens
    /// were seen.
    pub fn usage(&self) -> Usage {
        let seen = self.decoder.notes().tokens_seen;
        let Some(result) = &self.result else { return seen };
        let told = result.usage;
        Usage {
            input_tokens: told.input_tokens.max(seen.input_tokens),
            output_tokens: told.output_tokens.max(seen.output_tokens),
            cache_read_tokens: told.cache_read_tokens.max(seen.cache_read_tokens),
            cache_creation_tokens: told.cache_creation_tokens.max(seen.cache_creation_tokens),
            ..told
        }
    }

    /// The provider's stated reset, if it refused more work.
    pub fn suspended_until(&self) -> Option<jiff::Timestamp> {
        self.decoder.notes().suspended_until
    }

    /// What the agent has done too often, whatever its CLI allows.
    pub fn beyond(&self, limits: &SessionLimits) -> Option<Cause> {
        let counted = [
            (limits.max_reads, self.reads(), Cause::TooManyReads),
            (limits.max_turns, self.turns, Cause::TooManyTurns),
            (limits.max_tool_calls, self.tool_calls, Cause::TooManyToolCalls),
        ];
        let beyond = counted.iter().find(|(max, count, _)| max.is_some_and(|max| *count > max));
        beyond.map(|(.., cause)| *cause)
    }

    /// Takes bytes. Memory is bounded by the longest line, whatever comes.
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

    /// The stream has ended: what is left is a line too.
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
        let after_ms = u64::try_from((now - self.began).as_millis()).unwrap_or(u64::MAX);
        for (kind, text) in self.decoder.take_transcript() {
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
                // The clock of progress starts here; the time before has a limit of its own.
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
                // A wait of unknown length is silence like any other, bounded by the stall limit.
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
                self.result = Some(*result);
                notices.push(Notice::Result);
            }
            AgentEvent::NotJson => "not JSON".clone_into(&mut self.last_kind),
        }
    }
}

/// The end of a text that may be endless.
#[derive(Debug, Default)]
pub struct Tail(Vec<u8>);

impl Tail {
    const KEEP: usize = 4096;

    /// Takes bytes and forgets older ones.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        if self.0.len() > 4 * Self::KEEP {
            self.0.drain(..self.0.len() - Self::KEEP);
        }
    }

    /// The last part, as text.
    pub fn text(&self) -> String {
        let from = self.0.len().saturating_sub(Self::KEEP);
        String::from_utf8_lossy(&self.0[from..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::TranscriptKind;
    use crate::session::agent::claude::stream::ClaudeDecoder;

    const MAX_LINE: usize = 4096;

    fn conversation(now: Instant) -> Conversation {
        Conversation::new(Box::new(ClaudeDecoder::default()), MAX_LINE, now)
    }

    /// Pieces of a stream: lines as the agent writes them, cut, doubled, or no lines at all.
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
