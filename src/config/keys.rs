//! The known keys and their allowed values, read from the embedded default file.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::error::{Origin, Problem, Suggestion};
use super::validate::is_variable_name_or_empty;
use super::{DEFAULT_TOML, list};
use crate::settings::{Config, Environment, RuleSettings, credential_in};

/// Keys whose value is a path; relative paths start at the folder of the file that sets them.
const PATH_KEYS: [&str; 16] = [
    "fleet.key_file",
    "fleet.tls_ca_file",
    "fleet.tls_cert_file",
    "fleet.tls_key_file",
    "source.token_file",
    "source.ca_file",
    "source.repository",
    "repository.path",
    "state.dir",
    "log.file",
    "report.dir",
    "limits.slots_dir",
    "prompts.triage_system",
    "prompts.triage_user",
    "prompts.deep_system",
    "prompts.deep_user",
];

/// Keys whose value is a command line; a program with a slash is a path.
const COMMAND_KEYS: [&str; 4] =
    ["agent.command", "codex.command", "copilot.command", "source.token_command"];

/// Keys whose value is a list of routes, each with a path.
const ROUTE_KEYS: [&str; 4] =
    ["repository.routes", "source.routes", "fleet.mirrors", "verify.code_bases"];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// `section.key`, or `sources[2].key` for the second entry of a list.
    pub key: String,
    pub value: Value,
    pub origin: Origin,
}

impl Entry {
    /// The key that documents this one: for an entry of a list, the key of its section.
    fn documented(&self) -> String {
        list::documented(&self.key)
    }
}

/// A value as messages show it. A key that names a variable may hold a credential by mistake, so
/// only a valid name is shown.
pub(super) fn shown(key: &str, value: &Value) -> String {
    let is_shown = |value: &Value| value.as_str().is_some_and(is_variable_name_or_empty);
    let names_variables = key.rsplit('.').next().is_some_and(|name| name.ends_with("_env"));
    let length = |value: &Value| match value {
        Value::String(text) => text.chars().count(),
        other => other.to_string().chars().count(),
    };
    match value {
        value if !names_variables => value.to_string(),
        Value::Array(names) if names.iter().all(is_shown) => value.to_string(),
        Value::Array(names) => {
            let hidden = names.iter().filter(|name| !is_shown(name)).map(length);
            let lengths: Vec<String> = hidden.map(|length| length.to_string()).collect();
            format!("[…] (values of {} characters, not shown)", lengths.join(" and "))
        }
        value if is_shown(value) => value.to_string(),
        value => format!("… ({} characters, not shown)", length(value)),
    }
}

#[derive(Debug, Clone)]
pub(super) struct Keys {
    defaults: Table,
    /// Documents the entries of lists that have no section.
    examples: Table,
}

impl Keys {
    pub fn new() -> Self {
        // A test checks the embedded file; if it were broken, every key would be unknown.
        Self {
            defaults: DEFAULT_TOML.parse().unwrap_or_default(),
            examples: list::RULE.parse().unwrap_or_default(),
        }
    }

    pub fn defaults(&self) -> Table {
        self.defaults.clone()
    }

    /// As `section.key`.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.defaults.iter().flat_map(|(section, keys)| {
            keys.as_table()
                .into_iter()
                .flat_map(Table::keys)
                .map(move |key| format!("{section}.{key}"))
        })
    }

    pub fn default_of(&self, key: &str) -> Option<&Value> {
        get(&self.defaults, key)
    }

    /// The documented value for a key of a list entry: a default or an example.
    pub fn example_of(&self, key: &str) -> Option<&Value> {
        self.default_of(key).or_else(|| get(&self.examples, key))
    }

    pub fn has_section(&self, section: &str) -> bool {
        self.defaults.contains_key(section)
    }

    pub fn nearest_section(&self, section: &str) -> Suggestion {
        nearest(section, self.defaults.keys().cloned().chain(list::names().map(str::to_owned)))
    }

    /// The most similar key: in the same section if possible, otherwise the same key elsewhere.
    pub fn nearest_key(&self, name: &str) -> Suggestion {
        let (section, key) = name.split_once('.').unwrap_or(("", name));
        let here = nearest(key, self.keys_of(section));
        if let Some(key) = here.0 {
            return Suggestion(Some(format!("{section}.{key}")));
        }
        let elsewhere =
            self.names().find(|known| known.split_once('.').is_some_and(|k| k.1 == key));
        Suggestion(elsewhere.or_else(|| nearest(name, self.names()).0))
    }

    /// The documented values of a section, or of the entries of a list that has none.
    pub fn section(&self, section: &str) -> Table {
        let table = self.defaults.get(section).or_else(|| self.examples.get(section));
        table.and_then(Value::as_table).cloned().unwrap_or_default()
    }

    fn keys_of(&self, section: &str) -> impl Iterator<Item = String> + '_ {
        let table = self.defaults.get(section).or_else(|| self.examples.get(section));
        let table = table.and_then(Value::as_table);
        table.into_iter().flat_map(Table::keys).cloned()
    }

    /// Checks one value: secret, type, format.
    pub fn refuse(&self, entry: &Entry) -> Option<Problem> {
        if let Some(kind) = credential_in(&entry.value.to_string()) {
            return Some(Problem::Secret { place: entry.origin.clone(), kind });
        }
        let allowed = self.wrong_type(entry).or_else(|| self.wrong_form(entry))?;
        Some(Problem::WrongValue {
            place: entry.origin.clone(),
            key: entry.key.clone(),
            value: shown(&entry.key, &entry.value),
            allowed,
        })
    }

    fn wrong_type(&self, entry: &Entry) -> Option<String> {
        let default = self.example_of(&entry.documented())?;
        let fits = default.same_type(&entry.value)
            || matches!((default, &entry.value), (Value::Float(_), Value::Integer(_)));
        (!fits).then(|| match default {
            Value::String(example) if example.is_empty() => "write text in quotes".to_owned(),
            Value::Integer(example) => format!("write a whole number, such as {example}"),
            Value::Float(example) => format!("write a number, such as {example:?}"),
            Value::Boolean(_) => "write true or false, without quotes".to_owned(),
            Value::Array(_) => "write a list in brackets, such as [\"a\", \"b\"]".to_owned(),
            example => format!("write text in quotes, such as {example}"),
        })
    }

    /// Applies only this value to the defaults, so that each key is checked alone.
    fn wrong_form(&self, entry: &Entry) -> Option<String> {
        let key = entry.documented();
        let error = match key.split_once('.').filter(|_| get(&self.examples, &key).is_some()) {
            Some((_, key)) => {
                let trial = Table::from_iter([(key.to_owned(), entry.value.clone())]);
                trial.try_into::<RuleSettings>().err()?
            }
            None => {
                let mut trial = self.defaults();
                set(&mut trial, &key, entry.value.clone());
                trial.try_into::<Config>().err()?
            }
        };
        Some(allowed_by(error.message(), &entry.value))
    }
}

