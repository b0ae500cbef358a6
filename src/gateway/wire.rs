//! Reads token counts out of answers as they pass, in constant memory: the Messages, the Responses
//! and the Chat Completions API, streamed or not. The names of their fields do not collide, so one
//! reader serves all three.

use serde_json::Value;

use crate::model::Usage;

/// A longer line is not parsed as a whole; only the counts at its end are.
const MAX_LINE_LEN: usize = 256 << 10;
/// What is kept of a longer line.
const TAIL: usize = 16 << 10;
/// Long enough for the type of an event.
const HEAD: usize = 256;
/// Average length of a token.
const BYTES_PER_TOKEN: u64 = 4;
const MAX_WORDS_LEN: usize = 500;
/// No model reads or writes so many tokens in one answer. A higher count would use up every budget.
const MAX_COUNT: u64 = 20_000_000;

/// Tokens of so many bytes, estimated.
pub const fn estimated_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// What has been seen of one answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Bytes of the answer's body.
    pub bytes: u64,
    /// The provider's own counts so far.
    pub counted: Usage,
    /// The provider counted the input.
    pub has_input: bool,
    /// The provider's counts are final.
    pub is_final: bool,
    /// A count is no number of tokens that one answer can have.
    pub is_nonsense: bool,
    /// Length of the text, tool calls and reasoning in the deltas.
    pub delta_bytes: u64,
    /// An error inside the answer: its type and its words.
    pub error: Option<(String, String)>,
}

impl Seen {
    /// The tokens that the provider served. Without its final counts they are estimated: the input
    /// from the length of the request, the output from the deltas. `false`: not estimated.
    pub fn tokens(&self, request_bytes: u64) -> (Usage, bool) {
        if self.is_final && !self.is_nonsense {
            return (self.counted, false);
        }
        if self.bytes == 0 {
            return (Usage::default(), false);
        }
        let mut tokens = self.counted;
        if !self.has_input || self.is_nonsense {
            tokens.input_tokens = tokens.input_tokens.max(estimated_tokens(request_bytes));
        }
        // An answer in one piece has no deltas.
        let said =
            if self.delta_bytes == 0 && self.is_nonsense { self.bytes } else { self.delta_bytes };
        tokens.output_tokens = tokens.output_tokens.max(estimated_tokens(said));
        (tokens, true)
    }
}

/// Reads one answer.
#[derive(Debug)]
pub struct Reader {
    is_stream: bool,
    line: Vec<u8>,
    /// The beginning of a line that is too long to keep, and the length of what was dropped.
    cut: Option<(Vec<u8>, u64)>,
    pub seen: Seen,
}

