//! The query language: building, escaping and cutting queries (pure).

use jiff::{SignedDuration, Timestamp};

/// The tracker refuses longer texts.
pub const LONGEST_QUERY: usize = 32_000;

/// Rows of one page when a window cannot be cut by time any more.
pub const ROWS_BY_ID: usize = 19_999;

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

/// A date literal: always UTC and marked so, whatever the account's time zone is.
pub fn date(at: Timestamp) -> String {
    literal(&at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// A string literal; the language knows no parameters, only this escape.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
