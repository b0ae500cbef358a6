//! Fields of a decoded line: bounded, without control characters.

use serde_json::{Map, Value};

use crate::model::is_acting;

/// Longest name kept from a stream.
const MAX_NAME: usize = 120;

pub type Object = Map<String, Value>;

pub fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub fn name(object: &Object, key: &str) -> String {
    shortened("", text(object, key))
}

/// As [`name`]; `None` if it is empty or missing.
pub fn named(object: &Object, key: &str) -> Option<String> {
    Some(name(object, key)).filter(|name| !name.is_empty())
}

pub fn shortened(prefix: &str, text: &str) -> String {
    let mut name: String = prefix.chars().chain(text.chars().take(MAX_NAME)).collect();
    name.retain(|c| !c.is_control() && !is_acting(c));
    name
}

pub fn number(object: &Object, key: &str) -> u64 {
    object.get(key).and_then(Value::as_u64).unwrap_or_default()
}

pub fn status(object: &Object, key: &str) -> Option<u16> {
    object.get(key).and_then(Value::as_u64).and_then(|status| status.try_into().ok())
}

pub fn part<'a>(object: &'a Object, key: &str) -> Option<&'a Object> {
    object.get(key).and_then(Value::as_object)
}

pub fn add(total: &mut u64, more: u64) {
    *total = total.saturating_add(more);
}
