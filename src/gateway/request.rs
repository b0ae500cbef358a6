//! What a session may ask of its provider. A provider also works on its own: it fetches addresses,
//! runs code, asks other servers and opens files that it has stored. No wall of this machine sees
//! that, so a session may only ask for answers to what its request itself contains.
//!
//! What is not in the tables is left out if a request means the same without it, and refused otherwise.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Limits of an answer, by wire.
pub const LIMITS: [&str; 3] = ["max_tokens", "max_output_tokens", "max_completion_tokens"];

/// The end of a path, and what a request to it may contain. The agents' own requests were recorded;
/// their relatives that change nothing but the model's words are here too.
const FIELDS: [(&str, &[&str]); 3] = [
    (
        "/messages",
        &[
            "context_management",
            "max_tokens",
            "messages",
            "metadata",
            "model",
            "output_config",
            "output_format",
            "stop_sequences",
            "stream",
            "system",
            "temperature",
            "thinking",
            "tool_choice",
            "tools",
            "top_k",
            "top_p",
        ],
    ),
    (
        "/responses",
        &[
            "client_metadata",
            "include",
            "input",
            "instructions",
            "max_output_tokens",
            "max_tool_calls",
            "metadata",
            "model",
            "parallel_tool_calls",
            "prompt_cache_key",
            "reasoning",
            "safety_identifier",
            "store",
            "stream",
            "stream_options",
            "temperature",
            "text",
            "tool_choice",
            "tools",
            "top_p",
            "truncation",
            "user",
        ],
    ),
    (
        "/chat/completions",
        &[
            "frequency_penalty",
            "max_completion_tokens",
            "max_tokens",
            "messages",
            "metadata",
            "model",
            "parallel_tool_calls",
            "presence_penalty",
            "prompt_cache_key",
            "reasoning_effort",
            "response_format",
            "safety_identifier",
            "seed",
            "stop",
            "store",
            "stream",
            "stream_options",
            "temperature",
            "tool_choice",
            "tools",
            "top_p",
            "user",
            "verbosity",
        ],
    ),
];

/// Would be work of the provider's own, or something that it has stored: without them the request
/// would mean something else.
const REFUSED: [&str; 7] = [
    "background",
    "container",
    "conversation",
    "mcp_servers",
    "previous_response_id",
    "prompt",
    "web_search_options",
];

/// Tools that the agent itself carries out; one without a type is such a tool. A `namespace` holds
/// others.
const TOOLS: [&str; 4] = ["custom", "function", "local_shell", "namespace"];

/// Fields whose parts are looked at.
const CONTENT: [&str; 3] = ["input", "messages", "system"];

/// Types of these parts, and of what they hold.
const PARTS: [&str; 31] = [
    "base64",
    "compaction",
    "compaction_summary",
    "content",
    "custom",
    "custom_tool_call",
    "custom_tool_call_output",
    "document",
    "ephemeral",
    "exec",
    "file",
    "function",
    "function_call",
    "function_call_output",
    "image",
    "image_url",
    "input_file",
    "input_image",
    "input_text",
    "local_shell_call",
    "local_shell_call_output",
    "message",
    "output_text",
    "reasoning",
    "reasoning_text",
    "redacted_thinking",
    "refusal",
    "summary_text",
    "text",
    "thinking",
    "tool_result",
];
/// Its `input` is what the model wrote for a tool of the agent's: any JSON.
const TOOL_USE: &str = "tool_use";

/// Names of what is somewhere else, unless it is there as a whole (`data:`).
const ELSEWHERE: [&str; 10] = [
    "audio",
    "connector_id",
    "container",
    "container_id",
    "file_id",
    "file_url",
    "image_url",
    "server_url",
    "url",
    "vector_store_ids",
];

/// Values of `anthropic-beta`, without their dates.
const BETAS: [&str; 15] = [
    "claude-code",
    "context-1m",
    "context-management",
    "effort",
    "extended-cache-ttl",
    "fine-grained-tool-streaming",
    "interleaved-thinking",
    "mid-conversation-system",
    "per-turn-control",
    "prompt-caching-scope",
    "redact-thinking",
    "structured-outputs",
    "thinking-display-updates",
    "thinking-resumption",
    "thinking-token-count",
];

/// A request that may be forwarded.
#[derive(Debug)]
pub struct Asked {
    /// Without what was left out.
    pub body: Value,
    /// As it was written, in its order: models answer in the order of a schema.
    written: Vec<(String, Box<RawValue>)>,
    /// Names of the fields that were left out.
    pub left_out: Vec<String>,
}

