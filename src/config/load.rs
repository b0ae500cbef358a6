//! Merges the user's file, the environment and the flags over the defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toml::{Table, Value};

use super::error::{ConfigError, Origin, Problem, Suggestion};
use super::keys::{self, Entry, Keys};
use super::{file, list, validate};
use crate::settings::{Config, Environment};

#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// `--config`.
    pub explicit: Option<PathBuf>,
    /// Whether to search for a file if none is given.
    pub discover: Discover,
    pub environment: Environment,
    pub cwd: PathBuf,
    /// Override all other values.
    pub flags: Vec<FlagValue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discover {
    /// In `$HEARTBEAT_CONFIG`, the working directory and the user's configuration folder.
    UsualPlaces,
    /// Only an explicit file is read.
    Nowhere,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FlagValue {
    /// `section.key`.
    pub key: String,
    pub value: Value,
    /// As on the command line, such as `--max-sessions`.
    pub flag: String,
}

/// A valid configuration, and where each value came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub config: Config,
    /// `None` if no file was read.
    pub file: Option<PathBuf>,
    /// By `section.key`.
    pub origins: BTreeMap<String, Origin>,
    /// Hash of the values: equal if and only if they are.
    pub digest: String,
}

/// Variables with our prefix that are not settings.
const OTHER_VARIABLES: [&str; 6] = [
    "HEARTBEAT_CONFIG",
    "HEARTBEAT_SESSION",
    "HEARTBEAT_REAL_CLAUDE",
    "HEARTBEAT_REAL_CODEX",
    "HEARTBEAT_REAL_COPILOT",
    "HEARTBEAT_SKIP_REAL_CLI",
];

/// The first two are set by container platforms for a service called "heartbeat"; the third is used
/// by the tests.
const FOREIGN_PREFIXES: [&str; 3] = ["HEARTBEAT_SERVICE_", "HEARTBEAT_PORT", "HEARTBEAT_TEST_"];

/// On failure, reports everything that is wrong.
pub fn load(request: &LoadRequest) -> Result<Loaded, ConfigError> {
    let found = file::find(request)?;
    let (layered, mut problems) = layer(request, found.as_ref());
    let mut config = layered.values.clone().try_into::<Config>().map_err(|error| ConfigError {
        problems: [
            problems.clone(),
            vec![Problem::Malformed { place: Origin::Default, reason: error.to_string() }],
        ]
        .concat(),
    })?;
    problems.extend(validate::contradictions(&config, &layered));
    problems.sort_by_key(Problem::reading_order);
    ConfigError::check(problems)?;
    let digest = digest(&config);
    let file = found.map(|(path, _)| path);
    config.file.clone_from(&file);
    Ok(Loaded { config, file, origins: layered.origins, digest })
}

/// For commands that must work with a broken configuration: every part of it that can be read.
/// `None` if the state folder is not certain, because the command would show a different state.
pub fn load_partial(request: &LoadRequest) -> Option<Config> {
    let found = file::find(request);
    let (layered, problems) = layer(request, found.as_ref().ok().and_then(Option::as_ref));
    let is_unread = |problem: &Problem| matches!(problem, Problem::Malformed { .. });
    let unread = found.is_err() || problems.iter().any(is_unread);
    let named = layered.origins.get("state.dir").is_some_and(|origin| *origin != Origin::Default);
    let refused = layered.refused.contains("state.dir");
    let certain = named || (!unread && !refused);
    let mut config: Config = certain.then(|| layered.values.try_into().ok()).flatten()?;
    config.file = found.ok().flatten().map(|(path, _)| path);
    Some(config)
}

/// The variable with the monitor's address, however broken the rest of the configuration is: a
/// heartbeat that cannot start must be able to say so.
pub fn ping_variable(request: &LoadRequest) -> Option<String> {
    let found = file::find(request).ok().flatten();
    let (layered, problems) = layer(request, found.as_ref());
    let named = keys::get(&layered.values, "monitor.ping_env").and_then(Value::as_str);
    let named = named.filter(|name| !name.is_empty()).map(str::to_owned);
    let is_unread = |problem: &Problem| matches!(problem, Problem::Malformed { .. });
    if named.is_some() || !problems.iter().any(is_unread) {
        return named;
    }
    // The file is not TOML, so none of its values was taken; the line itself may be in order.
    let (_, text) = found?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.split('#').next()?.trim();
        let name = value.trim_matches(['"', '\'']);
        let is_it = matches!(key.trim(), "ping_env" | "monitor.ping_env");
        (is_it && validate::is_variable_name_or_empty(name) && !name.is_empty())
            .then(|| name.to_owned())
    })
}

