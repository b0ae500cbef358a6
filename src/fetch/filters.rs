//! `types`, `states`, `areas` and `tags` of a source, as a condition in its tracker's own language
//! (pure). Names are only ever literals of that language.

use crate::fetch::{ado, jira};
use crate::model::WorkItem;
use crate::settings::{Source, SourceKind};

/// What `where` is unless set, in two parts: a filter replaces the part that is about the same.
const ADO_TYPES: &str = "[System.WorkItemType] IN ('Bug', 'User Story', 'Task')";
const ADO_STATES: &str = "[System.State] NOT IN ('Closed', 'Removed', 'Done')";
const JIRA_STATES: &str = "statusCategory != Done";

/// The source with all of its filters in `where`.
pub fn in_where(source: &Source) -> Source {
    let condition = conditions(source).join(joiner(source.kind));
    Source { where_clause: condition, ..without(source) }
}

/// The source with `where` alone.
pub fn without(source: &Source) -> Source {
    Source {
        areas: Vec::new(),
        types: Vec::new(),
        states: Vec::new(),
        tags: Vec::new(),
        not_areas: Vec::new(),
        not_types: Vec::new(),
        not_states: Vec::new(),
        not_tags: Vec::new(),
        ..source.clone()
    }
}

const fn joiner(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Github => " ",
        SourceKind::Ado | SourceKind::Jira | SourceKind::File => " AND ",
    }
}

/// The conditions that an item must meet, each by itself: the parts of `where`, then the filters.
pub fn conditions(source: &Source) -> Vec<String> {
    let text = source.where_clause.trim();
    let about_types = !source.types.is_empty() || !source.not_types.is_empty();
    let about_states = !source.states.is_empty() || !source.not_states.is_empty();
    let default = format!("{ADO_TYPES} AND {ADO_STATES}");
    let mut all = match source.kind {
        SourceKind::Ado if text == default => {
            let types = (!about_types).then_some(ADO_TYPES);
            let states = (!about_states).then_some(ADO_STATES);
            types.into_iter().chain(states).map(str::to_owned).collect()
        }
        SourceKind::Jira if text == JIRA_STATES && about_states => Vec::new(),
        SourceKind::Github => words(text),
        SourceKind::Ado | SourceKind::Jira | SourceKind::File => parts(text),
    };
    let filters = [
        (FilterSubject::Area, &source.areas, true),
        (FilterSubject::Area, &source.not_areas, false),
        (FilterSubject::Type, &source.types, true),
        (FilterSubject::Type, &source.not_types, false),
        (FilterSubject::State, &source.states, true),
        (FilterSubject::State, &source.not_states, false),
        (FilterSubject::Tag, &source.tags, true),
        (FilterSubject::Tag, &source.not_tags, false),
    ];
    for (subject, names, wanted) in filters {
        if !names.is_empty() {
            all.push(match source.kind {
                SourceKind::Ado => wiql(subject, names, wanted),
                SourceKind::Jira => jql(subject, names, wanted),
                SourceKind::Github => terms(subject, names, wanted, source),
                SourceKind::File => plain(subject, names, wanted),
            });
        }
    }
    all
}

#[derive(Debug, Clone, Copy)]
enum FilterSubject {
    Area,
    Type,
    State,
    Tag,
}

/// Areas include those below them, as everywhere.
fn wiql(subject: FilterSubject, names: &[String], wanted: bool) -> String {
    let each = |field: &str, operator: &str, joined: &str| {
        let one = |name: &String| format!("[{field}] {operator} {}", ado::literal(name));
        let all: Vec<String> = names.iter().map(one).collect();
        if all.len() > 1 { format!("({})", all.join(joined)) } else { all.concat() }
    };
    let list = |field: &str| {
        let names: Vec<String> = names.iter().map(|name| ado::literal(name)).collect();
        let not = if wanted { "" } else { "NOT " };
        format!("[{field}] {not}IN ({})", names.join(", "))
    };
    match (subject, wanted) {
        (FilterSubject::Area, true) => each("System.AreaPath", "UNDER", " OR "),
        (FilterSubject::Area, false) => each("System.AreaPath", "NOT UNDER", " AND "),
        (FilterSubject::Tag, true) => each("System.Tags", "CONTAINS", " OR "),
        (FilterSubject::Tag, false) => each("System.Tags", "NOT CONTAINS", " AND "),
        (FilterSubject::Type, _) => list("System.WorkItemType"),
        (FilterSubject::State, _) => list("System.State"),
    }
}

