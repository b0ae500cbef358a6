//! The file that `heartbeat init` writes: the commented default with the user's answers.

use toml::Value;
use toml::de::DeTable;

use super::error::{ConfigError, Origin, Problem};
use super::keys::{Entry, Keys};
use super::{DEFAULT_TOML, file};

/// The default file with the given `section.key` values replaced in place; comments stay. Rejects
/// unknown keys, values of the wrong type and secrets.
pub fn render_init(answers: &[(String, Value)]) -> Result<String, ConfigError> {
    let keys = Keys::new();
    let origin = Origin::Flag { flag: "init".to_owned() };
    let mut problems = Vec::new();
    for (key, value) in answers {
        let entry = Entry { key: key.clone(), value: value.clone(), origin: origin.clone() };
        match keys.default_of(key) {
            Some(_) => problems.extend(keys.refuse(&entry)),
            None => problems.push(file::unknown_key(origin.clone(), key.clone(), &keys)),
        }
    }
    ConfigError::check(problems)?;
    let document = DeTable::parse(DEFAULT_TOML).map_err(|error| Problem::Malformed {
        place: Origin::Default,
        reason: error.message().to_owned(),
    })?;
    let mut changes: Vec<(std::ops::Range<usize>, &Value)> = Vec::new();
    for (section, content) in document.get_ref() {
        for (key, old) in content.get_ref().as_table().into_iter().flatten() {
            let name = format!("{}.{}", section.get_ref(), key.get_ref());
            // The last answer for a key wins.
            if let Some((_, value)) = answers.iter().rev().find(|(answered, _)| *answered == name) {
                changes.push((old.span(), value));
            }
        }
    }
    // From the end, so that earlier positions stay valid.
    changes.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut text = DEFAULT_TOML.to_owned();
    for (span, value) in changes {
        text.replace_range(span, &value.to_string());
    }
    Ok(text)
}