impl Asked {
    /// Reads a request to a path; the error says to the agent and to people what is not allowed.
    pub fn read(path: &str, bytes: &[u8]) -> Result<Self, String> {
        let read = serde_json::from_slice::<Once>(bytes);
        let Once(body) = read.map_err(|error| format!("the request is not JSON: {error}"))?;
        let Entries(mut written) = serde_json::from_slice(bytes)
            .map_err(|error| format!("the request is not an object: {error}"))?;
        let Value::Object(mut body) = body else { return Err("the request is no object".into()) };
        let (_, allowed) = FIELDS
            .iter()
            .find(|(end, _)| path.ends_with(end))
            .ok_or_else(|| format!("nothing is known of requests to {path}"))?;
        for name in REFUSED {
            if body.get(name).is_some_and(|value| !is_nothing(value)) {
                return Err(format!("a session may not use {name:?}"));
            }
        }
        for name in LIMITS {
            whole_number(body.get(name)).ok_or_else(|| format!("{name} is not a whole number"))?;
        }
        whole_number(body.get("thinking").and_then(|thinking| thinking.get("budget_tokens")))
            .ok_or("thinking.budget_tokens is not a whole number")?;
        body.get("tools").map_or(Ok(()), tools)?;
        CONTENT.iter().filter_map(|name| body.get(*name)).try_for_each(parts)?;
        let unlimited = LIMITS.iter().all(|name| body.get(*name).is_none_or(Value::is_null));
        if unlimited && body.get("stream") != Some(&Value::Bool(true)) {
            return Err("an answer without a limit must be streamed".into());
        }
        let mut left_out = Vec::new();
        written.retain(|(name, _)| {
            let may_stay = allowed.contains(&name.as_str());
            if !may_stay {
                body.remove(name);
                left_out.push(name.clone());
            }
            may_stay
        });
        Ok(Self { body: Value::Object(body), written, left_out })
    }

    /// What is forwarded.
    pub fn bytes(&self) -> Bytes {
        let mut text = String::from("{");
        for (place, (name, written)) in self.written.iter().enumerate() {
            if place > 0 {
                text.push(',');
            }
            text.push_str(&Value::from(name.as_str()).to_string());
            text.push(':');
            // Only these are changed.
            match LIMITS.contains(&name.as_str()) || name == "thinking" {
                true => text.push_str(&self.body[name].to_string()),
                false => text.push_str(written.get()),
            }
        }
        text.push('}');
        Bytes::from(text)
    }
}

/// The values of an `anthropic-beta` header that may stay.
pub fn betas(sent: &str) -> String {
    let is_date = |rest: &str| {
        let digits = rest.bytes().filter(u8::is_ascii_digit).count();
        digits == 8 && rest.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())
    };
    let known =
        |value: &&str| BETAS.iter().any(|name| value.strip_prefix(name).is_some_and(is_date));
    sent.split(',').map(str::trim).filter(known).collect::<Vec<_>>().join(",")
}

/// `None`: there is something else.
fn whole_number(value: Option<&Value>) -> Option<()> {
    value.is_none_or(|value| value.is_null() || value.is_u64()).then_some(())
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(values) => values.is_empty(),
        _ => false,
    }
}

fn tools(value: &Value) -> Result<(), String> {
    for tool in value.as_array().into_iter().flatten() {
        match tool.get("type").map(Value::as_str) {
            None => {}
            Some(Some(kind)) if TOOLS.contains(&kind) => {}
            Some(kind) => {
                let kind = kind.unwrap_or("?");
                return Err(format!("a session may not use the provider's tool {kind:?}"));
            }
        }
        tool.get("tools").map_or(Ok(()), tools)?;
    }
    Ok(())
}

