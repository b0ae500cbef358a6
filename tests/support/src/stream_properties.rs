//! Arbitrary agent output, split arbitrarily.

use heartbeat::model::{SessionId, Stage};
use heartbeat::session::agent::claude::stream::ClaudeDecoder;
use heartbeat::session::agent::codex::stream::CodexDecoder;
use heartbeat::session::agent::copilot::stream::CopilotDecoder;
use heartbeat::session::agent::{Decoder, Task};
use heartbeat::session::conversation::{Conversation, Notice};
use tokio::time::Instant;

/// Longest line in these tests: short, so that a small input can reach it.
pub const MAX_LINE: usize = 64 << 10;

/// Longest stream that an input is expanded to.
pub const MAX_STREAM: usize = 1 << 20;

/// A byte that no valid line contains: the part from here to the next one is repeated many times.
/// Recorded transcripts are valid inputs.
const REPEAT: u8 = 0xff;

/// The stream of an input.
pub fn stream_of(input: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (index, section) in input.split(|byte| *byte == REPEAT).enumerate() {
        let (times, section) = match section.split_first() {
            Some((exponent, rest)) if index > 0 => (1_usize << (exponent % 16), rest),
            _ => (1, section),
        };
        for _ in 0..times {
            if stream.len() + section.len() > MAX_STREAM {
                return stream;
            }
            stream.extend_from_slice(section);
        }
    }
    stream
}

pub fn claude() -> Box<dyn Decoder> {
    Box::new(ClaudeDecoder::default())
}

pub fn codex() -> Box<dyn Decoder> {
    Box::new(CodexDecoder::new(&task(), "model"))
}

pub fn copilot() -> Box<dyn Decoder> {
    Box::new(CopilotDecoder::new(&task()))
}

fn task() -> Task {
    let session = SessionId(uuid::Uuid::from_u128(1));
    Task::silent(session, Stage::Deep, "/scratch".into())
}

/// A stream gives the same events whole or in parts, without a panic.
pub fn any_bytes_in_any_split(decoder: fn() -> Box<dyn Decoder>, input: &[u8]) {
    let (now, stream) = (Instant::now(), stream_of(input));
    let conversation = || Conversation::new(decoder(), MAX_LINE, now);
    let mut whole = conversation();
    let expected = whole.feed(&stream, now);
    let mut split = conversation();
    let mut found = Vec::new();
    let mut rest = stream.as_slice();
    let mut chance = input.iter().fold(1_u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(*byte));
    while !rest.is_empty() && found.last() != Some(&Notice::Flood) {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let size = 1 + usize::try_from(chance >> 48).unwrap_or(0) % 4096;
        let (piece, later) = rest.split_at(size.min(rest.len()));
        found.extend(split.feed(piece, now));
        rest = later;
    }
    assert_eq!(found, expected);
    if found.last() != Some(&Notice::Flood) {
        assert_eq!(split.finish(now), whole.finish(now));
        assert_eq!(split.result, whole.result);
        assert_eq!((split.lines, split.json_lines), (whole.lines, whole.json_lines));
        assert_eq!((split.bytes, split.reads()), (whole.bytes, whole.reads()));
        assert_eq!((split.turns, split.tool_calls), (whole.turns, whole.tool_calls));
        assert_eq!(split.usage(), whole.usage());
    }
}
