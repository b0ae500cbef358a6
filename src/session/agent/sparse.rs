//! Reads one line of JSON and keeps only wanted keys.
//!
//! JSON that is small on the wire can be large in memory: an object with one short key takes ninety
//! times its length. So the decoder never builds the complete value. Unwanted keys are skipped, and
//! what is kept has a bound that does not depend on the line.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// In bytes of memory; an answer about two hundred items takes a tenth of it.
const MAX_KEPT: usize = 4 << 20;

/// Longest string kept outside the answer.
const MAX_TEXT: usize = 4096;

/// Approximate memory of an object, however small.
const OBJECT_BYTES: usize = 640;

/// Approximate memory of an entry in an array or object, which grow by doubling.
const PLACE_BYTES: usize = 112;

/// What a decoder keeps.
#[derive(Debug, Clone, Copy)]
pub struct KeptKeys {
    /// At any depth, sorted.
    pub keys: &'static [&'static str],
    /// Key of the agent's answer: kept complete, or not at all.
    pub answer: &'static str,
    /// Key of a text that may hold the answer, and its length limit.
    pub long: (&'static str, usize),
}

/// The wanted parts of a line; `None` if it is not a JSON object.
pub fn object(wanted: &KeptKeys, line: &[u8]) -> Option<Map<String, Value>> {
    let room = Cell::new(MAX_KEPT);
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let kept = Kept { wanted, room: &room, all: false, longest: MAX_TEXT }
        .deserialize(&mut deserializer)
        .ok()?;
    deserializer.end().ok()?;
    let Value::Object(mut object) = kept else { return None };
    if room.get() == 0 {
        // A part of an answer could be mistaken for another answer.
        object.remove(wanted.answer);
    }
    Some(object)
}

/// A value within the memory bound; null if it does not fit.
#[derive(Clone, Copy)]
struct Kept<'a> {
    wanted: &'a KeptKeys,
    room: &'a Cell<usize>,
    /// Keep every key, as in the answer.
    all: bool,
    /// Longest string, unless `all` is set.
    longest: usize,
}

impl Kept<'_> {
    /// Reserves memory. After the first failure nothing more fits.
    fn take(self, bytes: usize) -> bool {
        let left = self.room.get().saturating_sub(bytes);
        self.room.set(left);
        left > 0
    }

    fn scalar(self, value: impl Into<Value>) -> Value {
        if self.take(PLACE_BYTES) { value.into() } else { Value::Null }
    }
}

impl<'de> DeserializeSeed<'de> for Kept<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Kept<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(self.scalar(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(self.scalar(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(self.scalar(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(self.scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        let text = if self.all { text } else { &text[..text.floor_char_boundary(self.longest)] };
        let room = self.take(PLACE_BYTES + text.len());
        Ok(if room { Value::from(text) } else { Value::Null })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while self.take(PLACE_BYTES) {
            match elements.next_element_seed(self)? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        self.take(OBJECT_BYTES);
        while let Some(key) = entries.next_key_seed(Key(self))? {
            let Some(key) = key else {
                entries.next_value::<IgnoredAny>()?;
                continue;
            };
            let all = self.all || key == self.wanted.answer;
            let (long, bound) = self.wanted.long;
            let longest = if key == long { bound } else { self.longest };
            let value = entries.next_value_seed(Kept { all, longest, ..self })?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// A key, if it is wanted and fits.
struct Key<'a>(Kept<'a>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        let wanted = self.0.all || self.0.wanted.keys.binary_search(&key).is_ok();
        Ok((wanted && self.0.take(PLACE_BYTES + key.len())).then(|| key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEPT: KeptKeys = KeptKeys {
        keys: &["content", "id", "message", "name", "result", "structured_output", "type"],
        answer: "structured_output",
        long: ("result", MAX_RESULT_TEXT),
    };
    const MAX_RESULT_TEXT: usize = 256 << 10;

    fn read(line: &str) -> Value {
        object(&KEPT, line.as_bytes()).map_or(Value::Null, Value::Object)
    }

    #[test]
    fn what_means_something_is_kept_at_any_depth() {
        let line = json!({
            "uuid": "x", "type": "assistant", "extra": { "type": [1, { "id": 2 }] },
            "message": { "id": "m", "content": [{ "type": "text", "citations": [], "id": 7.5 }] },
        });
        let expected = json!({
            "type": "assistant", "message": { "id": "m", "content": [{ "type": "text", "id": 7.5 }] },
        });
        assert_eq!(read(&line.to_string()), expected);
    }

    #[test]
    fn the_answer_is_kept_whole() {
        let answer = json!({ "any": [{ "key": null }, -1, 2.5, true], "text": "ä".repeat(9_000) });
        let line = json!({ "type": "result", "structured_output": answer, "result": "no" });
        assert_eq!(read(&line.to_string()), line);
    }

    #[test]
    fn an_answer_beyond_the_bound_is_none() {
        let line =
            json!({ "structured_output": { "list": vec![0; MAX_KEPT / 100] }, "type": "result" });
        let kept = read(&line.to_string());
        assert!(kept.get(KEPT.answer).is_none());
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let long = |length| format!("x{}", "ä".repeat(length));
        let kept = read(&json!({ "name": long(9_000), "result": long(200_000) }).to_string());
        assert_eq!(kept["name"].as_str().map(str::len), Some(MAX_TEXT - 1));
        assert_eq!(kept["result"].as_str().map(str::len), Some(MAX_RESULT_TEXT - 1));
    }

    #[test]
    fn what_is_no_object_is_nothing() {
        for line in ["[]", "1", "\"x\"", "{", "{} {}", "{\"a\":}", "nul", ""] {
            assert_eq!(object(&KEPT, line.as_bytes()), None, "{line}");
        }
        // The last of two equal keys counts.
        assert_eq!(read(r#"{"type":"a","type":"b"}"#), json!({ "type": "b" }));
    }
}
