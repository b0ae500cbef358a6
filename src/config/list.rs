//! Sections that are lists, such as `[[sources]]`: each entry is checked key by key like a section;
//! missing keys come from the matching section.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeValue;
use toml::{Spanned, Table, Value};

use super::error::{Origin, Problem, Suggestion};
use super::file::unknown_key;
use super::keys::{Entry, Keys};

/// Each list and the section that documents its entries.
const LISTS: [(&str, &str); 2] = [("sources", "source"), ("rules", "rule")];

/// Keys of list entries without a section, with example values.
pub(super) const RULE: &str = r#"
[rule]
name = "security"
source = "web"
area = 'Contoso\Web'
item_type = "Bug"
tag = "security"
priority = [1, 2]
model = "opus"
effort = "high"
max_cost = 2.0
timeout = "20m"
write_back = false
triage_only = true
"#;

/// The section that documents the entries of this list.
pub(super) fn section_of(list: &str) -> Option<&'static str> {
    LISTS.iter().find(|(name, _)| *name == list).map(|(_, section)| *section)
}

/// Every list with the section that documents its entries.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    LISTS.iter().copied()
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    LISTS.iter().map(|(name, _)| *name)
}

/// Parses `sources[2]` into `sources` and the index 1.
pub(super) fn position(section: &str) -> Option<(&str, usize)> {
    let (list, number) = section.strip_suffix(']')?.split_once('[')?;
    Some((list, number.parse::<usize>().ok()?.checked_sub(1)?))
}

/// `sources[2].key` is documented as `source.key`, every other key as itself.
pub(super) fn documented(key: &str) -> String {
    let entry = key.split_once('.').and_then(|(section, key)| Some((position(section)?, key)));
    match entry.and_then(|((list, _), key)| Some((section_of(list)?, key))) {
        Some((section, key)) => format!("{section}.{key}"),
        None => key.to_owned(),
    }
}

/// The values of a list in a file, with their positions.
pub(super) fn read(
    list: &str,
    content: &Spanned<DeValue<'_>>,
    values: Option<&Value>,
    keys: &Keys,
    place: impl Fn(Range<usize>) -> Origin,
) -> (Vec<Entry>, Vec<Problem>) {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    let not_a_list = || Problem::NotAList { place: place(content.span()), list: list.to_owned() };
    let (Some(spans), Some(values)) =
        (content.get_ref().as_array(), values.and_then(Value::as_array))
    else {
        return (entries, vec![not_a_list()]);
    };
    for (n, (entry, values)) in spans.iter().zip(values).enumerate() {
        let section = format!("{list}[{}]", n + 1);
        let (Some(spans), Some(values)) = (entry.get_ref().as_table(), values.as_table()) else {
            problems.push(Problem::NotAList { place: place(entry.span()), list: list.to_owned() });
            continue;
        };
        // Records the entry's position, for messages about missing keys.
        let (key, origin) = (section.clone(), place(entry.span()));
        entries.push(Entry { key, value: Value::Boolean(true), origin });
        for (key, value) in spans {
            let full = format!("{section}.{}", key.get_ref());
            let known = keys.example_of(&documented(&full)).is_some();
            match values.get(key.get_ref().as_ref()).filter(|_| known) {
                Some(plain) => entries.push(Entry {
                    key: full,
                    value: plain.clone(),
                    origin: place(value.span()),
                }),
                None => problems.push(unknown(place(key.span()), &full, keys)),
            }
        }
    }
    (entries, problems)
}

fn unknown(place: Origin, full: &str, keys: &Keys) -> Problem {
    match unknown_key(place, documented(full), keys) {
        Problem::UnknownKey { place, suggestion, .. } => {
            let here = |name: String| match (name.split_once('.'), full.split_once('.')) {
                (Some((section, key)), Some((entry, _)))
                    if documented(&format!("{entry}.{key}")) == name && !section.is_empty() =>
                {
                    format!("{entry}.{key}")
                }
                _ => name,
            };
            let suggestion = Suggestion(suggestion.0.map(here));
            Problem::UnknownKey { place, key: full.to_owned(), suggestion }
        }
        Problem::SecretKey { place, .. } => Problem::SecretKey { place, key: full.to_owned() },
        other => other,
    }
}

/// The list entries while the layers are merged.
#[derive(Debug, Default)]
pub(super) struct ListEntries(BTreeMap<(String, usize), Table>);

impl ListEntries {
    /// Takes a value if its key belongs to a list; returns whether it did.
    pub fn take(&mut self, key: &str, value: &Value) -> bool {
        let (section, key) = key.split_once('.').map_or((key, None), |(s, k)| (s, Some(k)));
        let Some((list, position)) = position(section) else { return false };
        let entry = self.0.entry((list.to_owned(), position)).or_default();
        if let Some(key) = key {
            entry.insert(key.to_owned(), value.clone());
        }
        true
    }

    /// Adds the lists to the values. A missing key takes the value and the origin from its section,
    /// if it has one.
    pub fn complete(self, values: &mut Table, origins: &mut BTreeMap<String, Origin>) {
        for ((list, position), own) in self.0 {
            let Some(section) = section_of(&list) else { continue };
            let mut entry =
                values.get(section).and_then(Value::as_table).cloned().unwrap_or_default();
            for key in entry.keys().filter(|key| !own.contains_key(*key)) {
                if let Some(origin) = origins.get(&format!("{section}.{key}")).cloned() {
                    origins.insert(format!("{list}[{}].{key}", position + 1), origin);
                }
            }
            entry.extend(own);
            let entries = values.entry(list).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(entries) = entries {
                entries.push(Value::Table(entry));
            }
        }
    }
}
