//! The query language: building, escaping and cutting queries (pure).

use jiff::{SignedDuration, Timestamp};

use crate::model::ItemId;

/// The tracker refuses longer texts.
pub const LONGEST_QUERY: usize = 32_000;

/// Rows asked for at once: one less than the tracker gives without refusing.
pub const MOST_ROWS: usize = 19_999;

/// A stretch of change dates to ask for, `from <= changed < to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Inclusive.
    pub from: Timestamp,
    /// Exclusive; none: open, so that a fast server clock loses nothing.
    pub to: Option<Timestamp>,
    /// Set when the window is read in the order of ids: only ids above it.
    pub after_id: Option<i64>,
}

impl Window {
    /// Everything since `from`.
    pub fn since(from: Timestamp) -> Self {
        Self { from, to: None, after_id: None }
    }

    /// Two halves, or none if it is too short to be cut. `now` stands for the end of an open one.
    pub fn halves(self, now: Timestamp) -> Option<(Self, Self)> {
        let end = self.to.unwrap_or(now);
        let length = end.duration_since(self.from);
        if self.after_id.is_some() || length < SignedDuration::from_secs(2) {
            return None;
        }
        let middle = self.from.checked_add(length / 2).ok()?;
        // Literals have milliseconds, and both halves must meet in the same literal.
        let middle = Timestamp::from_millisecond(middle.as_millisecond()).ok()?;
        let early = Self { from: self.from, to: Some(middle), after_id: None };
        Some((early, Self { from: middle, to: self.to, after_id: None }))
    }

    /// The same window in the order of ids, from the lowest.
    pub fn by_id(self) -> Self {
        Self { after_id: Some(self.after_id.unwrap_or(0)), ..self }
    }
}

/// The query for the items of `window` that meet `condition`.
///
/// Ascending, so that a page that is cut short loses nothing; the date first, as the tracker
/// recommends for speed.
pub fn query(window: Window, condition: &str) -> String {
    let mut text =
        String::from("SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project");
    text.push_str(" AND [System.ChangedDate] >= ");
    text.push_str(&date(window.from));
    if let Some(to) = window.to {
        text.push_str(" AND [System.ChangedDate] < ");
        text.push_str(&date(to));
    }
    if let Some(id) = window.after_id {
        text.push_str(&format!(" AND [System.Id] > {id}"));
    }
    if !condition.trim().is_empty() {
        text.push_str(&format!(" AND ({})", condition.trim()));
    }
    text.push_str(match window.after_id {
        Some(_) => " ORDER BY [System.Id] ASC",
        None => " ORDER BY [System.ChangedDate] ASC, [System.Id] ASC",
    });
    text
}

/// The query for those of `ids` that meet `condition`.
pub fn query_of_ids(ids: &[ItemId], condition: &str) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project AND [System.Id] \
         IN ({})",
        ids.join(", ")
    );
    if !condition.trim().is_empty() {
        text.push_str(&format!(" AND ({})", condition.trim()));
    }
    text
}

/// A date literal: always UTC and marked so, whatever the account's time zone is.
pub fn date(at: Timestamp) -> String {
    literal(&at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// A string literal; the language knows no parameters, only this escape.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_query_has_its_date_first_and_keeps_the_condition_together() {
        let window = Window::since(at("2026-11-16T01:02:03.4567Z"));
        assert_eq!(
            query(window, "[System.State] = 'New' OR [System.State] = 'Active'"),
            "SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project AND \
             [System.ChangedDate] >= '2026-11-16T01:02:03.456Z' AND ([System.State] = 'New' OR \
             [System.State] = 'Active') ORDER BY [System.ChangedDate] ASC, [System.Id] ASC"
        );
        let by_id = Window { to: Some(at("2026-11-17T00:00:00Z")), ..window }.by_id();
        assert!(query(by_id, " ").ends_with(
            " AND [System.ChangedDate] < '2026-11-17T00:00:00.000Z' AND [System.Id] > 0 ORDER BY \
             [System.Id] ASC"
        ));
    }

    #[test]
    fn quotes_are_doubled() {
        assert_eq!(literal("Sam's 'Area'"), "'Sam''s ''Area'''");
    }

    #[test]
    fn halves_meet_and_leave_nothing_out() {
        let now = at("2026-11-16T00:00:00Z");
        let window = Window::since(at("2026-11-01T00:00:00.001Z"));
        let (early, late) = window.halves(now).unwrap();
        assert_eq!(early.from, window.from);
        assert_eq!(early.to, Some(late.from));
        assert_eq!(late.to, None, "the newest part stays open");
        let short = Window { from: at("2026-11-15T23:59:59Z"), ..window };
        assert_eq!(short.halves(now), None);
        let ahead = Window { from: at("2026-11-17T00:00:00Z"), ..window };
        assert_eq!(ahead.halves(now), None, "a server clock ahead of ours");
        assert_eq!(window.by_id().halves(now), None);
    }

    #[test]
    fn ids_and_condition_go_into_one_query() {
        let text = query_of_ids(&[ItemId(3), ItemId(5)], "[System.State] = 'New'");
        assert!(text.contains("[System.Id] IN (3, 5) AND ([System.State] = 'New')"), "{text}");
    }
}
