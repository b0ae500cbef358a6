//! Finds and reads the user's file; keeps the position of every value.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Table;
use toml::de::DeTable;

use super::error::{ConfigError, Origin, Problem, Suggestion};
use super::keys::{Entry, Keys};
use super::{Discover, LoadRequest, list, provenance};
use crate::settings::{credential_in, is_credential_name};

/// Name of the file in the working directory and in the configuration folder.
pub const FILE_NAME: &str = "heartbeat.toml";

/// A much larger file is not a configuration.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Further syntax errors are mostly consequences of the first ones.
const MAX_SYNTAX_PROBLEMS: usize = 5;

/// The file and its text; `None` if there is none and none was requested.
pub(super) fn find(request: &LoadRequest) -> Result<Option<(PathBuf, String)>, ConfigError> {
    if request.explicit.is_none() && request.discover == Discover::Nowhere {
        return Ok(None);
    }
    let variable = request.environment.raw("HEARTBEAT_CONFIG").filter(|path| !path.is_empty());
    let asked_for = match (&request.explicit, variable) {
        (Some(path), _) => Some((path.clone(), "--config")),
        (None, Some(path)) => Some((PathBuf::from(path), "$HEARTBEAT_CONFIG")),
        (None, None) => None,
    };
    if let Some((path, asked_by)) = asked_for {
        let path = request.cwd.join(path);
        return match read(&path)? {
            Some(text) => Ok(Some((path, text))),
            None => Err(Problem::FileMissing { file: path, asked_by }.into()),
        };
    }
    let config_home = request.environment.config_home();
    let trusted_in = config_home.clone();
    let usual = [
        Some(request.cwd.join(FILE_NAME)),
        config_home.map(|folder| folder.join("heartbeat").join(FILE_NAME)),
    ];
    for path in usual.into_iter().flatten() {
        if let Some(text) = read(&path)? {
            // One that was not named: it may be somebody else's.
            if let Some(problem) = provenance::problem(&path)
                && !provenance::is_trusted(&path, &text, trusted_in.as_deref())
            {
                return Err(problem.into());
            }
            return Ok(Some((path, text)));
        }
    }
    Ok(None)
}

fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let unreadable = |reason: String, fix: &'static str| {
        ConfigError::from(Problem::FileUnreadable { file: path.to_path_buf(), reason, fix })
    };
    let bytes = match std::fs::metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Ok(found) if found.is_dir() => {
            return Err(unreadable("it is a folder".into(), "pass the file inside it"));
        }
        Ok(found) if found.len() > MAX_FILE_BYTES => {
            let reason = format!("it has {} bytes", found.len());
            return Err(unreadable(reason, "this is not a configuration file; pass another one"));
        }
        _ => std::fs::read(path).map_err(|error| {
            unreadable(error.to_string(), "make it readable by heartbeat's user")
        })?,
    };
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        unreadable(format!("line {line} is not UTF-8"), "save it as UTF-8")
    })
}

/// The values of a file with their positions, and the structural problems.
pub(super) fn parse(file: &Path, text: &str, keys: &Keys) -> (Vec<Entry>, Vec<Problem>) {
    let place = |span: Range<usize>| place_in(file, text, span.start);
    let mut problems = leaked(file, text);
    let (spans, syntax) = DeTable::parse_recoverable(text);
    if !syntax.is_empty() {
        let reported = syntax.iter().take(MAX_SYNTAX_PROBLEMS);
        problems.extend(reported.map(|error| malformed(error, place)));
        return (Vec::new(), problems);
    }
    let values = match toml::from_str::<Table>(text) {
        Ok(values) => values,
        // Such as a number that no type can hold.
        Err(error) => {
            problems.push(malformed(&error, place));
            return (Vec::new(), problems);
        }
    };
    let mut entries = Vec::new();
    for (section, content) in spans.get_ref() {
        let name = section.get_ref().to_string();
        if list::section_of(&name).is_some() {
            let (read, wrong) = list::read(&name, content, values.get(&name), keys, place);
            entries.extend(read);
            problems.extend(wrong);
            continue;
        }
        if !keys.has_section(&name) {
            problems.push(unknown_section(place(section.span()), name, keys));
            continue;
        }
        let (Some(content), Some(values)) =
            (content.get_ref().as_table(), values.get(&name).and_then(toml::Value::as_table))
        else {
            problems.push(Problem::NotASection { place: place(section.span()), section: name });
            continue;
        };
        for (key, value) in content {
            let full = format!("{name}.{}", key.get_ref());
            match (keys.default_of(&full), values.get(key.get_ref().as_ref())) {
                (Some(_), Some(plain)) => entries.push(Entry {
                    key: full,
                    value: plain.clone(),
                    origin: place(value.span()),
                }),
                _ => problems.push(unknown_key(place(key.span()), full, keys)),
            }
        }
    }
    (entries, problems)
}

fn malformed(error: &toml::de::Error, place: impl Fn(Range<usize>) -> Origin) -> Problem {
    let mut reason = error.message().lines().collect::<Vec<_>>().join(", ");
    if reason.contains("escape") {
        reason.push_str(
            "; a backslash in \"double quotes\" begins an escape: write the text in 'single quotes' \
             ('Parcel\\Rates'), or double each backslash (\"Parcel\\\\Rates\")",
        );
    }
    Problem::Malformed { place: place(error.span().unwrap_or(0..0)), reason }
}

fn unknown_section(place: Origin, section: String, keys: &Keys) -> Problem {
    // A frequent mistake: a key above the first section.
    let owner = keys.names().find(|name| name.split_once('.').is_some_and(|k| k.1 == section));
    match owner {
        Some(name) => {
            Problem::UnknownKey { place, key: section, suggestion: Suggestion(Some(name)) }
        }
        None => {
            let suggestion = keys.nearest_section(&section);
            Problem::UnknownSection { place, section, suggestion }
        }
    }
}

pub(super) fn unknown_key(place: Origin, key: String, keys: &Keys) -> Problem {
    if key.rsplit('.').next().is_some_and(is_credential_name) {
        return Problem::SecretKey { place, key };
    }
    let suggestion = keys.nearest_key(&key);
    Problem::UnknownKey { place, key, suggestion }
}

/// Finds credentials anywhere in the file, including comments.
fn leaked(file: &Path, text: &str) -> Vec<Problem> {
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(n, line)| {
            let kind = credential_in(line)?;
            let place = Origin::File { file: file.to_path_buf(), line: n + 1, column: 1 };
            Some(Problem::Secret { place, kind })
        })
        .collect()
}

fn place_in(file: &Path, text: &str, offset: usize) -> Origin {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Origin::File {
        file: file.to_path_buf(),
        line: 1 + before.matches('\n').count(),
        column: 1 + before[line_start..].chars().count(),
    }
}