/// Translates the deserialiser's error into what to write instead.
fn allowed_by(complaint: &str, value: &Value) -> String {
    if let Some((_, expected)) = complaint.split_once(", expected ") {
        match expected {
            "u32" => return format!("write a whole number from 0 to {}", u32::MAX),
            "i32" => return format!("write a whole number from {} to {}", i32::MIN, i32::MAX),
            "a string" => return "write only text in quotes in this list".to_owned(),
            _ => {}
        }
        let choices: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        if complaint.starts_with("unknown variant") && !choices.is_empty() {
            let written = value.as_str().unwrap_or_default();
            let listed: Vec<String> =
                choices.iter().map(|choice| format!("\"{choice}\"")).collect();
            let near = nearest(written, choices.iter().map(ToString::to_string));
            return format!("write {}{near}", listed.join(" or "));
        }
    }
    complaint.to_owned()
}

/// Makes paths absolute: `~/` is the home folder, relative paths start at `base`.
pub(super) fn resolve_paths(entry: &mut Entry, base: &Path, environment: &Environment) {
    let absolute = |text: &str| resolve(text, base, environment).to_string_lossy().into_owned();
    let key = entry.documented();
    if PATH_KEYS.contains(&key.as_str()) {
        if let Value::String(text) = &mut entry.value {
            *text = absolute(text);
        }
    } else if COMMAND_KEYS.contains(&key.as_str()) {
        if let Some(Value::String(program)) = entry.value.as_array_mut().and_then(|a| a.first_mut())
            && program.contains('/')
        {
            *program = absolute(program);
        }
    } else if ROUTE_KEYS.contains(&key.as_str()) {
        for route in entry.value.as_array_mut().into_iter().flatten() {
            if let Some(Value::String(text)) = route.get_mut("path") {
                *text = absolute(text);
            }
            for more in route.get_mut("also").and_then(Value::as_array_mut).into_iter().flatten() {
                if let Value::String(text) = more {
                    *text = absolute(text);
                }
            }
        }
    }
}

/// An absolute path: `~/` is the home folder, relative paths start at `base`.
pub(crate) fn resolve(text: &str, base: &Path, environment: &Environment) -> PathBuf {
    if text.is_empty() {
        return PathBuf::new();
    }
    match (text.strip_prefix("~/"), environment.home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ if text == "~" => environment.home().unwrap_or_else(|| text.into()),
        _ => base.join(text),
    }
}

pub(super) fn get<'a>(table: &'a Table, name: &str) -> Option<&'a Value> {
    let (section, key) = name.split_once('.')?;
    match list::position(section) {
        Some((section, position)) => table.get(section)?.get(position)?.get(key),
        None => table.get(section)?.get(key),
    }
}

pub(super) fn set(table: &mut Table, name: &str, value: Value) {
    if let Some((section, key)) = name.split_once('.')
        && let Some(Value::Table(section)) = table.get_mut(section)
    {
        section.insert(key.to_owned(), value);
    }
}

/// The candidate most similar to `written`, if it is similar enough.
pub(super) fn nearest(written: &str, candidates: impl Iterator<Item = String>) -> Suggestion {
    let lower = written.to_lowercase().replace('-', "_");
    let best = candidates
        .map(|candidate| {
            let plain = candidate.to_lowercase().replace('-', "_");
            (similarity(&lower, &plain), candidate)
        })
        .filter(|(similarity, _)| *similarity >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    Suggestion(best.map(|(_, candidate)| candidate))
}

/// From 0 to 1. An omitted or added word counts as more similar than other letters at the same
/// length.
fn similarity(written: &str, known: &str) -> f64 {
    let letters = strsim::normalized_damerau_levenshtein(written, known);
    let shorter = written.len().min(known.len());
    let is_part = shorter >= 3 && (known.contains(written) || written.contains(known));
    if is_part { 0.75 + letters / 4.0 } else { letters }
}
