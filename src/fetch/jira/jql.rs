//! The parts of Jira's query language that are needed (pure).
//!
//! Dates are written as milliseconds since 1970, which are independent of the time zone. Their
//! precision is a minute at best, so every date is rounded down to its minute and read again from
//! there.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::model::ItemId;

const MINUTE: i64 = 60_000;

/// How a date is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Dates {
    Milliseconds,
    /// In the account's zone, for servers that refuse numbers.
    InZone(TimeZone),
}

/// Which items are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JqlScope {
    /// Keys or names.
    projects: Vec<String>,
    condition: String,
}

impl JqlScope {
    /// `projects` is one key or name, or several separated by commas. An error is the rest of a
    /// sentence that begins with the setting's name.
    pub fn new(projects: &str, condition: &str, saved: &str) -> Result<Self, String> {
        let projects: Vec<String> = projects
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        if projects.is_empty() {
            return Err(
                "source.project is empty; write the key of the project, such as SHOP".into()
            );
        }
        let condition = match saved.trim() {
            "" => condition.trim().to_owned(),
            saved if saved.bytes().all(|byte| byte.is_ascii_digit()) => format!("filter = {saved}"),
            saved => format!("filter = {}", literal(saved)),
        };
        check(&condition).map_err(|why| format!("source.where {why}"))?;
        Ok(Self { projects, condition })
    }

    pub fn projects(&self) -> &[String] {
        &self.projects
    }

    /// Items that changed at or after the minute of `from`, oldest change first.
    pub fn changed_since(&self, from: Timestamp, dates: &Dates) -> String {
        format!("{} AND updated >= {} ORDER BY updated ASC, key ASC", self.all(), date(from, dates))
    }

    /// Finished items that changed at or after the minute of `from`, oldest first. Without
    /// `watched_only` the configured condition, which often excludes finished items, is ignored.
    pub fn finished_since(&self, from: Timestamp, dates: &Dates, watched_only: bool) -> String {
        let scope = if watched_only { self.all() } else { self.in_projects() };
        let from = date(from, dates);
        format!(
            "{scope} AND statusCategory = Done AND updated >= {from} ORDER BY created ASC, key ASC"
        )
    }

    /// Those of `ids` that are watched.
    pub fn among(&self, ids: &[ItemId]) -> String {
        format!("{} AND {} ORDER BY key ASC", self.all(), of_ids(ids))
    }

    fn in_projects(&self) -> String {
        let names: Vec<String> = self.projects.iter().map(|name| literal(name)).collect();
        match names.as_slice() {
            [one] => format!("project = {one}"),
            several => format!("project in ({})", several.join(", ")),
        }
    }

    fn all(&self) -> String {
        let projects = self.in_projects();
        match self.condition.as_str() {
            "" => projects,
            condition => format!("{projects} AND ({condition})"),
        }
    }
}

/// The items with these numbers, in any project.
pub fn of_ids(ids: &[ItemId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!("id in ({})", ids.join(", "))
}

/// The start of the minute.
pub fn minute_of(at: Timestamp) -> Timestamp {
    let ms = at.as_millisecond().div_euclid(MINUTE) * MINUTE;
    Timestamp::from_millisecond(ms).unwrap_or(at)
}

fn date(at: Timestamp, dates: &Dates) -> String {
    match dates {
        Dates::Milliseconds => minute_of(at).as_millisecond().to_string(),
        Dates::InZone(zone) => {
            // The hour that a clock change repeats is read twice.
            let early = at.checked_sub(jiff::SignedDuration::from_hours(1)).unwrap_or(at);
            let there = early.to_zoned(zone.clone());
            literal(&there.strftime("%Y-%m-%d %H:%M").to_string())
        }
    }
}

/// A text in quotes.
pub fn literal(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A condition is placed in brackets: it may not close them, and may not have an order.
fn check(condition: &str) -> Result<(), String> {
    let mut depth = 0_i32;
    let mut quote = None;
    let mut outside = String::new();
    let mut characters = condition.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => drop(characters.next()),
            (Some(open), character) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, other) => outside.push(other.to_ascii_lowercase()),
        }
        if depth < 0 {
            return Err("has an unmatched closing bracket".into());
        }
    }
    if quote.is_some() || depth != 0 {
        return Err("has an unclosed quote or bracket".into());
    }
    let words: Vec<&str> = outside.split_whitespace().collect();
    if words.windows(2).any(|pair| pair == ["order", "by"]) {
        return Err(
            "has an ORDER BY; heartbeat reads in the order of changes, so leave it out".into()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_query_keeps_the_condition_together_and_counts_whole_minutes() {
        let scope = JqlScope::new("SHOP", "status = Open OR priority = High", "").unwrap();
        assert_eq!(
            scope.changed_since(at("2026-11-16T01:02:59.999Z"), &Dates::Milliseconds),
            "project = \"SHOP\" AND (status = Open OR priority = High) AND updated >= \
             1794790920000 ORDER BY updated ASC, key ASC"
        );
        let zone = TimeZone::get("Asia/Tokyo").unwrap();
        let text = scope.changed_since(at("2026-11-16T01:02:59Z"), &Dates::InZone(zone));
        assert!(text.contains("updated >= \"2026-11-16 09:02\""), "{text}");
        assert_eq!(
            scope.finished_since(at("2026-11-16T01:02:59Z"), &Dates::Milliseconds, false),
            "project = \"SHOP\" AND statusCategory = Done AND updated >= 1794790920000 ORDER BY \
             created ASC, key ASC"
        );
        let several = JqlScope::new("SHOP, Pay \"x\"", "", "4711").unwrap();
        assert_eq!(
            several.among(&[ItemId(3), ItemId(5)]),
            "project in (\"SHOP\", \"Pay \\\"x\\\"\") AND (filter = 4711) AND id in (3, 5) ORDER \
             BY key ASC"
        );
        assert!(
            JqlScope::new("A", "", "My filter").unwrap().all().contains("filter = \"My filter\"")
        );
    }

    #[test]
    fn a_condition_cannot_reach_beyond_its_brackets() {
        for wrong in [
            "a = 1) OR (project = OTHER",
            "(a = 1",
            "summary ~ \"x",
            "status = Open order  by rank",
            "status = Open ORDER BY rank",
        ] {
            assert!(JqlScope::new("SHOP", wrong, "").is_err(), "{wrong}");
        }
        for right in ["summary ~ \"order by (\"", "summary ~ \"a\\\"b)\"", "(a = 1) AND b in (2)"] {
            JqlScope::new("SHOP", right, "").unwrap();
        }
        assert!(JqlScope::new(" , ", "", "").unwrap_err().contains("source.project"));
    }

    #[test]
    fn minutes_begin_before_1970_too() {
        assert_eq!(minute_of(at("1969-12-31T23:59:59Z")), at("1969-12-31T23:59:00Z"));
    }
}