impl Reader {
    /// `content_type` tells a stream of events from one JSON object.
    pub fn new(content_type: &str) -> Self {
        let is_stream = content_type.starts_with("text/event-stream");
        Self { is_stream, line: Vec::new(), cut: None, seen: Seen::default() }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.seen.bytes = self.seen.bytes.saturating_add(bytes.len() as u64);
        if !self.is_stream {
            self.push(bytes);
            return;
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.push(part);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    /// The answer is complete.
    pub fn finish(&mut self) {
        self.end_line();
    }

    fn push(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(MAX_LINE_LEN) {
            self.line.extend_from_slice(part);
            if self.line.len() > MAX_LINE_LEN {
                let head = || (self.line[..HEAD].to_vec(), 0);
                let (_, dropped) = self.cut.get_or_insert_with(head);
                *dropped += (self.line.len() - TAIL) as u64;
                self.line.drain(..self.line.len() - TAIL);
                self.line.shrink_to(TAIL);
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if let Some((head, dropped)) = self.cut.take() {
            if let Some(usage) = usage_at_the_end(&line) {
                self.count(&usage);
                self.seen.is_final = true;
            } else if memchr::memmem::find(&head, b"delta").is_some() {
                // Other long lines repeat what the deltas said.
                self.seen.delta_bytes += dropped + line.len() as u64;
            }
            return;
        }
        let data = match self.is_stream {
            true => line.strip_prefix(b"data:"),
            false => Some(line.as_slice()),
        };
        let event = data.and_then(|data| serde_json::from_slice::<Value>(data.trim_ascii()).ok());
        if let Some(event) = event {
            self.event(&event);
        }
    }

    fn event(&mut self, event: &Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        let inner = [&event["message"], &event["response"], event];
        let usage = inner.iter().map(|place| &place["usage"]).find(|usage| usage.is_object());
        if let Some(usage) = usage {
            self.count(usage);
            // The first event of the Messages API knows only the input.
            self.seen.is_final |= kind != "message_start" && kind != "response.created";
        }
        let error = inner.iter().map(|place| &place["error"]).find(|error| error.is_object());
        if let Some(error) = error {
            let text = |key: &str| shortened(error[key].as_str().unwrap_or_default());
            let kind = text("type");
            let kind = if kind.is_empty() { text("code") } else { kind };
            self.seen.error = Some((kind, text("message")));
        }
        let deltas = event.get("delta").into_iter();
        let choices = event["choices"].as_array().map(Vec::as_slice).unwrap_or_default();
        let deltas = deltas.chain(choices.iter().filter_map(|choice| choice.get("delta")));
        self.seen.delta_bytes += deltas.map(length_of_texts).sum::<u64>();
    }

    /// Counts are cumulative: the highest of each kind is valid.
    fn count(&mut self, usage: &Value) {
        let mut is_nonsense = false;
        let mut number = |names: &[&str]| {
            let mut found = names.iter().filter_map(|name| usage.pointer(name));
            let Some(found) = found.find(|value| !value.is_null()) else { return 0 };
            let count = found.as_u64().filter(|count| *count <= MAX_COUNT);
            is_nonsense |= count.is_none();
            count.unwrap_or_default()
        };
        let has_input =
            ["input_tokens", "prompt_tokens"].iter().any(|name| !usage[*name].is_null());
        // OpenAI counts cached tokens as a part of the input, Anthropic beside it.
        let inside = number(&[
            "/input_tokens_details/cached_tokens",
            "/prompt_tokens_details/cached_tokens",
        ]);
        let input = number(&["/input_tokens", "/prompt_tokens"]).saturating_sub(inside);
        let beside = number(&["/cache_read_input_tokens"]);
        let written = number(&["/cache_creation_input_tokens"]);
        let output = number(&["/output_tokens", "/completion_tokens"]);
        let counted = &mut self.seen.counted;
        counted.input_tokens = counted.input_tokens.max(input);
        counted.cache_read_tokens = counted.cache_read_tokens.max(inside.saturating_add(beside));
        counted.cache_creation_tokens = counted.cache_creation_tokens.max(written);
        counted.output_tokens = counted.output_tokens.max(output);
        self.seen.has_input |= has_input;
        self.seen.is_nonsense |= is_nonsense;
    }
}

/// The last object named `usage` in the end of a long line.
fn usage_at_the_end(tail: &[u8]) -> Option<Value> {
    let at = memchr::memmem::rfind(tail, b"\"usage\"")?;
    let rest = tail.get(at + b"\"usage\"".len()..)?.trim_ascii_start().strip_prefix(b":")?;
    let first = serde_json::Deserializer::from_slice(rest).into_iter::<Value>().next()?;
    first.ok().filter(Value::is_object)
}

/// Names in a delta that are no part of what the model said.
const NAMES: [&str; 6] = ["type", "id", "role", "name", "stop_reason", "finish_reason"];

fn length_of_texts(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(values) => values.iter().map(length_of_texts).sum(),
        Value::Object(fields) => {
            let said = fields.iter().filter(|(name, _)| !NAMES.contains(&name.as_str()));
            said.map(|(_, value)| length_of_texts(value)).sum()
        }
        _ => 0,
    }
}

/// For people; bounded.
pub fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_WORDS_LEN)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: bool, body: &str, size: usize) -> Seen {
        let mut reader = Reader::new(if stream {
            "text/event-stream; charset=utf-8"
        } else {
            "application/json"
        });
        body.as_bytes().chunks(size).for_each(|part| reader.feed(part));
        reader.finish();
        reader.seen
    }

    fn counted(input: u64, cached: u64, written: u64, output: u64) -> Usage {
        Usage {
            input_tokens: input,
            cache_read_tokens: cached,
            cache_creation_tokens: written,
            output_tokens: output,
            ..Usage::default()
        }
    }

    const MESSAGES: &str = r#"event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":1}}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"twelve bytes"}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":42}}

data: {"type":"message_stop"}
"#;