fn parts(value: &Value) -> Result<(), String> {
    match value {
        Value::Array(values) => values.iter().try_for_each(parts),
        Value::Object(fields) => {
            let kind = fields.get("type").map(|kind| kind.as_str().unwrap_or("?"));
            if let Some(kind) = kind.filter(|kind| *kind != TOOL_USE && !PARTS.contains(kind)) {
                return Err(format!("a session may not send a part of type {kind:?}"));
            }
            for (name, value) in fields {
                if kind == Some(TOOL_USE) && name == "input" {
                    continue;
                }
                let is_here = match value {
                    Value::Null => true,
                    Value::String(text) => text.starts_with("data:"),
                    // The Chat Completions API has the address inside.
                    Value::Object(_) => name == "image_url",
                    _ => false,
                };
                if ELSEWHERE.contains(&name.as_str()) && !is_here {
                    return Err(format!("a session may not send what is elsewhere ({name:?})"));
                }
                parts(value)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// JSON in which no name is there twice: two programs could read it differently.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OnceVisitor)
    }
}

struct OnceVisitor;

impl<'de> Visitor<'de> for OnceVisitor {
    type Value = Once;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Once, E> {
        Ok(Once(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Once, E> {
        Ok(Once(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Once, E> {
        Ok(Once(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Once, E> {
        Ok(Once(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Once, E> {
        Ok(Once(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Once, E> {
        Ok(Once(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Once, A::Error> {
        let mut values = Vec::new();
        while let Some(Once(value)) = seq.next_element()? {
            values.push(value);
        }
        Ok(Once(values.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once, A::Error> {
        let mut fields = Map::new();
        while let Some((name, Once(value))) = map.next_entry::<String, Once>()? {
            if fields.contains_key(&name) {
                return Err(de::Error::custom(format_args!("{name:?} is there twice")));
            }
            fields.insert(name, value);
        }
        Ok(Once(fields.into()))
    }
}

/// The fields of an object in their order, as they were written.
struct Entries(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// The models that a session may ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Models(BTreeSet<String>);

impl Models {
    /// By the names in the configuration: whole ones, without a date, or a family's (`sonnet`).
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names = names.into_iter().filter(|name| !name.is_empty());
        Self(names.map(str::to_ascii_lowercase).collect())
    }

    pub fn allow(&self, requested: &str) -> bool {
        let requested = requested.to_ascii_lowercase();
        self.0.iter().any(|known| is_of(known, &requested))
    }
}

/// Names that Claude's CLI resolves to a family by its own rules.
const ANY_CLAUDE: [&str; 3] = ["best", "default", "opusplan"];

fn is_of(known: &str, requested: &str) -> bool {
    // `sonnet[1m]` asks for a longer context of the same model.
    let known = known.split('[').next().unwrap_or_default();
    let last = |name: &'_ str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let (known, requested) = (last(known), last(requested));
    let rest = requested.strip_prefix(&known);
    let is_family = !known.is_empty() && known.bytes().all(|byte| byte.is_ascii_alphabetic());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("-20"))
        || requested.starts_with("claude-")
            && (ANY_CLAUDE.contains(&known.as_str())
                || is_family && requested.split('-').any(|word| word == known))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WIRES: [&str; 3] = ["/v1/messages", "/v1/responses", "/openai/v1/chat/completions"];

    fn read(path: &str, change: &Value) -> Result<Asked, String> {
        let mut body = json!({ "model": "m", "max_tokens": 9, "max_output_tokens": 9 });
        let fields = change.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        Asked::read(path, body.to_string().as_bytes())
    }

    /// `name` of the wire's place for what people said.
    fn said(path: &str, part: &Value) -> Value {
        let place = if path.ends_with("responses") { "input" } else { "messages" };
        json!({ place: [{ "role": "user", "content": [part] }] })
    }

    #[test]
    fn work_of_the_providers_own_is_refused_on_every_wire() {
        let servers = json!([{ "type": "url", "url": "https://a.test/mcp", "name": "x" }]);
        for path in WIRES {
            for change in [
                json!({ "mcp_servers": servers }),
                json!({ "container": { "skills": [{ "type": "custom", "skill_id": "x" }] } }),
                json!({ "previous_response_id": "resp_1" }),
                json!({ "conversation": "conv_1" }),
                json!({ "prompt": { "id": "pmpt_1" } }),
                json!({ "background": true }),
                json!({ "web_search_options": {} }),
            ] {
                assert!(read(path, &change).is_err(), "{path} {change}");
            }
            for tool in [
                "web_fetch_20250910",
                "web_search_20250305",
                "web_search",
                "web_search_preview",
                "code_execution_20250825",
                "code_interpreter",
                "file_search",
                "mcp",
                "image_generation",
                "computer_use_preview",
                "a tool of next year",
            ] {
                let tool = json!({ "type": tool, "name": "t", "server_url": "https://a.test" });
                let nested = json!({ "type": "namespace", "name": "n", "tools": [tool] });
                for tools in [json!([tool]), json!([nested])] {
                    let error = read(path, &json!({ "tools": tools })).unwrap_err();
                    assert!(error.contains("provider's tool"), "{path} {tools}: {error}");
                }
            }
        }
    }

    #[test]
    fn what_is_elsewhere_is_refused_and_what_is_sent_is_not() {
        let png = "data:image/png;base64,AAAA";
        let bytes = json!({ "type": "base64", "media_type": "image/png", "data": "AAAA" });
        for path in WIRES {
            for part in [
                json!({ "type": "image", "source": { "type": "url", "url": "https://a.test/?x" } }),
                json!({ "type": "document", "source": { "type": "file", "file_id": "f" } }),
                json!({ "type": "tool_result", "tool_use_id": "t", "content": [
                    { "type": "image", "source": { "type": "url", "url": "https://a.test/" } }] }),
                json!({ "type": "container_upload", "file_id": "f" }),
                json!({ "type": "input_image", "image_url": "https://a.test/?x" }),
                json!({ "type": "input_image", "file_id": "f" }),
                json!({ "type": "input_file", "file_url": "https://a.test/?x" }),
                json!({ "type": "image_url", "image_url": { "url": "https://a.test/?x" } }),
                json!({ "type": "file", "file": { "file_id": "f" } }),
                json!({ "type": "item_reference", "id": "rs_1" }),
                json!({ "type": ["image"] }),
            ] {
                assert!(read(path, &said(path, &part)).is_err(), "{path} {part}");
            }
            for part in [
                json!({ "type": "text", "text": "see https://a.test/", "cache_control": { "type": "ephemeral" } }),
                json!({ "type": "image", "source": bytes }),
                json!({ "type": "tool_use", "id": "t", "name": "n", "input": { "type": "x", "url": "y" } }),
                json!({ "type": "tool_result", "tool_use_id": "t", "content": [{ "type": "image", "source": bytes }] }),
                json!({ "type": "input_image", "image_url": png, "file_id": null }),
                json!({ "type": "image_url", "image_url": { "url": png, "detail": "low" } }),
                json!({ "type": "function_call", "name": "n", "call_id": "c", "arguments": "{\"url\":1}" }),
                json!({ "type": "reasoning", "summary": [], "encrypted_content": "x" }),
            ] {
                assert!(read(path, &said(path, &part)).is_ok(), "{path} {part}");
            }
        }
    }

    #[test]
    fn unknown_fields_are_left_out_and_the_rest_keeps_its_order() {
        let text = r#"{"speed":"fast","stream":true,"model":"m","tools":[{"name":"t","input_schema":{"z":1,"a":2.50}}],"max_tokens":9,"service_tier":"priority"}"#;
        let mut asked = Asked::read(WIRES[0], text.as_bytes()).unwrap();
        assert_eq!(asked.left_out, ["speed", "service_tier"]);
        asked.body["max_tokens"] = 5.into();
        assert_eq!(
            asked.bytes(),
            r#"{"stream":true,"model":"m","tools":[{"name":"t","input_schema":{"z":1,"a":2.50}}],"max_tokens":5}"#
        );
    }

    #[test]
    fn what_two_programs_could_read_differently_is_refused() {
        for text in [
            r#"{"model":"m","max_tokens":1,"max_tokens":128000}"#,
            r#"{"model":"m","max_tokens":1,"messages":[{"source":{"type":"url","type":"base64"}}]}"#,
            r#"{"model":"m","max_tokens":1,"max\u005ftokens":128000}"#,
            r#"{"model":"m","max_tokens":128000.0}"#,
            r#"{"model":"m","max_tokens":"128000"}"#,
            r#"{"model":"m","max_tokens":-5}"#,
            r#"{"model":"m","max_tokens":1e300}"#,
            r#"{"model":"m","max_tokens":9,"thinking":{"budget_tokens":"9"}}"#,
            r#"{"model":"m","stream":false}"#,
            r#"{"model":"m","max_tokens":null}"#,
            r#"["max_tokens"]"#,
        ] {
            assert!(Asked::read(WIRES[0], text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn betas_are_known_by_their_names_whatever_their_dates() {
        let sent = "claude-code-20250219, mcp-client-2025-04-04,effort-2027-01-02,\
                    web-fetch-2025-09-10,effort,effort-anything-2025-11-24,files-api-2025-04-14";
        assert_eq!(betas(sent), "claude-code-20250219,effort-2027-01-02");
    }

    #[test]
    fn a_session_asks_for_its_own_models_only() {
        let models = Models::new(["sonnet", "gpt-5-mini", "openai/GPT-5.1", "haiku[1m]", ""]);
        for name in [
            "claude-sonnet-5-5",
            "claude-3-7-sonnet-20250219",
            "gpt-5-mini-2026-01-01",
            "gpt-5.1",
            "claude-haiku-5-5",
            "sonnet",
        ] {
            assert!(models.allow(name), "{name}");
        }
        for name in ["claude-opus-5-5", "gpt-5", "gpt-5-mini-pro", "sonnet-of-others", "", "o3"] {
            assert!(!models.allow(name), "{name}");
        }
        assert!(Models::new(["opusplan"]).allow("claude-opus-5-5"));
    }
}