/// An area is a component, with or without its project: `Checkout` or `SHOP/Checkout`. What has no
/// component or label at all is admitted by `not_…`, which Jira would leave out.
fn jql(subject: FilterSubject, names: &[String], wanted: bool) -> String {
    let field = match subject {
        FilterSubject::Area => "component",
        FilterSubject::Type => "issuetype",
        FilterSubject::State => "status",
        FilterSubject::Tag => "labels",
    };
    let bare = |name: &String| match subject {
        FilterSubject::Area => name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned(),
        _ => name.clone(),
    };
    let names: Vec<String> = names.iter().map(|name| jira::literal(&bare(name))).collect();
    let names = names.join(", ");
    match (subject, wanted) {
        (_, true) => format!("{field} in ({names})"),
        (FilterSubject::Area | FilterSubject::Tag, false) => {
            format!("({field} not in ({names}) OR {field} is EMPTY)")
        }
        (_, false) => format!("{field} not in ({names})"),
    }
}

/// An area is a label with one of the prefixes of `area_labels`.
fn terms(subject: FilterSubject, names: &[String], wanted: bool, source: &Source) -> String {
    let name = match subject {
        FilterSubject::Area | FilterSubject::Tag => "label",
        FilterSubject::Type => "type",
        FilterSubject::State => "state",
    };
    let values: Vec<String> = match subject {
        FilterSubject::Area => names
            .iter()
            .map(|area| area.rsplit(['/', '\\']).next().unwrap_or_default())
            .flat_map(|area| source.area_labels.iter().map(move |prefix| format!("{prefix}{area}")))
            .collect(),
        _ => names.to_vec(),
    };
    let not = if wanted { "" } else { "-" };
    let plain = values.join(",").replace('"', "");
    format!("{not}{name}:\"{plain}\"")
}

/// In words: a file has no language of its own, [`admits`] decides.
fn plain(subject: FilterSubject, names: &[String], wanted: bool) -> String {
    let (name, not) = (format!("{subject:?}").to_lowercase(), if wanted { "" } else { "not " });
    format!("{name} {not}{}", names.join(" or "))
}

/// Whether an item meets the filters; for a source that cannot be asked to select. Areas include
/// those below them, case is ignored.
pub fn admits(source: &Source, item: &WorkItem) -> bool {
    let same = |name: &String, value: &str| name.eq_ignore_ascii_case(value);
    let below = |name: &String, value: &str| {
        let folded = |text: &str| text.replace('/', "\\").to_ascii_lowercase();
        let (name, value) = (folded(name), folded(value));
        value.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with('\\'))
    };
    let is_type = |name: &String| same(name, &item.item_type);
    let is_state = |name: &String| same(name, &item.state);
    let is_area = |name: &String| item.areas().any(|area| below(name, area));
    let is_tag = |name: &String| item.tags.iter().any(|tag| same(name, tag));
    let wanted = |names: &[String], fits: &dyn Fn(&String) -> bool| {
        names.is_empty() || names.iter().any(fits)
    };
    let unwanted = |names: &[String], fits: &dyn Fn(&String) -> bool| names.iter().any(fits);
    wanted(&source.types, &is_type)
        && wanted(&source.states, &is_state)
        && wanted(&source.areas, &is_area)
        && wanted(&source.tags, &is_tag)
        && !unwanted(&source.not_types, &is_type)
        && !unwanted(&source.not_states, &is_state)
        && !unwanted(&source.not_areas, &is_area)
        && !unwanted(&source.not_tags, &is_tag)
}

