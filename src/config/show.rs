//! Every key with its value and origin.

use serde::Serialize;
use toml::{Table, Value};

use super::{Loaded, Origin};

/// One key in `heartbeat config show`. Values cannot be secrets: loading rejects those.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeyValue {
    /// `section.key`.
    pub key: String,
    /// The effective value, as TOML.
    pub value: String,
    pub origin: Origin,
}

/// Sorted by name.
pub fn values(loaded: &Loaded) -> Vec<KeyValue> {
    let table = Table::try_from(&loaded.config).unwrap_or_default();
    let mut sections: Vec<(String, &Table)> = Vec::new();
    for (name, content) in &table {
        match content {
            Value::Table(keys) => sections.push((name.clone(), keys)),
            Value::Array(entries) => sections.extend(
                (1..)
                    .zip(entries.iter().filter_map(Value::as_table))
                    .map(|(n, keys)| (format!("{name}[{n}]"), keys)),
            ),
            _ => {}
        }
    }
    sections
        .into_iter()
        .flat_map(|(section, keys)| {
            keys.iter().map(move |(key, value)| (format!("{section}.{key}"), value))
        })
        .map(|(key, value)| KeyValue {
            origin: loaded.origins.get(&key).cloned().unwrap_or(Origin::Default),
            value: Value::to_string(value),
            key,
        })
        .collect()
}

/// One key per line, with its origin if requested.
pub fn render(values: &[KeyValue], with_origin: WithOrigin) -> String {
    let mut text = String::new();
    for KeyValue { key, value, origin } in values {
        text.push_str(&format!("{key} = {value}"));
        if with_origin == WithOrigin::Yes {
            text.push_str(&format!("  # {origin}"));
        }
        text.push('\n');
    }
    text
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithOrigin {
    Yes,
    No,
}