    #[test]
    fn the_counts_of_every_wire_are_read_in_any_split() {
        let responses = r#"data: {"type":"response.created","response":{"id":"r"}}
data: {"type":"response.output_text.delta","delta":"word"}
data: {"type":"response.completed","response":{"usage":{"input_tokens":110,"input_tokens_details":{"cached_tokens":100},"output_tokens":42}}}
"#;
        let chat = r#"data: {"choices":[{"delta":{"content":"word","tool_calls":[{"id":"x","function":{"name":"n","arguments":"{}"}}]}}],"usage":null}
data: {"choices":[],"usage":{"prompt_tokens":110,"prompt_tokens_details":{"cached_tokens":100},"completion_tokens":42}}
data: [DONE]
"#;
        let plain = r#"{"type":"message","usage":{"input_tokens":10,"output_tokens":42}}"#;
        for size in [1, 7, 4096] {
            for (stream, body, expected) in [
                (true, MESSAGES, counted(10, 100, 5, 42)),
                (true, responses, counted(10, 100, 0, 42)),
                (true, chat, counted(10, 100, 0, 42)),
                (false, plain, counted(10, 0, 0, 42)),
            ] {
                let seen = read(stream, body, size);
                assert_eq!(seen.tokens(9999), (expected, false), "{size} {body}");
            }
        }
        assert_eq!(read(true, chat, 4096).delta_bytes, 6, "names and ids do not count");
    }

    #[test]
    fn a_cut_answer_is_estimated_and_an_answer_without_a_byte_costs_nothing() {
        let cut = &MESSAGES[..MESSAGES.find("data: {\"type\":\"message_delta\"").unwrap()];
        let (tokens, estimated) = read(true, cut, 64).tokens(400);
        assert_eq!((tokens, estimated), (counted(10, 100, 5, 3), true), "the input is exact");
        let words = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"12345678\"}\n";
        assert_eq!(read(true, words, 64).tokens(400), (counted(100, 0, 0, 2), true));
        assert_eq!(read(true, "", 64).tokens(400), (Usage::default(), false));
    }

    #[test]
    fn counts_that_cannot_be_are_estimated() {
        let text = "data: {\"delta\":{\"text\":\"12345678\"}}\n";
        for count in ["-5000", "1.5", "\"12\"", "18446744073709551615", "900000000000000000"] {
            let usage =
                format!("data: {{\"usage\":{{\"input_tokens\":{count},\"output_tokens\":7}}}}\n");
            let (tokens, estimated) = read(true, &(text.to_owned() + &usage), 64).tokens(400);
            assert_eq!((tokens, estimated), (counted(100, 0, 0, 7), true), "{count}");
        }
    }

    #[test]
    fn a_line_beyond_the_limit_is_counted_in_bounded_memory() {
        let words = "x".repeat(3 * MAX_LINE_LEN);
        let line = format!(
            "data: {{\"type\":\"response.completed\",\"response\":{{\"output\":\"{words}\",\
             \"usage\":{{\"input_tokens\":7,\"output_tokens\":9}}}}}}\n"
        );
        let mut reader = Reader::new("text/event-stream");
        for part in line.as_bytes().chunks(8192) {
            reader.feed(part);
            assert!(reader.line.capacity() <= 4 * MAX_LINE_LEN);
        }
        assert_eq!(reader.seen.tokens(0), (counted(7, 0, 0, 9), false));
        let delta =
            format!("data: {{\"type\":\"response.output_text.delta\",\"delta\":\"{words}\"}}\n");
        let repeated =
            format!("data: {{\"type\":\"response.output_text.done\",\"text\":\"{words}\"}}\n");
        let length = read(true, &(delta + &repeated), 8192).delta_bytes;
        assert!(length.abs_diff(words.len() as u64) < 200, "once: {length}");
    }

    #[test]
    fn an_error_inside_an_answer_is_kept_with_its_words() {
        let event = "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n";
        let seen = read(true, event, 64);
        assert_eq!(seen.error, Some(("overloaded_error".into(), "Overloaded".into())));
        let failed = "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"x\"}}}\n";
        assert_eq!(read(true, failed, 64).error, Some(("server_error".into(), "x".into())));
    }
}