/// A condition split at each AND outside quotes and brackets. One with an OR there is one part.
fn parts(condition: &str) -> Vec<String> {
    let (mut found, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_i32, None::<char>);
    let mut word = String::new();
    let mut word_start = 0;
    for (at, character) in condition.char_indices().chain([(condition.len(), ' ')]) {
        let is_outside = quote.is_none() && depth == 0;
        if is_outside && character.is_alphabetic() {
            if word.is_empty() {
                word_start = at;
            }
            word.push(character.to_ascii_lowercase());
            continue;
        }
        match std::mem::take(&mut word).as_str() {
            "or" => return vec![condition.to_owned()],
            "and" => {
                found.push(condition[start..word_start].trim().to_owned());
                start = at;
            }
            _ => {}
        }
        match (quote, character) {
            (Some(open), character) if character == open => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => depth -= 1,
            _ => {}
        }
    }
    found.push(condition[start..].trim().to_owned());
    found.retain(|part| !part.is_empty());
    found
}

/// The terms of a search box, with their quotes.
pub fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for character in text.chars() {
        quoted ^= character == '"';
        match character.is_whitespace() && !quoted {
            true => words.push(std::mem::take(&mut word)),
            false => word.push(character),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DEFAULT_TOML;

    fn source(kind: SourceKind, condition: &str) -> Source {
        let defaults: toml::Table = toml::from_str(DEFAULT_TOML).unwrap();
        let source: Source = defaults["source"].clone().try_into().unwrap();
        Source { kind, where_clause: condition.to_owned(), ..source }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn without_filters_a_condition_means_the_same() {
        let default = source(SourceKind::Ado, "");
        let defaults: toml::Table = toml::from_str(DEFAULT_TOML).unwrap();
        let text = defaults["source"]["where"].as_str().unwrap();
        let with_default = Source { where_clause: text.to_owned(), ..default };
        assert_eq!(in_where(&with_default).where_clause, text, "the constants are the default");
        for condition in ["", "[A] = 'x and y' OR [B] = 2", "([A] = 1 AND [B] = 2)"] {
            let is = in_where(&source(SourceKind::Ado, condition)).where_clause;
            assert_eq!(is, condition);
        }
        let github = r#"label:"good first issue" -label:wontfix"#;
        assert_eq!(in_where(&source(SourceKind::Github, github)).where_clause, github);
    }

    #[test]
    fn conditions_are_split_where_each_can_be_asked_by_itself() {
        let parts = |text| conditions(&source(SourceKind::Jira, text));
        assert_eq!(parts("a = 1 and b in (2, 3) AND c = \"x AND y\"").len(), 3);
        assert_eq!(parts("a = 1 AND b = 2 OR c = 3").len(), 1);
        assert_eq!(parts("brand = 1 AND (a = 1 OR b = 2)"), ["brand = 1", "(a = 1 OR b = 2)"]);
    }

    #[test]
    fn each_tracker_gets_its_own_language() {
        let filtered = |kind, condition: &str| Source {
            areas: names(&[r"Parcel\Web", "Parcel/O'Hara"]),
            types: names(&["Bug"]),
            not_states: names(&["Closed"]),
            not_tags: names(&["later"]),
            ..source(kind, condition)
        };
        let default = format!("{ADO_TYPES} AND {ADO_STATES}");
        assert_eq!(
            in_where(&filtered(SourceKind::Ado, &default)).where_clause,
            r"([System.AreaPath] UNDER 'Parcel\Web' OR [System.AreaPath] UNDER 'Parcel/O''Hara') AND [System.WorkItemType] IN ('Bug') AND [System.State] NOT IN ('Closed') AND [System.Tags] NOT CONTAINS 'later'"
        );
        assert_eq!(
            in_where(&filtered(SourceKind::Jira, JIRA_STATES)).where_clause,
            r#"component in ("Web", "O'Hara") AND issuetype in ("Bug") AND status not in ("Closed") AND (labels not in ("later") OR labels is EMPTY)"#
        );
        let github = Source {
            area_labels: names(&["area/"]),
            ..filtered(SourceKind::Github, "milestone:v2")
        };
        assert_eq!(
            in_where(&github).where_clause,
            r#"milestone:v2 label:"area/Web,area/O'Hara" type:"Bug" -state:"Closed" -label:"later""#
        );
    }
}