/// The file, the environment and the flags, each overriding the one before.
fn layer(request: &LoadRequest, found: Option<&(PathBuf, String)>) -> (Layered, Vec<Problem>) {
    let keys = Keys::new();
    let mut problems = Vec::new();
    let mut entries = Vec::new();
    if let Some((path, text)) = found {
        let (mut from_file, wrong) = file::parse(path, text, &keys);
        let base = path.parent().unwrap_or(Path::new("/"));
        for entry in &mut from_file {
            keys::resolve_paths(entry, base, &request.environment);
        }
        entries.append(&mut from_file);
        problems.extend(wrong);
    }
    let mut later = from_environment(&request.environment, &keys, &mut problems);
    later.extend(from_flags(&request.flags, &keys, &mut problems));
    for entry in &mut later {
        keys::resolve_paths(entry, &request.cwd, &request.environment);
    }
    entries.append(&mut later);
    let layered = lay_over(&keys, entries, &mut problems);
    (layered, problems)
}

/// The merged values, their origins, and the keys whose value was rejected.
pub(super) struct Layered {
    pub values: Table,
    pub origins: BTreeMap<String, Origin>,
    pub refused: BTreeSet<String>,
}

fn lay_over(keys: &Keys, entries: Vec<Entry>, problems: &mut Vec<Problem>) -> Layered {
    let mut layered = Layered {
        values: keys.defaults(),
        origins: keys.names().map(|name| (name, Origin::Default)).collect(),
        refused: BTreeSet::new(),
    };
    let mut lists = list::ListEntries::default();
    for entry in entries {
        if let Some(problem) = keys.refuse(&entry) {
            layered.refused.insert(entry.key);
            // A secret in the file was already reported with its line.
            let already_reported =
                matches!((&problem, &entry.origin), (Problem::Secret { .. }, Origin::File { .. }));
            if !already_reported {
                problems.push(problem);
            }
            continue;
        }
        if !lists.take(&entry.key, &entry.value) {
            keys::set(&mut layered.values, &entry.key, entry.value);
        }
        layered.origins.insert(entry.key, entry.origin);
    }
    lists.complete(&mut layered.values, &mut layered.origins);
    super::kind::adapt(&mut layered.values, keys);
    layered
}

fn from_environment(
    environment: &Environment,
    keys: &Keys,
    problems: &mut Vec<Problem>,
) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (variable, raw) in environment.iter() {
        let Some(name) = variable.strip_prefix("HEARTBEAT_") else { continue };
        if OTHER_VARIABLES.contains(&variable)
            || FOREIGN_PREFIXES.iter().any(|prefix| variable.starts_with(prefix))
        {
            continue;
        }
        let key = name.replacen("__", ".", 1).to_lowercase();
        let Some(default) = keys.default_of(&key) else {
            let suggestion = nearest_variable(name, keys);
            problems.push(Problem::UnknownVariable { variable: variable.into(), suggestion });
            continue;
        };
        let origin = Origin::Environment { variable: variable.into() };
        let value = Value::String(raw.to_string_lossy().into_owned());
        let parsed = raw.to_str().and_then(|text| parse_like(default, text));
        // A value that cannot be parsed stays text and is then rejected with what the key allows.
        entries.push(Entry { key, value: parsed.unwrap_or(value), origin });
    }
    entries
}

/// Parses a variable as a value of the default's type.
fn parse_like(default: &Value, text: &str) -> Option<Value> {
    let trimmed = text.trim();
    match default {
        Value::Integer(_) => trimmed.parse().ok().map(Value::Integer),
        Value::Float(_) => trimmed.parse().ok().map(Value::Float),
        Value::Boolean(_) => trimmed.parse().ok().map(Value::Boolean),
        Value::Array(_) if trimmed.starts_with('[') => {
            toml::from_str::<Table>(&format!("list = {trimmed}")).ok()?.remove("list")
        }
        Value::Array(_) => {
            let parts = trimmed.split(',').map(str::trim).filter(|part| !part.is_empty());
            Some(Value::Array(parts.map(|part| Value::String(part.into())).collect()))
        }
        _ => Some(Value::String(text.into())),
    }
}

fn nearest_variable(name: &str, keys: &Keys) -> Suggestion {
    let known = keys.names().map(|key| key.replacen('.', "__", 1).to_uppercase());
    let nearest = keys::nearest(name, known.chain(["CONFIG".to_owned()]));
    Suggestion(nearest.0.map(|name| format!("HEARTBEAT_{name}")))
}

pub fn variable_for(key: &str) -> String {
    format!("HEARTBEAT_{}", key.replacen('.', "__", 1).to_uppercase())
}

fn from_flags(flags: &[FlagValue], keys: &Keys, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for flag in flags {
        let origin = Origin::Flag { flag: flag.flag.clone() };
        if keys.default_of(&flag.key).is_some() {
            entries.push(Entry { key: flag.key.clone(), value: flag.value.clone(), origin });
        } else {
            problems.push(file::unknown_key(origin, flag.key.clone(), keys));
        }
    }
    entries
}

fn digest(config: &Config) -> String {
    // Cannot fail, because every field is plain data. If it did, only configurations that cannot be
    // serialised would share a digest.
    let bytes = serde_json::to_vec(config).unwrap_or_default();
    Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
